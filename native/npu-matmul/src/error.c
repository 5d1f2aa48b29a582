/* SPDX-License-Identifier: MIT */
#include "backend.h"

#include <stdarg.h>
#include <stdio.h>

int nm_fail(struct nm_error *why, int status, const char *format, ...)
{
        va_list arguments;

        if (!why)
                return status;
        va_start(arguments, format);
        vsnprintf(why->text, sizeof(why->text), format, arguments);
        va_end(arguments);
        for (char *c = why->text; *c; c++)      /* one line, whatever a driver or a file name put in */
                if ((unsigned char)*c < 0x20)
                        *c = ' ';
        return status;
}

const char *nm_status_name(int status)
{
        switch ((enum nm_status)status) {
        case NM_OK: return "NM_OK";
        case NM_INVALID: return "NM_INVALID";
        case NM_NO_DEVICE: return "NM_NO_DEVICE";
        case NM_NO_MEMORY: return "NM_NO_MEMORY";
        case NM_ADDRESS: return "NM_ADDRESS";
        case NM_TIMEOUT: return "NM_TIMEOUT";
        case NM_NOT_RUN: return "NM_NOT_RUN";
        case NM_DRIVER: return "NM_DRIVER";
        case NM_UNSUPPORTED: return "NM_UNSUPPORTED";
        }
        return "unknown status";
}

const char *nm_version(void)
{
        return NM_VERSION;
}
