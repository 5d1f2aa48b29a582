/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uapi-rocket.h"

int nm_ioctl(int fd, unsigned long code, void *argument)
{
        int result;

        do
                result = ioctl(fd, code, argument);
        while (result < 0 && (errno == EINTR || errno == EAGAIN));
        return result;
}

const char *nm_node_evidence(void)
{
        return getenv("FAKE_NPU") ? "emulated" : "hardware";
}

size_t nm_page_round(size_t bytes)
{
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);

        return (bytes + page - 1) / page * page;
}

bool nm_address_fits(uint64_t address, size_t bytes)
{
        return address <= UINT32_MAX && bytes <= (UINT64_C(1) << 32) - address;
}

/* The driver's name, empty when the node is no DRM node. */
static void ask_driver(int fd, char name[32], char line[96])
{
        char date[32] = "";
        struct nm_drm_version version = { .name_size = 31, .name = name, .date_size = sizeof(date) - 1, .date = date };

        memset(name, 0, 32);
        line[0] = '\0';
        if (nm_ioctl(fd, NM_DRM_VERSION, &version) < 0) {
                name[0] = '\0';
                return;
        }
        /* The sizes that come back are those of the whole strings, which may be longer than what was copied. */
        name[version.name_size < 31 ? version.name_size : 31] = '\0';
        date[version.date_size < sizeof(date) - 1 ? version.date_size : sizeof(date) - 1] = '\0';
        snprintf(line, 96, "%s %d.%d.%d%s%s%s", name, version.major, version.minor, version.patch,
                 date[0] ? " (" : "", date, date[0] ? ")" : "");
}

/* Returns NM_OK, or what stood in the way; errno ENOENT of the open means there is no such node. */
static int try_node(const struct nm_node_search *search, const char *path, int *fd, struct nm_info *info,
                    struct nm_error *why)
{
        char name[32], line[96];
        const int opened = open(path, O_RDWR | O_CLOEXEC);

        if (opened < 0) {
                const int error = errno;

                nm_fail(why, NM_NO_DEVICE, "%s: %s%s", path, strerror(error),
                        error == EACCES ? "; is the user in the group render?" : "");
                errno = error;
                return NM_NO_DEVICE;
        }
        ask_driver(opened, name, line);
        if (strcmp(name, search->driver)) {
                close(opened);
                errno = ENODEV;
                return nm_fail(why, NM_NO_DEVICE, "%s: the driver behind it is %s, expected %s", path,
                               name[0] ? name : "no DRM driver", search->driver);
        }
        *fd = opened;
        snprintf(info->device, sizeof(info->device), "%s", path);
        snprintf(info->driver, sizeof(info->driver), "%s", line);
        return NM_OK;
}

int nm_node_open(const struct nm_node_search *search, const char *node, int *fd, struct nm_info *info,
                 struct nm_error *why)
{
        struct nm_error refused = { "" };
        char path[64];

        if (node)
                return try_node(search, node, fd, info, why);
        for (size_t i = 0; search->patterns[i]; i++) {
                for (unsigned number = search->first[i]; number < search->first[i] + 64; number++) {
                        struct nm_error here;

                        snprintf(path, sizeof(path), search->patterns[i], number);
                        if (try_node(search, path, fd, info, &here) == NM_OK)
                                return NM_OK;
                        /* A node that may not be opened could be the right one: the user wants to hear of it. */
                        if (errno != ENOENT && (!refused.text[0] || errno == EACCES))
                                refused = here;
                }
        }
        if (refused.text[0])
                return nm_fail(why, NM_NO_DEVICE, "no node of driver %s (%.180s)", search->driver, refused.text);
        return nm_fail(why, NM_NO_DEVICE, "no node of driver %s: no %s", search->driver, search->where);
}

static const struct nm_buffer *named(const struct nm_job *job, size_t index)
{
        return index < job->read_count ? job->reads[index] : job->writes[index - job->read_count];
}

int nm_check_job(const struct nm_job *job, struct nm_error *why)
{
        const size_t buffers = job->read_count + job->write_count;

        if (job->count == 0)
                return nm_fail(why, NM_INVALID, "a job of no lists");
        for (size_t i = 0; i < job->count; i++)
                if (job->lists[i].words < 5 || job->lists[i].address % 16)
                        return nm_fail(why, NM_INVALID,
                                       "list %zu of the job: %u words at 0x%x, expected 5 or more at a "
                                       "multiple of 16",
                                       i, job->lists[i].words, job->lists[i].address);
        for (size_t i = 0; i < buffers; i++)
                for (size_t j = i + 1; j < buffers; j++)
                        if (named(job, i)->handle == named(job, j)->handle)
                                return nm_fail(why, NM_INVALID, "a job names buffer %u twice, which the driver drops "
                                               "without a word", named(job, i)->handle);
        return NM_OK;
}

uint64_t *nm_list_words(const struct nm_job *job, const struct nm_list *list, struct nm_buffer **buffer)
{
        for (size_t i = 0; i < job->read_count; i++) {
                struct nm_buffer *one = job->reads[i];
                const uint64_t start = list->address - (uint64_t)one->address;

                if (list->address < one->address || start + list->words * UINT64_C(8) > one->mapped)
                        continue;
                *buffer = one;
                return (uint64_t *)(void *)((char *)one->cpu + start);
        }
        return NULL;
}

bool nm_job_is_fp16(const struct nm_job *job)
{
        for (size_t i = 0; i < job->count; i++) {
                struct nm_buffer *buffer;
                const uint64_t *words = nm_list_words(job, &job->lists[i], &buffer);
                bool fp16 = false;

                for (uint32_t j = 0; words && j < job->lists[i].words && !fp16; j++)
                        fp16 = words[j] == (UINT64_C(0x0201) << 48 | UINT64_C(0x120) << 16 | 0x100C);   /* CONV_CON1 */
                if (!fp16)
                        return false;
        }
        return true;
}
