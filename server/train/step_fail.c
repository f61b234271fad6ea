/* server/train/step_fail.c - a run that fails in one of several processes, so that the others hear of it.
 *
 *   the one that fails      adds what it has not added: losses that are no numbers, and the word to stop
 *   the others, training    their check fails, and all count how many had a reason of their own
 *   the others, evaluating  read the word
 *
 * The others hear nothing when that one's losses were added already, in order: then it is lost, and the whole
 * job has to be ended from outside (td_ranks_abort).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/train/step_impl.h"

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
