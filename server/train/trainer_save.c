/* server/train/trainer_save.c - a job's progress: what is saved, when, and how it goes on from there.
 *
 *   job          the request and the number of rows: progress of another job is not this one's
 *   at, numbers  struct td_trainer_at, struct td_trainer_numbers
 *   sums         of the epoch under way
 *   state/NAME   of the step: weights, slots, sums of gradients, averages
 *   best/NAME    the weights of the best epoch
 *
 * The files that go with it (result.csv, TensorBoard's) are synced first, and cut to what is noted in `at`
 * when the job goes on; then the sink is told to sync, and only then is progress saved. So whatever is left,
 * events and files hold at least what progress says is done, and what they hold beyond is told again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "server/base/clock.h"
#include "server/train/progress.h"
#include "server/train/trainer_impl.h"

enum { SAVE_MS = 10000, N_AT = sizeof(struct td_trainer_at) / sizeof(int64_t) };
enum { N_NUMBERS = sizeof(struct td_trainer_numbers) / sizeof(double) };
static_assert(sizeof(struct td_trainer_at) == N_AT * sizeof(int64_t), "all of them are int64_t");
static_assert(sizeof(struct td_trainer_numbers) == N_NUMBERS * sizeof(double), "all of them are double");

/* ------------------------------------------------------------------ names */

static enum td_code name_state(struct td_trainer *t, const char *kind, int i, char out[TD_FILE_PATH])
{
    const int n = snprintf(out, TD_FILE_PATH, "%s/%s", kind, td_step_state_name(t->step, i));
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, &t->f->err, INVALID_ARGUMENT,
               "the name of variable %d is too long", i);
    return TD_OK;
}

/* What tells this job from others that could have had the same directory. */
static enum td_code make_job(struct td_trainer *t)
{
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS, n = json_dumpb(t->spec->json, NULL, 0, flags);
    char head[60];
    const int begins = snprintf(head, sizeof head, "%lld rows, %d states, ",
                                (long long)td_rows_count(t->train), td_step_n_state(t->step));
    t->job = td_calloc((size_t)begins + n + 1, 1);
    if (t->job == NULL) {
        return td_no_memory(&t->f->err, n, "a job's text");
    }
    memcpy(t->job, head, (size_t)begins);
    (void)json_dumpb(t->spec->json, t->job + begins, n, flags);
    return TD_OK;
}

/* ------------------------------------------------------------------ saving */

static enum td_code put_state(struct td_trainer *t, struct td_progress_writer *w, int i)
{
    char name[TD_FILE_PATH];
    struct td_tensor v = {0};
    TD_TRY(name_state(t, "state", i, name));
    TD_TRY(td_step_get_state(t->step, i, &v, &t->f->err));
    const enum td_code rc = td_progress_put(w, name, &v, &t->f->err);
    td_tensor_clear(&v);
    return rc;
}

static enum td_code put_best(struct td_trainer *t, struct td_progress_writer *w, int i)
{
    char name[TD_FILE_PATH];
    if (t->best == NULL || t->best[i].dtype == TD_DTYPE_NONE) {
        return TD_OK;
    }
    TD_TRY(name_state(t, "best", i, name));
    return td_progress_put(w, name, &t->best[i], &t->f->err);
}

static enum td_code put_sums(struct td_trainer *t, struct td_progress_writer *w)
{
    struct td_tensor v = {0};
    TD_TRY(td_epoch_sums_save(t->sums, &v, &t->f->err));
    const enum td_code rc = td_progress_put(w, "sums", &v, &t->f->err);
    td_tensor_clear(&v);
    return rc;
}

static enum td_code put_all(struct td_trainer *t, struct td_progress_writer *w)
{
    struct td_err *err = &t->f->err;
    TD_TRY(td_progress_put_text(w, "job", t->job, err));
    TD_TRY(td_progress_put_ints(w, "at", (const int64_t *)&t->at, N_AT, err));
    TD_TRY(td_progress_put_reals(w, "numbers", (const double *)&t->num, N_NUMBERS, err));
    TD_TRY(put_sums(t, w));
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        TD_TRY(put_state(t, w, i));
        TD_TRY(put_best(t, w, i));
    }
    return TD_OK;
}

static enum td_code save(struct td_trainer *t)
{
    struct td_progress_writer *w = NULL;
    struct td_err *err = &t->f->err;
    TD_TRY(td_result_csv_flush(t->csv, &t->at.csv_bytes, err));
    TD_TRY(td_tensorboard_flush(t->board, t->at.board_bytes, err));
    TD_TRY(td_tell_progress(t, true));
    TD_TRY(td_progress_begin(t->o->work_dir, &w, err));
    const enum td_code rc = put_all(t, w);
    if (rc) {
        td_progress_abandon(w);
        return rc;
    }
    return td_progress_commit(w, err);
}

enum td_code td_trainer_save(struct td_trainer *t)
{
    if (!td_trainer_speaks(t)) {
        return TD_OK;
    }
    TD_TRY(td_trainer_own(t, save(t)));
    t->saved_ns = td_clock_ns();
    return TD_OK;
}

enum td_code td_trainer_save_if(struct td_trainer *t, bool must)
{
    const int64_t ms = t->o->save_ms > 0 ? t->o->save_ms : SAVE_MS;
    /* now, where the next step could end too late */
    const bool due = td_clock_ns() + t->step_ns - t->saved_ns >= ms * 1000000;
    return must || due ? td_trainer_save(t) : TD_OK;
}

/* ------------------------------------------------------------------ going on */

static enum td_code get_state(struct td_trainer *t, struct td_progress *p, int i)
{
    char name[TD_FILE_PATH];
    struct td_tensor v = {0};
    TD_TRY(name_state(t, "state", i, name));
    TD_TRY(td_progress_get(p, name, &v, &t->f->err));
    TD_TRY(td_tensor_own(&v, &t->f->err)); /* it is mapped, and its file goes with the next save */
    return td_step_set_state(t->step, i, &v, &t->f->err);
}

static enum td_code get_best(struct td_trainer *t, struct td_progress *p, int i)
{
    char name[TD_FILE_PATH];
    if (!td_step_state_is_model(t->step, i)) {
        return TD_OK;
    }
    TD_TRY(name_state(t, "best", i, name));
    TD_TRY(td_progress_get(p, name, &t->best[i], &t->f->err));
    return td_tensor_own(&t->best[i], &t->f->err);
}

static enum td_code room_for_best(struct td_trainer *t)
{
    if (t->best == NULL) {
        t->best = td_calloc((size_t)td_step_n_state(t->step) + 1, sizeof *t->best);
    }
    return t->best != NULL ? TD_OK : td_no_memory(&t->f->err, 1, "the best weights");
}

static enum td_code get_all(struct td_trainer *t, struct td_progress *p)
{
    struct td_err *err = &t->f->err;
    struct td_tensor sums = {0};
    TD_TRY(td_progress_get_ints(p, "at", (int64_t *)&t->at, N_AT, err));
    TD_TRY(td_progress_get_reals(p, "numbers", (double *)&t->num, N_NUMBERS, err));
    TD_TRY(td_progress_get(p, "sums", &sums, err));
    const enum td_code rc = td_epoch_sums_load(t->sums, &sums, err);
    td_tensor_clear(&sums);
    TD_TRY(rc);
    const bool best = t->at.best_epoch > 0 && t->spec->stopping.restore_best;
    TD_TRY(best ? room_for_best(t) : TD_OK);
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        TD_TRY(get_state(t, p, i));
        TD_TRY(best ? get_best(t, p, i) : TD_OK);
    }
    return TD_OK;
}

static enum td_code restore(struct td_trainer *t, struct td_progress *p)
{
    bool same = false;
    TD_TRY(td_progress_same_text(p, "job", t->job, &same, &t->f->err));
    TD_FAIL_IF(
        !same, &t->f->err, FAILED_PRECONDITION,
        "the progress saved in %s is of another job, or its files have changed since; remove it, or give "
        "this job a directory of its own",
        t->o->work_dir);
    return get_all(t, p);
}

static enum td_code open_files(struct td_trainer *t)
{
    char csv[TD_FILE_PATH], board[TD_FILE_PATH];
    const int a = snprintf(csv, sizeof csv, "%s/result.csv", t->o->work_dir);
    const int b = snprintf(board, sizeof board, "%s/tensorboard", t->o->work_dir);
    TD_FAIL_IF(a < 0 || b < 0 || (size_t)a >= sizeof csv || (size_t)b >= sizeof board, &t->f->err,
               INVALID_ARGUMENT, "%s: the path is too long", t->o->work_dir);
    TD_TRY(td_result_csv_open(csv, t->sums, t->at.csv_bytes, &t->csv, &t->f->err));
    return td_tensorboard_open(board, t->at.board_bytes, &t->board, &t->f->err);
}

static enum td_code restore_or_begin(struct td_trainer *t, bool *resumed)
{
    struct td_progress *p = NULL;
    TD_TRY(make_job(t));
    TD_TRY(td_progress_open(t->o->work_dir, &p, &t->f->err));
    *resumed = p != NULL;
    const enum td_code rc = p != NULL ? restore(t, p) : TD_OK;
    td_progress_close(p);
    return rc ? rc : open_files(t);
}

enum td_code td_trainer_restore(struct td_trainer *t, bool *resumed)
{
    t->saved_ns = td_clock_ns();
    return td_trainer_speaks(t) ? td_trainer_own(t, restore_or_begin(t, resumed)) : TD_OK;
}

/* ------------------------------------------------------------------ the best epoch */

static enum td_code keep_best(struct td_trainer *t)
{
    TD_TRY(room_for_best(t));
    for (int i = 0; i < td_step_n_state(t->step); i++) {
        struct td_tensor v = {0};
        if (!td_step_state_is_model(t->step, i)) {
            continue;
        }
        TD_TRY(td_step_get_state(t->step, i, &v, &t->f->err));
        td_tensor_clear(&t->best[i]);
        const enum td_code rc = td_tensor_copy(&t->best[i], &v, &t->f->err);
        td_tensor_clear(&v);
        TD_TRY(rc);
    }
    return TD_OK;
}

enum td_code td_trainer_keep_best(struct td_trainer *t)
{
    return td_trainer_own(t, keep_best(t));
}

void td_trainer_drop_best(struct td_trainer *t)
{
    for (int i = 0; t->best != NULL && i < td_step_n_state(t->step); i++) {
        td_tensor_clear(&t->best[i]);
    }
    td_free(t->best);
    t->best = NULL;
}
