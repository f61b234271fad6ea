/* core/run/frame.c - one run's storage, pooled.
 *
 * A frame is one allocation, the struct and its arrays behind it, and one block for the values whose place is
 * planned. Making it takes longer than a short run, so it goes back to its bound plan's list after the run,
 * and the next run finds the slots of known and planned values as they were set once.
 *
 * The block belongs to whoever runs: it is made on nobody's account, and counts as part of the run's while a
 * run has it. All bound plans are on one list, so that what idles can be freed when memory is short.
 *
 * Does not: free values (the run does, step by step, and at its end), or know of steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/frame.h"

#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/run/device_run.h"
#include "core/run/late_choice.h"
#include "core/run/settled.h"

/* One allocation: the struct, then its arrays. */
static struct td_frame *frame_new(const struct td_plan *p)
{
    size_t v = (size_t)p->n_values + 1, s = (size_t)p->n_steps + 1, in = (size_t)p->max_in + 1,
           out = (size_t)p->max_out + 1;
    size_t bytes = sizeof(struct td_frame) + v * sizeof(struct td_tensor) + in * sizeof(void *) +
                   in * sizeof(struct td_tensor) + (in + out) * sizeof(struct td_shape) + v + v + s;
    struct td_frame *f = td_calloc(1, bytes);
    if (f == NULL) {
        return NULL;
    }
    f->slots = (struct td_tensor *)(f + 1);
    f->snapshots = f->slots + v;
    f->shapes = (struct td_shape *)(f->snapshots + in);
    f->in = (const struct td_tensor **)(f->shapes + in + out);
    f->state = (unsigned char *)(f->in + in);
    f->dead = (bool *)(f->state + v);
    f->step_dead = f->dead + v;
    return f;
}

static enum td_code frame_make(struct td_bound_plan *l, struct td_frame **out, struct td_err *err)
{
    struct td_frame *f = frame_new(l->plan);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "a run's frame");
    }
    if (l->block_bytes > 0) {
        enum td_code rc = td_buffer_new(l->block_bytes, false, &f->block, err);
        if (rc) {
            td_free(f);
            return rc;
        }
    }
    for (int v = 0; v < l->plan->n_values; v++) {
        if (l->known[v].dtype != TD_DTYPE_NONE) {
            f->slots[v] = l->known[v]; /* borrowed from the bound plan, which outlives the frame */
        } else if (l->offset[v] >= 0) {
            f->slots[v] = (struct td_tensor){.data = (char *)f->block->data + l->offset[v],
                                             .dtype = l->plan->dtype[v],
                                             .shape = l->shape[v]};
        }
    }
    if (l->uses_device) {
        enum td_code rc = td_device_run_open(l->plan, &f->dev, err);
        if (rc) {
            td_buffer_unref(f->block);
            td_free(f);
            return rc;
        }
    }
    *out = f;
    return TD_OK;
}

static enum td_code make_for_all(struct td_bound_plan *l, struct td_frame **out, struct td_err *err)
{
    const struct td_work *before = td_work_enter(NULL);
    const enum td_code rc = frame_make(l, out, err);
    td_work_enter(before);
    return rc;
}

enum td_code td_frame_take(struct td_bound_plan *l, struct td_frame **out, struct td_err *err)
{
    struct td_account *account = td_work_account();
    TD_TRY(td_account_take(account, l->block_bytes, "the block of a run", err));
    pthread_mutex_lock(&l->mu);
    struct td_frame *f = l->frames;
    if (f != NULL) {
        l->frames = f->next;
    }
    pthread_mutex_unlock(&l->mu);
    if (f == NULL && make_for_all(l, &f, err)) {
        td_account_give(account, l->block_bytes);
        return err->code;
    }
    f->account = account;
    if (f->block != NULL) {
        TD_UNWRITTEN(f->block->data, l->block_bytes); /* values of the run before */
    }
    *out = f;
    return TD_OK;
}

void td_frame_give(struct td_bound_plan *l, struct td_frame *f)
{
    td_account_give(f->account, l->block_bytes);
    f->account = NULL;
    pthread_mutex_lock(&l->mu);
    td_settled_end(f, l);
    f->next = l->frames;
    l->frames = f;
    pthread_mutex_unlock(&l->mu);
}

void td_frames_end_settled(struct td_bound_plan *l)
{
    pthread_mutex_lock(&l->mu);
    for (struct td_frame *f = l->frames; f != NULL; f = f->next) {
        td_settled_end(f, l);
    }
    pthread_mutex_unlock(&l->mu);
}

static void free_frames(const struct td_bound_plan *l, struct td_frame *idle)
{
    while (idle != NULL) {
        struct td_frame *f = idle;
        idle = f->next;
        td_settled_leave(f, l);
        td_late_choices_free(f->late, l->plan->n_steps);
        td_device_run_close(f->dev);
        td_buffer_unref(f->block);
        td_free(f);
    }
}

void td_frame_free_idle(struct td_bound_plan *l)
{
    struct td_frame *idle = l->frames;
    l->frames = NULL;
    free_frames(l, idle);
}

/* ------------------------------------------------------------------ all of them */

static struct {
    pthread_mutex_t mu; /* guards the list; taken before a bound plan's */
    struct td_link *first;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER};

void td_frame_list(struct td_bound_plan *l)
{
    pthread_mutex_lock(&all.mu);
    td_link_in(&all.first, &l->listed);
    pthread_mutex_unlock(&all.mu);
}

void td_frame_unlist(struct td_bound_plan *l)
{
    pthread_mutex_lock(&all.mu);
    td_link_out(&l->listed);
    pthread_mutex_unlock(&all.mu);
}

size_t td_bound_plans_bytes(void)
{
    size_t sum = 0;
    pthread_mutex_lock(&all.mu);
    for (struct td_link *at = all.first; at != NULL; at = at->next) {
        struct td_bound_plan *l = td_link_owner(at, struct td_bound_plan, listed);
        pthread_mutex_lock(&l->mu);
        for (const struct td_frame *f = l->frames; f != NULL; f = f->next) {
            sum += l->block_bytes;
        }
        pthread_mutex_unlock(&l->mu);
        sum += l->bytes;
    }
    pthread_mutex_unlock(&all.mu);
    return sum;
}

void td_frames_trim(void)
{
    if (pthread_mutex_trylock(&all.mu) != 0) {
        return;
    }
    for (struct td_link *at = all.first; at != NULL; at = at->next) {
        struct td_bound_plan *l = td_link_owner(at, struct td_bound_plan, listed);
        struct td_frame *idle = NULL;
        td_settled_forget(l->settled);
        if (!l->uses_device && pthread_mutex_trylock(&l->mu) == 0) {
            idle = l->frames;
            l->frames = NULL;
            pthread_mutex_unlock(&l->mu);
        }
        free_frames(l, idle);
    }
    pthread_mutex_unlock(&all.mu);
}
