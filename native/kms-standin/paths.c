/* SPDX-License-Identifier: MIT */
/* The card beside the render node: the same device under a second name, for libdrm's search for devices.
 *
 * libdrm looks into /dev/dri and then at /sys/dev/char/226:MINOR; the shim answers for minor 128 only. */
#undef _FILE_OFFSET_BITS
#include "standin.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char card_sys[] = "/sys/dev/char/226:0/", render_sys[] = "/sys/dev/char/226:128/";

static bool is_card(const char *path)
{
	return path && !strcmp(path, CARD);
}

/* The shim's path for one of the card's; any other as it is. `room` holds 256 bytes. */
static const char *translated(const char *path, char *room)
{
	if (is_card(path))
		return RENDER;
	if (!path || strncmp(path, card_sys, sizeof card_sys - 1) != 0)
		return path;
	snprintf(room, 256, "%s%s", render_sys, path + sizeof card_sys - 1);
	return room;
}

PUBLIC int open(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	char room[256];
	NEXT(open);
	return next_open(translated(path, room), flags, mode);
}

PUBLIC int open64(const char *, int, ...) __attribute__((alias("open")));

PUBLIC int __open64_2(const char *path, int flags);
PUBLIC int __open64_2(const char *path, int flags)
{
	return open(path, flags);
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
	char room[256];
	NEXT(fopen);
	return next_fopen(translated(path, room), mode);
}

PUBLIC FILE *fopen64(const char *, const char *) __attribute__((alias("fopen")));

PUBLIC int access(const char *path, int mode)
{
	char room[256];
	NEXT(access);
	return next_access(translated(path, room), mode);
}

PUBLIC int stat(const char *path, struct stat *to)
{
	char room[256];
	NEXT(stat);
	int result = next_stat(translated(path, room), to);
	if (result == 0 && is_card(path))
		to->st_rdev = makedev(226, 0);
	return result;
}

PUBLIC int stat64(const char *, struct stat64 *) __attribute__((alias("stat")));

PUBLIC ssize_t readlink(const char *path, char *to, size_t size)
{
	char room[256];
	NEXT(readlink);
	return next_readlink(translated(path, room), to, size);
}

PUBLIC char *realpath(const char *path, char *to)
{
	char room[256];
	NEXT(realpath);
	return next_realpath(translated(path, room), to);
}

/* The card's entry follows the render node's. */
PUBLIC struct dirent *readdir(DIR *directory)
{
	static struct dirent card = {.d_type = DT_CHR, .d_name = "card0"};
	static DIR *owed;
	if (directory == owed) {
		owed = NULL;
		return &card;
	}
	NEXT(readdir);
	struct dirent *entry = next_readdir(directory);
	if (entry && !strcmp(entry->d_name, strrchr(RENDER, '/') + 1))
		owed = directory;
	return entry;
}

PUBLIC struct dirent64 *readdir64(DIR *) __attribute__((alias("readdir")));
