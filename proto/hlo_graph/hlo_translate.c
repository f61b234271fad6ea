/* proto/hlo_graph/hlo_translate.c - begins with main; its calls make the functions that it needs.
 *
 * Tables and lists of the translation lie in an arena of its own, which has a limit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_translate.h"

#include "proto/hlo_graph/hlo_function.h"

#define SCRATCH_BYTES ((size_t)1 << 30)

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
    int index = 0;
    while (index < m->n_functions && strcmp(m->functions[index].name, "main") != 0) {
        index++;
    }
    TD_FAIL_IF(index == m->n_functions, err, INVALID_ARGUMENT, "the StableHLO module has no function 'main'");
    w.scratch = td_arena_new(SCRATCH_BYTES);
    enum td_code rc = TD_OK;
    if (w.scratch != NULL) {
        w.names = td_arena_alloc(w.scratch, (size_t)m->n_functions, sizeof *w.names);
        w.busy = td_arena_alloc(w.scratch, (size_t)m->n_functions, sizeof *w.busy);
    }
    if (w.names == NULL || w.busy == NULL) {
        rc = td_no_memory(err, (size_t)m->n_functions, "a StableHLO module");
    }
    rc = rc ? rc : td_hlo_function(&w, index, 0, main, err);
    td_arena_free(w.scratch);
    return rc;
}
