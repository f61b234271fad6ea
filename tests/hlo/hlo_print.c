/* tests/hlo/hlo_print.c - prints what td_hlo_read makes of an artifact, for tests/hlo/compare.py.
 *
 *   hlo_print FILE    a line for each function, block and operation; 1 and the error where it cannot be read
 *
 * An operation: its results' numbers, name, operands' numbers, attributes in the order of their names,
 * types. A dense tensor: its type and its bytes in hex, of one element where it stands for all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/bytes/file.h"
#include "proto/stablehlo/hlo_read.h"

static void print_type(const struct td_hlo_type *t)
{
    static const char *const kinds[] = {"tensor", "tuple", "token", "function", "none", "other"};
    if (t->kind != TD_HLO_TENSOR) {
        printf("%s(", kinds[t->kind]);
        for (int i = 0; i < t->n_parts; i++) {
            print_type(&t->parts[i]);
        }
        printf(")");
        return;
    }
    printf("%s%s", t->unsupported != NULL ? t->unsupported : td_dtype_name(t->dtype),
           TD_SHAPE_STR(&t->shape));
}

static void print_bytes(struct td_bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        printf("%02x", (unsigned char)b.p[i]);
    }
}

/* Booleans that are no splat: what lies in the last byte above them is anything. */
static void print_dense(const struct td_hlo_attr *a)
{
    print_type(&a->type);
    printf(a->splat ? "*" : ":");
    int used = a->type.dtype == TD_BOOL && !a->splat ? (int)(td_shape_count(&a->type.shape) % 8) : 0;
    if (used == 0) {
        print_bytes(a->raw);
        return;
    }
    print_bytes((struct td_bytes){a->raw.p, a->raw.len - 1});
    printf("%02x", (unsigned char)a->raw.p[a->raw.len - 1] & ((1 << used) - 1));
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct td_hlo_attr *const *)a)->name,
                  (*(const struct td_hlo_attr *const *)b)->name);
}

static void print_attrs(const struct td_hlo_attr *attrs, int n);

static void print_attr(const struct td_hlo_attr *a)
{
    switch (a->kind) {
    case TD_HLO_INT:
        printf("%lld", (long long)a->i);
        return;
    case TD_HLO_FLOAT:
        printf("%.17g", a->f);
        return;
    case TD_HLO_BOOL:
        printf(a->i ? "true" : "false");
        return;
    case TD_HLO_STRING:
        printf("'");
        print_bytes(a->str);
        printf("'");
        return;
    case TD_HLO_ARRAY:
        printf("[");
        for (int i = 0; i < a->n; i++) {
            printf(i > 0 ? "," : "");
            print_attr(&a->items[i]);
        }
        printf("]");
        return;
    case TD_HLO_DICT:
        print_attrs(a->items, a->n);
        return;
    case TD_HLO_DENSE:
        print_dense(a);
        return;
    case TD_HLO_TYPE:
        print_type(&a->type);
        return;
    case TD_HLO_UNIT:
        printf("unit");
    }
}

static void print_attrs(const struct td_hlo_attr *attrs, int n)
{
    const struct td_hlo_attr **sorted = calloc((size_t)n + 1, sizeof *sorted);
    if (sorted == NULL) {
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        sorted[i] = &attrs[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    printf("{");
    for (int i = 0; i < n; i++) {
        printf("%s%s=", i > 0 ? " " : "", sorted[i]->name);
        print_attr(sorted[i]);
    }
    printf("}");
    free(sorted);
}

static void print_values(const struct td_hlo_value *const *values, int n)
{
    printf("(");
    for (int i = 0; i < n; i++) {
        printf("%s%d:", i > 0 ? " " : "", values[i]->id);
        print_type(&values[i]->type);
    }
    printf(")");
}

static void print_block(const struct td_hlo_block *b, int depth)
{
    printf("%*sblock ", depth, "");
    print_values(b->args, b->n_args);
    printf("\n");
    for (int i = 0; i < b->n_ops; i++) {
        const struct td_hlo_op *op = b->ops[i];
        printf("%*s%s ", depth + 1, "", op->name);
        print_values(op->out, op->n_out);
        print_values(op->in, op->n_in);
        print_attrs(op->attrs, op->n_attrs);
        printf("\n");
        for (int k = 0; k < op->n_regions; k++) {
            print_block(&op->regions[k], depth + 2);
        }
    }
}

int main(int argc, char **argv)
{
    struct td_err err = {0};
    struct td_hlo_module m;
    struct td_arena *a = td_arena_new((size_t)1 << 30);
    char *bytes;
    size_t n;
    if (argc != 2 || a == NULL || td_file_read(argv[1], (size_t)1 << 30, &bytes, &n, &err) ||
        td_hlo_read(a, (struct td_bytes){bytes, n}, &m, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("version %s\n", m.version);
    for (int i = 0; i < m.n_functions; i++) {
        const struct td_hlo_function *f = &m.functions[i];
        printf("%s %s %d values ->", f->is_private ? "private" : "public", f->name, f->n_values);
        for (int k = 0; k < f->n_results; k++) {
            printf(" ");
            print_type(&f->results[k]);
        }
        printf("\n");
        print_block(&f->body, 1);
    }
    td_arena_free(a);
    td_free(bytes);
    return 0;
}
