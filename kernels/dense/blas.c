/* kernels/dense/blas.c - OpenBLAS, opened once with dlopen: all functions are found, or it counts as absent.
 *
 * Nothing is needed to build or to start; who needs the library asks for it when it runs. The library starts
 * its threads when it is opened, so that is done in the float mode of runs, and it is told how many there may
 * be (kernels/dense/library_threads.h). pthread_once makes it safe from any thread; the table never changes
 * after that.
 *
 * Does not: choose between BLAS and other kernels, or close the library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/blas.h"
#include "core/base/float_mode.h"
#include "kernels/dense/library_threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"

static struct td_blas table;
static const struct td_blas *loaded; /* the table, once it is filled */

/* Through memcpy: ISO C has no cast from an object pointer to a function's. */
static bool find(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    memcpy(function, &p, sizeof p);
    return p != NULL;
}

static void open_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    void (*set_num_threads)(int) = NULL;
    if (library != NULL && find(library, "openblas_set_num_threads", &set_num_threads) &&
        find(library, "cblas_sgemm", &table.sgemm) && find(library, "cblas_dgemm", &table.dgemm) &&
        find(library, "cblas_cgemm", &table.cgemm) && find(library, "cblas_zgemm", &table.zgemm) &&
        find(library, "zgeqrf_", &table.zgeqrf) && find(library, "zungqr_", &table.zungqr) &&
        find(library, "zgesdd_", &table.zgesdd) && find(library, "zheevd_", &table.zheevd) &&
        find(library, "zgeev_", &table.zgeev)) {
        set_num_threads(td_threads());
        loaded = &table;
    }
}

/* The library starts its threads when it is opened: they shall compute in the float mode of runs. */
static void load(void)
{
    unsigned long before = td_float_mode_enter();
    open_library();
    td_float_mode_leave(before);
}

const struct td_blas *td_blas(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load);
    return loaded;
}

enum td_code td_blas_get(const struct td_blas **out, struct td_err *err)
{
    *out = td_blas();
    TD_FAIL_IF(*out == NULL, err, FAILED_PRECONDITION,
               "%s cannot be loaded: this operation needs the OpenBLAS library", LIBRARY);
    return TD_OK;
}
