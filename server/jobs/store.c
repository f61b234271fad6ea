/* server/jobs/store.c - one SQLite connection, its prepared statements, and the tables.
 *
 * The lock is recursive: a transaction takes it at its begin and gives it back at its end, and each statement
 * takes it for itself. So one thread's transaction is never mixed with another's statements.
 *
 * synchronous is NORMAL (a commit is in the log, which survives the process) and FULL while a durable
 * transaction lasts (the log is synced). BEGIN IMMEDIATE takes the writer's place at once, so a transaction
 * that has begun does not find out later that it cannot write.
 *
 * A file is ours when its application_id is; user_version is the version of the tables. What is older is
 * brought up to date in one transaction (there is one version so far); what is later is refused, for a newer
 * program's jobs are not to be guessed at.
 *
 * A cached statement is reset before the lock is given back, so no read stays open and the log can be folded
 * back into the file.
 *
 * Does not: know what the tables mean (server/jobs/files.c, job_*.c do).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"

#define APPLICATION 0x74646a62 /* "tdjb" */
#define TABLES_VERSION 1
#define BUSY_MS 10000
#define MAX_STATEMENTS 96
#define TEXT_OF(x) TEXT_OF_(x)
#define TEXT_OF_(x) #x

struct prepared {
    const char *sql;
    sqlite3_stmt *statement;
};

struct td_store {
    pthread_mutex_t mu; /* guards all below */
    sqlite3 *db;
    bool full; /* synchronous */
    struct prepared prepared[MAX_STATEMENTS];
    int n_prepared;
};

/* seq orders; ids are for clients. Of jobs: status as enum td_job_status (jobs_impl.h); source, the version
 * directory it starts from; attempt counts the processes started for it, of which only the latest may write,
 * live says that there is one, falls how many in a row a signal ended without a further step; trained: stage
 * is complete; cleaned: what an ended job leaves is gone; stage is where its result lies, or will, until it
 * is published; publishes: it may be; intent_*: the number its result is about to get, and the inode that its
 * folder is recognised by. */
static const char TABLES[] =
    "CREATE TABLE files("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,"
    " filename TEXT NOT NULL, purpose TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,"
    " created_at INTEGER NOT NULL);"
    "CREATE INDEX files_owner ON files(owner, purpose);"
    "CREATE TABLE jobs("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, finished_at INTEGER, status INTEGER NOT NULL, pausing INTEGER NOT NULL,"
    " request TEXT NOT NULL, hyperparameters TEXT NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL,"
    " model TEXT NOT NULL, base_path TEXT NOT NULL, source TEXT NOT NULL, version INTEGER NOT NULL,"
    " training_file TEXT NOT NULL, validation_file TEXT,"
    " attempt INTEGER NOT NULL DEFAULT 0, live INTEGER NOT NULL DEFAULT 0, falls INTEGER NOT NULL DEFAULT 0,"
    " trained INTEGER NOT NULL DEFAULT 0, cleaned INTEGER NOT NULL DEFAULT 0,"
    " step INTEGER NOT NULL DEFAULT 0, total_steps INTEGER NOT NULL DEFAULT 0,"
    " epoch INTEGER NOT NULL DEFAULT 0, rows INTEGER NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0,"
    " error_code TEXT, error_message TEXT, error_param TEXT,"
    " stage TEXT NOT NULL, publishes INTEGER NOT NULL, intent_version INTEGER, intent_inode INTEGER,"
    " result_version INTEGER, result_step INTEGER, result_file TEXT);"
    "CREATE INDEX jobs_status ON jobs(status);"
    "CREATE TABLE events("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, key TEXT NOT NULL,"
    " created_at INTEGER NOT NULL, level TEXT NOT NULL, type TEXT NOT NULL, message TEXT NOT NULL,"
    " data TEXT, UNIQUE(job, key));"
    "CREATE INDEX events_job ON events(job);"
    "CREATE TABLE checkpoints("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, step INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL, metrics TEXT NOT NULL, UNIQUE(job, step));"
    "PRAGMA application_id = " TEXT_OF(APPLICATION) ";"
                                                    "PRAGMA user_version = " TEXT_OF(TABLES_VERSION) ";";

static enum td_code code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return TD_OK;
    case SQLITE_CORRUPT:
        return TD_DATA_LOSS;
    case SQLITE_NOTADB:
        return TD_FAILED_PRECONDITION;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        return TD_RESOURCE_EXHAUSTED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return TD_UNAVAILABLE;
    default:
        return TD_INTERNAL;
    }
}

static enum td_code failed(const struct td_store *s, int rc, const char *what, struct td_err *err)
{
    return td_fail(err, code_of(rc), "the jobs' database: %s: %s", what,
                   s->db != NULL ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
}

static enum td_code run_text(struct td_store *s, const char *sql, const char *what, struct td_err *err)
{
    const int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? TD_OK : failed(s, rc, what, err);
}

/* ------------------------------------------------------------------ statements */

/* The statement of that text, with args bound; caller holds mu. */
static enum td_code prepare(struct td_store *s, const char *sql, struct td_sql_args args, sqlite3_stmt **out,
                            struct td_err *err)
{
    int i = 0;
    while (i < s->n_prepared && s->prepared[i].sql != sql) {
        i++;
    }
    TD_CHECK(i < MAX_STATEMENTS);
    if (i == s->n_prepared) {
        const int rc =
            sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->prepared[i].statement, NULL);
        if (rc != SQLITE_OK) {
            return failed(s, rc, sql, err);
        }
        s->prepared[i].sql = sql;
        s->n_prepared++;
    }
    sqlite3_stmt *st = s->prepared[i].statement;
    TD_CHECK(sqlite3_bind_parameter_count(st) == args.n);
    for (int k = 0; k < args.n; k++) {
        const struct td_sql_value *v = &args.at[k];
        const int rc = v->kind == TD_SQL_IS_INT    ? sqlite3_bind_int64(st, k + 1, v->i)
                       : v->kind == TD_SQL_IS_REAL ? sqlite3_bind_double(st, k + 1, v->r)
                       : v->s == NULL              ? sqlite3_bind_null(st, k + 1)
                                                   : sqlite3_bind_text(st, k + 1, v->s, -1, SQLITE_STATIC);
        if (rc != SQLITE_OK) {
            return failed(s, rc, sql, err);
        }
    }
    *out = st;
    return TD_OK;
}

/* Reset, and nothing bound: texts were borrowed. */
static void release(sqlite3_stmt *st)
{
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
}

enum td_code td_store_do(struct td_store *s, const char *sql, struct td_sql_args args, int64_t *changed,
                         struct td_err *err)
{
    return td_store_ask(s, sql, args, NULL, changed, err);
}

struct td_sql_row {
    sqlite3_stmt *statement;
};

static enum td_code step_all(struct td_store *s, sqlite3_stmt *st, td_sql_row_fn *each, void *ctx,
                             struct td_err *err)
{
    const struct td_sql_row row = {st};
    for (;;) {
        const int rc = sqlite3_step(st);
        if (rc == SQLITE_DONE) {
            return TD_OK;
        }
        if (rc != SQLITE_ROW) {
            return failed(s, rc, "a statement", err);
        }
        if (each != NULL) {
            TD_TRY(each(ctx, &row, err));
        }
    }
}

/* Without `each`, ctx is where the count of changed rows goes (NULL: nowhere). */
enum td_code td_store_ask(struct td_store *s, const char *sql, struct td_sql_args args, td_sql_row_fn *each,
                          void *ctx, struct td_err *err)
{
    sqlite3_stmt *st = NULL;
    pthread_mutex_lock(&s->mu);
    enum td_code rc = prepare(s, sql, args, &st, err);
    if (rc == TD_OK) {
        rc = step_all(s, st, each, ctx, err);
        if (rc == TD_OK && each == NULL && ctx != NULL) {
            *(int64_t *)ctx = sqlite3_changes64(s->db);
        }
        release(st);
    }
    pthread_mutex_unlock(&s->mu);
    return rc;
}

int64_t td_sql_int(const struct td_sql_row *r, int column)
{
    return sqlite3_column_int64(r->statement, column);
}

double td_sql_real(const struct td_sql_row *r, int column)
{
    return sqlite3_column_double(r->statement, column);
}

const char *td_sql_text(const struct td_sql_row *r, int column)
{
    return (const char *)sqlite3_column_text(r->statement, column);
}

void td_sql_copy(const struct td_sql_row *r, int first, const struct td_sql_room *rooms)
{
    for (; rooms->to != NULL; rooms++, first++) {
        const char *s = td_sql_text(r, first);
        (void)snprintf(rooms->to, rooms->bytes, "%s", s != NULL ? s : "");
    }
}

bool td_sql_null(const struct td_sql_row *r, int column)
{
    return sqlite3_column_type(r->statement, column) == SQLITE_NULL;
}

struct one_int {
    int64_t value;
    bool got;
};

static enum td_code take_int(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    struct one_int *o = ctx;
    (void)err;
    if (!o->got && !td_sql_null(r, 0)) {
        *o = (struct one_int){td_sql_int(r, 0), true};
    }
    return TD_OK;
}

enum td_code td_store_ask_int(struct td_store *s, const char *sql, struct td_sql_args args, int64_t otherwise,
                              int64_t *out, struct td_err *err)
{
    struct one_int o = {.value = otherwise};
    TD_TRY(td_store_ask(s, sql, args, take_int, &o, err));
    *out = o.value;
    return TD_OK;
}

int64_t td_store_last_row(struct td_store *s)
{
    return sqlite3_last_insert_rowid(s->db);
}

/* ------------------------------------------------------------------ transactions */

/* Caller holds mu, outside of a transaction: SQLite would not listen inside. */
static enum td_code set_synchronous(struct td_store *s, bool full, struct td_err *err)
{
    if (s->full != full) {
        TD_TRY(
            run_text(s, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", "synchronous", err));
        s->full = full;
    }
    return TD_OK;
}

enum td_code td_store_begin(struct td_store *s, bool durable, struct td_err *err)
{
    pthread_mutex_lock(&s->mu);
    enum td_code rc = set_synchronous(s, durable, err);
    rc = rc ? rc : run_text(s, "BEGIN IMMEDIATE", "beginning to write", err);
    if (rc) {
        pthread_mutex_unlock(&s->mu);
    }
    return rc;
}

enum td_code td_store_end(struct td_store *s, enum td_code rc, struct td_err *err)
{
    if (rc == TD_OK) {
        rc = run_text(s, "COMMIT", "committing", err);
    }
    if (rc && sqlite3_get_autocommit(s->db) == 0) {
        struct td_err ignored = {0}; /* rc says what is wrong */
        (void)run_text(s, "ROLLBACK", "undoing", &ignored);
    }
    pthread_mutex_unlock(&s->mu);
    return rc;
}

enum td_code td_store_version(struct td_store *s, int64_t *out, struct td_err *err)
{
    return td_store_ask_int(s, "PRAGMA data_version", TD_SQL_NONE, 0, out, err);
}

/* ------------------------------------------------------------------ opening */

static enum td_code take_check(void *ctx, const struct td_sql_row *r, struct td_err *err)
{
    const char *text = td_sql_text(r, 0);
    (void)ctx;
    TD_FAIL_IF(text == NULL || strcmp(text, "ok") != 0, err, DATA_LOSS,
               "the jobs' database is damaged: %.300s", text != NULL ? text : "it cannot be checked");
    return TD_OK;
}

/* An empty file is made ours; one of another program or a later version is refused. */
static enum td_code make_tables(struct td_store *s, struct td_err *err)
{
    int64_t application = 0, version = 0, tables = 0;
    TD_TRY(td_store_ask_int(s, "PRAGMA application_id", TD_SQL_NONE, 0, &application, err));
    TD_TRY(td_store_ask_int(s, "PRAGMA user_version", TD_SQL_NONE, 0, &version, err));
    TD_TRY(td_store_ask_int(s, "SELECT count(*) FROM sqlite_master", TD_SQL_NONE, 0, &tables, err));
    if (application == 0 && version == 0 && tables == 0) {
        return run_text(s, TABLES, "making its tables", err);
    }
    TD_FAIL_IF(application != APPLICATION, err, FAILED_PRECONDITION,
               "the jobs' database belongs to another program: its application id is %lld",
               (long long)application);
    TD_FAIL_IF(
        version != TABLES_VERSION, err, FAILED_PRECONDITION,
        "the jobs' database has tables of version %lld, this program knows version %d: it was written by "
        "a later one",
        (long long)version, TABLES_VERSION);
    return TD_OK;
}

static enum td_code set_up(struct td_store *s, bool check, struct td_err *err)
{
    TD_TRY(run_text(s, "PRAGMA journal_mode=WAL", "switching to a write-ahead log", err));
    TD_TRY(run_text(s, "PRAGMA synchronous=NORMAL", "synchronous", err));
    TD_TRY(run_text(s, "PRAGMA journal_size_limit=16777216", "limiting its log", err));
    if (check) {
        TD_TRY(td_store_ask(s, "PRAGMA quick_check(1)", TD_SQL_NONE, take_check, NULL, err));
    }
    TD_TRY(td_store_begin(s, true, err));
    return td_store_end(s, make_tables(s, err), err);
}

/* ------------------------------------------------------------------ its memory */

static void *get_memory(int bytes)
{
    return td_foreign_keep((size_t)bytes);
}

static void *grow_memory(void *p, int bytes)
{
    return td_foreign_realloc(p, (size_t)bytes);
}

static int memory_bytes(void *p)
{
    return (int)td_foreign_bytes(p);
}

static int round_up(int bytes)
{
    return (bytes + 7) & ~7; /* it never asks for more than 2^31 - 2^8 */
}

static int begin_memory(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}

static void end_memory(void *unused)
{
    (void)unused;
}

/* Its pages are kept: they are nobody's request. */
static void charge_memory(void)
{
    static sqlite3_mem_methods ours = {.xMalloc = get_memory,
                                       .xFree = td_foreign_free,
                                       .xRealloc = grow_memory,
                                       .xSize = memory_bytes,
                                       .xRoundup = round_up,
                                       .xInit = begin_memory,
                                       .xShutdown = end_memory};
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC,
                         &ours); /* refused where SQLite is in use already: then it stays */
}

static enum td_code open_file(struct td_store *s, const char *path, struct td_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, charge_memory);
    const int rc =
        sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) {
        return failed(s, rc, "opening it", err);
    }
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_extended_result_codes(s->db, 1);
    return TD_OK;
}

enum td_code td_store_open(const char *state_dir, bool check, struct td_store **out, struct td_err *err)
{
    char path[TD_FILE_PATH];
    const int n = snprintf(path, sizeof path, "%s/state.db", state_dir);
    TD_FAIL_IF(n < 0 || (size_t)n >= sizeof path, err, INVALID_ARGUMENT,
               "the path of --state_dir is too long");
    struct td_store *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a database");
    }
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->mu, &recursive);
    pthread_mutexattr_destroy(&recursive);
    enum td_code rc = open_file(s, path, err);
    rc = rc ? rc : set_up(s, check, err);
    if (rc) {
        td_store_close(s);
        return td_err_wrap(err, "%s", path);
    }
    *out = s;
    return TD_OK;
}

void td_store_close(struct td_store *s)
{
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < s->n_prepared; i++) {
        sqlite3_finalize(s->prepared[i].statement);
    }
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->mu);
    td_free(s);
}
