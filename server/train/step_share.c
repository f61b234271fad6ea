/* server/train/step_share.c - a step that several processes run, each on its share of the batch.
 *
 *   number   what is summed over them (core/base/collective.h)                    when it is begun
 *   0 ..     what losses need to know of a whole batch (weights, ignored places)   first of all
 *   n        losses, sums of metrics, how many are to stop: one vector             behind the forward pass
 *   n + 1 .. gradients, in the order in which they are made                        as soon as they are
 *
 * A loss's number here is this process's part of the batch's, so gradients add up. Penalties do not depend on
 * rows: each process computes them, and their gradients are added to the sums. From there on, all compute the
 * same: total, check, clipping, update.
 *
 * Sums are begun by roots that are listed first, so that they are under way while the backward pass goes on,
 * and ended where they are used, which is behind all of that: by the check and by the updates.
 *
 * A run that fails in one process fails in all:
 *
 *   the one that fails      adds what it has not added: losses that are no numbers, and the word to stop
 *   the others, training    their check fails, and all count how many had a reason of their own
 *   the others, evaluating  read the word
 *
 * They hear nothing when that one's losses were added already, in order: then it is lost, and the whole job
 * has to be ended from outside (td_ranks_abort).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/collective.h"
#include "core/base/mem.h"
#include "kernels/formula/formula.h"
#include "kernels/train/metrics.h"
#include "server/train/step_graph.h"

static struct td_value told(struct td_step_graph *k, struct td_emitter *e, enum td_step_share_field field)
{
    return td_f_cast(e, td_f_element(e, k->share, field), TD_FLOAT);
}

enum td_code td_step_add_share(struct td_step_graph *k)
{
    if (!k->s->several) {
        return TD_OK;
    }
    if (k->s->layout->whole_batches) {
        return TD_FAULT(k->f, "invalid_value", "tensord.signature",
                        "signature '%.100s' fixes how many rows a batch has: processes cannot share it",
                        k->sig->key);
    }
    if (k->s->spec->training_form) {
        return TD_FAULT(
            k->f, "invalid_value", "tensord.training",
            "tensord.training: what the training form computes of a whole batch cannot be shared by "
            "several processes");
    }
    TD_TRY(td_fault_of(k->f, td_extend_feed(&k->x, "share", TD_INT32, &k->share, &k->f->err), "server_error",
                       NULL));
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    const struct td_node at = {.name = "share", .function = ""};
    e.at = &at;
    k->own.counts = told(k, &e, TD_SHARE_COUNTS);
    k->own.times = td_f_div(&e, told(k, &e, TD_SHARE_ALL), told(k, &e, TD_SHARE_ROWS));
    return td_fault_of(k->f, td_emit_close(&e), "server_error", NULL);
}

/* The sum of x over all processes, whose number is the next one. */
static struct td_value summed(struct td_step_graph *k, struct td_emitter *e, struct td_value x,
                              const struct td_shape *shape, bool at_once)
{
    k->s->sum[k->own.n_sums] = (struct td_sum){
        .number = k->own.n_sums, .at_once = at_once, .dtype = td_dtype_of(x), .n = td_shape_count(shape)};
    k->s->n_shared = k->evaluates ? k->s->n_shared : k->own.n_sums + 1;
    const struct td_attr end[] = {
        TD_ATTR_OF_TYPE("T", td_dtype_of(x)),
        {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = (struct td_shape *)shape}};
    const int number = k->own.n_sums++;
    const struct td_value ticket =
        td_emit(e, "_SumBegin", TD_IN(x),
                TD_ATTRS(TD_ATTR_OF_INT("number", number), TD_ATTR_OF_BOOL("at_once", at_once)));
    return td_emit(e, "_SumEnd", TD_IN(ticket), end, (int)(sizeof end / sizeof *end));
}

/* ------------------------------------------------------------------ what is drawn */

static struct td_value as_vector(struct td_emitter *e, struct td_value scalar)
{
    return td_f_reshape(e, scalar, td_f_ints(e, 1));
}

static struct td_value without_first(struct td_emitter *e, struct td_value vector)
{
    return td_f_slice(e, vector, td_f_ints(e, 1), td_f_ints(e, -1));
}

struct td_value td_step_share_whole(struct td_step_graph *k, struct td_emitter *e, struct td_value shape)
{
    if (!k->s->several) {
        return shape;
    }
    const struct td_value rows = as_vector(e, td_f_element(e, k->share, TD_SHARE_ALL));
    return td_f_concat(e, TD_IN(rows, without_first(e, shape)), 0);
}

struct td_value td_step_share_rows(struct td_step_graph *k, struct td_emitter *e, struct td_value x,
                                   struct td_value shape)
{
    if (!k->s->several) {
        return x;
    }
    const struct td_value first = as_vector(e, td_f_element(e, k->share, TD_SHARE_FIRST));
    const struct td_value zeros = td_f_zeros_like(e, without_first(e, shape));
    return td_f_slice(e, x, td_f_concat(e, TD_IN(first, zeros), 0), shape);
}

/* ------------------------------------------------------------------ losses and metrics */

/* Sums of metric i as the job's rows have them. */
static int n_sums(const struct td_step_graph *k, int i)
{
    const struct td_row_use *use = &k->s->layout->metric[i];
    return td_metric_find(k->s->spec->metric[i].name, use->classes, use->last_dim)->n_sums;
}

/* All of them as one vector of *n. */
static struct td_value join(struct td_step_graph *k, struct td_emitter *e, int64_t *n)
{
    const struct td_job_spec *spec = k->s->spec;
    struct td_value *part = td_extend_room(&k->x, spec->n_losses + spec->n_metrics + 1, sizeof *part);
    if (part == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a training step");
    }
    const struct td_value flat = td_f_ints(e, -1);
    int parts = 0;
    for (int i = 0; i < spec->n_losses; i++) {
        part[parts++] = td_f_reshape(e, k->loss[i], flat);
    }
    for (int i = 0; i < spec->n_metrics; i++) {
        part[parts++] = td_f_mul(e, td_f_reshape(e, k->sums[i], flat), k->own.counts);
        *n += n_sums(k, i);
    }
    part[parts++] = td_f_reshape(e, told(k, e, TD_SHARE_STOP), flat);
    *n += spec->n_losses + 1;
    return td_f_concat(e, part, parts, 0);
}

static void take_apart(struct td_step_graph *k, struct td_emitter *e, struct td_value all)
{
    const struct td_job_spec *spec = k->s->spec;
    int64_t at = 0;
    k->data_loss = td_no_value;
    for (int i = 0; i < spec->n_losses; i++) {
        k->loss[i] = td_f_element(e, all, at++);
        const struct td_value part =
            spec->loss[i].weight == 1 ? k->loss[i] : td_f_scale(e, k->loss[i], spec->loss[i].weight);
        k->data_loss = k->data_loss.node == NULL ? part : td_f_add(e, k->data_loss, part);
    }
    for (int i = 0; i < spec->n_metrics; i++) {
        const int n = n_sums(k, i);
        k->sums[i] = td_f_part(e, all, at, n);
        at += n;
    }
    k->stops = td_f_element(e, all, at);
}

enum td_code td_step_share_numbers(struct td_step_graph *k)
{
    if (!k->s->several) {
        return TD_OK;
    }
    struct td_step *s = k->s;
    s->sum = k->evaluates ? s->sum : td_step_room(s, k->own.n_sums + 1 + k->n_trained, sizeof *s->sum);
    if (s->sum == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < k->own.n_sums; i++) { /* those of losses */
        s->sum[i] = (struct td_sum){.number = i, .at_once = true, .dtype = TD_FLOAT, .n = 1};
    }
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    const struct td_node at = {.name = "numbers", .function = ""};
    int64_t n = 0;
    e.at = &at;
    const struct td_value mine = join(k, &e, &n);
    const struct td_shape shape = td_shape_vector(n);
    take_apart(k, &e, summed(k, &e, mine, &shape, true));
    k->s->n_numbers = k->own.n_sums;
    return td_fault_of(k->f, td_emit_close(&e), "server_error", NULL);
}

/* ------------------------------------------------------------------ gradients */

struct td_value td_step_share_gradient(struct td_step_graph *k, struct td_emitter *e,
                                       const struct td_step_trained *v, bool last)
{
    return k->s->several ? summed(k, e, v->g, &v->c->shape, last) : v->g;
}

int td_step_list_sums(const struct td_step_graph *k, enum td_step_run_kind kind, struct td_node **out)
{
    const int n = kind == TD_RUN_EVALUATE ? k->s->n_numbers : k->own.n_sums;
    for (int i = 0; n > 0 && i < k->x.ir.n_nodes; i++) {
        struct td_node *node = k->x.ir.nodes[i];
        const bool begins = strcmp(node->op_name, "_SumNow") == 0 || strcmp(node->op_name, "_SumBegin") == 0;
        const int64_t number = begins ? td_attr_int(node, "number") : n;
        if (number < n) {
            out[number] = node;
        }
    }
    return n;
}

/* ------------------------------------------------------------------ a run that fails in one of them */

/* Adds sum i as zeros, or as what stops the others; room for all of it. */
static enum td_code add_nothing(struct td_step *s, int i, float *room, struct td_err *err)
{
    const struct td_collective *all = td_collective();
    const struct td_sum *sum = &s->sum[i];
    const bool tells = i == s->n_numbers - 1;
    memset(room, 0, (size_t)sum->n * td_dtype_size(sum->dtype));
    for (int k = 0; tells && k < s->spec->n_losses; k++) {
        room[k] = NAN;
    }
    if (tells) {
        room[sum->n - 1] = 1;
    }
    return all->added(all->ctx, i) ? TD_OK : all->add(all->ctx, sum, room, err);
}

/* Sums [0, n) of this run are added, and done with. */
static enum td_code complete(struct td_step *s, int n, struct td_err *err)
{
    const struct td_collective *all = td_collective();
    int64_t most = 1;
    for (int i = 0; i < n; i++) {
        most = s->sum[i].n > most ? s->sum[i].n : most;
    }
    float *room = td_calloc((size_t)most, sizeof(double));
    enum td_code rc = room == NULL ? td_no_memory(err, (size_t)most, "a sum over processes") : TD_OK;
    for (int i = 0; rc == TD_OK && i < n; i++) {
        rc = add_nothing(s, i, room, err);
    }
    td_free(room);
    TD_TRY(rc);
    all->begin(all->ctx);
    return TD_OK;
}

/* How many processes failed for a reason of their own. Between runs. */
static enum td_code count_reasons(bool own, float *n, struct td_err *err)
{
    const struct td_collective *all = td_collective();
    const struct td_sum s = {.number = 0, .at_once = true, .dtype = TD_FLOAT, .n = 1};
    *n = own;
    TD_TRY(all->add(all->ctx, &s, n, err));
    TD_TRY(all->take(all->ctx, &s, n, err));
    all->begin(all->ctx);
    return TD_OK;
}

static bool told_already(const struct td_step *s)
{
    const struct td_collective *all = td_collective();
    return all->added(all->ctx, s->n_numbers - 1);
}

bool td_step_fail_training(struct td_step *s, bool not_finite)
{
    struct td_err unsaid = {0};
    float reasons = 0;
    s->lost = s->lost || (!not_finite && told_already(s)) || complete(s, s->n_shared, &unsaid) ||
              count_reasons(!not_finite, &reasons, &unsaid);
    return not_finite && !s->lost && reasons == 0;
}

void td_step_fail_evaluation(struct td_step *s)
{
    struct td_err unsaid = {0};
    s->lost = s->lost || told_already(s) || complete(s, s->n_numbers, &unsaid);
}

void td_step_give_up(struct td_step *s, bool trains)
{
    const struct td_collective *all = td_collective();
    if (!s->several) {
        return;
    }
    all->begin(all->ctx);
    if (trains) {
        (void)td_step_fail_training(s, false);
    } else {
        td_step_fail_evaluation(s);
    }
}

bool td_step_is_lost(const struct td_step *s)
{
    return s->lost;
}
