/* server/jobs/job_write.c - events and ends of jobs, as rows; and a reserve of disk to write them on.
 *
 * An event's time is never before that of the one in front of it, whatever the clock does meanwhile: lists
 * are sorted by number, and clients look at times.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"

enum { RESERVE_BYTES = 512 << 10 };

/* ------------------------------------------------------------------ the reserve */

static bool reserve_path(const char *state_dir, char path[TD_FILE_PATH])
{
    struct td_err err = {0};
    return td_jobs_path(state_dir, ".", "reserve", path, &err) == TD_OK;
}

void td_jobs_keep_reserve(const char *state_dir)
{
    char path[TD_FILE_PATH];
    if (!reserve_path(state_dir, path) || access(path, F_OK) == 0) {
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) != 0) {
        (void)unlink(path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

bool td_jobs_spend_reserve(const char *state_dir)
{
    char path[TD_FILE_PATH];
    return reserve_path(state_dir, path) && unlink(path) == 0;
}

/* ------------------------------------------------------------------ rows */

char *td_jobs_text(const json_t *v)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT, n = json_dumpb(v, NULL, 0, flags);
    char *text = v != NULL ? td_calloc(n + 1, 1) : NULL;
    if (text != NULL && json_dumpb(v, text, n, flags) != n) {
        td_free(text);
        return NULL;
    }
    return text;
}

enum td_code td_job_say(struct td_store *s, int64_t job, const struct td_job_event *e, struct td_err *err)
{
    const int64_t at = e->at != 0 ? e->at : (int64_t)time(NULL);
    return td_store_do(s,
                       "INSERT OR IGNORE INTO events(job, key, created_at, level, type, message, data)"
                       " VALUES(?1, ?2, max(?3, coalesce((SELECT created_at FROM events WHERE job = ?1"
                       "                                  ORDER BY seq DESC LIMIT 1), 0)), ?4, ?5, ?6, ?7)",
                       TD_SQL(TD_SQL_INT(job), TD_SQL_TEXT(e->is.key), TD_SQL_INT(at),
                              TD_SQL_TEXT(e->is.level), TD_SQL_TEXT(e->is.type), TD_SQL_TEXT(e->is.message),
                              TD_SQL_TEXT(e->data)),
                       NULL, err);
}

enum td_code td_job_message(struct td_store *s, int64_t job, const char *key, const char *level,
                            struct td_err *err, const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const struct td_job_event e = {.is = {.key = key, .level = level, .type = "message", .message = text}};
    return td_job_say(s, job, &e, err);
}

enum td_code td_job_fail(struct td_store *s, int64_t job, const struct td_fault *why, struct td_err *err)
{
    int64_t changed = 0;
    const char *code = why->code[0] != '\0' ? why->code : "server_error";
    TD_TRY(td_store_do(s,
                       "UPDATE jobs SET status = 5, finished_at = ?, error_code = ?, error_message = ?,"
                       " error_param = ? WHERE seq = ? AND status < 4",
                       TD_SQL(TD_SQL_INT((int64_t)time(NULL)), TD_SQL_TEXT(code), TD_SQL_TEXT(why->err.msg),
                              TD_SQL_TEXT(why->param[0] != '\0' ? why->param : NULL), TD_SQL_INT(job)),
                       &changed, err));
    return changed > 0 ? td_job_message(s, job, "end", "error", err, "%s", why->err.msg) : TD_OK;
}
