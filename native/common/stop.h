/* SPDX-License-Identifier: MIT
 *
 * A signal that asks the program to end: the first one is noted, and the program ends between two pieces of its work, with
 * its device closed (the CMM of an AX650N stays taken when a program just dies); the second ends it at once.
 */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

#include <signal.h>

#define STOP_STATUS 130 /* of a program that was asked to end */

extern volatile sig_atomic_t stop_asked;

/* SIGINT, SIGTERM and SIGHUP, as far as the caller does not have them ignored. */
void stop_on_signals(void);

#endif
