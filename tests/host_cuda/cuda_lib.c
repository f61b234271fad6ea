/* tests/host_cuda/cuda_lib.c - makes the C API run its models on kernels/cuda, on the host-run CUDA device:
 * GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 python tests/golden.py SUITE
 *     --lib build/tests/host_cuda/libtensord_host_cuda.so
 *
 * Shared memory is thread-local on the host, and what a library is loaded with later has little room for it.
 * cuda_lib_launches tells how many kernels ran there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/engine.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.h"
#include "server/embed.h"

static struct td_device *device;

static enum td_code add_rows(struct td_engine *e, struct td_err *err)
{
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            TD_TRY(td_engine_add_kernels(e, r->op, r->rows, err));
        }
    }
    return TD_OK;
}

__attribute__((constructor)) static void start(void)
{
    struct td_err err = {0};
    TD_CHECK(td_cuda_device_open(&(struct td_device_opts){0}, &device, &err) == TD_OK);
    td_embed_device = device;
    td_embed_module = add_rows;
}

__attribute__((visibility("default"))) long cuda_lib_launches(void);

long cuda_lib_launches(void)
{
    struct td_device_counts c;
    td_cuda_device_count(device, &c);
    return (long)c.launches;
}
