/* server/jobs/publish.c - a finished result becomes a version of its model, once, whatever dies in between.
 *
 *   1  number = highest in the base path + 1; number and the inode of the stage are written down (durable)
 *   2  rename(stage, base_path/number) that replaces nothing; taken meanwhile: again from 1
 *   3  the base path is synced; the registry is told to look, until it serves the version or has failed
 *   4  "succeeded", the number, the result file: one durable transaction
 *
 * Killed between 1 and 2, the stage is still there, and all begins again; between 2 and 4, the folder of the
 * number written down has the stage's inode, so what is left is 3 and 4. The inode tells it from a version
 * that somebody else put there.
 *
 * Threads: callers hold j->publishing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"
#include "server/models/watch.h"

enum { MOST_NUMBERS_TRIED = 1000, PATH_ROOM = TD_FILE_PATH + 32 };

struct publication {
    struct td_jobs *jobs;
    int64_t seq, status, version, inode; /* version, inode: of the intent; 0: none */
    bool publishes, published;
    char id[TD_JOBS_ID], model[256], base_path[TD_FILE_PATH], stage[TD_FILE_PATH], owner[256];
    char result_file[TD_JOBS_ID];
};

static enum td_code take_row(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct publication *p = ctx;
    (void)err;
    p->seq = td_sql_int(r, 0);
    p->status = td_sql_int(r, 1);
    p->version = td_sql_int(r, 2);
    p->inode = td_sql_int(r, 3);
    p->publishes = td_sql_int(r, 4) != 0;
    p->published = !td_sql_null(r, 5);
    td_sql_copy(r, 6,
                TD_SQL_ROOMS(TD_SQL_ROOM(p->id), TD_SQL_ROOM(p->model), TD_SQL_ROOM(p->base_path),
                             TD_SQL_ROOM(p->stage), TD_SQL_ROOM(p->owner), TD_SQL_ROOM(p->result_file)));
    return TD_OK;
}

static enum td_code read_row(struct td_jobs *j, int64_t job, struct publication *p, struct td_err *err)
{
    p->jobs = j;
    return td_store_ask(
        j->store,
        "SELECT seq, status, intent_version, intent_inode, publishes, result_version, id, model,"
        " base_path, stage, owner, result_file FROM jobs WHERE seq = ?",
        TD_SQL(TD_SQL_INT(job)), take_row, p, err);
}

/* ------------------------------------------------------------------ the rename */

/* Fails when `to` exists, where the file system can say so in one step; else by looking first. */
static int rename_only(const char *from, const char *to)
{
    struct stat st;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static enum td_code highest(const char *base_path, int64_t *out, struct td_err *err)
{
    struct td_version_dir *dirs = NULL;
    int n = 0;
    TD_TRY(td_watch_list(base_path, &dirs, &n, err));
    *out = n > 0 ? dirs[0].version : 0;
    td_watch_free(dirs, n);
    return TD_OK;
}

static void number_path(const struct publication *p, int64_t version, char path[PATH_ROOM])
{
    (void)snprintf(path, PATH_ROOM, "%s/%" PRId64, p->base_path, version);
}

static enum td_code write_intent(struct publication *p, int64_t version, int64_t inode, struct td_err *err)
{
    struct td_store *s = p->jobs->store;
    TD_TRY(td_store_begin(s, true, err));
    const enum td_code rc =
        td_store_do(s, "UPDATE jobs SET intent_version = ?, intent_inode = ? WHERE seq = ?",
                    TD_SQL(TD_SQL_INT(version), TD_SQL_INT(inode), TD_SQL_INT(p->seq)), NULL, err);
    p->version = version;
    p->inode = inode;
    return td_store_end(s, rc, err);
}

/* Whether an earlier life has come past the rename. */
static bool is_there(const struct publication *p)
{
    char path[PATH_ROOM];
    struct stat st;
    number_path(p, p->version, path);
    return p->version > 0 && stat(path, &st) == 0 && (int64_t)st.st_ino == p->inode;
}

static enum td_code move(struct publication *p, struct td_err *err)
{
    char path[PATH_ROOM];
    struct stat st;
    if (is_there(p)) {
        return TD_OK;
    }
    TD_FAIL_IF(stat(p->stage, &st) != 0, err, DATA_LOSS, "the result of job %s is gone: %s: %s", p->id,
               p->stage, strerror(errno));
    int64_t version = 0;
    TD_TRY(highest(p->base_path, &version, err));
    for (int i = 0; i < MOST_NUMBERS_TRIED; i++) {
        TD_TRY(write_intent(p, ++version, (int64_t)st.st_ino, err));
        number_path(p, version, path);
        if (rename_only(p->stage, path) == 0) {
            return TD_OK;
        }
        TD_FAIL_IF(errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR, err, UNAVAILABLE,
                   "Renaming %s to %s: %s", p->stage, path, strerror(errno));
    }
    TD_FAIL(err, UNAVAILABLE, "Renaming %s: all numbers up to %" PRId64 " are taken", p->stage, version);
}

/* Only others may read a version that may read the directory around it, as with any folder made by hand. */
static void open_to_readers(const struct publication *p)
{
    struct stat st;
    if (stat(p->base_path, &st) == 0) {
        (void)chmod(p->stage, st.st_mode & 0777);
    }
}

static enum td_code publish(struct publication *p, struct td_err *err)
{
    char path[PATH_ROOM];
    open_to_readers(p);
    TD_TRY(move(p, err));
    number_path(p, p->version, path);
    td_file_sync_directory(path);
    struct td_err unseen = {0};
    if (td_registry_look(p->jobs->opts.registry, p->model, &unseen)) {
        td_log(TD_LOG_WARNING, &(struct td_log_about){.model = p->model},
               "looking for version %" PRId64 " of job %s: %s", p->version, p->id, unseen.msg);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the row */

static enum td_code name_result_file(struct publication *p, struct td_err *err)
{
    if (p->result_file[0] != '\0') {
        return TD_OK;
    }
    TD_TRY(td_jobs_make_id("file", p->result_file, err));
    TD_TRY(td_store_begin(p->jobs->store, true, err));
    const enum td_code rc = td_store_do(p->jobs->store, "UPDATE jobs SET result_file = ? WHERE seq = ?",
                                        TD_SQL(TD_SQL_TEXT(p->result_file), TD_SQL_INT(p->seq)), NULL, err);
    return td_store_end(p->jobs->store, rc, err);
}

static enum td_code add_result_file(struct publication *p, struct td_err *err)
{
    char folder[TD_FILE_PATH], path[TD_FILE_PATH + 16];
    TD_TRY(td_jobs_path(p->jobs->opts.state_dir, "jobs", p->id, folder, err));
    (void)snprintf(path, sizeof path, "%s/result.csv", folder);
    return td_files_add_result(p->jobs, p->result_file, path, p->owner, "step_metrics.csv", err);
}

static enum td_code write_success(struct publication *p, struct td_err *err)
{
    struct td_store *s = p->jobs->store;
    TD_TRY(add_result_file(p, err));
    TD_TRY(td_store_do(s,
                       "UPDATE jobs SET status = 4, finished_at = ?, pausing = 0, result_version = ?"
                       " WHERE seq = ?",
                       TD_SQL(TD_SQL_INT((int64_t)time(NULL)),
                              p->publishes ? TD_SQL_INT(p->version) : TD_SQL_TEXT(NULL), TD_SQL_INT(p->seq)),
                       NULL, err));
    if (p->publishes) {
        TD_TRY(td_job_message(s, p->seq, "published", "info", err, "New version: %s/versions/%" PRId64,
                              p->model, p->version));
    } else {
        TD_TRY(td_job_message(s, p->seq, "kept", "info", err,
                              "The result is kept aside until the job is told to publish it"));
    }
    return td_job_message(s, p->seq, "end", "info", err, "The job has completed successfully");
}

enum td_code td_publish_trained(struct td_jobs *j, int64_t job, struct td_published *how, struct td_err *err)
{
    struct publication p = {0};
    *how = (struct td_published){.out_there = false};
    TD_TRY(read_row(j, job, &p, err));
    if (td_job_ended(p.status)) {
        return TD_OK;
    }
    TD_TRY(name_result_file(&p, err));
    if (p.publishes) {
        TD_TRY(publish(&p, err));
        how->out_there = true;
        how->loading = !td_registry_version_settled(j->opts.registry, p.model, p.version);
    }
    if (how->loading) {
        return TD_OK;
    }
    TD_TRY(td_store_begin(j->store, true, err));
    return td_store_end(j->store, write_success(&p, err), err);
}

static enum td_code write_kept(struct publication *p, struct td_err *err)
{
    TD_TRY(td_store_do(p->jobs->store, "UPDATE jobs SET publishes = 1, result_version = ? WHERE seq = ?",
                       TD_SQL(TD_SQL_INT(p->version), TD_SQL_INT(p->seq)), NULL, err));
    return td_job_message(p->jobs->store, p->seq, "published", "info", err,
                          "New version: %s/versions/%" PRId64, p->model, p->version);
}

enum td_code td_publish_kept(struct td_jobs *j, int64_t job, struct td_err *err)
{
    struct publication p = {0};
    TD_TRY(read_row(j, job, &p, err));
    if (p.published) {
        return TD_OK;
    }
    TD_TRY(publish(&p, err));
    TD_TRY(td_store_begin(j->store, true, err));
    return td_store_end(j->store, write_kept(&p, err), err);
}
