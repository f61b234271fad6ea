/* core/run/select.c - walks an op's kernel rows in order; each refusal has a reason.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/select.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static bool allowed(const struct td_kernel *k, enum td_kernel_choice choice)
{
    if (choice == TD_KERNELS_FAST) {
        return true;
    }
    bool openblas = ends_with(k->name, ".openblas");
    return !ends_with(k->name, ".dnnl") && !ends_with(k->name, ".fast") &&
           (choice == TD_KERNELS_OPENBLAS || !openblas);
}

/* The attribute of n that breaks a type rule of k, or NULL. */
static const struct td_type_rule *broken_rule(const struct td_node *n, const struct td_kernel *k,
                                              enum td_dtype *found)
{
    for (int r = 0; r < TD_TYPE_RULES && k->types[r].attr != NULL; r++) {
        int count;
        const enum td_dtype *types = td_attr_types(n, k->types[r].attr, &count);
        for (int i = 0; i < count; i++) {
            if (!td_dtype_in(types[i], k->types[r].set)) {
                *found = types[i];
                return &k->types[r];
            }
        }
    }
    return NULL;
}

static const char *reason(const struct td_node *n, const struct td_kernel *k, enum td_device_kind device,
                          enum td_kernel_choice choice, char *text, size_t bytes)
{
    enum td_dtype found;
    if (k->device != device) {
        return "for another device";
    }
    if (!allowed(k, choice)) {
        return "switched off by --kernels";
    }
    const struct td_type_rule *rule = broken_rule(n, k, &found);
    if (rule != NULL) {
        snprintf(text, bytes, "%s=%s is not supported", rule->attr, td_dtype_tf_name(found));
        return text;
    }
    return k->refuse == NULL ? NULL : k->refuse(n);
}

static enum td_code unknown_op(const struct td_node *n, struct td_err *err)
{
    return td_fail(err, TD_UNIMPLEMENTED,
                   "Op type not registered '%s': %s needs an op that this build does not have", n->op_name,
                   TD_NODE_STR(n));
}

enum td_code td_select_kernel(const struct td_node *n, enum td_device_kind device,
                              enum td_kernel_choice choice, const struct td_kernel **out, char *why,
                              size_t why_bytes, struct td_err *err)
{
    if (n->op == NULL) {
        return unknown_op(n, err);
    }
    TD_FAIL_IF(n->op->flags & TD_OP_REFUSED, err, UNIMPLEMENTED, "Op '%s' is refused at %s: %s", n->op_name,
               TD_NODE_STR(n),
               n->op->doc == NULL ? "it runs code or touches files outside the model" : n->op->doc);
    TD_FAIL_IF(n->op->kernels == NULL, err, UNIMPLEMENTED, "%s: the op has no kernel in this build",
               TD_NODE_STR(n));
    char text[96], reasons[400] = "";
    size_t used = 0;
    for (const struct td_kernel *k = n->op->kernels; k->run != NULL; k++) {
        const char *no = reason(n, k, device, choice, text, sizeof text);
        if (no == NULL) {
            *out = k;
            if (why != NULL) {
                snprintf(why, why_bytes, "%s", reasons);
            }
            return TD_OK;
        }
        int put = snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? "; " : "", k->name, no);
        used += put > 0 && (size_t)put < sizeof reasons - used ? (size_t)put : 0;
    }
    return td_fail(
        err, TD_UNIMPLEMENTED,
        "Could not find device for node: %s: No OpKernel was registered to support Op '%s' used by it (%s)",
        TD_NODE_STR(n), n->op_name, reasons);
}
