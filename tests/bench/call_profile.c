/* tests/bench/call_profile.c - the call on libtensord, watched: what each step of the compiled plan takes, by
 * which kernel, beside what the machine gives at most.
 *
 *   build/call_profile DIR CASE [SECONDS [CPU]]        after call.c's line, Markdown; call.h has CASE
 *
 * A step's time is its least over all calls, on one thread; one that calls functions (a loop) has its own
 * time alone, and what it runs, summed over a call, has rows of its own. Operations are counted for
 * products and convolutions (a multiply-add is two; borders as if they were whole), bytes for all steps,
 * each input and output once: what caches keep makes GB/s larger than memory gives. Loops are shown round by
 * round, also where a kernel would run them as a whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/timings.h"
#include "core/graph/attr.h"
#include "core/graph/fused.h"
#include "tests/bench/call_servable.h"
#include "tests/bench/peaks.h"

enum { MOST_ROWS = 4096, MOST_OPEN = 256, SHOWN = 40 };

struct row {
    const struct td_node *node; /* the plan's, which lives as long as the model */
    const char *kernel;
    int64_t ns, least_ns; /* in this call, summed; the least of all calls */
    double flops, bytes;  /* of a call */
    int runs;
};

/* A step that has been seen, until one is whose time holds it. */
struct seen {
    int64_t from_ns, ns;
};

static struct call_servable loaded;
static struct td_err err;
static struct row row[MOST_ROWS];
static int n_rows;
static struct seen open_step[MOST_OPEN];
static int n_open;

/* ------------------------------------------------------------------ what a step does */

static double size_of(const struct td_tensor *t)
{
    return t == NULL || t->dtype == TD_DTYPE_NONE ? 0 : (double)td_tensor_bytes(t);
}

static double last_but(const struct td_tensor *t, int i)
{
    return t->shape.rank > i ? (double)t->shape.dim[t->shape.rank - 1 - i] : 1;
}

/* Of a product or a convolution: two for each element of the result and of what is summed up for it. */
static double flops_of(const struct td_observed *o)
{
    const struct td_node *head = o->node->fused != NULL ? o->node->fused->parts[0].node : o->node;
    const struct td_tensor *x = o->node->n_in > 1 ? o->in[0] : NULL, *w = x == NULL ? NULL : o->in[1];
    if (head->op == NULL || w == NULL || o->n_out < 1) {
        return 0;
    }
    const char *op = head->op->name;
    const double out = (double)td_tensor_count(&o->out[0]);
    if (strcmp(op, "MatMul") == 0) {
        return 2 * out * last_but(x, td_attr_bool(head, "transpose_a") ? 1 : 0);
    }
    if (strncmp(op, "BatchMatMul", 11) == 0) {
        return 2 * out * last_but(x, td_attr_bool(head, "adj_x") ? 1 : 0);
    }
    if (strcmp(op, "Conv2D") == 0 || strcmp(op, "Conv3D") == 0) {
        return 2 * out * (double)td_tensor_count(w) / last_but(w, 0);
    }
    return strcmp(op, "DepthwiseConv2dNative") == 0
               ? 2 * out * (double)td_tensor_count(w) / (last_but(w, 0) * last_but(w, 1))
               : 0;
}

/* What it took without the steps that it called: those that began after it. */
static int64_t own_ns(int64_t ns)
{
    const int64_t from_ns = td_now_ns() - ns;
    int64_t inside = 0;
    while (n_open > 0 && open_step[n_open - 1].from_ns >= from_ns) {
        inside += open_step[--n_open].ns;
    }
    if (n_open == MOST_OPEN) {
        memmove(open_step, open_step + 1, sizeof open_step - sizeof open_step[0]);
        n_open--;
    }
    open_step[n_open++] = (struct seen){from_ns, ns};
    return inside < ns ? ns - inside : 0;
}

static struct row *row_of(const struct td_node *node)
{
    static int last;
    for (int i = 0; i < n_rows; i++) { /* steps come in their order: the next row is mostly it */
        const int at = (last + 1 + i) % n_rows;
        if (row[at].node == node) {
            last = at;
            return &row[at];
        }
    }
    last = n_rows < MOST_ROWS ? n_rows++ : 0;
    row[last] = (struct row){.node = node};
    return &row[last];
}

static void on_step(void *ctx, const struct td_observed *o)
{
    (void)ctx;
    const int64_t ns = own_ns(o->ns);
    struct row *r = row_of(o->node);
    r->kernel = o->kernel;
    r->ns += ns;
    r->runs++;
    r->flops += flops_of(o);
    for (int i = 0; i < o->node->n_in; i++) {
        r->bytes += size_of(o->in[i]);
    }
    for (int i = 0; i < o->n_out; i++) {
        r->bytes += size_of(&o->out[i]);
    }
}

/* ------------------------------------------------------------------ the table */

static int longest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->least_ns < y->least_ns ? 1 : x->least_ns > y->least_ns ? -1 : 0;
}

static void print_row(const char *step, const char *kernel, const struct row *r, double all_ns)
{
    const double ns = r->least_ns > 0 ? (double)r->least_ns : 1;
    printf("| %s | %s | %d | %.1f us | %.1f %% | ", step, kernel, r->runs, ns / 1e3, 100 * ns / all_ns);
    if (r->flops > 0) {
        printf("%.1f", r->flops / ns);
    }
    printf(" | %.1f |\n", r->bytes / ns);
}

/* By kernel, into k: how many. */
static int by_kernel(struct row *k)
{
    int n = 0;
    for (int i = 0; i < n_rows; i++) {
        int at = 0;
        while (at < n && strcmp(k[at].kernel, row[i].kernel) != 0) {
            at++;
        }
        n += at == n;
        k[at].kernel = row[i].kernel;
        k[at].least_ns += row[i].least_ns;
        k[at].runs += row[i].runs;
        k[at].flops += row[i].flops;
        k[at].bytes += row[i].bytes;
    }
    return n;
}

static void print_all(void)
{
    static struct row kernel[MOST_ROWS];
    const int n_kernels = by_kernel(kernel);
    double all_ns = 1;
    for (int i = 0; i < n_rows; i++) {
        all_ns += (double)row[i].least_ns;
    }
    qsort(row, (size_t)n_rows, sizeof *row, longest_first);
    qsort(kernel, (size_t)n_kernels, sizeof *kernel, longest_first);
    printf("\none core at most: %.0f GFLOP/s; reading 1 MiB %.0f GB/s, 256 MiB %.0f GB/s\n",
           bench_peak_flops(), bench_peak_read(1 << 20), bench_peak_read(256 << 20));
    printf("%d steps, %.1f us when each takes its least\n\n", n_rows, all_ns / 1e3);
    printf("| step | kernel | runs | time | share | GFLOP/s | GB/s |\n"
           "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (int i = 0; i < n_kernels; i++) {
        print_row("all of the kernel", kernel[i].kernel, &kernel[i], all_ns);
    }
    for (int i = 0; i < n_rows && i < SHOWN; i++) {
        print_row(row[i].node->name, row[i].kernel, &row[i], all_ns);
    }
}

/* ------------------------------------------------------------------ call.c's backend */

const char *bench_load(const char *dir, const struct bench_case *c)
{
    (void)atexit(print_all);
    return call_servable_load(dir, c, &loaded, &err) ? err.msg : NULL;
}

const char *bench_run(FILE *to)
{
    static const struct td_run_opts watched = {.observe = on_step};
    (void)to;
    for (int i = 0; i < n_rows; i++) {
        row[i].ns = row[i].runs = 0;
        row[i].flops = row[i].bytes = 0;
    }
    n_open = 0;
    if (call_servable_run(&loaded, &watched, &err)) {
        return err.msg;
    }
    for (int i = 0; i < n_rows; i++) {
        const int64_t ns = row[i].ns;
        row[i].least_ns = row[i].least_ns == 0 || ns < row[i].least_ns ? ns : row[i].least_ns;
    }
    return NULL;
}
