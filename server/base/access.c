/* server/base/access.c - a table of tokens, replaced as a whole; each check compares all of them.
 *
 * Reading the file builds a new table from its lines; only when all of them are right does it take the old
 * one's place under the write lock, so a bad edit changes nothing. The text is wiped before it is freed.
 *
 * A presented token is copied into a block of fixed size filled up with zeros, and so is every known one. A
 * check goes through all rows under the read lock and compares whole blocks: neither the place of the first
 * wrong byte nor that of the row that fits shows in its time. A token may stand in several rows; what any of
 * them allows is allowed. The error names the first thing that no row gave: the token, the scope, the model.
 *
 * Does not: notice that the file has changed (server/main.c asks to reread), count or delay failures, keep
 * sessions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/access.h"

#include <fnmatch.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/file.h"

#define TOKEN_BYTES 256 /* a token and the zeros behind it */
#define MAX_FILE ((size_t)4 << 20)
#define MAX_ROWS 10000

struct row {
    char token[TOKEN_BYTES];
    unsigned scopes; /* bits of enum td_scope */
    char *models;    /* NULL: all */
};

struct table {
    struct row *rows;
    int n;
};

struct td_access {
    char *path;
    pthread_rwlock_t lock; /* guards table */
    struct table table;
    td_access_model_fn *is_model; /* NULL: not told */
    void *models;
};

static const char *const SCOPES[] = {[TD_SCOPE_INFER] = "infer",
                                     [TD_SCOPE_MANAGE] = "manage",
                                     [TD_SCOPE_TRAIN] = "train",
                                     [TD_SCOPE_DEBUG] = "debug",
                                     [TD_SCOPE_GRADIENT] = "gradient"};
#define N_SCOPES ((int)(sizeof SCOPES / sizeof SCOPES[0]))

/* ------------------------------------------------------------------ the file */

static void free_table(struct table *t)
{
    for (int i = 0; i < t->n; i++) {
        td_free(t->rows[i].models);
    }
    td_free(t->rows);
    *t = (struct table){0};
}

static enum td_code read_scopes(char *words, unsigned *out, struct td_err *err)
{
    char *rest = NULL;
    for (char *w = strtok_r(words, ",", &rest); w != NULL; w = strtok_r(NULL, ",", &rest)) {
        int found = 0;
        for (int i = TD_SCOPE_INFER; i < N_SCOPES; i++) {
            found = strcmp(SCOPES[i], w) == 0 ? i : found;
        }
        TD_FAIL_IF(found == 0, err, INVALID_ARGUMENT,
                   "scope '%.40s', want infer, gradient, manage, train or debug", w);
        *out |= 1u << found;
    }
    return TD_OK;
}

/* One line; an empty one adds nothing. Its token is not repeated in errors. */
static enum td_code read_line(char *line, struct table *t, struct td_err *err)
{
    char *rest = NULL;
    line[strcspn(line, "#\r")] = '\0';
    char *token = strtok_r(line, " \t", &rest), *scopes = strtok_r(NULL, " \t", &rest);
    char *models = strtok_r(NULL, " \t", &rest), *more = strtok_r(NULL, " \t", &rest);
    if (token == NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(scopes == NULL || more != NULL, err, INVALID_ARGUMENT, "want TOKEN SCOPES [MODEL-GLOB]");
    TD_FAIL_IF(strlen(token) >= TOKEN_BYTES, err, INVALID_ARGUMENT,
               "a token of %zu bytes, at most %d are allowed", strlen(token), TOKEN_BYTES - 1);
    TD_FAIL_IF(t->n >= MAX_ROWS, err, INVALID_ARGUMENT, "more than %d tokens", MAX_ROWS);
    struct row row = {.scopes = 0};
    memcpy(row.token, token, strlen(token));
    TD_TRY(read_scopes(scopes, &row.scopes, err));
    struct row *grown = td_realloc(t->rows, (size_t)t->n + 1, sizeof *grown);
    if (grown != NULL) {
        t->rows = grown;
        row.models = models != NULL ? td_strdup(models) : NULL;
    }
    if (grown == NULL || (models != NULL && row.models == NULL)) {
        return td_no_memory(err, sizeof row, "the tokens");
    }
    grown[t->n++] = row;
    return TD_OK;
}

static enum td_code read_table(const char *path, struct table *out, struct td_err *err)
{
    char *text = NULL, *rest = NULL;
    size_t n = 0;
    struct table t = {0};
    TD_TRY(td_file_read(path, MAX_FILE, &text, &n, err));
    enum td_code rc = TD_OK;
    int number = 0;
    for (char *line = text; line != NULL && rc == TD_OK; line = rest) {
        char *end = strchr(line, '\n');
        rest = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
        }
        number++;
        rc = read_line(line, &t, err);
    }
    explicit_bzero(text, n);
    td_free(text);
    if (rc) {
        free_table(&t);
        return td_err_wrap(err, "tokens file %s, line %d", path, number);
    }
    *out = t;
    return TD_OK;
}

static void warn_of_readers(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && (st.st_mode & 077) != 0) {
        td_log(TD_LOG_WARNING, NULL, "tokens file %s: other users may read it (mode %o)", path,
               st.st_mode & 0777);
    }
}

enum td_code td_access_reread(struct td_access *a, struct td_err *err)
{
    struct table fresh = {0};
    TD_TRY(read_table(a->path, &fresh, err));
    pthread_rwlock_wrlock(&a->lock);
    struct table old = a->table;
    a->table = fresh;
    pthread_rwlock_unlock(&a->lock);
    free_table(&old);
    return TD_OK;
}

/* Who rereads goes before those who look: a flood of requests must not keep new tokens out. */
static void init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
}

enum td_code td_access_open(const char *path, struct td_access **out, struct td_err *err)
{
    struct td_access *a = td_calloc(1, sizeof *a);
    if (a == NULL) {
        return td_no_memory(err, sizeof *a, "the tokens");
    }
    init_lock(&a->lock);
    a->path = td_strdup(path);
    const enum td_code rc =
        a->path != NULL ? td_access_reread(a, err) : td_no_memory(err, strlen(path), "a path");
    if (rc) {
        td_access_close(a);
        return rc;
    }
    warn_of_readers(path);
    *out = a;
    return TD_OK;
}

void td_access_close(struct td_access *a)
{
    if (a == NULL) {
        return;
    }
    free_table(&a->table);
    pthread_rwlock_destroy(&a->lock);
    td_free(a->path);
    td_free(a);
}

/* ------------------------------------------------------------------ checking */

static bool same_token(const char a[TOKEN_BYTES], const char b[TOKEN_BYTES])
{
    unsigned char differ = 0;
    for (int i = 0; i < TOKEN_BYTES; i++) {
        differ |= (unsigned char)(a[i] ^ b[i]);
    }
    return differ == 0;
}

/* The token behind "Bearer ", in a block of zeros; false when there is none. */
static bool read_bearer(const char *text, size_t n, char out[TOKEN_BYTES])
{
    static const char word[] = "Bearer ";
    const size_t head = sizeof word - 1;
    memset(out, 0, TOKEN_BYTES);
    if (text == NULL || n <= head || n - head >= TOKEN_BYTES || strncasecmp(text, word, head) != 0) {
        return false;
    }
    memcpy(out, text + head, n - head);
    return out[0] != '\0';
}

static bool covers(const struct row *row, const char *model)
{
    if (row->models == NULL || model == NULL || strcmp(row->models, TD_ACCESS_ALL) == 0) {
        return true;
    }
    return strcmp(model, TD_ACCESS_ALL) != 0 && fnmatch(row->models, model, 0) == 0;
}

struct found {
    bool known, scoped, allowed; /* some row has the token; and the scope; and the model */
};

/* The scopes of which one is needed, as bits. */
static unsigned wanted(enum td_scope scope)
{
    return scope == TD_SCOPE_INFER_OR_GRADIENT ? 1u << TD_SCOPE_INFER | 1u << TD_SCOPE_GRADIENT : 1u << scope;
}

static struct found look(struct td_access *a, const char token[TOKEN_BYTES], enum td_scope scope,
                         const char *model)
{
    struct found f = {0};
    pthread_rwlock_rdlock(&a->lock);
    for (int i = 0; i < a->table.n; i++) {
        const struct row *row = &a->table.rows[i];
        const bool known = same_token(row->token, token);
        const bool scoped = known && (scope <= TD_SCOPE_ANY || (row->scopes & wanted(scope)) != 0);
        f.known |= known;
        f.scoped |= scoped;
        f.allowed |= scoped && covers(row, model);
    }
    pthread_rwlock_unlock(&a->lock);
    return f;
}

static enum td_code tell(const struct found *f, enum td_scope scope, const char *model, struct td_err *err)
{
    TD_FAIL_IF(!f->known, err, UNAUTHENTICATED, "the bearer token is not known");
    TD_FAIL_IF(!f->scoped, err, PERMISSION_DENIED, "the bearer token lacks the scope '%s'",
               scope == TD_SCOPE_INFER_OR_GRADIENT ? "infer' or 'gradient" : SCOPES[scope]);
    TD_FAIL_IF(!f->allowed, err, PERMISSION_DENIED, "the bearer token is not for model '%s'", model);
    return TD_OK;
}

void td_access_models(struct td_access *a, td_access_model_fn *is_model, void *ctx)
{
    if (a != NULL) {
        a->is_model = is_model;
        a->models = ctx;
    }
}

/* The model that a request's name means (td_free *owned): a pattern is to judge that, and not what a client
 * may write behind the colon. */
static enum td_code model_of(const struct td_access *a, const char *asked, const char **out, char **owned,
                             struct td_err *err)
{
    const char *colon = asked != NULL ? strrchr(asked, ':') : NULL;
    *owned = NULL;
    *out = asked;
    if (colon == NULL || (a->is_model != NULL && a->is_model(a->models, asked))) {
        return TD_OK;
    }
    *out = *owned = td_strndup(asked, (size_t)(colon - asked));
    return *out != NULL ? TD_OK : td_no_memory(err, strlen(asked), "a model's name");
}

enum td_code td_access_check(struct td_access *a, const char *authorization, size_t n, enum td_scope scope,
                             const char *model, struct td_err *err)
{
    char token[TOKEN_BYTES];
    if (a == NULL || scope == TD_SCOPE_OPEN) {
        return TD_OK;
    }
    TD_FAIL_IF(!read_bearer(authorization, n, token), err, UNAUTHENTICATED,
               "a bearer token is required: authorization: Bearer TOKEN");
    char *owned;
    TD_TRY(model_of(a, model, &model, &owned, err));
    const struct found f = look(a, token, scope, model);
    const enum td_code rc = tell(&f, scope, model, err);
    td_free(owned);
    return rc;
}

void td_access_owner(const char *authorization, size_t n, char owner[33])
{
    char token[TOKEN_BYTES];
    unsigned char digest[32];
    owner[0] = '\0';
    if (!read_bearer(authorization, n, token) ||
        gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), digest) != 0) {
        return;
    }
    for (int i = 0; i < 16; i++) {
        (void)snprintf(owner + 2 * i, 3, "%02x", digest[i]);
    }
}
