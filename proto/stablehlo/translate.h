/* proto/stablehlo/translate.h - functions of a graph for a StableHLO module, so that all that the engine does with a
 * model's own functions (shapes, gradients, devices, debugging) holds for it.
 *
 * Each function of the module becomes one of lib, called "PREFIX/NAME", its operations nodes of TensorFlow's ops;
 * bodies of while, if and case functions of their own. Dimensions that are not known yet are read where the function
 * runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_TRANSLATE_H
#define TD_PROTO_STABLEHLO_TRANSLATE_H

#include "core/graph/graph.h"
#include "proto/stablehlo/module.h"

/* *main: the name of the function that "main" became. UNIMPLEMENTED names the function, the operation and why. */
TD_MUST enum td_code td_hlo_translate(const struct td_hlo_module *m, const char *prefix, struct td_library *lib,
                                      const char **main, struct td_err *err);

#endif
