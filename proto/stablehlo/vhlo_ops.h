/* proto/stablehlo/vhlo_ops.h - the operations of VHLO and the attributes that are their properties.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_VHLO_OPS_H
#define TD_PROTO_STABLEHLO_VHLO_OPS_H

struct td_vhlo_op {
    const char *name; /* with its version: "gather_v2" */
    const char *const
        *later_lists; /* lists that a later version has and that are empty here; ends with NULL */
    const char *const *properties; /* in the order in which bytecode has them; ends with NULL */
};

/* NULL: newer than this reader. */
const struct td_vhlo_op *td_vhlo_ops_find(const char *name);

#endif
