/* server/jobs/files.c - uploaded files: to disk as they come, and found again.
 *
 *   state_dir/files/.ID     an upload under way
 *   state_dir/files/ID      a file; there is a row of it
 *
 * An upload is written, digested (SHA-256) and counted as it comes. Its end syncs it, renames it, and puts in
 * its row in a transaction that also looks at the quota again: several uploads of one token may come to their
 * ends at the same time. What lies in the folder without a row is removed when the server starts: the row
 * comes last when a file is made and goes first when it is deleted.
 *
 * A file is in use as long as a job that has not ended names it; that is asked in the transaction that
 * deletes.
 *
 * Does not: look at rows (server/train/rows.h), know who may ask (the wires do).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/jobs/jobs_impl.h"

enum { SHA256_BYTES = 32, FILES_A_PAGE = 10000, MAX_LABEL = 255, COPY_BYTES = 1 << 16 };

#define PURPOSE "fine-tune"
#define RESULTS "fine-tune-results"

struct td_file_upload {
    struct td_jobs *jobs;
    char *owner;
    char id[TD_JOBS_ID];
    char path[TD_FILE_PATH]; /* while it comes */
    int fd;
    int64_t bytes, before; /* what the owner had when it began */
    gnutls_hash_hd_t hash;
};

/* ------------------------------------------------------------------ rows */

#define COLUMNS "id, bytes, created_at, filename, purpose, seq"

static json_t *file_json(const struct td_sql_row *r)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:n, s:n}", "id", td_sql_text(r, 0), "object",
                     "file", "bytes", (json_int_t)td_sql_int(r, 1), "created_at",
                     (json_int_t)td_sql_int(r, 2), "filename", td_sql_text(r, 3), "purpose",
                     td_sql_text(r, 4), "status", "processed", "expires_at", "status_details");
}

static enum td_code append_file(void *list, const struct td_sql_row *r, struct td_err *err)
{
    return json_array_append_new(list, file_json(r)) == 0
               ? TD_OK
               : td_no_memory(err, sizeof(json_t), "a list of files");
}

/* Who asks sees his own; "" all, where nobody is asked for a token. Takes the owner twice. */
#define SEEN "(? = '' OR owner = ?)"

/* The file of that id, as a list of one or none. */
static enum td_code find(struct td_store *s, const char *owner, const char *id, json_t **list,
                         struct td_err *err)
{
    *list = json_array();
    const enum td_code rc = td_store_ask(s, "SELECT " COLUMNS " FROM files WHERE id = ? AND " SEEN,
                                         TD_SQL(TD_SQL_TEXT(id), TD_SQL_TEXT(owner), TD_SQL_TEXT(owner)),
                                         append_file, *list, err);
    if (rc) {
        json_decref(*list);
        *list = NULL;
    }
    return rc;
}

static enum td_code not_found(const char *id, struct td_fault *f)
{
    const enum td_code rc = td_fail(&f->err, TD_NOT_FOUND, "No such File object: %.80s", id);
    return td_fault_of(f, rc, "not_found", "id");
}

enum td_code td_files_get(struct td_jobs *j, const char *owner, const char *id, json_t **out,
                          struct td_fault *f)
{
    json_t *list = NULL;
    TD_TRY(td_jobs_ready(j, f));
    const enum td_code rc = find(j->store, owner, id, &list, &f->err);
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    *out = json_incref(json_array_get(list, 0));
    json_decref(list);
    return *out != NULL ? TD_OK : not_found(id, f);
}

enum td_code td_files_check(struct td_jobs *j, const char *owner, const char *id, const char *param,
                            struct td_fault *f)
{
    json_t *list = NULL;
    const enum td_code rc = find(j->store, owner, id, &list, &f->err);
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    const json_t *file = json_array_get(list, 0);
    const char *purpose = json_string_value(json_object_get(file, "purpose"));
    enum td_code found = TD_OK;
    if (purpose == NULL) {
        found = TD_FAULT(f, "file_not_found", param, "%s: there is no file '%.80s'", param, id);
    } else if (strcmp(purpose, PURPOSE) != 0) {
        found = TD_FAULT(f, "invalid_value", param, "%s: file '%.80s' has purpose %s, want " PURPOSE, param,
                         id, purpose);
    }
    json_decref(list);
    return found;
}

enum td_code td_files_list(struct td_jobs *j, const char *owner, const struct td_page *p, json_t **out,
                           struct td_fault *f)
{
    int64_t limit, after = p->ascending ? 0 : INT64_MAX;
    TD_TRY(td_jobs_ready(j, f));
    TD_TRY(td_jobs_limit(p, FILES_A_PAGE, &limit, f));
    if (p->after != NULL) {
        const enum td_code rc = td_store_ask_int(j->store, "SELECT seq FROM files WHERE id = ?",
                                                 TD_SQL(TD_SQL_TEXT(p->after)), -1, &after, &f->err);
        if (rc) {
            return td_jobs_trouble(f, rc);
        }
        if (after < 0) {
            return TD_FAULT(f, "invalid_value", "after", "after: there is no file '%.80s'", p->after);
        }
    }
    json_t *rows = json_array();
    const struct td_sql_args args =
        TD_SQL(TD_SQL_INT(after), TD_SQL_TEXT(p->purpose), TD_SQL_TEXT(p->purpose), TD_SQL_TEXT(owner),
               TD_SQL_TEXT(owner), TD_SQL_INT(limit + 1));
    const enum td_code rc = td_store_ask(
        j->store,
        p->ascending ? "SELECT " COLUMNS " FROM files WHERE seq > ? AND (? IS NULL OR purpose = ?) AND " SEEN
                       " ORDER BY seq LIMIT ?"
                     : "SELECT " COLUMNS " FROM files WHERE seq < ? AND (? IS NULL OR purpose = ?) AND " SEEN
                       " ORDER BY seq DESC LIMIT ?",
        args, append_file, rows, &f->err);
    if (rc) {
        json_decref(rows);
        return td_jobs_trouble(f, rc);
    }
    *out = td_jobs_page(rows, limit);
    return TD_OK;
}

/* ------------------------------------------------------------------ deleting, reading */

static enum td_code delete_row(struct td_store *s, const char *id, struct td_fault *f)
{
    int64_t users = 0, gone = 0;
    TD_TRY(td_store_ask_int(s,
                            "SELECT count(*) FROM jobs WHERE status < 4 AND (training_file = ? OR"
                            " validation_file = ?)",
                            TD_SQL(TD_SQL_TEXT(id), TD_SQL_TEXT(id)), 0, &users, &f->err));
    if (users > 0) {
        return TD_FAULT(f, "file_in_use", "id", "file '%.80s' is used by %lld jobs that have not ended", id,
                        (long long)users);
    }
    TD_TRY(td_store_do(s, "DELETE FROM files WHERE id = ?", TD_SQL(TD_SQL_TEXT(id)), &gone, &f->err));
    return gone > 0 ? TD_OK : not_found(id, f);
}

enum td_code td_files_delete(struct td_jobs *j, const char *owner, const char *id, json_t **out,
                             struct td_fault *f)
{
    char path[TD_FILE_PATH];
    json_t *file = NULL;
    TD_TRY(td_files_get(j, owner, id, &file, f));
    json_decref(file);
    enum td_code rc = td_store_begin(j->store, true, &f->err);
    if (rc == TD_OK) {
        rc = td_store_end(j->store, delete_row(j->store, id, f), &f->err);
    }
    if (rc) {
        return td_jobs_trouble(f, rc);
    }
    if (td_jobs_path(j->opts.state_dir, "files", id, path, &f->err) == TD_OK) {
        (void)unlink(path); /* else the next start removes it */
    }
    *out = json_pack("{s:s, s:s, s:b}", "id", id, "object", "file", "deleted", 1);
    return TD_OK;
}

enum td_code td_files_content(struct td_jobs *j, const char *owner, const char *id, int *fd, int64_t *bytes,
                              struct td_fault *f)
{
    json_t *file = NULL;
    char path[TD_FILE_PATH];
    TD_TRY(td_files_get(j, owner, id, &file, f)); /* so id is one of ours, and no path */
    *bytes = json_integer_value(json_object_get(file, "bytes"));
    json_decref(file);
    enum td_code rc = td_jobs_path(j->opts.state_dir, "files", id, path, &f->err);
    *fd = rc ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (rc == TD_OK && *fd < 0) {
        rc = td_fail(&f->err, TD_DATA_LOSS, "Opening the bytes of file %s: %s", id, strerror(errno));
    }
    return td_jobs_trouble(f, rc);
}

/* ------------------------------------------------------------------ uploading */

#define USED "SELECT coalesce(sum(bytes), 0) FROM files WHERE owner = ? AND purpose = '" PURPOSE "'"

static enum td_code begin_upload(struct td_file_upload *u, struct td_err *err)
{
    char name[TD_JOBS_ID + 1];
    TD_TRY(td_jobs_make_id("file", u->id, err));
    TD_TRY(td_store_ask_int(u->jobs->store, USED, TD_SQL(TD_SQL_TEXT(u->owner)), 0, &u->before, err));
    (void)snprintf(name, sizeof name, ".%s", u->id);
    TD_TRY(td_jobs_path(u->jobs->opts.state_dir, "files", name, u->path, err));
    u->fd = open(u->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    TD_FAIL_IF(u->fd < 0, err, UNAVAILABLE, "Creating %s: %s", u->path, strerror(errno));
    TD_FAIL_IF(gnutls_hash_init(&u->hash, GNUTLS_DIG_SHA256) != 0, err, RESOURCE_EXHAUSTED,
               "starting to digest a file: out of memory");
    return TD_OK;
}

enum td_code td_file_upload_open(struct td_jobs *j, const char *owner, struct td_file_upload **out,
                                 struct td_fault *f)
{
    TD_TRY(td_jobs_ready(j, f));
    struct td_file_upload *u = td_calloc(1, sizeof *u);
    char *copy = td_strdup(owner);
    if (u == NULL || copy == NULL) {
        td_free(u);
        td_free(copy);
        return td_jobs_trouble(f, td_no_memory(&f->err, sizeof *u, "an upload"));
    }
    *u = (struct td_file_upload){.jobs = j, .owner = copy, .fd = -1};
    const enum td_code rc = begin_upload(u, &f->err);
    if (rc) {
        td_file_upload_abandon(u);
        return td_jobs_trouble(f, rc);
    }
    *out = u;
    return TD_OK;
}

void td_file_upload_abandon(struct td_file_upload *u)
{
    unsigned char digest[SHA256_BYTES];
    if (u == NULL) {
        return;
    }
    if (u->hash != NULL) {
        gnutls_hash_deinit(u->hash, digest);
    }
    if (u->fd >= 0) {
        close(u->fd);
    }
    if (u->path[0] != '\0') {
        (void)unlink(u->path);
    }
    td_free(u->owner);
    td_free(u);
}

static enum td_code over(struct td_fault *f, const char *flag, const char *what, int64_t most)
{
    const enum td_code rc = td_fail(&f->err, TD_RESOURCE_EXHAUSTED,
                                    "%s than %" PRId64 " bytes, which --%s allows", what, most, flag);
    return td_fault_of(f, rc, "file_too_large", "file");
}

static enum td_code check_sizes(const struct td_file_upload *u, int64_t before, struct td_fault *f)
{
    const struct td_jobs_opts *o = &u->jobs->opts;
    if (o->file_bytes > 0 && u->bytes > o->file_bytes) {
        return over(f, "upload_max_bytes", "the file has more", o->file_bytes);
    }
    if (o->quota_bytes > 0 && u->bytes > o->quota_bytes - before) {
        return over(f, "upload_quota", "with this file, the uploaded files of this token would take more",
                    o->quota_bytes);
    }
    return TD_OK;
}

enum td_code td_file_upload_write(struct td_file_upload *u, const void *bytes, size_t n, struct td_fault *f)
{
    u->bytes += (int64_t)n;
    TD_TRY(check_sizes(u, u->before, f));
    if (td_disk_take(td_disk_state(), n, u->path, &f->err)) {
        return td_fault_of(f, TD_RESOURCE_EXHAUSTED, "file_too_large", "file");
    }
    enum td_code rc = td_file_put(u->fd, u->path, bytes, n, &f->err);
    if (rc == TD_OK && gnutls_hash(u->hash, bytes, n) != 0) {
        rc = td_fail(&f->err, TD_INTERNAL, "digesting %zu bytes of a file: GnuTLS refuses", n);
    }
    return td_jobs_trouble(f, rc);
}

/* The last component of a name, as text that JSON can hold. */
static void label_of(const char *filename, char label[MAX_LABEL + 1])
{
    const char *last = filename;
    for (const char *c = filename; *c != '\0'; c++) {
        last = *c == '/' || *c == '\\' ? c + 1 : last;
    }
    (void)snprintf(label, MAX_LABEL + 1, "%s", last[0] != '\0' ? last : "file");
    json_t *text = json_string(label);
    for (char *c = label; text == NULL && *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x80 ? *c : '_'; /* no UTF-8, or cut in the middle of a character */
    }
    json_decref(text);
}

static void hex_of(const unsigned char *digest, char hex[2 * SHA256_BYTES + 1])
{
    for (int i = 0; i < SHA256_BYTES; i++) {
        (void)snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
    }
}

struct file_row {
    const char *id, *owner, *filename, *purpose, *sha256;
    int64_t bytes;
};

static enum td_code put_row(struct td_store *s, const struct file_row *r, struct td_err *err)
{
    return td_store_do(s,
                       "INSERT OR IGNORE INTO files(id, owner, filename, purpose, bytes, sha256, created_at)"
                       " VALUES(?, ?, ?, ?, ?, ?, ?)",
                       TD_SQL(TD_SQL_TEXT(r->id), TD_SQL_TEXT(r->owner), TD_SQL_TEXT(r->filename),
                              TD_SQL_TEXT(r->purpose), TD_SQL_INT(r->bytes), TD_SQL_TEXT(r->sha256),
                              TD_SQL_INT((int64_t)time(NULL))),
                       NULL, err);
}

static enum td_code add_row(struct td_file_upload *u, const struct file_row *r, struct td_fault *f)
{
    struct td_store *s = u->jobs->store;
    TD_TRY(td_store_begin(s, true, &f->err));
    int64_t before = 0;
    enum td_code rc = td_store_ask_int(s, USED, TD_SQL(TD_SQL_TEXT(u->owner)), 0, &before, &f->err);
    rc = rc ? rc : check_sizes(u, before, f);
    rc = rc ? rc : put_row(s, r, &f->err);
    return td_store_end(s, rc, &f->err);
}

static enum td_code finish(struct td_file_upload *u, const char *filename, json_t **file, struct td_fault *f)
{
    unsigned char digest[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1], label[MAX_LABEL + 1], path[TD_FILE_PATH];
    gnutls_hash_output(u->hash, digest);
    hex_of(digest, hex);
    label_of(filename, label);
    const int synced = fsync(u->fd);
    TD_FAIL_IF(synced != 0, &f->err, UNAVAILABLE, "Writing %s: %s", u->path, strerror(errno));
    TD_TRY(td_jobs_path(u->jobs->opts.state_dir, "files", u->id, path, &f->err));
    TD_TRY(td_file_rename(u->path, path, &f->err));
    memcpy(u->path, path, sizeof path); /* what goes away if the rest fails */
    td_file_sync_directory(path);
    const struct file_row row = {.id = u->id,
                                 .owner = u->owner,
                                 .filename = label,
                                 .purpose = PURPOSE,
                                 .sha256 = hex,
                                 .bytes = u->bytes};
    TD_TRY(add_row(u, &row, f));
    u->path[0] = '\0';
    return td_files_get(u->jobs, u->owner, u->id, file, f);
}

enum td_code td_file_upload_finish(struct td_file_upload *u, const char *filename, const char *purpose,
                                   json_t **file, struct td_fault *f)
{
    enum td_code rc;
    if (purpose == NULL) {
        rc = TD_FAULT(f, "missing_field", "purpose", "purpose is missing, want " PURPOSE);
    } else if (strcmp(purpose, PURPOSE) != 0) {
        rc = TD_FAULT(f, "invalid_value", "purpose", "purpose is '%.80s', want " PURPOSE, purpose);
    } else {
        rc = finish(u, filename, file, f);
    }
    td_file_upload_abandon(u);
    return td_jobs_trouble(f, rc);
}

/* ------------------------------------------------------------------ results, leftovers */

static enum td_code digest_file(const char *path, char hex[2 * SHA256_BYTES + 1], int64_t *bytes,
                                struct td_err *err)
{
    unsigned char digest[SHA256_BYTES], buf[COPY_BYTES];
    gnutls_hash_hd_t hash;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    TD_FAIL_IF(fd < 0, err, DATA_LOSS, "Opening %s: %s", path, strerror(errno));
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0) {
        close(fd);
        return td_no_memory(err, SHA256_BYTES, "a digest");
    }
    ssize_t got;
    for (*bytes = 0; (got = read(fd, buf, sizeof buf)) > 0; *bytes += got) {
        (void)gnutls_hash(hash, buf, (size_t)got);
    }
    gnutls_hash_deinit(hash, digest);
    const bool synced = got == 0 && fsync(fd) == 0;
    close(fd);
    TD_FAIL_IF(!synced, err, UNAVAILABLE, "Reading and syncing %s: %s", path, strerror(errno));
    hex_of(digest, hex);
    return TD_OK;
}

enum td_code td_files_add_result(struct td_jobs *j, const char *id, const char *path, const char *owner,
                                 const char *filename, struct td_err *err)
{
    char to[TD_FILE_PATH], hex[2 * SHA256_BYTES + 1];
    struct file_row row = {.id = id, .owner = owner, .filename = filename, .purpose = RESULTS, .sha256 = hex};
    TD_TRY(td_jobs_path(j->opts.state_dir, "files", id, to, err));
    /* both lie under state_dir, so on one file system */
    TD_FAIL_IF(link(path, to) != 0 && errno != EEXIST, err, UNAVAILABLE, "Linking %s to %s: %s", path, to,
               strerror(errno));
    TD_TRY(digest_file(to, hex, &row.bytes, err));
    td_file_sync_directory(to);
    return put_row(j->store, &row, err);
}

void td_files_sweep(struct td_jobs *j)
{
    char path[TD_FILE_PATH];
    struct td_err err = {0};
    DIR *all = td_jobs_path(j->opts.state_dir, "files", "", path, &err) ? NULL : opendir(path);
    for (struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
        int64_t known = 1;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            td_store_ask_int(j->store, "SELECT count(*) FROM files WHERE id = ?",
                             TD_SQL(TD_SQL_TEXT(e->d_name)), 0, &known, &err) ||
            known > 0) {
            continue;
        }
        td_log(TD_LOG_INFO, NULL, "removing %s%s, which belongs to no upload that ended", path, e->d_name);
        (void)unlinkat(dirfd(all), e->d_name, 0);
    }
    if (all != NULL) {
        closedir(all);
    }
}
