/* tests/fuzz/op_print.c - prints a graph of op_graph.h: nodes, attributes, values that are fed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/fuzz/op_maker.h"

static void print_tensor(const struct td_tensor *t)
{
    printf("%s%s", td_dtype_name(t->dtype), TD_SHAPE_STR(&t->shape));
    const int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n && i < 24; i++) {
        size_t len;
        if (t->dtype == TD_STRING) {
            printf(" '%s'", td_tensor_str(t, i, &len));
        } else if (t->dtype == TD_FLOAT) {
            printf(" %g", (double)TD_DATA(t, float)[i]);
        } else if (t->dtype == TD_DOUBLE) {
            printf(" %g", TD_DATA(t, double)[i]);
        } else if (td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL))) {
            printf(" %lld", (long long)(t->dtype == TD_BOOL ? TD_DATA(t, td_bool)[i] : td_tensor_int(t, i)));
        }
    }
}

static void print_attr(const struct td_attr *a)
{
    printf(" %s=", a->name);
    for (int i = 0; i < a->n; i++) {
        printf("%s", i > 0 ? "," : "");
        switch (a->kind) {
        case TD_ATTR_STRING:
            printf("'%.*s'", (int)a->str[i].len, a->str[i].p);
            break;
        case TD_ATTR_INT:
            printf("%lld", (long long)a->i[i]);
            break;
        case TD_ATTR_FLOAT:
            printf("%g", (double)a->f[i]);
            break;
        case TD_ATTR_BOOL:
            printf("%d", a->b[i]);
            break;
        case TD_ATTR_TYPE:
            printf("%s", td_dtype_name(a->type[i]));
            break;
        case TD_ATTR_SHAPE:
            printf("%s", TD_SHAPE_STR(&a->shape[i]));
            break;
        case TD_ATTR_TENSOR:
            print_tensor(&a->tensor[i]);
            break;
        default:
            printf("?");
        }
    }
}

void op_maker_print(const struct op_graph *g)
{
    printf("passes_off %s, eager %d, kernels %d\n", g->passes_off ? g->passes_off : "-", g->eager,
           (int)g->kernels);
    for (int i = 0; i < g->graph.n_nodes; i++) {
        const struct td_node *n = g->graph.nodes[i];
        printf("%s = %s {", n->name, n->op_name);
        for (int k = 0; k < n->n_attrs; k++) {
            print_attr(&n->attrs[k]);
        }
        printf(" } (");
        for (int k = 0; k < n->n_inputs; k++) {
            printf("%s%s", k > 0 ? ", " : "", n->inputs[k]);
        }
        printf(")");
        for (int k = 0; k < g->n_feeds; k++) {
            if (g->holder[k] == n) {
                printf(" fed ");
                print_tensor(&g->feed[k]);
            }
        }
        printf("\n");
    }
    fflush(stdout);
}
