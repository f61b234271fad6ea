/* kernels/dense/low.c - rounding activations for products in lower precision.
 *
 * One pass over x, which is then read with a half or a quarter of the bytes. Rounding to whole steps is by
 * adding 1.5 * 2^23, whose last bit is worth 1: half to even, and a loop without branches.
 *
 * Does not: round weights (kernels/dense/dnnl_pack.c does, when it packs them), multiply.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/low.h"

#include <dnnl.h>
#include <math.h>
#include <string.h>

#include "core/base/dtype.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/spread.h"
#include "kernels/cpu/vecmath.h"

enum { TILE = 4096, SIGNED_MOST = 127, UNSIGNED_MOST = 255, HALF_MOST = 63 };
#define WHOLE_FROM 12582912.0f /* 1.5 * 2^23: floats from here on are whole numbers */

struct td_low td_low_of(const struct td_node *n)
{
    const char *name = td_attr_str(n, "_precision");
    if (strcmp(name, "bfloat16") == 0) {
        return (struct td_low){.kind = TD_LOW_BFLOAT16};
    }
    if (strcmp(name, "int8") != 0) {
        return (struct td_low){0};
    }
    const float min = (float)td_attr_float(n, "_input_min"), max = (float)td_attr_float(n, "_input_max");
    const float most = fmaxf(-min, max);
    if (!(min <= max) || !isfinite(most)) {
        return (struct td_low){0};
    }
    const bool negative = min < 0;
    const float step = most / (float)(negative ? SIGNED_MOST : UNSIGNED_MOST);
    return isnormal(step) ? (struct td_low){TD_LOW_INT8, step, negative} : (struct td_low){0};
}

const char *td_low_refusal(const struct td_low *low)
{
    return low->kind == TD_LOW_NONE ? "the model asks for no lower precision"
           : low->kind == TD_LOW_BFLOAT16 && td_bfloat16_way() != TD_BFLOAT16_NATIVE ? TD_BFLOAT16_REFUSAL
                                                                                     : NULL;
}

size_t td_low_bytes(const struct td_low *low)
{
    return low->kind == TD_LOW_BFLOAT16 ? sizeof(uint16_t) : sizeof(uint8_t);
}

static bool has_vnni(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa == dnnl_cpu_isa_avx512_core_vnni || isa == dnnl_cpu_isa_avx512_core_bf16 ||
           isa == dnnl_cpu_isa_avx512_core_amx || isa == dnnl_cpu_isa_avx2_vnni;
}

int td_low_levels(bool negative)
{
    return has_vnni() || negative ? SIGNED_MOST : HALF_MOST;
}

bool td_low_signed(void)
{
    return has_vnni();
}

/* ------------------------------------------------------------------ loops */

#define ROUND_LOOP(name, type, least, most)                                                                  \
    TD_CLONES static void name(const float *x, float per_step, int64_t n, type *to)                          \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            float v = x[i] * per_step;                                                                       \
            v = v > (least) ? v : (least);                                                                   \
            v = v < (most) ? v : (most);                                                                     \
            v = x[i] == x[i] ? v : 0.0f;                                                                     \
            v += WHOLE_FROM;                                                                                 \
            int32_t bits;                                                                                    \
            memcpy(&bits, &v, sizeof bits);                                                                  \
            to[i] = (type)bits; /* the last byte: 1.5 * 2^23 has none of its bits there */                   \
        }                                                                                                    \
    }
ROUND_LOOP(round_u8, uint8_t, 0.0f, 255.0f)
ROUND_LOOP(round_i8, int8_t, -127.0f, 127.0f)

TD_CLONES static void round_bf16(const float *x, int64_t n, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const uint32_t even = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
        to[i] = (uint16_t)(x[i] == x[i] ? even : 0x7FC0u);
    }
}

struct job {
    const struct td_low *low;
    const float *x;
    char *to;
};

static void round_range(void *arg, int64_t from, int64_t to, int who)
{
    (void)who;
    const struct job *j = arg;
    const float *x = j->x + from;
    char *y = j->to + from * (int64_t)td_low_bytes(j->low);
    if (j->low->kind == TD_LOW_BFLOAT16) {
        round_bf16(x, to - from, (uint16_t *)y);
    } else if (j->low->negative) {
        round_i8(x, 1.0f / j->low->step, to - from, (int8_t *)y);
    } else {
        round_u8(x, 1.0f / j->low->step, to - from, (uint8_t *)y);
    }
}

void td_low_round(const struct td_call *c, const struct td_low *low, const float *x, int64_t n, void *to)
{
    struct job j = {.low = low, .x = x, .to = to};
    td_spread(c, n, TILE, TD_SPREAD_PASS_NS + TD_SPREAD_OP_NS, round_range, &j);
}
