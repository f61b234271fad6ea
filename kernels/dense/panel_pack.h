/* kernels/dense/panel_pack.h - weights in the panels of gemm_panels.h.
 *
 * By our own loops: oneDNN 2.6 reorders into them at 4.5 ns a number, as long as a product of 800 rows takes
 * by it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_PANEL_PACK_H
#define TD_KERNELS_CPU_PANEL_PACK_H

#include "kernels/dense/dnnl_pack.h"

/* Floats [k,n], stored [n,k] where transposed says so, into panels [depth,64] of 64 columns each, zeros
 * behind the last column and the last row; *depth: k or a little more. w is td_dnnl_weights_init's. False:
 * they cannot be described. */
TD_MUST bool td_panel_pack_set(struct td_dnnl_weights *w, int64_t k, int64_t n, bool transposed,
                               int64_t *depth);

#endif
