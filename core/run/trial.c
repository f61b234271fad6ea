/* core/run/trial.c - kernels that compete run a few times each on inputs made up for the query, and the
 * shortest time wins.
 *
 * Times are looked up by name first; only when one is missing are all of them tried, the first run of each
 * not counted, and what they took is noted. Inputs that are constants are used as they are; the others are
 * filled with small numbers of both signs, so that nothing overflows or becomes denormal; operands of
 * epilogues are zeros. A kernel's name in the memory of times is
 *
 *   MatMul{5f2c..} float[8,256] float[256,64] > float[8,64] +2 matmul.dnnl
 *
 * the number standing for the node's attributes, +2 for epilogues taken (+2 of 3: on a device, where another
 * kernel takes all three); a kernel that wants a weight swapped has a word more. A device has a number of its
 * own there. When a kernel fails, or there is no memory, the first in order is taken. A kernel runs here with
 * what prepare left and nothing else (td_lone_launch), on this thread.
 *
 * Does not: prepare kernels, or let go of those that lost (core/run/select.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/timings.h"
#include "core/run/lone.h"
#include "core/run/trial_there.h"

enum { MOST_INPUTS = TD_TRIAL_INPUTS, MOST_BYTES = 256 << 20, RUNS = 5 };

/* ------------------------------------------------------------------ names */

struct text {
    char s[TD_TIMING_NAME + 1];
    size_t n;
};

static void put(struct text *t, const char *words)
{
    const int put_now = snprintf(t->s + t->n, sizeof t->s - t->n, "%s", words);
    t->n += put_now > 0 && t->n + (size_t)put_now < sizeof t->s ? (size_t)put_now : sizeof t->s - 1 - t->n;
}

static enum td_dtype input_type(const struct td_node *n, int i)
{
    return n->in[i].node->out_type[n->in[i].port];
}

static void put_tensor(struct text *t, enum td_dtype dtype, const struct td_shape *shape)
{
    put(t, " ");
    put(t, td_dtype_name(dtype));
    put(t, TD_SHAPE_STR(shape));
}

static uint64_t attrs_sum(const struct td_node *n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int a = 0; a < n->n_attrs; a++) {
        const char *name = n->attrs[a].name;
        int count;
        h = td_hash_more(h, name, strlen(name) + 1);
        const int64_t *ints = td_attr_ints(n, name, &count);
        h = td_hash_more(h, ints, count > 0 ? (size_t)count * sizeof *ints : 0);
        const bool *bools = td_attr_bools(n, name, &count);
        h = td_hash_more(h, bools, count > 0 ? (size_t)count * sizeof *bools : 0);
        const struct td_bytes *strs = td_attr_strs(n, name, &count);
        for (int i = 0; i < count; i++) {
            h = td_hash_more(h, strs[i].p, strs[i].len);
        }
    }
    return h;
}

/* Everything but the kernel. False: too long to be remembered. */
static bool put_query(struct text *t, const struct td_kernel_query *q)
{
    char attrs[32];
    *t = (struct text){.n = 0};
    const char *machine = q->target.device == NULL ? NULL : q->target.device->machine;
    snprintf(attrs, sizeof attrs, "{%016" PRIx64 "}", attrs_sum(q->node));
    put(t, q->node->op_name);
    put(t, attrs);
    for (int i = 0; i < q->n_in; i++) {
        put_tensor(t, input_type(q->node, i), &q->in[i]);
    }
    put(t, " >");
    for (int i = 0; i < q->n_out; i++) {
        put_tensor(t, q->node->out_type[i], &q->out[i]);
    }
    if (machine != NULL) {
        snprintf(attrs, sizeof attrs, " on{%016" PRIx64 "}", td_hash_more(0, machine, strlen(machine)));
        put(t, attrs);
    }
    return t->n + 64 < TD_TIMING_NAME && (q->target.device == NULL || machine != NULL);
}

/* Inputs that will be the same bytes from run to run: constants, and what variables hold. */
static uint32_t weights_of(const struct td_kernel_query *q)
{
    const uint32_t snapshot = TD_OP_READS | TD_OP_FREE;
    uint32_t weights = 0;
    for (int i = 0; i < q->n_in && i < 32; i++) {
        const bool read = (td_node_flags(q->node->in[i].node) & snapshot) == snapshot;
        weights |= q->value[i] != NULL || read ? UINT32_C(1) << i : 0;
    }
    return weights;
}

/* most: epilogues that a kernel beside it takes, where that counts. */
static struct text name_of(const struct text *query, const struct td_kernel_query *q,
                           const struct td_choice *c, int most)
{
    struct text t = *query;
    char taken[40];
    snprintf(taken, sizeof taken, " +%d ", c->offer.n_posts);
    put(&t, taken);
    if (c->offer.n_posts < most) {
        snprintf(taken, sizeof taken, "of %d ", most);
        put(&t, taken);
    }
    put(&t, c->kernel->name);
    if (c->offer.swapped != 0) {
        put(&t, (c->offer.swapped & weights_of(q)) != 0 ? " swapped" : " swaps");
    }
    return t;
}

/* ------------------------------------------------------------------ running */

struct stage {
    struct td_tensor in[MOST_INPUTS], out;
    struct td_buffer *operands; /* zeros, enough for any epilogue */
    const float *post_in[TD_KERNEL_MOST];
    size_t bytes;
};

static bool make(struct stage *s, enum td_dtype dtype, const struct td_shape *shape, struct td_tensor *t)
{
    struct td_err ignored = {0};
    const int64_t count = td_shape_known(shape) ? td_shape_count(shape) : -1;
    size_t bytes;
    if (count < 0 || td_dtype_is_object(dtype) || !td_size_mul((size_t)count, td_dtype_size(dtype), &bytes) ||
        (s->bytes += bytes) > MOST_BYTES) {
        return false;
    }
    return td_tensor_new(t, dtype, shape, &ignored) == TD_OK;
}

static void fill(struct td_tensor *t)
{
    memset(t->data, 0, td_tensor_bytes(t));
    for (int64_t i = 0; t->dtype == TD_FLOAT && i < td_tensor_count(t); i++) {
        TD_DATA(t, float)[i] = (float)(i * 37 % 101) / 50 - 1;
    }
    for (int64_t i = 0; t->dtype == TD_DOUBLE && i < td_tensor_count(t); i++) {
        TD_DATA(t, double)[i] = (double)(i * 37 % 101) / 50 - 1;
    }
}

static bool set(struct stage *s, const struct td_kernel_query *q)
{
    struct td_err ignored = {0};
    *s = (struct stage){.bytes = 0};
    bool ok = q->n_in <= MOST_INPUTS && q->n_out == 1 && q->n_post <= TD_KERNEL_MOST;
    for (int i = 0; ok && i < q->n_in; i++) {
        if (q->value[i] != NULL) {
            td_tensor_ref(&s->in[i], q->value[i]);
        } else if ((ok = make(s, input_type(q->node, i), &q->in[i], &s->in[i]))) {
            fill(&s->in[i]);
        }
    }
    ok = ok && make(s, q->node->out_type[0], &q->out[0], &s->out);
    if (ok && q->n_post > 0) { /* AFFINE takes two floats a channel, of which the output may have one row */
        ok = td_buffer_new(2 * td_tensor_bytes(&s->out) + 64, true, &s->operands, &ignored) == TD_OK;
        for (int i = 0; ok && i < q->n_post; i++) {
            s->post_in[i] = s->operands->data;
        }
    }
    return ok;
}

static void clear(struct stage *s, int n_in)
{
    for (int i = 0; i < n_in && i < MOST_INPUTS; i++) {
        td_tensor_clear(&s->in[i]);
    }
    td_tensor_clear(&s->out);
    td_buffer_unref(s->operands);
}

/* The shortest of a few runs, the first not counted; 0: it failed. */
static int64_t time_kernel(const struct td_kernel_query *q, const struct td_choice *c, const struct stage *s,
                           int64_t until_ns)
{
    struct td_err ignored = {0};
    struct td_buffer *room = NULL;
    if (c->offer.workspace_bytes > 0 && td_buffer_new(c->offer.workspace_bytes, false, &room, &ignored)) {
        return 0;
    }
    const struct td_launch l = {.node = q->node,
                                .kernel = c->kernel,
                                .state = c->offer.state,
                                .workspace = room == NULL ? NULL : room->data,
                                .workspace_bytes = c->offer.workspace_bytes,
                                .post_in = s->post_in,
                                .in = s->in,
                                .out = &s->out,
                                .n_in = q->n_in,
                                .n_out = 1};
    int64_t best_ns = 0, from_ns = td_now_ns();
    for (int i = 0; i < RUNS && (i < 2 || from_ns < until_ns); i++) {
        if (td_lone_launch(&l, &ignored)) {
            best_ns = 0;
            break;
        }
        const int64_t now_ns = td_now_ns(), took_ns = now_ns - from_ns > 0 ? now_ns - from_ns : 1;
        best_ns = i > 0 && (best_ns == 0 || took_ns < best_ns) ? took_ns : best_ns;
        from_ns = now_ns;
    }
    td_buffer_unref(room);
    return best_ns;
}

static void time_on_host(const struct td_kernel_query *q, const struct td_choice *rival, int n,
                         const struct stage *s, int64_t *ns)
{
    const int64_t from_ns = td_now_ns();
    for (int i = 0; i < n; i++) {
        ns[i] = time_kernel(q, &rival[i], s, from_ns + q->target.trial_ns * (i + 1) / n);
    }
}

/* What one takes that leaves nothing behind it, where others do; 0: all leave something, or none does. */
static int most_posts(const struct td_kernel_query *q, const struct td_choice *rival, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++) {
        most = rival[i].offer.n_posts > most ? rival[i].offer.n_posts : most;
    }
    return q->target.device != NULL && !q->leaves && most == q->n_post ? most : 0;
}

static void time_on_device(const struct td_kernel_query *q, const struct td_choice *rival, int n,
                           const struct stage *s, int64_t *ns)
{
    struct td_trial_there there;
    struct td_err ignored = {0};
    const bool open = td_trial_there_open(&there, q, s->in, weights_of(q), &ignored) == TD_OK;
    const int most = most_posts(q, rival, n);
    const int64_t from_ns = td_now_ns();
    for (int i = 0; i < n && open; i++) {
        ns[i] = td_trial_there_time(&there, &rival[i], rival[i].offer.n_posts < most,
                                    from_ns + q->target.trial_ns * (i + 1) / n);
    }
    td_trial_there_close(&there);
}

/* Zeros where it could not be tried. */
static void time_all(const struct td_kernel_query *q, const struct td_choice *rival, int n, int64_t *ns)
{
    struct stage s;
    memset(ns, 0, (size_t)n * sizeof *ns);
    if (set(&s, q)) {
        (q->target.device == NULL ? time_on_host : time_on_device)(q, rival, n, &s, ns);
    }
    clear(&s, q->n_in);
}

/* ------------------------------------------------------------------ the choice */

static int fastest(const int64_t *ns, int n)
{
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (ns[i] == 0) {
            return 0;
        }
        best = ns[i] < ns[best] ? i : best;
    }
    return best;
}

int td_trial_choose(const struct td_kernel_query *q, const struct td_choice *rival, int n)
{
    struct text query;
    int64_t ns[TD_TRIAL_MOST];
    bool known = true;
    const int most = most_posts(q, rival, n);
    struct td_timings *memory = put_query(&query, q) ? q->target.timings : NULL;
    for (int i = 0; i < n; i++) {
        const struct text name = name_of(&query, q, &rival[i], most);
        ns[i] = memory == NULL ? 0 : td_timings_find(memory, name.s);
        known = known && ns[i] > 0;
    }
    if (!known) {
        time_all(q, rival, n, ns);
    }
    for (int i = 0; i < n && !known && memory != NULL; i++) {
        td_timings_note(memory, name_of(&query, q, &rival[i], most).s, ns[i]);
    }
    return fastest(ns, n);
}
