/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#ifdef __aarch64__
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1ul << 20)       /* arch/arm64/include/uapi/asm/hwcap.h */
#endif
#endif

struct choice {
        const char *key;
        const struct kernels *kernels;
        bool runs;
};

const struct kernels *kernels_choose(void)
{
        const char *wanted = getenv("LLAMA_KERNELS");
#if defined(__x86_64__)
        const struct choice choices[] = {
                {"avx2", &kernels_avx2,
                 __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")},
                {"portable", &kernels_portable, true},
        };
#elif defined(__aarch64__)
        const struct choice choices[] = {
                {"dot", &kernels_neon_dot, getauxval(AT_HWCAP) & HWCAP_ASIMDDP},
                {"neon", &kernels_neon, true},
        };
#else
        const struct choice choices[] = {{"portable", &kernels_portable, true}};
#endif
        for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
                if (choices[i].runs && (!wanted || !*wanted || !strcmp(wanted, choices[i].key)))
                        return choices[i].kernels;
        return NULL;
}
