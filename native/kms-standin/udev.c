/* SPDX-License-Identifier: MIT */
/* The card in libudev's eyes, for programs that look for "drm" devices there (glmark2).
 *
 * Only what such a search calls: enumerate, the list, and a device made from its path. */
#include "standin.h"

#include <string.h>

struct udev;
struct udev_enumerate;
struct udev_list_entry;
struct udev_device;

static const char syspath[] = "/sys/class/drm/card0";
static struct udev_enumerate *of_drm; /* the enumeration that asked for "drm" */
static char entry, device;            /* what our pointers point to */
static struct udev_list_entry *const the_entry = (struct udev_list_entry *)&entry;
static struct udev_device *const the_device = (struct udev_device *)&device;

PUBLIC int udev_enumerate_add_match_subsystem(struct udev_enumerate *enumerate, const char *subsystem);
PUBLIC struct udev_list_entry *udev_enumerate_get_list_entry(struct udev_enumerate *enumerate);
PUBLIC const char *udev_list_entry_get_name(struct udev_list_entry *one);
PUBLIC struct udev_list_entry *udev_list_entry_get_next(struct udev_list_entry *one);
PUBLIC struct udev_device *udev_device_new_from_syspath(struct udev *udev, const char *path);
PUBLIC const char *udev_device_get_devnode(struct udev_device *one);
PUBLIC struct udev_device *udev_device_get_parent(struct udev_device *one);
PUBLIC struct udev_device *udev_device_unref(struct udev_device *one);

int udev_enumerate_add_match_subsystem(struct udev_enumerate *enumerate, const char *subsystem)
{
	if (subsystem && !strcmp(subsystem, "drm"))
		of_drm = enumerate;
	NEXT(udev_enumerate_add_match_subsystem);
	return next_udev_enumerate_add_match_subsystem(enumerate, subsystem);
}

struct udev_list_entry *udev_enumerate_get_list_entry(struct udev_enumerate *enumerate)
{
	NEXT(udev_enumerate_get_list_entry);
	return enumerate == of_drm ? the_entry : next_udev_enumerate_get_list_entry(enumerate);
}

const char *udev_list_entry_get_name(struct udev_list_entry *one)
{
	NEXT(udev_list_entry_get_name);
	return one == the_entry ? syspath : next_udev_list_entry_get_name(one);
}

struct udev_list_entry *udev_list_entry_get_next(struct udev_list_entry *one)
{
	NEXT(udev_list_entry_get_next);
	return one == the_entry ? NULL : next_udev_list_entry_get_next(one);
}

struct udev_device *udev_device_new_from_syspath(struct udev *udev, const char *path)
{
	NEXT(udev_device_new_from_syspath);
	return path && !strcmp(path, syspath) ? the_device : next_udev_device_new_from_syspath(udev, path);
}

const char *udev_device_get_devnode(struct udev_device *one)
{
	NEXT(udev_device_get_devnode);
	return one == the_device ? CARD : next_udev_device_get_devnode(one);
}

struct udev_device *udev_device_get_parent(struct udev_device *one)
{
	NEXT(udev_device_get_parent);
	return one == the_device ? NULL : next_udev_device_get_parent(one);
}

struct udev_device *udev_device_unref(struct udev_device *one)
{
	NEXT(udev_device_unref);
	return one == the_device ? NULL : next_udev_device_unref(one);
}
