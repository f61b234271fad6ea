/* server/jobs/store.h - the database of files and jobs: state_dir/state.db, SQLite in WAL mode.
 *
 *   TD_TRY(td_store_begin(s, true, err));
 *   rc = td_store_do(s, "DELETE FROM files WHERE id = ?", TD_SQL(TD_SQL_TEXT(id)), NULL, err);
 *   return td_store_end(s, rc, err);
 *
 * A commit survives the death of the process; one that was begun as durable survives a power cut, too. The
 * daemon and each job's process have a connection of their own; they wait for each other for a few seconds.
 * SQL texts are literals: each is prepared once, known by its address.
 *
 * Errors: DATA_LOSS for a file that is damaged, FAILED_PRECONDITION for one that is not ours or of a later
 * version, RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE for what may pass.
 * Threads: any; a transaction keeps the others out until its end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_STORE_H
#define TD_SERVER_JOBS_STORE_H

#include <stdint.h>

#include "core/base/status.h"

struct td_store;

/* Opens state_dir/state.db, or makes it. check: looks through the whole file first (the daemon does). */
TD_MUST enum td_code td_store_open(const char *state_dir, bool check, struct td_store **out,
                                   struct td_err *err);
void td_store_close(struct td_store *s); /* accepts NULL */

/* ---- what a statement's ? stand for, in their order */
enum td_sql_kind { TD_SQL_IS_INT, TD_SQL_IS_REAL, TD_SQL_IS_TEXT };
struct td_sql_value {
    enum td_sql_kind kind;
    int64_t i;
    double r;
    const char *s; /* borrowed for the call; NULL: SQL's */
};
struct td_sql_args {
    const struct td_sql_value *at;
    int n;
};
#define TD_SQL_INT(v) ((struct td_sql_value){.kind = TD_SQL_IS_INT, .i = (v)})
#define TD_SQL_REAL(v) ((struct td_sql_value){.kind = TD_SQL_IS_REAL, .r = (v)})
#define TD_SQL_TEXT(v) ((struct td_sql_value){.kind = TD_SQL_IS_TEXT, .s = (v)})
#define TD_SQL(...)                                                                                          \
    ((struct td_sql_args){                                                                                   \
        (const struct td_sql_value[]){__VA_ARGS__},                                                          \
        (int)(sizeof((const struct td_sql_value[]){__VA_ARGS__}) / sizeof(struct td_sql_value))})
#define TD_SQL_NONE ((struct td_sql_args){NULL, 0})

/* ---- statements. Inside a transaction of this thread's they are part of it, else one of their own. */
/* changed (may be NULL): rows. */
TD_MUST enum td_code td_store_do(struct td_store *s, const char *sql, struct td_sql_args args,
                                 int64_t *changed, struct td_err *err);
struct td_sql_row; /* columns from 0; texts are borrowed until the function returns */
int64_t td_sql_int(const struct td_sql_row *r, int column);
double td_sql_real(const struct td_sql_row *r, int column);
const char *td_sql_text(const struct td_sql_row *r, int column); /* NULL of NULL */
/* The texts of the columns from `first` on, each into a room of its own: as much as fits with its 0; "" of
 * NULL. rooms: TD_SQL_ROOMS(TD_SQL_ROOM(array), ..). */
struct td_sql_room {
    char *to; /* NULL: the last */
    size_t bytes;
};
#define TD_SQL_ROOM(array) ((struct td_sql_room){(array), sizeof(array)})
#define TD_SQL_ROOMS(...) ((const struct td_sql_room[]){__VA_ARGS__, {NULL, 0}})
void td_sql_copy(const struct td_sql_row *r, int first, const struct td_sql_room *rooms);
bool td_sql_null(const struct td_sql_row *r, int column);
typedef enum td_code td_sql_row_fn(void *ctx, const struct td_sql_row *r, struct td_err *err);
/* each(ctx, row) for every row, until one fails. It may not use the store. */
TD_MUST enum td_code td_store_ask(struct td_store *s, const char *sql, struct td_sql_args args,
                                  td_sql_row_fn *each, void *ctx, struct td_err *err);
/* The first column of the first row; `otherwise` where there is no row or it is NULL. */
TD_MUST enum td_code td_store_ask_int(struct td_store *s, const char *sql, struct td_sql_args args,
                                      int64_t otherwise, int64_t *out, struct td_err *err);
/* The row id of the last row that this connection put in; inside the same transaction. */
int64_t td_store_last_row(struct td_store *s);

/* ---- transactions: they write, and are not nested */
TD_MUST enum td_code td_store_begin(struct td_store *s, bool durable, struct td_err *err);
/* Commits when rc is TD_OK, else undoes all; returns rc or why the commit did not happen. */
TD_MUST enum td_code td_store_end(struct td_store *s, enum td_code rc, struct td_err *err);

/* A number that differs from before when another connection has committed. */
TD_MUST enum td_code td_store_version(struct td_store *s, int64_t *out, struct td_err *err);

#endif
