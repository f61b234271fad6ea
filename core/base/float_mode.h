/* core/base/float_mode.h - how the processor treats denormal numbers while kernels run.
 *
 * TensorFlow runs every kernel with denormal operands read as zero and denormal results written as zero, so
 * that 1e-40f has the logarithm of 0 and layers that fade out do not become a hundred times slower. A run
 * does the same:
 *
 *     unsigned long before = td_float_mode_enter();
 *     ... kernels ...
 *     td_float_mode_leave(before);
 *
 * The mode belongs to the calling thread, and to those it starts from then on (POSIX: a new thread inherits
 * the floating-point environment). Helper threads of oneDNN and OpenBLAS are started in runs, or else by code
 * that enters the mode for it: kernels/dense/blas.c, kernels/dense/dnnl_base.c. Runs nest. On processors that
 * are not named here nothing changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_FLOAT_MODE_H
#define TD_CORE_BASE_FLOAT_MODE_H

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { TD_FLOAT_MODE_FLUSH = 0x8000 | 0x0040 }; /* MXCSR: flush results to zero, denormals are zero */

static inline unsigned long td_float_mode_get(void)
{
    return _mm_getcsr();
}

static inline void td_float_mode_set(unsigned long mode)
{
    _mm_setcsr((unsigned int)mode);
}

#elif defined(__aarch64__)

enum { TD_FLOAT_MODE_FLUSH = 1 << 24 }; /* FPCR.FZ */

static inline unsigned long td_float_mode_get(void)
{
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void td_float_mode_set(unsigned long mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

#else

enum { TD_FLOAT_MODE_FLUSH = 0 };

static inline unsigned long td_float_mode_get(void)
{
    return 0;
}

static inline void td_float_mode_set(unsigned long mode)
{
    (void)mode;
}

#endif

static inline unsigned long td_float_mode_enter(void)
{
    unsigned long before = td_float_mode_get();
    if ((before & TD_FLOAT_MODE_FLUSH) != TD_FLOAT_MODE_FLUSH) {
        td_float_mode_set(before | TD_FLOAT_MODE_FLUSH);
    }
    return before;
}

static inline void td_float_mode_leave(unsigned long before)
{
    if ((before & TD_FLOAT_MODE_FLUSH) != TD_FLOAT_MODE_FLUSH) {
        td_float_mode_set(before);
    }
}

#endif
