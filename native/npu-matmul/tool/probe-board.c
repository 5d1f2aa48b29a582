/* SPDX-License-Identifier: MIT */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/utsname.h>
#include <time.h>

#include "probe.h"

void probe_quote(FILE *out, const char *text)
{
        fputc('"', out);
        for (; *text; text++) {
                if (*text == '"' || *text == '\\')
                        fprintf(out, "\\%c", *text);
                else if ((unsigned char)*text < 0x20)
                        fprintf(out, "\\u%04x", (unsigned)*text);
                else
                        fputc(*text, out);
        }
        fputc('"', out);
}

/* The first line of a file, without its end; empty when it cannot be read. */
static void first_line(const char *path, char line[256])
{
        FILE *file = fopen(path, "re");

        line[0] = '\0';
        if (!file)
                return;
        if (!fgets(line, 256, file))
                line[0] = '\0';
        fclose(file);
        line[strcspn(line, "\n")] = '\0';
}

static void member(FILE *out, const char *name, const char *text)
{
        fprintf(out, "  \"%s\": ", name);
        probe_quote(out, text);
        fputs(",\n", out);
}

/* The files that say how fast things run; most are one driver's or the other's. */
static const char *const clocks[] = {
        "/sys/class/devfreq/*/cur_freq",
        "/sys/class/devfreq/*/max_freq",
        "/sys/class/devfreq/*/governor",
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        "/sys/kernel/debug/clk/*npu*/clk_rate",
        "/sys/kernel/debug/rknpu/*",
        "/sys/devices/platform/*.npu/power/*delay_ms",
        "/sys/class/thermal/thermal_zone*/temp",
};

static void print_clocks(FILE *out)
{
        bool first = true;

        fputs("  \"clocks\": {", out);
        for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++) {
                glob_t found;

                if (glob(clocks[i], 0, NULL, &found))
                        continue;
                for (size_t j = 0; j < found.gl_pathc; j++) {
                        char line[256];

                        first_line(found.gl_pathv[j], line);
                        fputs(first ? "\n    " : ",\n    ", out);
                        first = false;
                        probe_quote(out, found.gl_pathv[j]);
                        fputs(": ", out);
                        probe_quote(out, line);
                }
                globfree(&found);
        }
        fputs("\n  },\n", out);
}

/* Lines of the kernel's log about the NPU: 40 at most, the last ones. Needs root where dmesg is restricted. */
static void print_log(FILE *out)
{
        enum { SIZE = 1 << 18, LINES = 40, READ_ALL = 3 };
        char *text = malloc(SIZE + 1), *lines[LINES], *state = NULL;
        const int length = text ? klogctl(READ_ALL, text, SIZE) : -1;
        size_t count = 0;

        fputs("  \"kernel_log\": [", out);
        if (length > 0) {
                text[length] = '\0';
                for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
                        if (strstr(line, "npu") || strstr(line, "NPU") || strstr(line, "rocket") ||
                            strstr(line, "rknn") || strstr(line, "cma:"))
                                lines[count++ % LINES] = line;
        }
        for (size_t i = count > LINES ? count - LINES : 0, first = i; i < count; i++) {
                fputs(i == first ? "\n    " : ",\n    ", out);
                probe_quote(out, lines[i % LINES]);
        }
        fputs("\n  ],\n", out);
        free(text);
}

void probe_board(FILE *out)
{
        char line[256], stamp[32] = "";
        const time_t today = time(NULL);
        struct utsname kernel;
        struct tm utc;

        if (gmtime_r(&today, &utc))
                strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
        member(out, "date", stamp);
        member(out, "npu_matmul", nm_version());
        if (uname(&kernel) == 0) {
                member(out, "kernel", kernel.release);
                member(out, "kernel_build", kernel.version);
                member(out, "machine", kernel.machine);
        }
        first_line("/proc/device-tree/model", line);
        member(out, "model", line);
        first_line("/proc/cmdline", line);
        member(out, "command_line", line);
        print_clocks(out);
        print_log(out);
}
