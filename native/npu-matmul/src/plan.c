/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "registers.h"

static uint32_t up(size_t value, uint32_t multiple)
{
        return (uint32_t)((value + multiple - 1) / multiple * multiple);
}

/* As few pieces as `most` allows, as equal as multiples of `multiple` allow. */
static struct nm_cut cut(uint32_t total, uint32_t most, uint32_t multiple)
{
        uint32_t pieces = (total + most - 1) / most, size = up((total + pieces - 1) / pieces, multiple);

        return (struct nm_cut){(total + size - 1) / size, size};
}

struct nm_plan nm_plan_matrix(enum nm_type type, size_t n, size_t k)
{
        struct nm_plan plan = {.type = type, .list_type = type, .n = n, .k = k};

        plan.padded_n = up(n, nm_kernel_group(type));
        plan.padded_k = up(k, 32);
        plan.n_cut = cut(plan.padded_n, MOST_N, nm_kernel_group(type));
        plan.k_cut = cut(plan.padded_k, MOST_K, 32);
        if (type == NM_FP16_FP16 && plan.k_cut.pieces > 1)
                plan.list_type = NM_FP16_FP32;
        return plan;
}

size_t nm_plan_weight_bytes(const struct nm_plan *plan)
{
        return (size_t)plan->padded_n * plan->padded_k * nm_input_bytes(plan->type);
}

size_t nm_plan_weight_offset(const struct nm_plan *plan, uint32_t chunk, uint32_t slice)
{
        size_t before = (size_t)chunk * plan->k_cut.size * plan->padded_n;
        size_t within = (size_t)slice * plan->n_cut.size * nm_piece(plan->k_cut, plan->padded_k, chunk);

        return (before + within) * nm_input_bytes(plan->type);
}

uint32_t nm_plan_list_rows(uint32_t m, const struct nm_switches *switches)
{
        return switches->rows == NM_ROWS_PADDED ? up(m, 4) : m;
}

struct nm_cut nm_plan_rows(const struct nm_plan *plan, size_t m, const struct nm_switches *switches)
{
        struct nm_shape shape = {.type = plan->list_type, .k = plan->k_cut.size, .m = MOST_M / 4 * 4};

        while (shape.m > 4 && nm_data_banks(&shape, switches) >= CBUF_BANKS)
                shape.m -= 4;
        return m <= shape.m ? (struct nm_cut){1, (uint32_t)m} : cut((uint32_t)m, shape.m, 4);
}
