/* tests/property/rows_check.c - holds the analysis of core/batchable/batchable.c against models: every
 * signature that it calls row-wise is run on random rows together and apart, and the answers must be the
 * same.
 *
 *   rows_check [--gradients] DIR...     version directories of SavedModels; prints a line a signature, exits
 *                                       with 1 on a wrong "yes". --gradients: also of each row-wise
 *                                       signature's gradient, of all outputs by all inputs that have one
 *
 * Unknown inner dimensions are taken as 8, 64 and 600, until one of them is found row-wise. The plain kernels
 * compute a row in the same order whatever its neighbours, so that models which blow up rounding can be told
 * from wrong answers. A signature that cannot run on such inputs (an index out of range) is counted as not
 * run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batchable/batchable.h"
#include "kernels/ops.h"
#include "server/models/gradient.h"
#include "server/models/servable.h"
#include "tests/rows_apart.h"

enum { DRAWS = 3 };

struct tally {
    int yes, no, ran, wrong, left_out;
};

static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* ------------------------------------------------------------------ inputs */

/* Integers are below `below`: they may be indices. */
static void draw_element(struct td_tensor *t, int64_t i, unsigned below)
{
    static const char *const words[] = {"a b c", "the quick brown fox", "", "42", "7.5", "was nice"};
    const char *word = words[draw() % 6];
    struct td_err err = {0};
    double real = (double)(draw() % 2000) / 500.0 - 2;
    switch (t->dtype) {
    case TD_FLOAT:
        TD_DATA(t, float)[i] = (float)real;
        break;
    case TD_DOUBLE:
        TD_DATA(t, double)[i] = real;
        break;
    case TD_STRING:
        (void)!td_tensor_set_str(t, i, word, strlen(word), &err);
        break;
    default:
        memset((char *)t->data + (size_t)i * td_dtype_size(t->dtype), 0, td_dtype_size(t->dtype));
        if (td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL))) {
            *((unsigned char *)t->data + (size_t)i * td_dtype_size(t->dtype)) =
                (unsigned char)(draw() % (t->dtype == TD_BOOL ? 2 : below));
        }
    }
}

static bool draw_inputs(struct td_servable *s, const struct td_signature *sig, const struct td_shape *shape,
                        struct td_tensor *all, int64_t rows, unsigned below, struct td_err *err)
{
    for (int i = 0; i < sig->n_in; i++) {
        struct td_shape full = shape[i];
        full.dim[0] = rows;
        if (td_tensor_new(&all[i], td_servable_fed_dtype(s, sig, i), &full, err)) {
            return false;
        }
        for (int64_t k = 0; k < td_tensor_count(&all[i]); k++) {
            draw_element(&all[i], k, below);
        }
    }
    return true;
}

/* 1 the same, 0 did not run, -1 differs. */
static int compare(struct td_servable *s, const struct td_signature *sig, const struct td_shape *shape,
                   unsigned below, struct apart_split split)
{
    struct td_tensor all[APART_MOST] = {{0}};
    struct td_err err = {0};
    int verdict = draw_inputs(s, sig, shape, all, split.all, below, &err)
                      ? apart_verdict(td_servable_callable(s, sig), all, sig->n_in, sig->n_out, split, &err)
                      : 0;
    if (verdict == 0) {
        printf("    did not run: %.150s\n", err.msg);
    }
    for (int i = 0; i < sig->n_in; i++) {
        td_tensor_clear(&all[i]);
    }
    return verdict;
}

/* ------------------------------------------------------------------ models */

static void fill_shapes(const struct td_signature *sig, int64_t unknown, struct td_shape *shape)
{
    for (int i = 0; i < sig->n_in; i++) {
        shape[i] = sig->in[i].shape.rank < 0 ? td_shape_of_rank(1) : sig->in[i].shape;
        for (int d = 0; d < shape[i].rank; d++) {
            shape[i].dim[d] = shape[i].dim[d] < 0 ? unknown : shape[i].dim[d];
        }
    }
}

/* Whether it is row-wise. */
static bool check_signature(const char *dir, struct td_servable *s, const struct td_signature *sig,
                            struct tally *t)
{
    static const int64_t sizes[] = {8, 64, 600};
    struct td_shape shape[APART_MOST];
    struct td_batchable rows = {0};
    struct td_err err = {0};
    struct td_callable *f = td_servable_callable(s, sig);
    if (sig->n_in > APART_MOST || sig->n_out > APART_MOST || f == NULL) {
        t->left_out++;
        return false;
    }
    for (int i = 0; i < 3 && !rows.rowwise; i++) {
        fill_shapes(sig, sizes[i], shape);
        if (td_batchable_prove(f, shape, sig->n_in, &rows, &err)) {
            printf("%s %s: %s\n", dir, sig->key, err.msg);
            t->left_out++;
            return false;
        }
    }
    printf("%s %s: %s\n", dir, sig->key, rows.rowwise ? "row-wise" : rows.why);
    t->yes += rows.rowwise;
    t->no += !rows.rowwise;
    int same = 1, ran = 0;
    for (int i = 0; rows.rowwise && i < DRAWS && same >= 0; i++) {
        same = compare(s, sig, shape, i == 0 ? 2 : 4, apart_split_of(&rows));
        ran |= same != 0;
    }
    t->ran += ran;
    if (same < 0) {
        printf("WRONG %s %s\n", dir, sig->key);
        t->wrong++;
    }
    return rows.rowwise;
}

static int float_names(const struct td_tensor_info *info, int n, const char **names)
{
    int count = 0;
    for (int i = 0; i < n && count < APART_MOST; i++) {
        names[count] = info[i].key;
        count += td_dtype_in(info[i].dtype, TD_SET_FLOATS | TD_SET_COMPLEX);
    }
    return count;
}

static void check_gradient(const char *dir, struct td_servable *s, const struct td_signature *sig,
                           struct tally *t)
{
    const char *targets[APART_MOST], *wrt[APART_MOST];
    const struct td_gradient_ask ask = {.targets = targets,
                                        .n_targets = float_names(sig->out, sig->n_out, targets),
                                        .wrt = wrt,
                                        .n_wrt = float_names(sig->in, sig->n_in, wrt)};
    struct td_gradient *g = NULL;
    struct td_err err = {0};
    if (ask.n_targets == 0 || ask.n_wrt == 0) {
        return;
    }
    if (td_gradient_get(s, sig, &ask, NULL, &g, &err)) {
        printf("%s %s: no gradient: %.200s\n", dir, sig->key, err.msg);
        t->left_out++;
        return;
    }
    printf("gradient of ");
    (void)check_signature(dir, s, td_gradient_signature(g), t);
    td_gradient_unref(g);
}

int main(int argc, char **argv)
{
    struct td_op_table *ops = NULL;
    struct tally t = {0};
    struct td_err err = {0};
    if (td_op_table_new(td_op_families, &ops, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    const bool gradients = argc > 1 && strcmp(argv[1], "--gradients") == 0;
    for (int i = gradients ? 2 : 1; i < argc; i++) {
        struct td_servable *s = NULL;
        struct td_servable_opts opts = {.ops = ops, .kernels = TD_KERNELS_REFERENCE};
        err = (struct td_err){0};
        if (td_servable_load("model", 1, argv[i], &opts, &s, &err)) {
            printf("%s: not loaded: %.150s\n", argv[i], err.msg);
            t.left_out++;
            continue;
        }
        const struct td_saved_model *m = td_servable_model(s);
        for (int k = 0; k < m->n_signatures; k++) {
            if (check_signature(argv[i], s, &m->signatures[k], &t) && gradients) {
                check_gradient(argv[i], s, &m->signatures[k], &t);
            }
        }
        td_servable_unref(s);
    }
    td_op_table_free(ops);
    printf("%d signatures row-wise (%d of them ran), %d not, %d wrong\n", t.yes, t.ran, t.no, t.wrong);
    printf("SKIPPED %d signatures that did not run or load\n", t.yes - t.ran + t.left_out);
    return t.wrong != 0;
}
