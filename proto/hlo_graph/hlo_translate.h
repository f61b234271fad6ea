/* proto/hlo_graph/hlo_translate.h - functions of a graph for a StableHLO module, so that all that the
 * engine does with a model's own functions (shapes, gradients, devices, debugging) holds for it.
 *
 * Each function of the module that main needs becomes one of the library, called "PREFIX/NAME", its
 * operations nodes of TensorFlow's ops; bodies of while, if and case functions of their own. Dimensions
 * that are not known yet are read where the function runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_TRANSLATE_H
#define TD_PROTO_HLO_GRAPH_HLO_TRANSLATE_H

#include "core/graph/graph.h"
#include "proto/stablehlo/module.h"

struct td_hlo_opts {
    const char *prefix; /* of the functions' names; the library has none of them yet */
    const struct td_op_table *ops;
    const struct td_bytes
        *host_functions; /* names of the library's functions that custom calls may call, by index */
    int n_host_functions;
    bool unchecked; /* assertions about shapes are left out */
};

/* Inserts into lib, which is resolved, and keeps nothing of the module. *main: what "main" became.
 * UNIMPLEMENTED names the function, the operation and why. */
TD_MUST enum td_code td_hlo_translate(const struct td_hlo_module *m, const struct td_hlo_opts *opts,
                                      struct td_library *lib, struct td_function **main, struct td_err *err);

#endif
