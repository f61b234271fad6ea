/* server/jobs/job_leftovers.c - what ended jobs leave on disk: a job without result nothing in its model's
 * directory, and none its progress.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/base/log.h"
#include "proto/bytes/file_tree.h"
#include "server/jobs/jobs_impl.h"
#include "server/train/progress.h"

struct left {
    int64_t job;
    char id[TD_JOBS_ID], stage[TD_FILE_PATH];
};

static enum td_code take_left(void *ctx, const struct td_sql_row *row, struct td_err *err)
{
    struct left *l = ctx;
    (void)err;
    l->job = td_sql_int(row, 0);
    (void)snprintf(l->id, sizeof l->id, "%s", td_sql_text(row, 1));
    (void)snprintf(l->stage, sizeof l->stage, "%s", td_sql_text(row, 2));
    return TD_OK;
}

static enum td_code clean_one(const struct td_jobs *j, const struct left *l, struct td_err *err)
{
    char folder[TD_FILE_PATH];
    TD_TRY(l->stage[0] != '\0' ? td_tree_remove(l->stage, err) : TD_OK);
    TD_TRY(td_jobs_path(j->opts.state_dir, "jobs", l->id, folder, err));
    return td_progress_remove(folder, err);
}

enum td_code td_jobs_clean(struct td_jobs *j, struct td_err *err)
{
    for (;;) {
        struct left l = {0};
        struct td_err why = {0};
        TD_TRY(td_store_ask(j->store,
                            "SELECT seq, id, CASE WHEN status > 4 THEN stage ELSE '' END FROM jobs"
                            " WHERE status > 3 AND cleaned = 0 AND live = 0 LIMIT 1",
                            TD_SQL_NONE, take_left, &l, err));
        if (l.job == 0) {
            return TD_OK;
        }
        if (clean_one(j, &l, &why)) { /* once is enough: nothing depends on it */
            td_log(TD_LOG_WARNING, NULL, "removing what is left of job %s: %s", l.id, why.msg);
        }
        TD_TRY(td_store_do(j->store, "UPDATE jobs SET cleaned = 1 WHERE seq = ?", TD_SQL(TD_SQL_INT(l.job)),
                           NULL, err));
    }
}
