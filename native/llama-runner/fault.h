/* SPDX-License-Identifier: MIT
 *
 * One error: a line for a person, and the status the program ends with.
 */
#ifndef LLAMA_FAULT_H
#define LLAMA_FAULT_H

#include <stdarg.h>
#include <stdio.h>

enum {
        FAULT_PRODUCT = 1,      /* a computation or a device went wrong */
        FAULT_REQUEST = 2,      /* an option or a file */
        FAULT_HOST = 3,         /* no memory, no device */
};

struct fault {
        int status;
        char text[512];
};

/* Fills `fault` and returns its status, which is never 0. */
__attribute__((format(printf, 3, 4))) static inline int fault_set(struct fault *fault, int status, const char *format,
                                                                  ...)
{
        va_list list;

        va_start(list, format);
        vsnprintf(fault->text, sizeof(fault->text), format, list);
        va_end(list);
        fault->status = status;
        return status;
}

#endif
