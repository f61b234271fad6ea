/* server/models/model_config.c - config.pbtxt (or its JSON form) into td_model_settings, and that against a
 * signature.
 *
 * The text is parsed twice. First with unknown fields skipped, because kinds of models that are not served
 * carry fields that are not all known here and should be refused as what they are; then strictly, so that a
 * misspelt name is not passed over. Settings borrow from the unpacked message, which they own (`pb`); labels
 * and priority policies are copied beside it. td_model_settings_fini frees all, also after a failure halfway.
 *
 *   MODEL/config.pbtxt            for all versions, or
 *   MODEL/VERSION/config.pbtxt    for one; MODEL is looked at only where VERSION is a number
 *
 * Tensors that the file lists are compared with the signature by name, dtype and shape, with the rows put in
 * front where max_batch_size is set. The version policy is read apart and leniently: it is asked before any
 * version is loaded.
 *
 * Does not: apply batching (server/sched), run warm-ups (server/models/model_warmup.c), show the file
 * (server/models/config_view.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/model_config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"
#include "proto/pb/guard.h"
#include "proto/request/infer_pb.h"
#include "proto/schema/model_config.pb-c.h"
#include "proto/pb/textpb.h"
#include "proto/json/json_pb.h"

#define FILE_NAME "config.pbtxt"
#define MAX_FILE ((size_t)1 << 20)
#define MAX_LABELS ((size_t)16 << 20)
#define MAX_CLASSES (1 << 20)
#define MAX_INSTANCES 4096

/* ------------------------------------------------------------------ finding the file */

static bool is_number(const char *s)
{
    return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

/* Its text, or NULL when dir has no such file. */
static enum td_code read_text(const char *dir, char **text, size_t *n, struct td_err *err)
{
    char path[TD_FILE_PATH];
    struct td_err why = {0};
    const int len = snprintf(path, sizeof path, "%s/" FILE_NAME, dir);
    *text = NULL;
    if (len < 0 || (size_t)len >= sizeof path) {
        return TD_OK;
    }
    const enum td_code rc = td_file_read_beneath(dir, path, MAX_FILE, text, n, &why);
    return rc == TD_OK || rc == TD_NOT_FOUND ? TD_OK : td_fail(err, rc, "%s", why.msg);
}

/* Cuts the path of a version's folder, one with a number for a name, to that of the folder above; false when
 * it is none. */
static bool model_dir(char *dir)
{
    for (size_t len = strlen(dir); len > 1 && dir[len - 1] == '/'; len--) {
        dir[len - 1] = '\0';
    }
    char *slash = strrchr(dir, '/');
    const bool numbered = slash != NULL && slash != dir && is_number(slash + 1);
    if (numbered) {
        *slash = '\0';
    }
    return numbered;
}

/* Looks into the version's folder and, when that has a number for a name, into the one above. */
static enum td_code find_file(const char *version_dir, char **dir, char **text, size_t *n, struct td_err *err)
{
    *text = NULL;
    *dir = td_strdup(version_dir);
    if (*dir == NULL) {
        return td_no_memory(err, strlen(version_dir), "a path");
    }
    TD_TRY(read_text(*dir, text, n, err));
    return *text == NULL && model_dir(*dir) ? read_text(*dir, text, n, err) : TD_OK;
}

/* ------------------------------------------------------------------ reading it */

static struct td_queue_policy policy_of(const Inference__ModelQueuePolicy *p)
{
    struct td_queue_policy out = {0};
    if (p != NULL) {
        out.delay = p->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY;
        out.allow_timeout_override = p->allow_timeout_override;
        out.default_timeout_us = p->default_timeout_microseconds;
        out.max_queue_size = p->max_queue_size;
    }
    return out;
}

static enum td_code read_batching(const Inference__ModelDynamicBatching *b, struct td_model_settings *out,
                                  struct td_err *err)
{
    out->dynamic_batching = true;
    out->preferred_batch_size = b->preferred_batch_size;
    out->n_preferred_batch_size = (int)b->n_preferred_batch_size;
    out->max_queue_delay_us = b->max_queue_delay_microseconds;
    out->preserve_ordering = b->preserve_ordering;
    out->priority_levels = b->priority_levels;
    out->default_priority_level = b->default_priority_level;
    out->queue_policy = policy_of(b->default_queue_policy);
    for (size_t i = 0; i < b->n_preferred_batch_size; i++) {
        TD_FAIL_IF(b->preferred_batch_size[i] < 1 || b->preferred_batch_size[i] > out->max_batch_size, err,
                   INVALID_ARGUMENT, "dynamic batching preferred size %d must be in 1 .. max_batch_size (%d)",
                   b->preferred_batch_size[i], out->max_batch_size);
    }
    TD_FAIL_IF(b->priority_levels > 0 &&
                   (b->default_priority_level == 0 || b->default_priority_level > b->priority_levels),
               err, INVALID_ARGUMENT, "default_priority_level %llu must be in 1 .. priority_levels (%llu)",
               (unsigned long long)b->default_priority_level, (unsigned long long)b->priority_levels);
    out->priority_policies = td_calloc(b->n_priority_queue_policy + 1, sizeof *out->priority_policies);
    if (out->priority_policies == NULL) {
        return td_no_memory(err, b->n_priority_queue_policy * sizeof *out->priority_policies, FILE_NAME);
    }
    for (size_t i = 0; i < b->n_priority_queue_policy; i++) {
        const uint64_t level = b->priority_queue_policy[i]->key;
        TD_FAIL_IF(b->priority_levels > 0 && (level == 0 || level > b->priority_levels), err,
                   INVALID_ARGUMENT,
                   "priority_queue_policy: level %llu must be in 1 .. priority_levels (%llu)",
                   (unsigned long long)level, (unsigned long long)b->priority_levels);
        out->priority_policies[out->n_priority_policies++] =
            (struct td_priority_policy){level, policy_of(b->priority_queue_policy[i]->value)};
    }
    return TD_OK;
}

static enum td_code read_instances(const Inference__ModelConfig *pb, struct td_model_settings *out,
                                   struct td_err *err)
{
    for (size_t i = 0; i < pb->n_instance_group; i++) {
        const Inference__ModelInstanceGroup *g = pb->instance_group[i];
        TD_FAIL_IF(g->count < 0 || g->count > MAX_INSTANCES, err, INVALID_ARGUMENT,
                   "instance_group '%s': count %d must be in 0 .. %d", g->name, g->count, MAX_INSTANCES);
        const bool each = g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU && g->n_gpus > 0;
        TD_FAIL_IF(g->n_gpus > (size_t)MAX_INSTANCES, err, INVALID_ARGUMENT,
                   "instance_group '%s': more than %d gpus", g->name, MAX_INSTANCES);
        out->instances += (g->count > 0 ? g->count : 1) * (each ? (int)g->n_gpus : 1);
        TD_FAIL_IF(out->instances > MAX_INSTANCES, err, INVALID_ARGUMENT,
                   "instance_group: more than %d instances", MAX_INSTANCES);
    }
    return TD_OK;
}

static enum td_code check_reshape(const Inference__ModelConfig *pb, struct td_err *err)
{
    for (size_t i = 0; i < pb->n_input; i++) {
        TD_FAIL_IF(pb->input[i]->reshape != NULL, err, UNIMPLEMENTED, "input '%s': reshape is not served",
                   pb->input[i]->name);
    }
    for (size_t i = 0; i < pb->n_output; i++) {
        TD_FAIL_IF(pb->output[i]->reshape != NULL, err, UNIMPLEMENTED, "output '%s': reshape is not served",
                   pb->output[i]->name);
    }
    return TD_OK;
}

/* Kinds of models that are not served. */
static enum td_code check_kind(const Inference__ModelConfig *pb, struct td_err *err)
{
    TD_FAIL_IF(*pb->platform && strcmp(pb->platform, TD_CONFIG_PLATFORM) != 0, err, UNIMPLEMENTED,
               "platform '%s' is not served, only '" TD_CONFIG_PLATFORM "' is", pb->platform);
    TD_FAIL_IF(*pb->backend && strcmp(pb->backend, "tensorflow") != 0 && strcmp(pb->backend, "tensord") != 0,
               err, UNIMPLEMENTED, "backend '%s' is not served, only 'tensorflow' is", pb->backend);
    TD_FAIL_IF(pb->ensemble_scheduling != NULL, err, UNIMPLEMENTED, "ensemble_scheduling is not served");
    TD_FAIL_IF(pb->sequence_batching != NULL, err, UNIMPLEMENTED,
               "sequence_batching: requests of a sequence with state in between are not served");
    TD_FAIL_IF(pb->model_transaction_policy != NULL && pb->model_transaction_policy->decoupled, err,
               UNIMPLEMENTED, "model_transaction_policy: decoupled answers are not served");
    TD_FAIL_IF(pb->n_batch_input > 0 || pb->n_batch_output > 0, err, UNIMPLEMENTED,
               "%s: tensors made of a batch's requests are not served",
               pb->n_batch_input > 0 ? "batch_input" : "batch_output");
    TD_FAIL_IF(pb->max_batch_size < 0, err, INVALID_ARGUMENT, "max_batch_size %d must be 0 or more",
               pb->max_batch_size);
    TD_FAIL_IF(pb->dynamic_batching != NULL && pb->max_batch_size == 0, err, INVALID_ARGUMENT,
               "dynamic_batching: max_batch_size must be 1 or more");
    return TD_OK;
}

/* Cuts a file into its lines, in place. */
static enum td_code split_lines(char *text, size_t n, struct td_label_list *out, struct td_err *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
    }
    TD_FAIL_IF(lines > MAX_CLASSES, err, INVALID_ARGUMENT,
               "output '%s': label_filename has more than %d lines", out->output, MAX_CLASSES);
    out->text = td_calloc(lines + 1, sizeof *out->text);
    if (out->text == NULL) {
        return td_no_memory(err, lines * sizeof *out->text, "labels");
    }
    for (char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        end = end != NULL ? end : text + n;
        *end = '\0'; /* td_file_read leaves room for one behind the last */
        char *label =
            td_strndup(line, strcspn(line, "\r") < TD_LABEL_BYTES ? strcspn(line, "\r") : TD_LABEL_BYTES);
        if (label == NULL) {
            return td_no_memory(err, TD_LABEL_BYTES, "a label");
        }
        out->text[out->n++] = label;
    }
    return TD_OK;
}

static enum td_code read_labels(const Inference__ModelOutput *o, const char *dir, struct td_label_list *out,
                                struct td_err *err)
{
    char path[TD_FILE_PATH];
    char *text = NULL;
    size_t n = 0;
    TD_FAIL_IF(strstr(o->label_filename, "..") != NULL || o->label_filename[0] == '/', err, INVALID_ARGUMENT,
               "output '%s': label_filename '%s' must lie beside the configuration", o->name,
               o->label_filename);
    const int len = snprintf(path, sizeof path, "%s/%s", dir, o->label_filename);
    TD_FAIL_IF(len < 0 || (size_t)len >= sizeof path, err, INVALID_ARGUMENT,
               "output '%s': the path of label_filename '%.100s' is too long", o->name, o->label_filename);
    TD_TRY(td_file_read_beneath(dir, path, MAX_LABELS, &text, &n, err));
    out->output = o->name;
    const enum td_code rc = split_lines(text, n, out, err);
    td_free(text);
    return rc;
}

static enum td_code read_all_labels(const Inference__ModelConfig *pb, struct td_model_settings *out,
                                    struct td_err *err)
{
    out->labels = td_calloc(pb->n_output + 1, sizeof *out->labels);
    if (out->labels == NULL) {
        return td_no_memory(err, pb->n_output * sizeof *out->labels, "labels");
    }
    for (size_t i = 0; i < pb->n_output; i++) {
        if (*pb->output[i]->label_filename != '\0') {
            TD_TRY(read_labels(pb->output[i], out->dir, &out->labels[out->n_labels++], err));
        }
    }
    return TD_OK;
}

const struct td_label_list *td_model_config_labels(const struct td_model_settings *m, const char *output)
{
    for (int i = 0; i < m->n_labels; i++) {
        if (strcmp(m->labels[i].output, output) == 0) {
            return &m->labels[i];
        }
    }
    return NULL;
}

/* Takes m. */
static enum td_code read_settings(ProtobufCMessage *m, struct td_model_settings *out, struct td_err *err)
{
    const Inference__ModelConfig *pb = (const Inference__ModelConfig *)m;
    out->given = true;
    out->pb = pb;
    out->max_batch_size = pb->max_batch_size;
    TD_TRY(check_kind(pb, err));
    TD_TRY(check_reshape(pb, err));
    TD_TRY(read_instances(pb, out, err));
    TD_TRY(read_all_labels(pb, out, err));
    return pb->dynamic_batching != NULL ? read_batching(pb->dynamic_batching, out, err) : TD_OK;
}

/* A parser of a whole configuration. */
typedef enum td_code parse_fn(const char *text, size_t n, bool skip_unknown, ProtobufCMessage **out,
                              struct td_err *err);

static enum td_code parse_text(const char *text, size_t n, bool skip_unknown, ProtobufCMessage **out,
                               struct td_err *err)
{
    return td_textpb_parse(&inference__model_config__descriptor, text, n, skip_unknown, out, err);
}

static enum td_code parse_json(const char *text, size_t n, bool skip_unknown, ProtobufCMessage **out,
                               struct td_err *err)
{
    return td_json_pb_parse(&inference__model_config__descriptor, text, n, skip_unknown, out, err);
}

/* That no field is misspelt: looked at last, so that a kind of model that is not served, whose fields are not
 * all known here, is called that. */
static enum td_code check_names(parse_fn *with, const char *text, size_t n, struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(with(text, n, false, &m, err));
    td_guard_free(m);
    return TD_OK;
}

static enum td_code read_checked(parse_fn *with, const char *text, size_t n, struct td_model_settings *out,
                                 struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    TD_TRY(with(text, n, true, &m, err));
    TD_TRY(read_settings(m, out, err));
    return check_names(with, text, n, err);
}

/* Takes dir. */
static enum td_code parse(char *dir, parse_fn *with, const char *text, size_t n,
                          struct td_model_settings *out, struct td_err *err)
{
    memset(out, 0, sizeof *out);
    out->dir = dir;
    if (read_checked(with, text, n, out, err)) {
        (void)(with == parse_json ? td_err_wrap(err, "config") : td_err_wrap(err, "%s/" FILE_NAME, out->dir));
        td_model_settings_fini(out);
        return err->code;
    }
    return TD_OK;
}

enum td_code td_model_config_parse(const char *dir, const char *text, size_t n, struct td_model_settings *out,
                                   struct td_err *err)
{
    char *copy = td_strdup(dir);
    return copy != NULL ? parse(copy, parse_text, text, n, out, err)
                        : td_no_memory(err, strlen(dir), "a path");
}

enum td_code td_model_config_override(const char *version_dir, const char *json, size_t n,
                                      struct td_model_settings *out, struct td_err *err)
{
    char *dir = td_strdup(version_dir);
    if (dir == NULL) {
        return td_no_memory(err, strlen(version_dir), "a path");
    }
    (void)model_dir(dir);
    return parse(dir, parse_json, json, n, out, err);
}

enum td_code td_model_config_read(const char *version_dir, struct td_model_settings *out, struct td_err *err)
{
    char *text = NULL, *dir = NULL;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    const enum td_code rc = find_file(version_dir, &dir, &text, &n, err);
    if (rc || text == NULL) {
        td_free(dir);
        return rc;
    }
    const enum td_code parsed = parse(dir, parse_text, text, n, out, err);
    td_free(text);
    return parsed;
}

void td_model_settings_fini(struct td_model_settings *m)
{
    td_guard_free((ProtobufCMessage *)m->pb);
    for (int i = 0; i < m->n_labels; i++) {
        for (int64_t k = 0; k < m->labels[i].n; k++) {
            td_free(m->labels[i].text[k]);
        }
        td_free(m->labels[i].text);
    }
    td_free(m->labels);
    td_free(m->priority_policies);
    td_free(m->dir);
    memset(m, 0, sizeof *m);
}

/* ------------------------------------------------------------------ against the model */

bool td_model_config_has_rows(const struct td_signature *sig)
{
    bool rows = sig != NULL && sig->n_in > 0 && sig->n_out > 0;
    for (int i = 0; rows && i < sig->n_in; i++) {
        rows = sig->in[i].shape.rank > 0 && sig->in[i].shape.dim[0] < 0;
    }
    for (int i = 0; rows && i < sig->n_out; i++) {
        rows = sig->out[i].shape.rank > 0 && sig->out[i].shape.dim[0] < 0;
    }
    return rows;
}

/* One tensor as the file lists it. */
struct listed {
    const char *name;
    Inference__DataType type;
    const int64_t *dims;
    size_t n_dims;
};

enum td_dtype td_model_config_dtype(int data_type)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&inference__data_type__descriptor, data_type);
    const char *name = v != NULL ? v->name + strlen("TYPE_") : "";
    return strcmp(name, "STRING") == 0 ? TD_STRING : td_v2_dtype(name);
}

static enum td_code check_one(const struct listed *l, const struct td_tensor_info *info, int n, bool rows,
                              const char *what, struct td_err *err)
{
    const struct td_tensor_info *found = NULL;
    for (int i = 0; i < n; i++) {
        found = strcmp(info[i].key, l->name) == 0 ? &info[i] : found;
    }
    TD_FAIL_IF(found == NULL, err, INVALID_ARGUMENT,
               "unexpected inference %s '%s', the model has none of that name", what, l->name);
    const enum td_dtype dtype = td_model_config_dtype((int)l->type);
    TD_FAIL_IF(l->type != INFERENCE__DATA_TYPE__TYPE_INVALID && dtype != found->dtype, err, INVALID_ARGUMENT,
               "%s '%s' has type %s in the model, %s in the configuration", what, l->name,
               td_dtype_name(found->dtype), td_dtype_name(dtype));
    struct td_shape shape = td_shape_unknown();
    int64_t dims[TD_MAX_RANK];
    TD_FAIL_IF(l->n_dims + rows > TD_MAX_RANK, err, INVALID_ARGUMENT, "%s '%s' has more than %d dims", what,
               l->name, TD_MAX_RANK);
    dims[0] = -1;
    for (size_t i = 0; i < l->n_dims; i++) {
        dims[i + rows] = l->dims[i];
    }
    TD_TRY(td_shape_make(&shape, dims, (int)l->n_dims + rows, err));
    TD_FAIL_IF(l->n_dims > 0 && !td_shape_compatible(&shape, &found->shape), err, INVALID_ARGUMENT,
               "%s '%s' has shape %s in the model, %s in the configuration", what, l->name,
               TD_SHAPE_STR(&found->shape), TD_SHAPE_STR(&shape));
    return TD_OK;
}

enum td_code td_model_config_check(const struct td_model_settings *m, const struct td_signature *sig,
                                   struct td_err *err)
{
    if (m->pb == NULL || sig == NULL) {
        return TD_OK;
    }
    const bool rows = m->max_batch_size > 0;
    TD_FAIL_IF(rows && !td_model_config_has_rows(sig), err, INVALID_ARGUMENT,
               "max_batch_size is %d, but signature '%s' has tensors whose first size is fixed",
               m->max_batch_size, sig->key);
    for (size_t i = 0; i < m->pb->n_input; i++) {
        const Inference__ModelInput *t = m->pb->input[i];
        const struct listed l = {t->name, t->data_type, t->dims, t->n_dims};
        TD_TRY(check_one(&l, sig->in, sig->n_in, rows, "input", err));
    }
    for (size_t i = 0; i < m->pb->n_output; i++) {
        const Inference__ModelOutput *t = m->pb->output[i];
        const struct listed l = {t->name, t->data_type, t->dims, t->n_dims};
        TD_TRY(check_one(&l, sig->out, sig->n_out, rows, "output", err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ versions */

static struct td_version_policy policy_of_file(const Inference__ModelVersionPolicy *p)
{
    struct td_version_policy out = {.n_latest = 1};
    if (p == NULL) {
        return out;
    }
    if (p->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL) {
        out.kind = TD_POLICY_ALL;
    } else if (p->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST) {
        const uint32_t n = p->latest->num_versions;
        out.n_latest = n == 0 ? 1 : n > INT32_MAX ? INT32_MAX : (int)n;
    } else if (p->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC) {
        int64_t *versions = td_calloc(p->specific->n_versions + 1, sizeof *versions);
        for (size_t i = 0; versions != NULL && i < p->specific->n_versions; i++) {
            versions[i] = p->specific->versions[i];
        }
        out.kind = TD_POLICY_SPECIFIC;
        out.versions = versions;
        out.n_versions = versions != NULL ? (int)p->specific->n_versions : 0;
    }
    return out;
}

struct td_version_policy td_model_config_policy(const char *base_path)
{
    struct td_version_policy out = {.n_latest = 1};
    struct td_err ignored = {0};
    ProtobufCMessage *m = NULL;
    char *text = NULL, path[TD_FILE_PATH];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/config.pbtxt", base_path);
    if (access(path, F_OK) != 0) { /* asked for often, and most models have none */
        return out;
    }
    if (read_text(base_path, &text, &n, &ignored) == TD_OK && text != NULL &&
        parse_text(text, n, true, &m, &ignored) == TD_OK) {
        out = policy_of_file(((const Inference__ModelConfig *)m)->version_policy);
        td_guard_free(m);
    }
    td_free(text);
    return out;
}

struct td_version_policy td_model_config_policy_json(const char *json, size_t n)
{
    struct td_version_policy out = {.n_latest = 1};
    struct td_err ignored = {0};
    ProtobufCMessage *m = NULL;
    if (parse_json(json, n, true, &m, &ignored) == TD_OK) {
        out = policy_of_file(((const Inference__ModelConfig *)m)->version_policy);
        td_guard_free(m);
    }
    return out;
}
