/* server/train/trainer_share.c - a job that several processes run: one mind about stopping and failing, and
 * one progress.
 *
 * All have the same numbers after each run of the step (server/train/step_share.c), so that what follows from
 * them needs no word. What does not: a signal that one process gets, and what fails in one of them. Both are
 * told with the next run, all stop after it, and meet in td_trainer_agree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "server/train/trainer_impl.h"

static bool several(const struct td_trainer *t)
{
    return td_ranks_size(t->o->ranks) > 1;
}

/* ------------------------------------------------------------------ stopping and failing */

bool td_trainer_paused(const struct td_trainer *t)
{
    return several(t) ? t->stopping : t->o->pause != NULL && atomic_load(t->o->pause) != 0;
}

void td_trainer_ask(struct td_trainer *t)
{
    const bool paused = t->o->pause != NULL && atomic_load(t->o->pause) != 0;
    atomic_store(&t->asks, paused || t->late);
}

void td_trainer_hear(struct td_trainer *t, const struct td_step_result *r)
{
    t->stopping = t->stopping || r->stop;
}

enum td_code td_trainer_later(struct td_trainer *t, enum td_code rc)
{
    if (!several(t)) {
        return rc;
    }
    t->late = t->late ? t->late : rc;
    return TD_OK;
}

/* It cannot tell the others. */
static void give_up(struct td_trainer *t)
{
    (void)dprintf(STDERR_FILENO, "process %d of %d: %s\n", td_ranks_rank(t->o->ranks),
                  td_ranks_size(t->o->ranks), t->f->err.msg);
    td_ranks_abort(t->o->ranks, 1);
}

enum td_code td_trainer_agree(struct td_trainer *t, enum td_code rc)
{
    if (!several(t)) {
        return rc;
    }
    rc = rc ? rc : t->late;
    char how[200];
    if (rc && td_ranks_lost(t->o->ranks, how, sizeof how)) { /* there is nobody to agree with */
        t->f->err = (struct td_err){0};
        return td_fault_of(t->f, td_fail(&t->f->err, TD_UNAVAILABLE, "%s", how), "training_error", NULL);
    }
    if (rc && t->step != NULL && td_step_is_lost(t->step)) {
        give_up(t);
    }
    rc = td_ranks_agree(t->o->ranks, rc, t->f);
    t->stopping = t->stopping || rc == TD_CANCELLED; /* while rows were looked at */
    return rc;
}

/* ------------------------------------------------------------------ progress */

static enum td_code share_sums(struct td_trainer *t, struct td_err *err)
{
    struct td_tensor v = {0};
    TD_TRY(td_epoch_sums_save(t->sums, &v, err)); /* others: of other length, until a batch was seen */
    struct td_shape shape = v.shape;
    enum td_code rc = td_ranks_share(t->o->ranks, &shape, sizeof shape, err);
    if (rc == TD_OK && !td_trainer_speaks(t)) {
        td_tensor_clear(&v);
        rc = td_tensor_new(&v, TD_DOUBLE, &shape, err);
    }
    rc = rc ? rc : td_ranks_share(t->o->ranks, v.data, td_tensor_bytes(&v), err);
    rc = rc || td_trainer_speaks(t) ? rc : td_epoch_sums_load(t->sums, &v, err);
    td_tensor_clear(&v);
    return rc;
}

static enum td_code share_state(struct td_trainer *t, int i, struct td_err *err)
{
    struct td_tensor v = {0};
    TD_TRY(td_step_get_state(t->step, i, &v, err));
    enum td_code rc = td_trainer_speaks(t) ? TD_OK : td_tensor_own(&v, err);
    rc = rc ? rc : td_ranks_share(t->o->ranks, v.data, td_tensor_bytes(&v), err);
    if (rc == TD_OK && !td_trainer_speaks(t)) {
        return td_step_set_state(t->step, i, &v, err);
    }
    td_tensor_clear(&v);
    return rc;
}

static enum td_code share_best(struct td_trainer *t, struct td_err *err)
{
    if (t->at.best_epoch == 0 || !t->spec->stopping.restore_best) {
        return TD_OK;
    }
    TD_TRY(td_trainer_speaks(t) ? TD_OK : td_trainer_keep_best(t)); /* room for it */
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        if (td_step_state_is_model(t->step, i)) {
            TD_TRY(td_ranks_share(t->o->ranks, t->best[i].data, td_tensor_bytes(&t->best[i]), err));
        }
    }
    return TD_OK;
}

static enum td_code share_progress(struct td_trainer *t, bool *resumed, struct td_err *err)
{
    struct td_ranks *all = t->o->ranks;
    TD_TRY(td_ranks_share(all, resumed, sizeof *resumed, err));
    if (!*resumed) {
        return TD_OK;
    }
    TD_TRY(td_ranks_share(all, &t->at, sizeof t->at, err));
    TD_TRY(td_ranks_share(all, &t->num, sizeof t->num, err));
    TD_TRY(share_sums(t, err));
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        TD_TRY(share_state(t, i, err));
    }
    return share_best(t, err);
}

enum td_code td_trainer_share_progress(struct td_trainer *t, bool *resumed)
{
    const enum td_code rc = several(t) ? share_progress(t, resumed, &t->f->err) : TD_OK;
    if (rc) {
        give_up(t);
    }
    return td_trainer_own(t, rc);
}
