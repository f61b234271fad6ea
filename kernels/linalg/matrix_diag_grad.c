/* kernels/linalg/matrix_diag_grad.c - diagonals go back to where they were taken from.
 *
 * Each gradient is made of the ops of its own version, which have one way of packing short diagonals: V1
 * has the main diagonal alone, V2 aligns left, V3 has an attribute. (TensorFlow makes those of V2 of V3,
 * which aligns otherwise: they differ where diagonals of several lengths are taken.) What pads a short
 * diagonal, or fills a matrix around its diagonals, gets none, as TensorFlow has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/matrix_diag_grad.h"

#include <string.h>

#include "kernels/formula/formula.h"

void td_matrix_band_part_grad(struct td_grad *g)
{
    const struct td_value in[] = {td_grad_at(g, 0), td_grad_in(g, 1), td_grad_in(g, 2)};
    td_grad_give(g, 0, td_f_as(g->e, "MatrixBandPart", in, 3, g->node, NULL));
}

/* The op of the node's version: "MatrixDiag" of MatrixSetDiagV3 is MatrixDiagV3. */
static const char *sibling(const struct td_node *n, const char *const versions[3])
{
    const char *name = n->op->name, *v = name + strlen(name) - 2;
    return strcmp(v, "V3") == 0 ? versions[2] : strcmp(v, "V2") == 0 ? versions[1] : versions[0];
}

/* The diagonals of m that input k (0: none) of the node names. */
static struct td_value part_of(struct td_grad *g, struct td_value m, int k)
{
    static const char *const versions[] = {"MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"};
    const struct td_value in[] = {m, k == 0 ? td_no_value : td_grad_in(g, k),
                                  k == 0 ? td_no_value : td_f_number(g->e, m, 0)};
    return td_f_as(g->e, sibling(g->node, versions), in, k == 0 ? 1 : 3, g->node, "align");
}

/* m with those diagonals replaced. */
static struct td_value set_diagonals(struct td_grad *g, struct td_value m, struct td_value diagonals, int k)
{
    static const char *const versions[] = {"MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"};
    const struct td_value in[] = {m, diagonals, k == 0 ? td_no_value : td_grad_in(g, k)};
    return td_f_as(g->e, sibling(g->node, versions), in, k == 0 ? 2 : 3, g->node, "align");
}

void td_matrix_diag_grad(struct td_grad *g)
{
    td_grad_give(g, 0, part_of(g, td_grad_at(g, 0), g->node->n_in > 1 ? 1 : 0));
}

void td_matrix_diag_part_grad(struct td_grad *g)
{
    const struct td_value none = td_f_zeros_like(g->e, td_grad_in(g, 0));
    td_grad_give(g, 0, set_diagonals(g, none, td_grad_at(g, 0), g->node->n_in > 1 ? 1 : 0));
}

void td_matrix_set_diag_grad(struct td_grad *g)
{
    const int k = g->node->n_in > 2 ? 2 : 0;
    const struct td_value dy = td_grad_at(g, 0);
    if (td_grad_wants(g, 0)) {
        const struct td_value none = td_f_zeros_like(g->e, td_grad_in(g, 1));
        td_grad_give(g, 0, set_diagonals(g, dy, none, k));
    }
    if (td_grad_wants(g, 1)) {
        td_grad_give(g, 1, part_of(g, dy, k));
    }
}

void td_diag_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_1(g->e, "DiagPart", td_grad_at(g, 0)));
}

void td_diag_part_grad(struct td_grad *g)
{
    td_grad_give(g, 0, td_f_1(g->e, "Diag", td_grad_at(g, 0)));
}
