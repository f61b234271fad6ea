/* proto/hlo_graph/hlo_translate.c - begins with main; its calls make the functions that it needs.
 *
 * Tables and lists of the translation lie in an arena of its own, which has a limit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_translate.h"

#include <stdlib.h>

#include "proto/hlo_graph/hlo_function.h"

#define SCRATCH_BYTES ((size_t)1 << 30)

struct named {
    const char *name;
    int index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Indices of the functions in the order of their names; NULL without memory. */
static int *sorted(const struct td_hlo_module *m, struct td_arena *a)
{
    const size_t n = (size_t)m->n_functions;
    struct named *all = td_arena_alloc(a, n + 1, sizeof *all);
    int *order = td_arena_alloc(a, n + 1, sizeof *order);
    if (all == NULL || order == NULL) {
        return NULL;
    }
    for (int i = 0; i < m->n_functions; i++) {
        all[i] = (struct named){m->functions[i].name, i};
    }
    if (n > 1) {
        qsort(all, n, sizeof *all, by_name);
    }
    for (int i = 0; i < m->n_functions; i++) {
        order[i] = all[i].index;
    }
    return order;
}

enum td_code td_hlo_translate(const struct td_hlo_module *m, const struct td_hlo_opts *opts,
                              struct td_library *lib, struct td_function **main, struct td_err *err)
{
    struct td_hlo_whole_module w = {.m = m,
                                    .prefix = opts->prefix,
                                    .lib = lib,
                                    .ops = opts->ops,
                                    .err = err,
                                    .host_functions = opts->host_functions,
                                    .n_host_functions = opts->n_host_functions,
                                    .unchecked = opts->unchecked};
    w.scratch = td_arena_new(SCRATCH_BYTES);
    enum td_code rc = TD_OK;
    if (w.scratch != NULL) {
        w.by_name = sorted(m, w.scratch);
        w.names = td_arena_alloc(w.scratch, (size_t)m->n_functions, sizeof *w.names);
        w.busy = td_arena_alloc(w.scratch, (size_t)m->n_functions, sizeof *w.busy);
    }
    if (w.by_name == NULL || w.names == NULL || w.busy == NULL) {
        rc = td_no_memory(err, (size_t)m->n_functions, "a StableHLO module");
    }
    const int index = rc ? -1 : td_hlo_function_index(&w, "main", 4);
    if (rc == TD_OK && index < 0) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "the StableHLO module has no function 'main'");
    }
    rc = rc ? rc : td_hlo_function(&w, index, 0, main, err);
    td_arena_free(w.scratch);
    return rc;
}
