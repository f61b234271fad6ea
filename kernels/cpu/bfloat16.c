/* kernels/cpu/bfloat16.c - which processors multiply bfloat16 faster than float.
 *
 * AMX does, by a factor of 8, and so do AMD's (Zen 4 on), whose VDPBF16PS takes as long as a VFMADD and does
 * twice the work. On Intel's it is issued at a quarter of VFMADD's rate: oneDNN's products of bfloat16 were
 * measured at 100 GFLOP/s where those of floats reach 190 (Emerald Rapids in a virtual machine without AMX,
 * one core). There a product of bfloat16 is one of floats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/bfloat16.h"

#include <dnnl.h>
#include <pthread.h>

static bool is_amd(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

static enum td_bfloat16_way look(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa == dnnl_cpu_isa_avx512_core_amx    ? TD_BFLOAT16_NATIVE
           : isa != dnnl_cpu_isa_avx512_core_bf16 ? TD_BFLOAT16_AS_FLOAT
           : is_amd()                             ? TD_BFLOAT16_NATIVE
                                                  : TD_BFLOAT16_SLOW;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum td_bfloat16_way found;

static void look_once(void)
{
    found = look();
}

enum td_bfloat16_way td_bfloat16_way(void)
{
    (void)pthread_once(&once, look_once);
    return found;
}

void td_bfloat16_set(enum td_bfloat16_way way)
{
    (void)pthread_once(&once, look_once);
    found = way;
}
