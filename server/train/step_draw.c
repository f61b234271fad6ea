/* server/train/step_draw.c - what is drawn in training: dropout, where a head has it (server/train/head.h).
 *
 *   y = Identity(x), marked      becomes      y = where(u >= rate, x / (1 - rate), 0)       u in [0, 1)
 *
 * Draws are by TensorFlow's stateless ops with [seed, steps so far], as Keras's Dropout(rate, seed) draws at
 * its n-th call in training: the same step draws the same, after a resumption too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/formula/formula.h"
#include "kernels/train/initializers.h"
#include "server/train/head.h"
#include "server/train/step_graph.h"

static const struct td_attr *rate_of(const struct td_node *n)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, TD_DROPOUT_RATE);
    const bool is_one = a != NULL && a->kind == TD_ATTR_FLOAT && a->n == 1 && n->op != NULL && n->n_in == 1;
    return is_one && strcmp(n->op_name, "Identity") == 0 && a->f[0] > 0 && a->f[0] < 1 ? a : NULL;
}

static struct td_value seed_of(struct td_step_graph *k, struct td_emitter *e, const struct td_node *n)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, TD_DROPOUT_SEED);
    const int64_t own = a != NULL && a->kind == TD_ATTR_INT && a->n == 1 ? a->i[0] : 0;
    const int64_t seed = td_seed_number((int64_t)((uint64_t)k->s->spec->seed + (uint64_t)own));
    return td_emit(e, "Pack", TD_IN(td_f_int(e, seed), k->number), TD_NO_ATTRS);
}

static void drop(struct td_step_graph *k, struct td_emitter *e, struct td_node *n, double rate)
{
    const struct td_value x = n->in[0];
    const struct td_value shape = td_f_shape(e, x), whole = td_step_share_whole(k, e, shape);
    const struct td_value drawn = td_emit(e, "StatelessRandomUniform", TD_IN(whole, seed_of(k, e, n)),
                                          TD_ATTRS(TD_ATTR_OF_TYPE("dtype", td_dtype_of(x))));
    const struct td_value u = td_step_share_rows(k, e, drawn, shape);
    const struct td_value keep = td_f_2(e, "GreaterEqual", u, td_f_number(e, u, rate));
    const struct td_value scaled = td_f_scale(e, x, 1 / (1 - rate)), zero = td_f_number(e, x, 0);
    td_emit_again(e, n, td_op_find(e->ops, "SelectV2"), TD_IN(keep, scaled, zero), TD_NO_ATTRS);
}

/* The stateless op that draws as n does; NULL: n draws nothing. */
static const char *stateless_of(const struct td_node *n)
{
    static const char *const ops[][2] = {{"RandomUniform", "StatelessRandomUniform"},
                                         {"RandomStandardNormal", "StatelessRandomNormal"},
                                         {"TruncatedNormal", "StatelessTruncatedNormal"}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(n->op_name, ops[i][0]) == 0) {
            return ops[i][1];
        }
    }
    return NULL;
}

/* A random op of the file's own training form, number `i` of them. */
static void draw_by_step(struct td_step_graph *k, struct td_emitter *e, struct td_node *n, const char *op,
                         int i)
{
    const int64_t seed = td_seed_number((int64_t)((uint64_t)k->s->spec->seed + (uint64_t)i));
    const struct td_value in[] = {n->in[0],
                                  td_emit(e, "Pack", TD_IN(td_f_int(e, seed), k->number), TD_NO_ATTRS)};
    td_emit_again(e, n, td_op_find(e->ops, op), in, 2, TD_ATTRS(TD_ATTR_OF_TYPE("dtype", n->out_type[0])));
}

enum td_code td_step_draw(struct td_step_graph *k)
{
    const int n = k->x.ir.n_nodes;
    k->s->draws = k->s->spec->training_form;
    for (int i = 0; i < n && !k->s->draws; i++) {
        k->s->draws = rate_of(k->x.ir.nodes[i]) != NULL;
    }
    if (!k->s->draws) {
        return TD_OK;
    }
    TD_TRY(td_fault_of(k->f, td_extend_feed(&k->x, "step", TD_INT32, &k->number, &k->f->err), "invalid_value",
                       NULL));
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    int drawn = 0;
    for (int i = 0; i < n; i++) {
        struct td_node *node = k->x.ir.nodes[i];
        const struct td_attr *rate = rate_of(node);
        const char *stateless = k->s->spec->training_form ? stateless_of(node) : NULL;
        if (stateless != NULL) {
            const struct td_node at = *node;
            e.at = &at;
            draw_by_step(k, &e, node, stateless, drawn++);
            e.at = NULL;
        }
        if (rate != NULL) {
            const struct td_node at = *node;
            e.at = &at;
            drop(k, &e, node, (double)rate->f[0]);
            e.at = NULL;
        }
    }
    return td_fault_of(k->f, td_emit_close(&e), "invalid_value", NULL);
}
