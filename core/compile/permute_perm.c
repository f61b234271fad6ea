/* core/compile/permute_perm.c - permutations, and the Transposes that carry them out.
 *
 * A permutation is an array of at most TD_MAX_RANK axes, passed by pointer and returned by value. A Transpose
 * counts as one only if its permutation is a constant that names each axis once, and its operand's rank,
 * where known, fits. New ones are made with a permutation of int32, which the emitter shares between equal
 * ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"

#include <string.h>

struct td_perm td_perm_then(const struct td_perm *a, const struct td_perm *b)
{
    struct td_perm both = {.rank = a->rank};
    for (int i = 0; i < a->rank; i++) {
        both.at[i] = a->at[b->at[i]];
    }
    return both;
}

struct td_perm td_perm_inverse(const struct td_perm *p)
{
    struct td_perm back = {.rank = p->rank};
    for (int i = 0; i < p->rank; i++) {
        back.at[p->at[i]] = i;
    }
    return back;
}

bool td_perm_is_identity(const struct td_perm *p)
{
    bool same = true;
    for (int i = 0; same && i < p->rank; i++) {
        same = p->at[i] == i;
    }
    return same;
}

bool td_perm_equal(const struct td_perm *a, const struct td_perm *b)
{
    return a->rank == b->rank && memcmp(a->at, b->at, (size_t)a->rank * sizeof a->at[0]) == 0;
}

int td_perm_axis(const struct td_perm *p, int axis)
{
    int i = 0;
    while (p->at[i] != axis) {
        i++;
    }
    return i;
}

bool td_perm_keeps_order(const struct td_perm *p, uint32_t gone)
{
    int last = -1;
    for (int i = 0; i < p->rank; i++) {
        if (gone >> p->at[i] & 1u) {
            continue;
        }
        if (p->at[i] < last) {
            return false;
        }
        last = p->at[i];
    }
    return true;
}

/* ------------------------------------------------------------------ Transpose nodes */

bool td_permute_is_transpose(const struct td_emitter *e, const struct td_node *n, struct td_perm *p)
{
    const bool plain = n->op != NULL && n->op->role == TD_ROLE_TRANSPOSE && n->n_in == 2 && n->n_control == 0;
    const struct td_tensor *c = plain ? td_known_value(n->in[1]) : NULL;
    if (!td_permute_is_index(c) || c->shape.rank != 1 || c->shape.dim[0] > TD_MAX_RANK || n->out_ref[0] ||
        n->in[0].node->out_ref[n->in[0].port]) {
        return false;
    }
    const int rank = td_rank_of(e, n->in[0]);
    uint32_t seen = 0;
    *p = (struct td_perm){.rank = (int)c->shape.dim[0]};
    for (int i = 0; i < p->rank; i++) {
        if (!td_shape_axis(p->rank, td_tensor_int(c, i), &p->at[i]) || (seen >> p->at[i] & 1u)) {
            return false;
        }
        seen |= 1u << p->at[i];
    }
    return p->rank > 0 && (rank < 0 || rank == p->rank);
}

struct td_value td_emit_transpose(struct td_emitter *e, struct td_value v, const struct td_perm *p)
{
    int64_t at[TD_MAX_RANK];
    for (int i = 0; i < p->rank; i++) {
        at[i] = p->at[i];
    }
    const struct td_value perm = td_emit_ints(e, TD_INT32, at, p->rank);
    return td_emit_def(e, td_op_of_role(e->ops, TD_ROLE_TRANSPOSE), TD_IN(v, perm), TD_NO_ATTRS);
}
