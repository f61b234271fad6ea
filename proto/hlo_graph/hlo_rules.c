/* proto/hlo_graph/hlo_rules.c - finds the rule of an operation by its name, and runs a block's one after
 * the other.
 *
 * Types that there is no dtype for are refused here, for all rules, and results that are no tensors, for all
 * but those that hand them on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_rules.h"

struct row {
    const char *name;
    td_hlo_rule *rule;
    const char *as;
};

static const struct row *find(const char *name)
{
    static const struct row rows[] = {
#define RULE(name, rule, as) {name, td_hlo_##rule, as},
#include "proto/hlo_graph/hlo_rules.def"
#undef RULE
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Its results may be tuples and tokens. */
static bool hands_on(const struct td_hlo_op *op)
{
    return strcmp(op->name, "tuple") == 0 || strcmp(op->name, "optimization_barrier") == 0;
}

static void check_types(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    for (int i = 0; i < op->n_out; i++) {
        const struct td_hlo_type *t = &op->out[i]->type;
        if (t->kind != TD_HLO_TENSOR && !hands_on(op)) {
            td_hlo_fail(f, TD_UNIMPLEMENTED, "result %d is no tensor", i);
        } else if (t->kind == TD_HLO_TENSOR && (t->unsupported != NULL || t->shape.rank < 0)) {
            td_hlo_fail(f, TD_UNIMPLEMENTED, "result %d is %s, which is not supported", i,
                        t->unsupported != NULL ? t->unsupported : "of unknown rank");
        }
    }
}

bool td_hlo_run_as(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name)
{
    const struct row *row = find(name);
    const char *as = f->as;
    if (row != NULL && f->e.rc == TD_OK) {
        f->as = row->as;
        row->rule(f, op);
        f->as = as;
    }
    return row != NULL;
}

/* Of a body whose scalars are tensors: it may only compute element by element. */
static void check_wide(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    bool scalars = op->n_regions == 0;
    for (int i = 0; i < op->n_out; i++) {
        scalars = scalars && td_hlo_shape(op->out[i])->rank == 0;
    }
    if (f->wide && !scalars) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "in a body, which may only compute with scalars");
    }
}

static void run(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_hlo_op *was = f->op;
    f->op = op;
    check_types(f, op);
    check_wide(f, op);
    if (!td_hlo_run_as(f, op, op->name)) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "the operation is not supported");
    }
    f->op = was;
}

void td_hlo_block(struct td_hlo_frame *f, const struct td_hlo_block *b)
{
    for (int i = 0; f->e.rc == TD_OK && i + 1 < b->n_ops; i++) {
        run(f, b->ops[i]);
    }
}
