/* proto/request/gradient_pb.c - two walks over the message: one counts, one fills arrays of the arena.
 *
 * Its first two fields are a PredictRequest's and are read as one. The answer's tensors have their sizes
 * computed before they are written.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/gradient_pb.h"

#include <string.h>

#include "core/base/mem.h"

enum { SPEC = 1, INPUTS, TARGET, WRT, KIND, OUTPUT_GRADIENTS, VECTOR, UNCONNECTED, RECOMPUTE, N_FIELDS };

static enum td_code count(struct td_wire w, int n[N_FIELDS], struct td_err *err)
{
    struct td_field f;
    memset(n, 0, N_FIELDS * sizeof *n);
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number < N_FIELDS && f.type == TD_WIRE_BYTES) {
            n[f.number]++;
            TD_FAIL_IF(n[f.number] > TD_GRADIENT_PB_MOST, err, INVALID_ARGUMENT,
                       "reading a GradientRequest: field %u occurs more than %d times", f.number,
                       TD_GRADIENT_PB_MOST);
        }
    }
}

static bool make_map(struct td_wire_map *m, int n, struct td_arena *a)
{
    m->at = td_arena_alloc(a, (size_t)n + 1, sizeof *m->at);
    m->name = td_arena_alloc(a, (size_t)n + 1, sizeof *m->name);
    return m->at != NULL && m->name != NULL;
}

static enum td_code add_entry(struct td_wire entry, struct td_arena *a, struct td_wire_map *m,
                              struct td_err *err)
{
    struct td_named_wire in;
    int at = 0;
    TD_TRY(td_map_entry_read(entry, a, &in.name, &in.tensor, err));
    while (at < m->n && strcmp(m->name[at], in.name) != 0) {
        at++;
    }
    m->at[at] = in;
    m->name[at] = in.name;
    m->n += at == m->n;
    return TD_OK;
}

static enum td_code read_field(const struct td_field *f, struct td_arena *a, struct td_gradient_pb *out,
                               struct td_err *err)
{
    if (f->type != TD_WIRE_BYTES) {
        out->recompute = f->number == RECOMPUTE && f->type == TD_WIRE_VARINT ? f->value != 0 : out->recompute;
        return TD_OK;
    }
    switch (f->number) {
    case TARGET:
        return td_wire_text(f->sub, a, &out->target[out->n_target++], err);
    case WRT:
        return td_wire_text(f->sub, a, &out->wrt[out->n_wrt++], err);
    case KIND:
        return td_wire_text(f->sub, a, &out->kind, err);
    case UNCONNECTED:
        return td_wire_text(f->sub, a, &out->unconnected, err);
    case OUTPUT_GRADIENTS:
        return add_entry(f->sub, a, &out->output_gradients, err);
    case VECTOR:
        return add_entry(f->sub, a, &out->vector, err);
    default:
        return TD_OK;
    }
}

/* Target and wrt are fields that a PredictRequest reads as output_filter or does not know. */
enum td_code td_gradient_pb_read(struct td_wire w, struct td_arena *a, struct td_gradient_pb *out,
                                 struct td_err *err)
{
    int n[N_FIELDS];
    struct td_field f;
    *out = (struct td_gradient_pb){.kind = "", .unconnected = ""};
    TD_TRY(count(w, n, err));
    TD_TRY(td_predict_read(w, a, &out->predict, err));
    out->predict.n_filter = 0;
    out->target = td_arena_alloc(a, (size_t)n[TARGET] + 1, sizeof *out->target);
    out->wrt = td_arena_alloc(a, (size_t)n[WRT] + 1, sizeof *out->wrt);
    if (out->target == NULL || out->wrt == NULL ||
        !make_map(&out->output_gradients, n[OUTPUT_GRADIENTS], a) || !make_map(&out->vector, n[VECTOR], a)) {
        return td_no_memory(err, (size_t)n[WRT], "a GradientRequest");
    }
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        TD_TRY(read_field(&f, a, out, err));
    }
}

/* ------------------------------------------------------------------ the answer */

static size_t field_size(size_t n)
{
    return 1 + td_wire_varint_size(n) + n; /* all field numbers here take one byte */
}

/* One entry of a map of tensors. */
static enum td_code put_tensor(struct td_sink *s, uint32_t field, const struct td_named *t, bool as_content,
                               struct td_err *err)
{
    const size_t tensor = td_tensor_pb_size(&t->t, as_content);
    const size_t entry = field_size(strlen(t->name)) + field_size(tensor);
    TD_FAIL_IF(s->n + entry > INT32_MAX, err, RESOURCE_EXHAUSTED,
               "encoding the gradients: they take more than a protobuf message's 2 GiB");
    TD_TRY(td_put_head(s, field, entry, err));
    TD_TRY(td_put_text(s, 1, t->name, err));
    TD_TRY(td_put_head(s, 2, tensor, err));
    return td_tensor_to_bytes(&t->t, as_content, s, err);
}

enum td_code td_gradient_pb_write(const struct td_gradient_pb_answer *p, struct td_sink *s,
                                  struct td_err *err)
{
    s->limit = INT32_MAX;
    for (int i = 0; i < p->n_gradients; i++) {
        TD_TRY(p->gradients[i].t.dtype == TD_DTYPE_NONE
                   ? td_put_text(s, 2, p->gradients[i].name, err)
                   : put_tensor(s, 1, &p->gradients[i], p->as_content, err));
    }
    for (int i = 0; i < p->n_outputs; i++) {
        TD_TRY(put_tensor(s, 3, &p->outputs[i], p->as_content, err));
    }
    return td_model_spec_write(s, 4, p->name, p->signature, p->version, err);
}
