/* server/models/servable_survey.c - what is known of a version without loading it, and what one holds that is
 * loaded.
 *
 * A survey reads the graph's file as a load does, looks whether the files that it names are there, and lets
 * go of all but the names of its signatures: milliseconds, and no weights.
 *
 * A loaded version holds what its load has allocated (core/base/budget.h: an account), the weights that are
 * mapped, for which nothing was allocated, and the plans that requests have had made since, which are
 * charged to those.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/servable.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/variable.h"
#include "server/models/servable_impl.h"
#include "server/models/version_files.h"

static char *names_of(const struct td_saved_model *m)
{
    size_t bytes = 1, at = 0;
    for (int i = 0; i < m->n_signatures; i++) {
        bytes += strlen(m->signatures[i].key) + 1;
    }
    char *names = td_calloc(bytes, 1);
    for (int i = 0; i < m->n_signatures && names != NULL; i++) {
        const size_t n = strlen(m->signatures[i].key) + 1;
        memcpy(names + at, m->signatures[i].key, n);
        at += n;
    }
    return names;
}

char *td_servable_names(const struct td_servable *s)
{
    return names_of(s->model);
}

/* The work at hand has an account that was empty before. */
static enum td_code survey(const char *dir, const struct td_servable_opts *o, char **names, uint64_t *bytes,
                           struct td_err *err)
{
    struct td_saved_model *m = NULL;
    TD_TRY(td_version_files_check_checkpoint(dir, err));
    TD_TRY(td_saved_model_read(dir, o->tags, o->ops, &m, err));
    *bytes = td_account_held(td_work_account());
    enum td_code rc = td_version_files_check_model(dir, m, err);
    if (rc == TD_OK) {
        *names = names_of(m);
        rc = *names != NULL ? TD_OK : td_no_memory(err, 1, "the names of signatures");
    }
    td_saved_model_free(m);
    return rc;
}

enum td_code td_servable_survey(const char *dir, const struct td_servable_opts *opts, char **names,
                                uint64_t *bytes, struct td_err *err)
{
    char *model_dir = td_version_files_model_dir(dir);
    struct td_account *account = td_account_open_free();
    const struct td_work *outer = td_work_now();
    struct td_work work = outer != NULL ? *outer : (struct td_work){0};
    work.account = account;
    td_work_enter(&work);
    const enum td_code rc = model_dir != NULL ? survey(model_dir, opts, names, bytes, err)
                                              : td_no_memory(err, strlen(dir), "a path");
    td_work_enter(outer);
    td_account_close(account);
    td_free(model_dir);
    return rc;
}

uint64_t td_servable_weigh(struct td_servable *s)
{
    const uint64_t plans = td_servable_plan_bytes(s);
    const uint64_t bytes = td_account_held(s->account) + td_variable_mapped_bytes(s->engine) +
                           (plans > s->loaded_plans ? plans - s->loaded_plans : 0);
    atomic_store_explicit(&s->weight, bytes, memory_order_relaxed);
    return bytes;
}

uint64_t td_servable_weight(const struct td_servable *s)
{
    return atomic_load_explicit(&s->weight, memory_order_relaxed);
}
