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
#include "server/models/batch.h"
#include "server/sched/workers_impl.h"

#define MAX_WAITING 65536 /* requests of one signature, when nothing else limits them */
#define MAX_WAIT_US (UINT64_C(1) << 40)
#define LEAST_ROOM 16 /* for what is known of shapes; a power of two, as MOST_ROOM */
#define MOST_ROOM 8192

/* ------------------------------------------------------------------ queues */

static void free_queue(void *slot)
{
    struct td_worker_queue *q = slot;
    struct td_workers *w = q->workers;
    pthread_mutex_lock(&w->mu);
    td_sched_leave(&w->sched, &q->queue);
    pthread_mutex_unlock(&w->mu);
    td_free(q->known);
    td_free(q);
}

/* The devices that its batches may run on; 0: all. */
static uint32_t devices_of(struct td_servable *s, const struct td_signature *sig)
{
    int n = 0;
    while (td_servable_callable_on(s, sig, n) != NULL) {
        n++;
    }
    return td_replicas_devices(td_servable_replicas(s), n);
}

/* Batches of its that the workers could run at once. */
static int most_at_once(const struct td_worker_queue *q, const struct td_workers *w)
{
    return q->queue.on_device ? td_sched_device_runs(&w->sched, q->devices) : w->sched.workers;
}

static struct td_rule rule_of(const struct td_worker_queue *q, const struct td_workers *w)
{
    const struct td_batching *p = &q->params;
    struct td_rule r = {.merges = q->batches, .max_tasks = MAX_WAITING};
    if (q->ruled) {
        r.max_rows = p->split_large ? p->max_execution_batch_size : p->max_batch_size;
        r.timeout_ns = p->batch_timeout_micros * 1000;
        r.max_batches = p->max_enqueued_batches;
        r.max_running = p->num_batch_threads < most_at_once(q, w) ? (int)p->num_batch_threads : 0;
    }
    return r;
}

static void set_policy(struct td_worker_queue *q, int level, const struct td_queue_policy *p, bool of_level)
{
    const uint64_t us = p->default_timeout_us < MAX_WAIT_US ? p->default_timeout_us : MAX_WAIT_US;
    q->patience[level] = (struct td_patience){(int64_t)us * 1000, p->delay};
    q->queue.rule.max_of_level[level] = of_level ? p->max_queue_size : 0;
}

/* Each priority has a queue of its own with the default policy, or the one that is given for it. */
static void follow_policies(struct td_worker_queue *q, const struct td_model_settings *m)
{
    const bool levels = m->priority_levels > 0;
    q->n_priorities = m->priority_levels;
    q->default_priority = m->default_priority_level;
    for (int i = 0; i < TD_LEVELS; i++) {
        set_policy(q, i, &m->queue_policy, levels);
    }
    for (int i = 0; levels && i < m->n_priority_policies; i++) {
        const struct td_priority_policy *p = &m->priority_policies[i];
        set_policy(q, p->level < TD_LEVELS ? (int)p->level - 1 : TD_LEVELS - 1, &p->policy, true);
    }
    if (!levels && m->queue_policy.max_queue_size > 0) {
        q->queue.rule.max_tasks = m->queue_policy.max_queue_size;
    }
}

/* A config.pbtxt rules the model it lies beside. */
static void follow_settings(struct td_worker_queue *q, const struct td_model_settings *m,
                            const struct td_workers *w)
{
    q->batches = q->batches && m->dynamic_batching;
    q->ruled = m->dynamic_batching && m->max_batch_size > 0;
    q->params =
        (struct td_batching){.max_batch_size = m->max_batch_size > 0 ? m->max_batch_size : 1,
                             .batch_timeout_micros = (int64_t)(m->max_queue_delay_us & INT32_MAX),
                             .num_batch_threads = m->instances > 0 ? m->instances : most_at_once(q, w)};
    q->queue.rule = rule_of(q, w);
    q->queue.rule.max_running = m->instances > 0 && m->instances < most_at_once(q, w) ? m->instances : 0;
    for (int i = 0; i < m->n_preferred_batch_size;
         i++) { /* none waits when one of a preferred size can run */
        const int32_t size = m->preferred_batch_size[i];
        const int64_t least = q->queue.rule.ready_rows;
        q->queue.rule.ready_rows = least == 0 || size < least ? size : least;
    }
    follow_policies(q, m);
}

/* The rule of TF Serving's files that holds for a servable's signatures, if any. */
static enum td_code read_rule(const struct td_workers *w, const struct td_servable *s,
                              struct td_batching *out, bool *ruled, struct td_err *err)
{
    *ruled = false;
    if (!w->opts.per_model) {
        *ruled = w->opts.params != NULL;
        *out = w->params;
        return TD_OK;
    }
    struct td_err why = {0};
    const enum td_code rc = td_config_file_model_batching(td_servable_dir(s), out, &why);
    *ruled = rc != TD_NOT_FOUND;
    return *ruled && rc ? td_fail(err, rc, "%s", why.msg) : TD_OK;
}

/* Caller holds mu. */
static enum td_code enter_queue(struct td_workers *w, struct td_servable *s, struct td_worker_queue *q,
                                struct td_err *err)
{
    if (td_sched_join(&w->sched, &q->queue, td_servable_name(s), err)) {
        td_free(q);
        return err->code;
    }
    td_sched_confine(&w->sched, &q->queue, q->devices);
    td_servable_set_slot(s, q->sig, q, free_queue);
    return TD_OK;
}

enum td_code td_workers_admit(struct td_workers *w, struct td_servable *s, struct td_err *err)
{
    const struct td_saved_model *m = td_servable_model(s);
    struct td_batching params = {0};
    bool ruled;
    TD_TRY(read_rule(w, s, &params, &ruled, err));
    for (int i = 0; i < m->n_signatures; i++) {
        struct td_worker_queue *q = td_calloc(1, sizeof *q);
        if (q == NULL) {
            return td_no_memory(err, sizeof *q, "a signature's queue");
        }
        q->workers = w;
        q->pool = td_worker_pool;
        q->pool.most = w->sched.workers;
        q->sig = &m->signatures[i];
        q->of_device = w->sched.device_runs > 0 && td_model_opts_of(td_servable_engine(s))->device != NULL;
        q->queue.on_device = q->of_device;
        q->devices = q->of_device ? devices_of(s, q->sig) : 0;
        q->params = params;
        q->ruled = ruled;
        q->batches =
            w->opts.batching && (ruled || !w->opts.per_model) && td_servable_callable(s, q->sig) != NULL;
        q->queue.rule = rule_of(q, w);
        if (td_servable_settings(s)->given) {
            follow_settings(q, td_servable_settings(s), w);
        }
        pthread_mutex_lock(&w->mu);
        const enum td_code rc = enter_queue(w, s, q, err);
        pthread_mutex_unlock(&w->mu);
        TD_TRY(rc);
    }
    return TD_OK;
}

/* The queue of a signature made for fewer outputs follows the rule of the whole one. Caller holds mu. */
static enum td_code add_fewer(struct td_workers *w, const struct td_request *r,
                              const struct td_worker_queue *whole, struct td_err *err)
{
    struct td_worker_queue *q = td_calloc(1, sizeof *q);
    if (q == NULL) {
        return td_no_memory(err, sizeof *q, "a signature's queue");
    }
    *q = (struct td_worker_queue){.workers = w,
                                  .pool = whole->pool,
                                  .sig = r->sig,
                                  .batches = whole->batches,
                                  .params = whole->params,
                                  .ruled = whole->ruled,
                                  .n_priorities = whole->n_priorities,
                                  .default_priority = whole->default_priority};
    memcpy(q->patience, whole->patience, sizeof q->patience);
    q->queue.rule = whole->queue.rule;
    q->of_device = whole->of_device;
    q->queue.on_device = whole->queue.on_device;
    q->devices = q->of_device ? devices_of(r->servable, r->sig) : 0;
    return enter_queue(w, r->servable, q, err);
}

enum td_code td_worker_queue_find(struct td_workers *w, const struct td_request *r,
                                  struct td_worker_queue **out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    *out = td_servable_slot(r->servable, r->sig);
    if (*out != NULL) {
        return TD_OK;
    }
    const struct td_worker_queue *whole =
        td_servable_slot(r->servable, td_servable_signature(r->servable, r->sig->key));
    pthread_mutex_lock(&w->mu);
    if (whole != NULL && td_servable_slot(r->servable, r->sig) == NULL) {
        rc = add_fewer(w, r, whole, err);
    }
    *out = td_servable_slot(r->servable, r->sig);
    pthread_mutex_unlock(&w->mu);
    return rc;
}

/* ------------------------------------------------------------------ what is row-wise */

/* Where what is known of the shapes is, or would be. */
static struct td_proof_known *place_of(const struct td_worker_queue *q, uint64_t shapes)
{
    uint64_t i = shapes & (q->known_room - 1);
    while (q->known[i].proof != TD_PROOF_NONE && q->known[i].shapes != shapes) {
        i = (i + 1) & (q->known_room - 1);
    }
    return &q->known[i];
}

struct td_proof_known td_worker_queue_proof(const struct td_worker_queue *q, uint64_t shapes, int64_t rows)
{
    struct td_proof_known k = {.shapes = shapes};
    if (q->known_room > 0) {
        k = *place_of(q, shapes);
    }
    if (k.proof == TD_PROOF_ROWS && (rows < k.min_rows || rows > k.max_rows)) {
        k.proof = TD_PROOF_NOT_ROWS;
    }
    return k;
}

static void forget(struct td_worker_queue *q)
{
    memset(q->known, 0, q->known_room * sizeof *q->known);
    q->n_known = 0;
}

/* Room for one more. False without memory. */
static bool make_room(struct td_worker_queue *q)
{
    const unsigned was = q->known_room, room = was == 0 ? LEAST_ROOM : 2 * was;
    struct td_proof_known *old = q->known;
    if (2 * (q->n_known + 1) <= was) {
        return true;
    }
    if (room > MOST_ROOM) {
        forget(q);
        return true;
    }
    struct td_proof_known *larger = td_calloc(room, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    q->known = larger;
    q->known_room = room;
    for (unsigned i = 0; i < was; i++) {
        if (old[i].proof != TD_PROOF_NONE) {
            *place_of(q, old[i].shapes) = old[i];
        }
    }
    td_free(old);
    return true;
}

/* True the first time that something is found not to be row-wise. */
static bool remember(struct td_worker_queue *q, const struct td_proof_known *found)
{
    pthread_mutex_lock(&q->workers->mu);
    if (make_room(q)) {
        struct td_proof_known *k = place_of(q, found->shapes);
        q->n_known += k->proof == TD_PROOF_NONE;
        *k = *found;
    }
    const bool first = found->proof == TD_PROOF_NOT_ROWS && !q->said;
    q->said = q->said || first;
    pthread_mutex_unlock(&q->workers->mu);
    return first;
}

void td_worker_queue_ask(struct td_proof_question *question, struct td_worker_queue *q, struct td_servable *s,
                         const struct td_tensor *in)
{
    *question = (struct td_proof_question){.queue = q, .shapes = td_batch_likeness(in, q->sig->n_in, false)};
    question->shape = td_calloc((size_t)q->sig->n_in + 1, sizeof *question->shape);
    if (question->shape == NULL) {
        return;
    }
    for (int i = 0; i < q->sig->n_in; i++) {
        question->shape[i] = in[i].shape;
    }
    question->servable = td_servable_ref(s);
    question->gradient = td_gradient_of(s, q->sig);
    question->gradient = question->gradient != NULL ? td_gradient_ref(question->gradient) : NULL;
}

struct device_steps {
    int plans, steps;
};

static void count_device_steps(void *ctx, const struct td_concrete_stat *c)
{
    struct device_steps *n = ctx;
    n->plans++;
    n->steps += c->device_steps;
}

/* Of a model on a device, all of whose steps are the host's: its batches take workers. Known when it has
 * run. */
static void find_where_it_runs(struct td_worker_queue *q, struct td_servable *s)
{
    struct device_steps n = {0};
    if (!q->of_device) {
        return;
    }
    struct td_callable *f;
    for (int i = 0; (f = td_servable_callable_on(s, q->sig, i)) != NULL; i++) {
        td_callable_each(f, count_device_steps, &n);
    }
    pthread_mutex_lock(&q->workers->mu);
    q->queue.on_device = n.plans == 0 || n.steps > 0;
    td_workers_wake(q->workers);
    pthread_mutex_unlock(&q->workers->mu);
}

/* Done once a shape, when the first batch of it has run and been answered. */
void td_worker_queue_prove(struct td_proof_question *question)
{
    struct td_batchable rows = {0};
    struct td_err err = {0};
    if (question->servable == NULL) {
        return; /* and the queue may be gone */
    }
    const struct td_signature *sig = question->queue->sig;
    find_where_it_runs(question->queue, question->servable);
    const bool known = td_batchable_prove(td_servable_callable(question->servable, sig), question->shape,
                                          sig->n_in, &rows, &err) == TD_OK;
    const struct td_proof_known found = {.shapes = question->shapes,
                                         .proof = known && rows.rowwise ? TD_PROOF_ROWS : TD_PROOF_NOT_ROWS,
                                         .min_rows = rows.min_rows,
                                         .max_rows = rows.max_rows};
    if (remember(question->queue, &found)) {
        td_log(TD_LOG_INFO, NULL,
               "model '%s' signature '%s' is not row-wise, so its requests are not batched: %s",
               td_servable_name(question->servable),
               question->gradient != NULL ? td_gradient_title(question->gradient) : sig->key,
               known ? rows.why : err.msg);
    }
    td_free(question->shape);
    td_gradient_unref(question->gradient);
    td_servable_unref(question->servable);
}
