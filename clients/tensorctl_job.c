/* clients/tensorctl_job.c - calls of tensord.v1.FineTuning: answers as documents, files sent in chunks, jobs
 * created from a file that names local ones.
 *
 * A message becomes a document by a walk along its descriptor: what is empty is left out, and a text in which
 * a JSON object stands (a job's tensord, an event's data) becomes that object. A job goes out as it was
 * written, in the request's field json, so the server sees what the file says; only the names of files that
 * lie beside it are replaced by the ids of their uploads.
 *
 * Does not: parse arguments or print (clients/tensorctl_finetune.c, clients/tensorctl_watch.c), check jobs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "clients/tensorctl_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/tensord_messages.h"
#include "proto/schema/tensord.pb-c.h"

#define SERVICE "/tensord.v1.FineTuning/"
#define CHUNK_BYTES ((size_t)256 << 10)

enum { INVALID_ARGUMENT = 3, RESOURCE_EXHAUSTED = 8, INTERNAL = 13 };

/* ------------------------------------------------------------------ documents */

const char *tdc_job_text(const json_t *doc, const char *key)
{
    const char *s = json_string_value(json_object_get(doc, key));
    return s != NULL ? s : "";
}

static json_t *value_of(const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
        return json_integer(*(const int64_t *)at);
    case PROTOBUF_C_TYPE_DOUBLE:
        return json_real(*(const double *)at);
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return tdc_job_document(*(const ProtobufCMessage *const *)at);
    default: {
        const char *text = *(const char *const *)at;
        json_t *object = *text == '{' ? json_loads(text, 0, NULL) : NULL;
        return object != NULL ? object : json_string(text);
    }
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    return f->type == PROTOBUF_C_TYPE_BOOL ? sizeof(protobuf_c_boolean) : 8;
}

/* Whether the field is there and not empty. */
static bool is_given(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const char *at = (const char *)m + f->offset;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        return *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) == f->id;
    }
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
        return **(const char *const *)(const void *)at != 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)(const void *)at != NULL;
    case PROTOBUF_C_TYPE_INT64:
        return *(const int64_t *)(const void *)at != 0;
    default:
        return true;
    }
}

static json_t *list_of(const ProtobufCFieldDescriptor *f, const char *elements, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, value_of(f, elements + i * size_of(f)));
    }
    return list;
}

/* A map's entries are messages of two texts. */
static json_t *map_of(const json_t *entries)
{
    json_t *map = json_object(), *entry;
    size_t i;
    json_array_foreach((json_t *)entries, i, entry)
    {
        json_object_set(map, tdc_job_text(entry, "key"), json_object_get(entry, "value"));
    }
    return map;
}

json_t *tdc_job_document(const ProtobufCMessage *m)
{
    json_t *doc = json_object();
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *at = (const char *)m + f->offset;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            const size_t n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
            const bool is_map = strcmp(f->name, "metadata") == 0;
            json_t *list = list_of(f, *(const char *const *)(const void *)at, n);
            if (!is_map || n > 0) {
                json_object_set_new(doc, f->name, is_map ? map_of(list) : json_incref(list));
            }
            json_decref(list);
        } else if (is_given(m, f)) {
            json_object_set_new(doc, f->name, value_of(f, at));
        }
    }
    return doc;
}

int tdc_job_call(struct tdc_client *c, const char *method, const ProtobufCMessage *ask,
                 const ProtobufCMessageDescriptor *type, json_t **out, struct tdc_error *err)
{
    char path[100];
    ProtobufCMessage *reply;
    snprintf(path, sizeof path, SERVICE "%s", method);
    const int rc = tdc_exchange(c, path, ask, type, &reply, err);
    if (rc == 0) {
        *out = tdc_job_document(reply);
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}

int tdc_job_get(struct tdc_client *c, const char *id, json_t **out, struct tdc_error *err)
{
    Tensord__V1__JobRequest ask = TENSORD__V1__JOB_REQUEST__INIT;
    ask.id = (char *)id;
    return tdc_job_call(c, "GetJob", &ask.base, &tensord__v1__job__descriptor, out, err);
}

/* ------------------------------------------------------------------ uploading */

static bool send_part(struct tdc_stream *s, const char *filename, uint8_t *bytes, size_t n)
{
    Tensord__V1__UploadFileRequest part = TENSORD__V1__UPLOAD_FILE_REQUEST__INIT;
    if (filename != NULL) {
        part.filename = (char *)filename;
        part.purpose = (char *)"fine-tune";
    }
    part.data = (ProtobufCBinaryData){.data = bytes, .len = n};
    const size_t size = tensord__v1__upload_file_request__get_packed_size(&part);
    uint8_t *packed = malloc(size > 0 ? size : 1);
    const bool sent = packed != NULL && (tensord__v1__upload_file_request__pack(&part, packed), true) &&
                      tdc_stream_send(s, packed, size);
    free(packed);
    return sent;
}

/* All of the file, until the server wants no more. False when it cannot be read. */
static bool send_file(struct tdc_stream *s, FILE *f, const char *filename)
{
    uint8_t *chunk = malloc(CHUNK_BYTES);
    bool going = chunk != NULL && send_part(s, filename, NULL, 0);
    for (size_t n = 1; going && n > 0;) {
        n = fread(chunk, 1, CHUNK_BYTES, f);
        going = n == 0 || send_part(s, NULL, chunk, n);
    }
    free(chunk);
    if (ferror(f) == 0) {
        (void)tdc_stream_done(s);
    }
    return ferror(f) == 0;
}

static int receive_file(struct tdc_stream *s, json_t **out, struct tdc_error *err)
{
    void *bytes = NULL;
    size_t n = 0;
    const int rc = tdc_stream_receive(s, &bytes, &n, err);
    if (rc != 0) {
        return rc;
    }
    Tensord__V1__File *file = bytes != NULL ? tensord__v1__file__unpack(NULL, n, bytes) : NULL;
    tdc_free(bytes);
    if (file == NULL) {
        return tdc_fail(err, INTERNAL, "the answer to an upload is no file");
    }
    *out = tdc_job_document(&file->base);
    tensord__v1__file__free_unpacked(file, NULL);
    return 0;
}

int tdc_job_upload(struct tdc_client *c, const char *path, json_t **out, struct tdc_error *err)
{
    const char *slash = strrchr(path, '/');
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        return tdc_fail(err, INVALID_ARGUMENT, "opening %s: %s", path, strerror(errno));
    }
    struct tdc_stream *s = tdc_stream_open(c, SERVICE "UploadFile", err);
    int rc = s != NULL ? 0 : err->code;
    if (s != NULL && !send_file(s, f, slash != NULL ? slash + 1 : path)) {
        rc = tdc_fail(err, INVALID_ARGUMENT, "reading %s: %s", path, strerror(errno));
    }
    rc = rc != 0 ? rc : receive_file(s, out, err);
    tdc_stream_close(s);
    fclose(f);
    return rc;
}

/* ------------------------------------------------------------------ creating */

/* The path that a job's file means by a name, when there is such a file: beside it, unless it is absolute. */
static bool find_beside(const char *job_path, const char *name, char *path, size_t room)
{
    const char *slash = strrchr(job_path, '/');
    const int folder = slash != NULL && name[0] != '/' ? (int)(slash + 1 - job_path) : 0;
    const int n = snprintf(path, room, "%.*s%s", folder, job_path, name);
    FILE *f = n > 0 && (size_t)n < room ? fopen(path, "rb") : NULL;
    if (f != NULL) {
        fclose(f);
    }
    return f != NULL;
}

/* A member that names a local file gets the id of its upload. */
static int replace_file(struct tdc_client *c, const char *job_path, json_t *job, const char *key,
                        struct tdc_error *err)
{
    char path[4096];
    json_t *file = NULL;
    const char *name = tdc_job_text(job, key);
    if (*name == 0 || !find_beside(job_path, name, path, sizeof path)) {
        return 0; /* an id, or nothing: the server says what is wrong with it */
    }
    const int rc = tdc_job_upload(c, path, &file, err);
    if (rc == 0) {
        fprintf(stderr, "uploaded %s as %s (%lld bytes)\n", path, tdc_job_text(file, "id"),
                (long long)json_integer_value(json_object_get(file, "bytes")));
        json_object_set(job, key, json_object_get(file, "id"));
    }
    json_decref(file);
    return rc;
}

int tdc_job_create(struct tdc_client *c, const char *path, json_t **out, struct tdc_error *err)
{
    json_error_t why;
    json_t *job = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(job)) {
        json_decref(job);
        return job != NULL    ? tdc_fail(err, INVALID_ARGUMENT, "%s holds no JSON object", path)
               : why.line < 0 ? tdc_fail(err, INVALID_ARGUMENT, "%s", why.text)
                              : tdc_fail(err, INVALID_ARGUMENT, "%s, line %d: %s", path, why.line, why.text);
    }
    int rc = replace_file(c, path, job, "training_file", err);
    rc = rc != 0 ? rc : replace_file(c, path, job, "validation_file", err);
    Tensord__V1__CreateJobRequest ask = TENSORD__V1__CREATE_JOB_REQUEST__INIT;
    char *text = json_dumps(job, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(job);
    if (text == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the job");
    }
    ask.json = text;
    rc = rc != 0 ? rc : tdc_job_call(c, "CreateJob", &ask.base, &tensord__v1__job__descriptor, out, err);
    free(text);
    return rc;
}
