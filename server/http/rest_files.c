/* server/http/rest_files.c - training files: uploaded, listed, described, read back and deleted.
 *
 * An upload is read while it comes, part by part on HTTP workers: the multipart parser hands bytes of the
 * field `file` on to server/jobs, whatever order the fields come in, and keeps the purpose. Nothing waits for
 * the whole body, so memory does not depend on its size. The first thing that is wrong is kept, the rest of
 * the body dropped, and the handler, called at its end, tells it. A client that goes away takes its reader
 * along, and with it the bytes on disk.
 *
 *   begin (head) -> put, put, .. -> td_rest_file_create -> close
 *
 * Threads: those of one upload follow each other. At most MOST_UPLOADS at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "server/http/multipart.h"
#include "server/http/rest_finetune.h"

#define MOST_UPLOADS 64
#define PURPOSE_BYTES 64

struct upload {
    struct td_body_reader reader; /* first */
    struct td_rest *rest;
    struct td_multipart parts;
    struct td_file_upload *file; /* NULL: the field has not come yet, or something was wrong */
    enum { FIELD_OTHER, FIELD_FILE, FIELD_PURPOSE } field; /* that now comes */
    bool has_file, has_purpose, counted;
    size_t n_purpose;
    char purpose[PURPOSE_BYTES], filename[1024], owner[TD_OWNER_CHARS];
    struct td_fault fault; /* the first; err.code TD_OK: none */
};

/* ------------------------------------------------------------------ reading */

static enum td_code fail_with(struct upload *u, struct td_err *err)
{
    return td_fail(err, u->fault.err.code, "%s", u->fault.err.msg);
}

static enum td_code on_begin(void *ctx, const char *name, const char *filename, struct td_err *err)
{
    struct upload *u = ctx;
    const bool file = strcmp(name, "file") == 0, purpose = strcmp(name, "purpose") == 0;
    u->field = file ? FIELD_FILE : purpose ? FIELD_PURPOSE : FIELD_OTHER;
    if ((file && u->has_file) || (purpose && u->has_purpose)) {
        (void)TD_FAULT(&u->fault, "invalid_value", name, "%s is given twice", name);
        return fail_with(u, err);
    }
    u->has_file |= file;
    u->has_purpose |= purpose;
    if (!file) {
        return TD_OK;
    }
    if (filename == NULL) {
        (void)TD_FAULT(&u->fault, "invalid_value", "file", "file has no filename, which tells its format");
        return fail_with(u, err);
    }
    (void)snprintf(u->filename, sizeof u->filename, "%s", filename);
    return td_file_upload_open(u->rest->jobs, u->owner, &u->file, &u->fault) ? fail_with(u, err) : TD_OK;
}

static enum td_code on_data(void *ctx, const char *bytes, size_t n, struct td_err *err)
{
    struct upload *u = ctx;
    if (u->field == FIELD_FILE) {
        return td_file_upload_write(u->file, bytes, n, &u->fault) ? fail_with(u, err) : TD_OK;
    }
    if (u->field == FIELD_PURPOSE) { /* one that is too long is none that is known, cut or not */
        const size_t room = sizeof u->purpose - 1 - u->n_purpose, take = n < room ? n : room;
        memcpy(u->purpose + u->n_purpose, bytes, take);
        u->n_purpose += take;
    }
    return TD_OK;
}

static enum td_code on_end(void *ctx, struct td_err *err)
{
    (void)ctx;
    (void)err;
    return TD_OK;
}

static const struct td_multipart_events EVENTS = {on_begin, on_data, on_end};

/* What the body is found to be; a fault of the parser's own has a sentence alone. */
static void note(struct upload *u, enum td_code rc, const struct td_err *err)
{
    if (rc != TD_OK && u->fault.err.code == TD_OK) {
        u->fault.err = *err;
    }
    u->reader.refused = u->fault.err.code != TD_OK;
}

static void put(struct td_body_reader *b, const char *bytes, size_t n)
{
    struct upload *u = (struct upload *)b;
    struct td_err err = {0};
    note(u, td_multipart_put(&u->parts, bytes, n, &err), &err);
}

static void close_upload(struct td_body_reader *b)
{
    struct upload *u = (struct upload *)b;
    if (u->file != NULL) {
        td_file_upload_abandon(u->file);
    }
    if (u->counted) {
        atomic_fetch_sub(&u->rest->n_uploads, 1);
    }
    td_free(u);
}

static enum td_code check_head(struct upload *u, const struct td_exchange *x, struct td_err *err)
{
    const struct td_rest *rest = u->rest;
    const char *encoding = td_exchange_header(x, "Content-Encoding");
    TD_TRY(td_rest_has_jobs(rest, err));
    TD_TRY(td_rest_local_only(rest, x, TD_BODY_FILES, err));
    TD_TRY(td_rest_admit(u->rest, x, TD_SCOPE_TRAIN, "", err));
    TD_FAIL_IF(encoding != NULL && *encoding != '\0' && strcasecmp(encoding, "identity") != 0, err,
               INVALID_ARGUMENT, "Content-Encoding '%.60s': a file is uploaded as it is", encoding);
    u->counted = true;
    TD_FAIL_IF(atomic_fetch_add(&u->rest->n_uploads, 1) >= MOST_UPLOADS, err, RESOURCE_EXHAUSTED,
               "%d files are being uploaded already", MOST_UPLOADS);
    return td_multipart_open(&u->parts, td_exchange_header(x, "Content-Type"), &EVENTS, u, err);
}

void td_rest_upload_begin(struct td_rest *rest, struct td_exchange *x)
{
    struct td_err err = {0};
    struct upload *u = td_calloc(1, sizeof *u);
    if (u == NULL) {
        return; /* the body is then gathered, and its handler finds no reader */
    }
    u->reader = (struct td_body_reader){.put = put, .close = close_upload};
    u->rest = rest;
    td_rest_owner(rest, x, u->owner);
    note(u, check_head(u, x, &err), &err);
    x->reader = &u->reader;
}

/* ------------------------------------------------------------------ the whole body has come */

static enum td_code check_fields(struct upload *u, struct td_fault *f)
{
    if (!u->has_file) {
        return TD_FAULT(f, "missing_field", "file", "file is missing");
    }
    return u->has_purpose ? TD_OK : TD_FAULT(f, "missing_field", "purpose", "purpose is missing");
}

enum td_code td_rest_file_create(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct upload *u = (struct upload *)x->reader;
    struct td_err cut = {0};
    json_t *file = NULL;
    (void)rest;
    if (u == NULL) {
        return td_no_memory(err, sizeof *u, "an upload");
    }
    if (u->fault.err.code == TD_OK) {
        note(u, td_multipart_finish(&u->parts, &cut), &cut);
    }
    TD_TRY(td_rest_fault(x, u->fault.err.code, &u->fault, err));
    TD_TRY(td_rest_fault(x, check_fields(u, &u->fault), &u->fault, err));
    struct td_file_upload *takes = u->file;
    u->file = NULL;
    TD_TRY(td_rest_fault(x, td_file_upload_finish(takes, u->filename, u->purpose, &file, &u->fault),
                         &u->fault, err));
    return td_rest_put_doc(x, file, err);
}

/* ------------------------------------------------------------------ files that are there */

enum td_code td_rest_file_list(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    struct td_page page;
    struct td_fault f = {0};
    json_t *list = NULL;
    td_rest_owner(rest, x, owner);
    TD_TRY(td_rest_has_jobs(rest, err));
    TD_TRY(td_rest_page(x, &page, err));
    TD_TRY(td_rest_fault(x, td_files_list(rest->jobs, owner, &page, &list, &f), &f, err));
    return td_rest_put_doc(x, list, err);
}

enum td_code td_rest_file_get(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    const char *id;
    struct td_fault f = {0};
    json_t *file = NULL;
    td_rest_owner(rest, x, owner);
    TD_TRY(td_rest_id(rest, x, &id, err));
    TD_TRY(td_rest_fault(x, td_files_get(rest->jobs, owner, id, &file, &f), &f, err));
    return td_rest_put_doc(x, file, err);
}

enum td_code td_rest_file_delete(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    const char *id;
    struct td_fault f = {0};
    json_t *gone = NULL;
    td_rest_owner(rest, x, owner);
    TD_TRY(td_rest_id(rest, x, &id, err));
    TD_TRY(td_rest_fault(x, td_files_delete(rest->jobs, owner, id, &gone, &f), &f, err));
    return td_rest_put_doc(x, gone, err);
}

enum td_code td_rest_file_content(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    const char *id;
    struct td_fault f = {0};
    td_rest_owner(rest, x, owner);
    TD_TRY(td_rest_id(rest, x, &id, err));
    TD_TRY(
        td_rest_fault(x, td_files_content(rest->jobs, owner, id, &x->file.fd, &x->file.bytes, &f), &f, err));
    x->file.given = true;
    x->content_type = "application/octet-stream";
    return TD_OK;
}
