/* tests/property/rows_check.c - holds the analysis of core/rows.c against models: every signature that it
 * calls row-wise is run on random rows together and apart, and the answers must be the same.
 *
 *   rows_check DIR...     version directories of SavedModels; prints a line a signature, exits with 1 on a
 * wrong "yes"
 *
 * Unknown inner dimensions are taken as 8. Answers may differ by rounding: kernels choose another order of
 * summing for another number of rows. A signature that cannot run on such inputs (an index out of range) is
 * counted as not run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rows.h"
#include "kernels/ops.h"
#include "server/servable_run.h"

enum { UNKNOWN_DIM = 8, MAX_IO = 64, DRAWS = 3, FIRST = 3, ROWS = 7 };

struct tally {
    int yes, no, ran, wrong;
};

static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* ------------------------------------------------------------------ inputs */

static void draw_element(struct td_tensor *t, int64_t i)
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
                (unsigned char)(draw() % (t->dtype == TD_BOOL ? 2 : 4));
        }
    }
}

static bool draw_inputs(struct td_servable *s, const struct td_signature *sig, const struct td_shape *shape,
                        struct td_named *all, struct td_err *err)
{
    for (int i = 0; i < sig->n_in; i++) {
        struct td_shape full = shape[i];
        full.dim[0] = ROWS;
        all[i].name = sig->in[i].key;
        if (td_tensor_new(&all[i].t, td_servable_fed_dtype(s, sig, i), &full, err)) {
            return false;
        }
        for (int64_t k = 0; k < td_tensor_count(&all[i].t); k++) {
            draw_element(&all[i].t, k);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ together and apart */

static bool run(struct td_servable *s, const struct td_signature *sig, const struct td_named *all, int from,
                int to, struct td_named *out, struct td_err *err)
{
    struct td_named part[MAX_IO] = {{0}};
    struct td_servable_call call = {.sig = sig, .in = part, .n_in = sig->n_in};
    int n = 0;
    for (int i = 0; i < sig->n_in; i++) {
        part[i].name = all[i].name;
        td_tensor_rows(&part[i].t, &all[i].t, from, to);
    }
    bool ok = td_servable_run(s, &call, out, &n, err) == TD_OK;
    for (int i = 0; i < sig->n_in; i++) {
        td_tensor_clear(&part[i].t);
    }
    return ok;
}

static double number(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_FLOAT ? (double)TD_DATA(t, float)[i] : TD_DATA(t, double)[i];
}

/* slack: what rounding may do to numbers as large as the output's largest. */
static bool same_element(const struct td_tensor *a, int64_t i, const struct td_tensor *b, int64_t k,
                         double slack)
{
    size_t size = td_dtype_size(a->dtype), la, lb;
    if (a->dtype == TD_STRING) {
        const char *x = td_tensor_str(a, i, &la), *y = td_tensor_str(b, k, &lb);
        return la == lb && memcmp(x, y, la) == 0;
    }
    if (a->dtype != TD_FLOAT && a->dtype != TD_DOUBLE) {
        return a->dtype == TD_HALF || a->dtype == TD_BFLOAT16 ||
               memcmp((char *)a->data + (size_t)i * size, (char *)b->data + (size_t)k * size, size) == 0;
    }
    double x = number(a, i), y = number(b, k);
    return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= slack;
}

static double rounding(const struct td_tensor *t)
{
    double most = 0.1;
    for (int64_t i = 0; (t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE) && i < td_tensor_count(t); i++) {
        most = fmax(most, isfinite(number(t, i)) ? fabs(number(t, i)) : 0);
    }
    return most * 1e-5;
}

/* Whether part is rows [from, ..) of whole. */
static bool same_rows(const struct td_tensor *whole, const struct td_tensor *part, int64_t from)
{
    if (whole->shape.rank < 1 || part->shape.rank != whole->shape.rank || whole->shape.dim[0] != ROWS ||
        part->shape.dim[0] != (from == 0 ? FIRST : ROWS - FIRST)) {
        return false;
    }
    int64_t row = td_tensor_count(whole) / ROWS;
    double slack = rounding(whole);
    for (int64_t k = 0; k < td_tensor_count(part); k++) {
        if (td_tensor_count(part) != row * part->shape.dim[0] ||
            !same_element(whole, from * row + k, part, k, slack)) {
            return false;
        }
    }
    return true;
}

static void clear(struct td_named *list)
{
    for (int i = 0; i < MAX_IO; i++) {
        td_tensor_clear(&list[i].t);
    }
}

/* 1 the same, 0 did not run, -1 differs. */
static int compare(struct td_servable *s, const struct td_signature *sig, const struct td_shape *shape)
{
    struct td_named all[MAX_IO] = {{0}}, out[3][MAX_IO] = {{{0}}};
    struct td_err err = {0};
    int verdict = draw_inputs(s, sig, shape, all, &err) && run(s, sig, all, 0, ROWS, out[0], &err) &&
                  run(s, sig, all, 0, FIRST, out[1], &err) && run(s, sig, all, FIRST, ROWS, out[2], &err);
    for (int i = 0; verdict == 1 && i < sig->n_out; i++) {
        if (!same_rows(&out[0][i].t, &out[1][i].t, 0) || !same_rows(&out[0][i].t, &out[2][i].t, FIRST)) {
            printf("    output '%s' differs\n", sig->out[i].key);
            verdict = -1;
        }
    }
    if (verdict == 0) {
        printf("    did not run: %.150s\n", err.msg);
    }
    clear(all);
    for (int i = 0; i < 3; i++) {
        clear(out[i]);
    }
    return verdict;
}

/* ------------------------------------------------------------------ models */

static void check_signature(const char *dir, struct td_servable *s, const struct td_signature *sig,
                            struct tally *t)
{
    struct td_shape shape[MAX_IO];
    struct td_rows rows = {0};
    struct td_err err = {0};
    for (int i = 0; i < sig->n_in && i < MAX_IO; i++) {
        shape[i] = sig->in[i].shape;
        if (shape[i].rank < 0) {
            shape[i] = td_shape_of_rank(2);
        }
        for (int d = 0; d < shape[i].rank; d++) {
            shape[i].dim[d] = shape[i].dim[d] < 0 ? UNKNOWN_DIM : shape[i].dim[d];
        }
    }
    if (sig->n_in > MAX_IO || sig->n_out > MAX_IO || td_servable_callable(s, sig) == NULL) {
        return;
    }
    if (td_callable_rows(td_servable_callable(s, sig), shape, sig->n_in, &rows, &err)) {
        printf("%s %s: %s\n", dir, sig->key, err.msg);
        return;
    }
    printf("%s %s: %s\n", dir, sig->key, rows.rowwise ? "row-wise" : rows.why);
    t->yes += rows.rowwise;
    t->no += !rows.rowwise;
    int same = 1, ran = 0;
    for (int i = 0; rows.rowwise && i < DRAWS && same >= 0; i++) {
        same = compare(s, sig, shape);
        ran |= same != 0;
    }
    t->ran += ran;
    if (same < 0) {
        printf("WRONG %s %s\n", dir, sig->key);
        t->wrong++;
    }
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
    for (int i = 1; i < argc; i++) {
        struct td_servable *s = NULL;
        struct td_servable_opts opts = {.ops = ops};
        err = (struct td_err){0};
        if (td_servable_load("model", 1, argv[i], &opts, &s, &err)) {
            printf("%s: not loaded: %.150s\n", argv[i], err.msg);
            continue;
        }
        const struct td_saved_model *m = td_servable_model(s);
        for (int k = 0; k < m->n_signatures; k++) {
            check_signature(argv[i], s, &m->signatures[k], &t);
        }
        td_servable_unref(s);
    }
    td_op_table_free(ops);
    printf("%d signatures row-wise (%d of them ran), %d not, %d wrong\n", t.yes, t.ran, t.no, t.wrong);
    return t.wrong != 0;
}
