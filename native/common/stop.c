/* SPDX-License-Identifier: MIT */
#include "stop.h"

#include <stddef.h>

volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
        (void)number;
        stop_asked = 1;
}

void stop_on_signals(void)
{
        const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
        struct sigaction before;

        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
                if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
                        sigaction(signals[i], &action, NULL);
}
