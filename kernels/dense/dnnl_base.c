/* kernels/dense/dnnl_base.c - oneDNN's engine, streams, memory objects and reorders, for the dnnl files.
 *
 * Threads: one engine for the process, made once; a stream for each thread, kept under a thread key and
 * destroyed when the thread ends. Making it also tells OpenMP how many threads that thread may run on. Those
 * begin in the float mode of the thread that starts them, and keep it: so all that may start one outside of a
 * run does it in the mode of runs.
 *
 * A memory object here is a description and a pointer: it owns no bytes. Where oneDNN does not start the
 * stream is NULL and callers go without it.
 *
 * Does not: make primitives (kernels/dense/dnnl.c), choose between oneDNN and other kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/dnnl_base.h"
#include "core/base/float_mode.h"
#include "kernels/dense/library_threads.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static pthread_key_t stream_key;
static bool usable;

static void stream_gone(void *s)
{
    (void)dnnl_stream_destroy(s);
}

static void engine_start(void)
{
    usable = pthread_key_create(&stream_key, stream_gone) == 0 &&
             dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success;
}

dnnl_stream_t td_dnnl_base_stream(void)
{
    (void)pthread_once(&engine_once, engine_start);
    if (!usable) {
        return NULL;
    }
    dnnl_stream_t s = pthread_getspecific(stream_key);
    if (s == NULL && dnnl_stream_create(&s, engine, dnnl_stream_default_flags) == dnnl_success) {
        omp_set_num_threads(td_threads());
        if (pthread_setspecific(stream_key, s) != 0) {
            (void)dnnl_stream_destroy(s);
            s = NULL;
        }
    }
    return s;
}

dnnl_engine_t td_dnnl_base_engine(void)
{
    (void)pthread_once(&engine_once, engine_start);
    return engine;
}

dnnl_memory_t td_dnnl_base_memory(const dnnl_memory_desc_t *md, const void *data)
{
    dnnl_memory_t m = NULL;
    return dnnl_memory_create(&m, md, td_dnnl_base_engine(), (void *)data) == dnnl_success ? m : NULL;
}

/* Weights are packed outside of runs: see the header. */
static bool run_reorder(dnnl_primitive_t r, const dnnl_exec_arg_t *args, int n)
{
    dnnl_stream_t stream = td_dnnl_base_stream();
    bool ok = stream != NULL;
    for (int i = 0; i < n; i++) {
        ok = ok && args[i].memory != NULL;
    }
    unsigned long before = td_float_mode_enter();
    ok = ok && dnnl_primitive_execute(r, stream, n, args) == dnnl_success &&
         dnnl_stream_wait(stream) == dnnl_success;
    td_float_mode_leave(before);
    for (int i = 0; i < n; i++) {
        (void)dnnl_memory_destroy(args[i].memory);
    }
    return ok;
}

bool td_dnnl_base_reorder(dnnl_primitive_t r, const dnnl_memory_desc_t *from, const void *x,
                          const dnnl_memory_desc_t *to, void *y)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, td_dnnl_base_memory(from, x)},
                                    {DNNL_ARG_TO, td_dnnl_base_memory(to, y)}};
    return run_reorder(r, args, 2);
}

bool td_dnnl_base_scaling(dnnl_primitive_t r, const dnnl_memory_desc_t *from, const void *x,
                          const dnnl_memory_desc_t *to, void *y, const float *scale, int64_t n)
{
    const dnnl_dims_t dims = {n};
    dnnl_memory_desc_t scales;
    if (dnnl_memory_desc_init_by_tag(&scales, 1, dims, dnnl_f32, dnnl_a) != dnnl_success) {
        return false;
    }
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, td_dnnl_base_memory(from, x)},
                                    {DNNL_ARG_TO, td_dnnl_base_memory(to, y)},
                                    {DNNL_ARG_ATTR_OUTPUT_SCALES, td_dnnl_base_memory(&scales, scale)}};
    return run_reorder(r, args, 3);
}

bool td_dnnl_base_reorder_new(dnnl_primitive_t *out, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to)
{
    if (dnnl_memory_desc_equal(from, to)) {
        return true;
    }
    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t e = td_dnnl_base_engine();
    bool ok = dnnl_reorder_primitive_desc_create(&pd, from, e, to, e, NULL) == dnnl_success &&
              dnnl_primitive_create(out, pd) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(pd);
    return ok;
}

bool td_dnnl_base_scaling_new(dnnl_primitive_t *out, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to, int mask)
{
    const float at_run = DNNL_RUNTIME_F32_VAL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t e = td_dnnl_base_engine();
    const bool ok = dnnl_primitive_attr_create(&attr) == dnnl_success &&
                    dnnl_primitive_attr_set_output_scales(attr, 1, mask, &at_run) == dnnl_success &&
                    dnnl_reorder_primitive_desc_create(&pd, from, e, to, e, attr) == dnnl_success &&
                    td_dnnl_base_is_fast(pd, "simple") && dnnl_primitive_create(out, pd) == dnnl_success;
    (void)dnnl_primitive_desc_destroy(pd);
    (void)dnnl_primitive_attr_destroy(attr);
    return ok;
}

bool td_dnnl_base_is_fast(const_dnnl_primitive_desc_t pd, const char *plain)
{
    const char *info = "ref";
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &info);
    return strstr(info, "ref") == NULL && strstr(info, plain) == NULL;
}

dnnl_primitive_attr_t td_dnnl_base_user_scratch(void)
{
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) == dnnl_success) {
        (void)dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    }
    return attr;
}
