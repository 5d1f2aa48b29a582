/* SPDX-License-Identifier: MIT */
/* libkms-standin.so: a display for a GPU stand-in that has none.
 *
 *   LD_PRELOAD="libkms-standin.so libamdgpu_noop_drm_shim.so" kmscube
 *
 * Mesa's drm-shim answers for a render node (/dev/dri/renderD128) and executes nothing. On top of it this
 * library answers what programs ask of a card with a display: one connector, always connected, one mode
 * (ALIGN_HUNT_MODE=WxH, by default 640x480), and page flips that are done at once. The card is
 * /dev/dri/card0; buffers, submissions and everything else stay the shim's. */
#pragma once

#include <dlfcn.h>

#define PUBLIC __attribute__((visibility("default")))

#define CARD "/dev/dri/card0"
#define RENDER "/dev/dri/renderD128"

/* The next definition of the function we stand in for, looked up once; a library that is not there is null. */
#define NEXT(name)                                                         \
	static __typeof__(&name) next_##name;                              \
	if (!next_##name)                                                  \
		next_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
