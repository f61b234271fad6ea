/* server/sched/worker_queue.c - a signature's queue: the rule it follows, and for which inner shapes it is
 * row-wise.
 *
 * A queue is the servable's (its slot for the signature) and goes with it. What is row-wise is proven once a
 * shape, behind the first run of it, and remembered; where shapes are more than can be, all are forgotten.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/batchable/batchable.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/sched/batch.h"
#include "server/sched/workers_impl.h"

#define MAX_WAITING 65536 /* requests of one signature, when nothing else limits them */
#define MAX_WAIT_US (UINT64_C(1) << 40)
#define LEAST_ROOM 16 /* for what is known of shapes; a power of two, as MOST_ROOM */
#define MOST_ROOM 8192

/* ------------------------------------------------------------------ queues */

static void free_queue(void *slot)
{
    struct td_worker_queue *f = slot;
    struct td_workers *l = f->workers;
    pthread_mutex_lock(&l->mu);
    td_sched_leave(&l->sched, &f->queue);
    pthread_mutex_unlock(&l->mu);
    td_free(f->known);
    td_free(f);
}

static struct td_rule rule_of(const struct td_worker_queue *f, const struct td_workers *l)
{
    const struct td_batching *p = &f->params;
    struct td_rule r = {.merges = f->batches, .max_tasks = MAX_WAITING};
    if (f->ruled) {
        r.max_rows = p->split_large ? p->max_execution_batch_size : p->max_batch_size;
        r.timeout_ns = p->batch_timeout_micros * 1000;
        r.max_batches = p->max_enqueued_batches;
        r.max_running = p->num_batch_threads < l->sched.workers ? (int)p->num_batch_threads : 0;
    }
    return r;
}

static void set_policy(struct td_worker_queue *f, int level, const struct td_queue_policy *p, bool of_level)
{
    const uint64_t us = p->default_timeout_us < MAX_WAIT_US ? p->default_timeout_us : MAX_WAIT_US;
    f->patience[level] = (struct td_patience){(int64_t)us * 1000, p->delay};
    f->queue.rule.max_of_level[level] = of_level ? p->max_queue_size : 0;
}

/* Each priority has a queue of its own with the default policy, or the one that is given for it. */
static void follow_policies(struct td_worker_queue *f, const struct td_model_settings *m)
{
    const bool levels = m->priority_levels > 0;
    f->n_priorities = m->priority_levels;
    f->default_priority = m->default_priority_level;
    for (int i = 0; i < TD_LEVELS; i++) {
        set_policy(f, i, &m->queue_policy, levels);
    }
    for (int i = 0; levels && i < m->n_priority_policies; i++) {
        const struct td_priority_policy *p = &m->priority_policies[i];
        set_policy(f, p->level < TD_LEVELS ? (int)p->level - 1 : TD_LEVELS - 1, &p->policy, true);
    }
    if (!levels && m->queue_policy.max_queue_size > 0) {
        f->queue.rule.max_tasks = m->queue_policy.max_queue_size;
    }
}

/* A config.pbtxt rules the model it lies beside. */
static void follow_settings(struct td_worker_queue *f, const struct td_model_settings *m,
                            const struct td_workers *l)
{
    f->batches = f->batches && m->dynamic_batching;
    f->ruled = m->dynamic_batching && m->max_batch_size > 0;
    f->params = (struct td_batching){.max_batch_size = m->max_batch_size > 0 ? m->max_batch_size : 1,
                                     .batch_timeout_micros = (int64_t)(m->max_queue_delay_us & INT32_MAX),
                                     .num_batch_threads = m->instances > 0 ? m->instances : l->sched.workers};
    f->queue.rule = rule_of(f, l);
    f->queue.rule.max_running = m->instances > 0 && m->instances < l->sched.workers ? m->instances : 0;
    for (int i = 0; i < m->n_preferred_batch_size;
         i++) { /* none waits when one of a preferred size can run */
        const int32_t size = m->preferred_batch_size[i];
        const int64_t least = f->queue.rule.ready_rows;
        f->queue.rule.ready_rows = least == 0 || size < least ? size : least;
    }
    follow_policies(f, m);
}

/* The rule of TF Serving's files that holds for a servable's signatures, if any. */
static enum td_code read_rule(const struct td_workers *l, const struct td_servable *s,
                              struct td_batching *out, bool *ruled, struct td_err *err)
{
    *ruled = false;
    if (!l->opts.per_model) {
        *ruled = l->opts.params != NULL;
        *out = l->params;
        return TD_OK;
    }
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/batching_params.pbtxt", td_servable_dir(s)) >= sizeof path ||
        access(path, F_OK) != 0) {
        return TD_OK;
    }
    *ruled = true;
    return td_config_file_batching(path, out, err);
}

/* Caller holds mu. */
static enum td_code enter_queue(struct td_workers *l, struct td_servable *s, struct td_worker_queue *f,
                                struct td_err *err)
{
    if (td_sched_join(&l->sched, &f->queue, td_servable_name(s), err)) {
        td_free(f);
        return err->code;
    }
    td_servable_set_slot(s, f->sig, f, free_queue);
    return TD_OK;
}

enum td_code td_workers_admit(struct td_workers *l, struct td_servable *s, struct td_err *err)
{
    const struct td_saved_model *m = td_servable_model(s);
    struct td_batching params = {0};
    bool ruled;
    TD_TRY(read_rule(l, s, &params, &ruled, err));
    for (int i = 0; i < m->n_signatures; i++) {
        struct td_worker_queue *f = td_calloc(1, sizeof *f);
        if (f == NULL) {
            return td_no_memory(err, sizeof *f, "a signature's queue");
        }
        f->workers = l;
        f->pool = td_worker_pool;
        f->pool.most = l->sched.workers;
        f->sig = &m->signatures[i];
        f->params = params;
        f->ruled = ruled;
        f->batches =
            l->opts.batching && (ruled || !l->opts.per_model) && td_servable_callable(s, f->sig) != NULL;
        f->queue.rule = rule_of(f, l);
        if (td_servable_settings(s)->given) {
            follow_settings(f, td_servable_settings(s), l);
        }
        pthread_mutex_lock(&l->mu);
        const enum td_code rc = enter_queue(l, s, f, err);
        pthread_mutex_unlock(&l->mu);
        TD_TRY(rc);
    }
    return TD_OK;
}

/* The queue of a signature made for fewer outputs follows the rule of the whole one. Caller holds mu. */
static enum td_code add_downcast(struct td_workers *l, const struct td_request *r,
                                 const struct td_worker_queue *whole, struct td_err *err)
{
    struct td_worker_queue *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "a signature's queue");
    }
    *f = (struct td_worker_queue){.workers = l,
                                  .pool = whole->pool,
                                  .sig = r->sig,
                                  .batches = whole->batches,
                                  .params = whole->params,
                                  .ruled = whole->ruled,
                                  .n_priorities = whole->n_priorities,
                                  .default_priority = whole->default_priority};
    memcpy(f->patience, whole->patience, sizeof f->patience);
    f->queue.rule = whole->queue.rule;
    return enter_queue(l, r->servable, f, err);
}

enum td_code td_worker_queue_find(struct td_workers *l, const struct td_request *r,
                                  struct td_worker_queue **out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    *out = td_servable_slot(r->servable, r->sig);
    if (*out != NULL) {
        return TD_OK;
    }
    const struct td_worker_queue *whole =
        td_servable_slot(r->servable, td_servable_signature(r->servable, r->sig->key));
    pthread_mutex_lock(&l->mu);
    if (whole != NULL && td_servable_slot(r->servable, r->sig) == NULL) {
        rc = add_downcast(l, r, whole, err);
    }
    *out = td_servable_slot(r->servable, r->sig);
    pthread_mutex_unlock(&l->mu);
    return rc;
}

/* ------------------------------------------------------------------ what is row-wise */

/* Where what is known of the shapes is, or would be. */
static struct td_proof_known *place_of(const struct td_worker_queue *f, uint64_t shapes)
{
    uint64_t i = shapes & (f->known_room - 1);
    while (f->known[i].proof != TD_PROOF_NONE && f->known[i].shapes != shapes) {
        i = (i + 1) & (f->known_room - 1);
    }
    return &f->known[i];
}

struct td_proof_known td_worker_queue_proof(const struct td_worker_queue *f, uint64_t shapes, int64_t rows)
{
    struct td_proof_known k = {.shapes = shapes};
    if (f->known_room > 0) {
        k = *place_of(f, shapes);
    }
    if (k.proof == TD_PROOF_ROWS && (rows < k.min_rows || rows > k.max_rows)) {
        k.proof = TD_PROOF_NOT_ROWS;
    }
    return k;
}

static void forget(struct td_worker_queue *f)
{
    memset(f->known, 0, f->known_room * sizeof *f->known);
    f->n_known = 0;
}

/* Room for one more. False without memory. */
static bool make_room(struct td_worker_queue *f)
{
    const unsigned was = f->known_room, room = was == 0 ? LEAST_ROOM : 2 * was;
    struct td_proof_known *old = f->known;
    if (2 * (f->n_known + 1) <= was) {
        return true;
    }
    if (room > MOST_ROOM) {
        forget(f);
        return true;
    }
    struct td_proof_known *larger = td_calloc(room, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    f->known = larger;
    f->known_room = room;
    for (unsigned i = 0; i < was; i++) {
        if (old[i].proof != TD_PROOF_NONE) {
            *place_of(f, old[i].shapes) = old[i];
        }
    }
    td_free(old);
    return true;
}

/* True the first time that something is found not to be row-wise. */
static bool remember(struct td_worker_queue *f, const struct td_proof_known *found)
{
    pthread_mutex_lock(&f->workers->mu);
    if (make_room(f)) {
        struct td_proof_known *k = place_of(f, found->shapes);
        f->n_known += k->proof == TD_PROOF_NONE;
        *k = *found;
    }
    const bool first = found->proof == TD_PROOF_NOT_ROWS && !f->said;
    f->said = f->said || first;
    pthread_mutex_unlock(&f->workers->mu);
    return first;
}

void td_worker_queue_ask(struct td_proof_question *q, struct td_worker_queue *f, struct td_servable *s,
                         const struct td_tensor *in)
{
    *q = (struct td_proof_question){.queue = f, .shapes = td_batch_likeness(in, f->sig->n_in, false)};
    q->shape = td_calloc((size_t)f->sig->n_in + 1, sizeof *q->shape);
    if (q->shape == NULL) {
        return;
    }
    for (int i = 0; i < f->sig->n_in; i++) {
        q->shape[i] = in[i].shape;
    }
    q->servable = td_servable_ref(s);
}

/* Done once a shape, when the first batch of it has run and been answered. */
void td_worker_queue_prove(struct td_proof_question *q)
{
    struct td_batchable rows = {0};
    struct td_err err = {0};
    if (q->servable == NULL) {
        return; /* and the queue may be gone */
    }
    const struct td_signature *sig = q->queue->sig;
    const bool known =
        td_batchable_prove(td_servable_callable(q->servable, sig), q->shape, sig->n_in, &rows, &err) == TD_OK;
    const struct td_proof_known found = {.shapes = q->shapes,
                                         .proof = known && rows.rowwise ? TD_PROOF_ROWS : TD_PROOF_NOT_ROWS,
                                         .min_rows = rows.min_rows,
                                         .max_rows = rows.max_rows};
    if (remember(q->queue, &found)) {
        td_log(TD_LOG_INFO, NULL,
               "model '%s' signature '%s' is not row-wise, so its requests are not batched: %s",
               td_servable_name(q->servable), sig->key, known ? rows.why : err.msg);
    }
    td_free(q->shape);
    td_servable_unref(q->servable);
}
