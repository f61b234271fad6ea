/* server/models/config_view.c - the file's message with fields appended to its bytes.
 *
 * protobuf's rule that the last of a single field counts makes that a merge: name, policy and whatever the
 * file leaves open are written behind the packed file, from the signature and the server's configuration. A
 * shallow copy of the message is packed, out of which what does not hold for the asked signature has been
 * taken: tensors that are listed for the default one, batching where there are no rows. JSON is made by
 * unpacking the result again and writing it along its descriptor.
 *
 * Does not: check the file (server/models/model_config.c), change or keep anything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/config_view.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/placer.h"
#include "proto/pb/guard.h"
#include "proto/request/infer_pb.h"
#include "proto/schema/model_config.pb-c.h"
#include "proto/pb/wire.h"
#include "proto/json/pb_json.h"

#define MAX_BYTES ((uint64_t)64 << 20) /* of an unpacked configuration */

static int data_type(enum td_dtype t)
{
    const char *v2 = t == TD_STRING ? "STRING" : td_v2_name(t);
    char name[32];
    (void)snprintf(name, sizeof name, "TYPE_%s", v2 != NULL ? v2 : "INVALID");
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value_by_name(&inference__data_type__descriptor, name);
    return v != NULL ? v->value : 0;
}

/* ModelInput { name = 1, data_type = 2, dims = 4 } and ModelOutput { .., dims = 3 }; rows: the first size is
 * the batch's. */
static enum td_code put_tensors(struct td_sink *s, uint32_t field, uint32_t dims_field,
                                const struct td_tensor_info *list, int n, bool rows, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        const struct td_shape *shape = &list[i].shape;
        const size_t at = td_put_mark(s);
        TD_TRY(td_put_text(s, 1, list[i].key, err));
        TD_TRY(td_put_int(s, 2, data_type(list[i].dtype), err));
        const size_t dims = td_put_mark(s);
        for (int k = rows; k < shape->rank; k++) {
            TD_TRY(td_put_varint(s, (uint64_t)shape->dim[k], err));
        }
        TD_TRY(shape->rank < 0 ? td_put_varint(s, (uint64_t)-1, err) : TD_OK);
        TD_TRY(td_put_end(s, dims_field, dims, err));
        TD_TRY(td_put_end(s, field, at, err));
    }
    return TD_OK;
}

static enum td_code put_file(const Inference__ModelConfig *pb, struct td_sink *out, struct td_err *err)
{
    const size_t n = protobuf_c_message_get_packed_size(&pb->base);
    char *room;
    TD_TRY(td_sink_grow(out, n, &room, err));
    (void)protobuf_c_message_pack(&pb->base, (uint8_t *)room);
    return TD_OK;
}

/* The file as it stands for a signature: what it says of tensors is of the default one, and a signature
 * without rows has no batches. */
static Inference__ModelConfig file_for(const Inference__ModelConfig *pb, const struct td_servable *s,
                                       const struct td_signature *sig)
{
    Inference__ModelConfig c = *pb;
    if (sig != NULL && sig != td_servable_signature(s, "")) {
        c.n_input = c.n_output = 0;
    }
    if (sig != NULL && !td_model_config_has_rows(sig)) {
        c.max_batch_size = 0;
        c.dynamic_batching = NULL;
    }
    return c;
}

/* ModelVersionPolicy { Latest latest = 1 { uint32 num_versions = 1 }; All all = 2; Specific specific = 3 {
 * repeated int64 versions = 1 } } */
static enum td_code put_choice(const struct td_model_config *c, struct td_sink *out, struct td_err *err)
{
    const size_t at = td_put_mark(out);
    if (c != NULL && c->policy == TD_POLICY_ALL) {
        return td_put_end(out, 2, at, err);
    }
    if (c != NULL && c->policy == TD_POLICY_SPECIFIC) {
        const size_t list = td_put_mark(out);
        for (int i = 0; i < c->n_versions; i++) {
            TD_TRY(td_put_varint(out, (uint64_t)c->versions[i], err));
        }
        TD_TRY(td_put_end(out, 1, list, err));
        return td_put_end(out, 3, at, err);
    }
    TD_TRY(td_put_int(out, 1, c != NULL ? c->n_latest : 1, err));
    return td_put_end(out, 1, at, err);
}

/* What the file says of versions counts only where the server's configuration says nothing. */
static enum td_code put_policy(struct td_registry *r, const char *model, bool in_file, struct td_sink *out,
                               struct td_err *err)
{
    struct td_model_config *c = NULL;
    struct td_err gone = {0};
    (void)!td_registry_model(r, model, &c, &gone); /* unloaded since: the default is told */
    enum td_code rc = TD_OK;
    if (!in_file || (c != NULL && !c->policy_of_model)) {
        const size_t at = td_put_mark(out);
        rc = put_choice(c, out, err);
        rc = rc ? rc : td_put_end(out, 3, at, err);
    }
    td_model_configs_free(c, c != NULL ? 1 : 0);
    return rc;
}

static enum td_code put_instances(const char *name, const struct td_replicas *replicas, struct td_sink *out,
                                  struct td_err *err)
{
    const size_t group = td_put_mark(out);
    bool gpu = false;
    TD_TRY(td_put_text(out, 1, name, err));
    TD_TRY(td_put_int(out, 2, 1, err));
    for (int i = 0; i < replicas->n; i++) {
        const struct td_device *d = replicas->at[i].device;
        const int number = d == NULL ? -1 : td_placer_device_number(d->name);
        TD_TRY(number < 0 ? TD_OK : td_put_int(out, 3, number, err));
        gpu = gpu || number >= 0;
    }
    TD_TRY(td_put_int(out, 4,
                      gpu ? INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU
                          : INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU,
                      err));
    return td_put_end(out, 7, group, err);
}

/* Whether a model without a file is said to have rows: where each of them is more than one number. Clients
 * that take the rows off the shape of a vector are left with no shape at all. */
static bool says_rows(const struct td_signature *sig)
{
    bool rows = td_model_config_has_rows(sig);
    for (int i = 0; rows && i < sig->n_in; i++) {
        rows = sig->in[i].shape.rank > 1;
    }
    return rows;
}

enum td_code td_config_view_write(struct td_registry *r, const struct td_servable *s, const char *name,
                                  const struct td_signature *sig, struct td_sink *out, struct td_err *err)
{
    const struct td_model_settings *m = td_servable_settings(s);
    const Inference__ModelConfig shown =
        m->pb != NULL ? file_for(m->pb, s, sig) : (Inference__ModelConfig){0};
    const Inference__ModelConfig *pb = m->pb != NULL ? &shown : NULL;
    const bool rows = pb != NULL ? pb->max_batch_size > 0 : says_rows(sig);
    TD_TRY(pb != NULL ? put_file(pb, out, err) : TD_OK);
    TD_TRY(td_put_text(out, 1, name, err));
    TD_TRY(pb == NULL || !*pb->platform ? td_put_text(out, 2, TD_CONFIG_PLATFORM, err) : TD_OK);
    TD_TRY(pb == NULL || !*pb->backend ? td_put_text(out, 17, "tensorflow", err) : TD_OK);
    TD_TRY(put_policy(r, td_servable_name(s), pb != NULL && pb->version_policy != NULL, out, err));
    TD_TRY(pb == NULL && rows ? td_put_int(out, 4, TD_CONFIG_VIEW_ROWS, err) : TD_OK);
    TD_TRY(pb == NULL || pb->n_instance_group == 0 ? put_instances(name, td_servable_replicas(s), out, err)
                                                   : TD_OK);
    if (sig != NULL && (pb == NULL || pb->n_input == 0)) {
        TD_TRY(put_tensors(out, 5, 4, sig->in, sig->n_in, rows, err));
    }
    if (sig != NULL && (pb == NULL || pb->n_output == 0)) {
        TD_TRY(put_tensors(out, 6, 3, sig->out, sig->n_out, rows, err));
    }
    return td_put_bytes(out, 19, "", 0, err); /* model_transaction_policy: all of it default */
}

enum td_code td_config_view_json(struct td_registry *r, const struct td_servable *s, const char *name,
                                 const struct td_signature *sig, struct td_sink *out, struct td_err *err)
{
    struct td_sink bytes = {0};
    ProtobufCMessage *m = NULL;
    enum td_code rc = td_config_view_write(r, s, name, sig, &bytes, err);
    rc =
        rc ? rc : td_guard_unpack(&inference__model_config__descriptor, bytes.p, bytes.n, MAX_BYTES, &m, err);
    rc = rc ? rc : td_pb_json_write(m, out, err);
    td_guard_free(m);
    td_sink_fini(&bytes);
    return rc;
}
