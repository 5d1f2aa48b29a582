/* SPDX-License-Identifier: MIT */
/* The display stand-in as libdrm asks it: counts first, then arrays; flips, and their events from read(). */
#include <assert.h>
#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static uint32_t crtc_id, connector_id;

static void resources(int fd)
{
	uint32_t crtc = 0, connector = 0, encoder = 0;
	struct drm_mode_card_res r = {0};
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETRESOURCES, &r));
	assert(r.count_crtcs == 1 && r.count_connectors == 1 && r.count_encoders == 1 && r.count_fbs == 0);
	r.crtc_id_ptr = (uintptr_t)&crtc;
	r.connector_id_ptr = (uintptr_t)&connector;
	r.encoder_id_ptr = (uintptr_t)&encoder;
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETRESOURCES, &r));
	assert(crtc && connector && encoder);
	crtc_id = crtc, connector_id = connector;

	struct drm_mode_get_encoder e = {.encoder_id = encoder};
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETENCODER, &e) && e.crtc_id == crtc && e.possible_crtcs == 1);
	e.encoder_id = 1;
	assert(ioctl(fd, DRM_IOCTL_MODE_GETENCODER, &e) == -1 && errno == ENOENT);
}

static void mode(int fd)
{
	struct drm_mode_modeinfo m = {0};
	struct drm_mode_get_connector c = {.connector_id = connector_id};
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETCONNECTOR, &c));
	assert(c.connection == 1 && c.count_modes == 1 && c.count_encoders == 1 && c.count_props == 0);
	c.modes_ptr = (uintptr_t)&m;
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETCONNECTOR, &c));
	assert(m.htotal > m.hsync_end && m.vtotal > m.vsync_end && m.vrefresh == 60);
	printf("%s\n", m.name);
}

static uint32_t framebuffer(int fd)
{
	struct drm_mode_fb_cmd2 f = {.width = 640, .height = 480};
	assert(!ioctl(fd, DRM_IOCTL_MODE_ADDFB2, &f) && f.fb_id);
	return f.fb_id;
}

static void flips(int fd, int other)
{
	char bytes[256];
	assert(read(fd, bytes, sizeof bytes) == 0); /* no event: what /dev/null says */
	struct drm_mode_crtc_page_flip flip = {
		.crtc_id = crtc_id, .fb_id = framebuffer(fd), .flags = DRM_MODE_PAGE_FLIP_EVENT, .user_data = 41,
	};
	assert(!ioctl(fd, DRM_IOCTL_MODE_PAGE_FLIP, &flip));
	flip.user_data = 42, flip.fb_id = framebuffer(fd);
	assert(!ioctl(fd, DRM_IOCTL_MODE_PAGE_FLIP, &flip));
	assert(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1);

	assert(read(other, bytes, sizeof bytes) == 0); /* events are of the descriptor that asked */
	struct drm_event_vblank event[2];
	assert(read(fd, event, sizeof event[0] + 1) == sizeof event[0]); /* whole events only */
	assert(event[0].base.type == DRM_EVENT_FLIP_COMPLETE && event[0].base.length == sizeof event[0]);
	assert(event[0].user_data == 41 && event[0].crtc_id == crtc_id);
	assert(read(fd, event, sizeof event) == sizeof event[0] && event[0].user_data == 42);
	assert(read(fd, bytes, sizeof bytes) == 0);

	struct drm_mode_crtc crtc = {.crtc_id = crtc_id};
	assert(!ioctl(fd, DRM_IOCTL_MODE_GETCRTC, &crtc) && crtc.fb_id == flip.fb_id);
}

static void too_many_flips(int fd)
{
	struct drm_mode_crtc_page_flip flip = {.crtc_id = crtc_id, .fb_id = 1, .flags = DRM_MODE_PAGE_FLIP_EVENT};
	int done = 0;
	while (done < 1000 && !ioctl(fd, DRM_IOCTL_MODE_PAGE_FLIP, &flip))
		done++;
	assert(done < 1000 && errno == EBUSY);
}

int main(void)
{
	int fd = open("/dev/null", O_RDWR), other = open("/dev/null", O_RDWR);
	assert(fd >= 0 && other >= 0);
	assert(!ioctl(fd, DRM_IOCTL_SET_MASTER, 0));
	struct drm_set_client_cap atomic = {DRM_CLIENT_CAP_ATOMIC, 1}, planes = {DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1};
	assert(ioctl(fd, DRM_IOCTL_SET_CLIENT_CAP, &atomic) == -1 && !ioctl(fd, DRM_IOCTL_SET_CLIENT_CAP, &planes));
	struct drm_get_cap prime = {DRM_CAP_PRIME, 0}, unknown = {DRM_CAP_SYNCOBJ, 0};
	assert(!ioctl(fd, DRM_IOCTL_GET_CAP, &prime) && prime.value == 3);
	assert(ioctl(fd, DRM_IOCTL_GET_CAP, &unknown) == -1 && errno == ENOTTY); /* the next library's to say */
	resources(fd);
	mode(fd);
	flips(fd, other);
	too_many_flips(fd);
	return 0;
}
