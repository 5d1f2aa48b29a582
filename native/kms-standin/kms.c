/* SPDX-License-Identifier: MIT */
/* Mode setting at the level of ioctl(), as kernel 7.3 include/uapi/drm/drm_mode.h defines it. */
#include "standin.h"

#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTOR = 31, ENCODER = 32, CRTC = 33, PLANE = 34, HERTZ = 60, WAITING = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Flips that are done and whose events nobody has read yet. */
static struct {
	int fd;
	struct drm_event_vblank event;
} waiting[WAITING];
static unsigned waiting_count;

static uint32_t last_fb = 100, shown_fb, sequence;

static struct drm_mode_modeinfo the_mode(void)
{
	unsigned width = 640, height = 480;
	const char *asked = getenv("ALIGN_HUNT_MODE");
	if (asked && (sscanf(asked, "%ux%u", &width, &height) != 2 || width - 1 >= 8192 || height - 1 >= 8192))
		width = 640, height = 480;
	unsigned total = width + 160, lines = height + 45; /* blanking of about VESA's size; nothing depends on it */
	struct drm_mode_modeinfo mode = {
		.clock = total * lines / 1000 * HERTZ,
		.hdisplay = (uint16_t)width, .hsync_start = (uint16_t)(width + 16),
		.hsync_end = (uint16_t)(width + 112), .htotal = (uint16_t)total,
		.vdisplay = (uint16_t)height, .vsync_start = (uint16_t)(height + 10),
		.vsync_end = (uint16_t)(height + 12), .vtotal = (uint16_t)lines,
		.vrefresh = HERTZ, .type = DRM_MODE_TYPE_PREFERRED | DRM_MODE_TYPE_DRIVER,
	};
	snprintf(mode.name, sizeof mode.name, "%ux%u", width, height);
	return mode;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

/* One id into a caller's array, where the caller has room; the count is what there is. */
static void list(uint64_t array, uint32_t *count, uint32_t id)
{
	if (array && *count >= 1)
		*(uint32_t *)(uintptr_t)array = id;
	*count = 1;
}

static int resources(struct drm_mode_card_res *r)
{
	list(r->crtc_id_ptr, &r->count_crtcs, CRTC);
	list(r->connector_id_ptr, &r->count_connectors, CONNECTOR);
	list(r->encoder_id_ptr, &r->count_encoders, ENCODER);
	r->count_fbs = 0;
	r->min_width = r->min_height = 1;
	r->max_width = r->max_height = 8192;
	return 0;
}

static int connector(struct drm_mode_get_connector *c)
{
	if (c->connector_id != CONNECTOR)
		return fail(ENOENT);
	if (c->modes_ptr && c->count_modes >= 1)
		*(struct drm_mode_modeinfo *)(uintptr_t)c->modes_ptr = the_mode();
	c->count_modes = 1;
	list(c->encoders_ptr, &c->count_encoders, ENCODER);
	c->count_props = 0;
	c->encoder_id = ENCODER;
	c->connector_type = DRM_MODE_CONNECTOR_HDMIA;
	c->connector_type_id = 1;
	c->connection = 1; /* DRM_MODE_CONNECTED */
	c->mm_width = 300, c->mm_height = 200;
	return 0;
}

static int encoder(struct drm_mode_get_encoder *e)
{
	if (e->encoder_id != ENCODER)
		return fail(ENOENT);
	e->encoder_type = DRM_MODE_ENCODER_TMDS;
	e->crtc_id = CRTC;
	e->possible_crtcs = 1;
	e->possible_clones = 0;
	return 0;
}

static int crtc(struct drm_mode_crtc *c)
{
	if (c->crtc_id != CRTC)
		return fail(ENOENT);
	c->x = c->y = 0;
	c->fb_id = shown_fb;
	c->gamma_size = 0;
	c->mode_valid = 1;
	c->mode = the_mode();
	return 0;
}

static int planes(struct drm_mode_get_plane_res *r)
{
	list(r->plane_id_ptr, &r->count_planes, PLANE);
	return 0;
}

static int plane(struct drm_mode_get_plane *p)
{
	if (p->plane_id != PLANE)
		return fail(ENOENT);
	p->crtc_id = CRTC;
	p->fb_id = shown_fb;
	p->possible_crtcs = 1;
	p->gamma_size = 0;
	list(p->format_type_ptr, &p->count_format_types, 0x34325258); /* XR24 */
	return 0;
}

static int set_crtc(const struct drm_mode_crtc *c)
{
	shown_fb = c->fb_id;
	return c->crtc_id == CRTC ? 0 : fail(ENOENT);
}

static int page_flip(int fd, const struct drm_mode_crtc_page_flip *flip)
{
	if (flip->crtc_id != CRTC)
		return fail(ENOENT);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&lock);
	bool room = waiting_count < WAITING;
	if (room) {
		shown_fb = flip->fb_id;
		sequence++;
	}
	if (room && flip->flags & DRM_MODE_PAGE_FLIP_EVENT) {
		waiting[waiting_count].fd = fd;
		waiting[waiting_count++].event = (struct drm_event_vblank){
			.base = {DRM_EVENT_FLIP_COMPLETE, sizeof(struct drm_event_vblank)},
			.user_data = flip->user_data,
			.tv_sec = (uint32_t)now.tv_sec,
			.tv_usec = (uint32_t)(now.tv_nsec / 1000),
			.sequence = sequence,
			.crtc_id = CRTC,
		};
	}
	pthread_mutex_unlock(&lock);
	return room ? 0 : fail(EBUSY);
}

static int capability(struct drm_get_cap *cap)
{
	switch (cap->capability) {
	case DRM_CAP_PRIME: /* the shim says import only, and GBM then wants dumb buffers for its surfaces */
		cap->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
		return 0;
	case DRM_CAP_TIMESTAMP_MONOTONIC:
	case DRM_CAP_VBLANK_HIGH_CRTC:
	case DRM_CAP_CRTC_IN_VBLANK_EVENT:
	case DRM_CAP_ASYNC_PAGE_FLIP:
	case DRM_CAP_ADDFB2_MODIFIERS:
		cap->value = 1;
		return 0;
	case DRM_CAP_CURSOR_WIDTH:
	case DRM_CAP_CURSOR_HEIGHT:
		cap->value = 64;
		return 0;
	case DRM_CAP_DUMB_BUFFER:
	case DRM_CAP_DUMB_PREFERRED_DEPTH:
	case DRM_CAP_DUMB_PREFER_SHADOW:
	case DRM_CAP_PAGE_FLIP_TARGET:
		cap->value = 0;
		return 0;
	}
	return 1; /* the shim's to say */
}

static int new_fb(uint32_t *id)
{
	pthread_mutex_lock(&lock);
	*id = ++last_fb;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* 0 or -1 for what is answered here, 1 for what is not ours. */
static int answer(int fd, unsigned long request, void *argument)
{
	switch (request) {
	case DRM_IOCTL_SET_MASTER:
	case DRM_IOCTL_DROP_MASTER:
	case DRM_IOCTL_MODE_RMFB:
	case DRM_IOCTL_MODE_CLOSEFB:
	case DRM_IOCTL_MODE_DIRTYFB:
	case DRM_IOCTL_MODE_CURSOR:
	case DRM_IOCTL_MODE_CURSOR2:
	case DRM_IOCTL_MODE_SETPLANE:
	case DRM_IOCTL_MODE_SETPROPERTY:
		return 0;
	case DRM_IOCTL_SET_CLIENT_CAP:
		return ((struct drm_set_client_cap *)argument)->capability == DRM_CLIENT_CAP_ATOMIC ? fail(EOPNOTSUPP) : 0;
	case DRM_IOCTL_GET_CAP:
		return capability(argument);
	case DRM_IOCTL_MODE_GETRESOURCES:
		return resources(argument);
	case DRM_IOCTL_MODE_GETCONNECTOR:
		return connector(argument);
	case DRM_IOCTL_MODE_GETENCODER:
		return encoder(argument);
	case DRM_IOCTL_MODE_GETCRTC:
		return crtc(argument);
	case DRM_IOCTL_MODE_SETCRTC:
		return set_crtc(argument);
	case DRM_IOCTL_MODE_GETPLANERESOURCES:
		return planes(argument);
	case DRM_IOCTL_MODE_GETPLANE:
		return plane(argument);
	case DRM_IOCTL_MODE_OBJ_GETPROPERTIES:
		((struct drm_mode_obj_get_properties *)argument)->count_props = 0;
		return 0;
	case DRM_IOCTL_MODE_ADDFB:
		return new_fb(&((struct drm_mode_fb_cmd *)argument)->fb_id);
	case DRM_IOCTL_MODE_ADDFB2:
		return new_fb(&((struct drm_mode_fb_cmd2 *)argument)->fb_id);
	case DRM_IOCTL_MODE_PAGE_FLIP:
		return page_flip(fd, argument);
	}
	return 1;
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	int result = _IOC_TYPE(request) == DRM_IOCTL_BASE ? answer(fd, request, argument) : 1;
	NEXT(ioctl);
	return result == 1 ? next_ioctl(fd, request, argument) : result;
}

/* The events of `fd` that fit into `size` bytes, oldest first; their length. */
static size_t take_events(int fd, char *to, size_t size)
{
	size_t length = 0;
	unsigned kept = 0;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < waiting_count; i++) {
		const size_t one = sizeof waiting[i].event;
		if (waiting[i].fd == fd && length + one <= size) {
			memcpy(to + length, &waiting[i].event, one);
			length += one;
		} else {
			waiting[kept++] = waiting[i];
		}
	}
	waiting_count = kept;
	pthread_mutex_unlock(&lock);
	return length;
}

/* The shim's descriptors are /dev/null's: always ready for select() and poll(), and at their end when read. */
PUBLIC ssize_t read(int fd, void *to, size_t size)
{
	size_t length = waiting_count ? take_events(fd, to, size) : 0;
	NEXT(read);
	return length ? (ssize_t)length : next_read(fd, to, size);
}
