/* proto/request/classify_pb.c - examples of a request gathered into one string tensor, tasks into an array,
 * scores into the answer.
 *
 * The list of examples is walked twice: once to count them and add up their bytes, which bounds what the
 * tensor will take (a context counts once for each example), once to fill the tensor. Each element is the
 * context's bytes and the example's, copied once from the scattered message. Tasks are counted first too. The
 * answer's messages are written inside out; zeros and empty labels are left out, as proto3 does.
 *
 * Does not: parse an Example (the graph does), check signatures or tensors (server/request/classify.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/classify_pb.h"

#include "core/base/mem.h"

#define MAX_TASKS 1024

/* One pass over the list: counts examples and adds up bytes, or, with a tensor, fills it. */
struct list {
    uint64_t n, bytes;
    struct td_wire context;
    struct td_tensor *fill;
};

static enum td_code fill_one(struct list *l, struct td_wire example, int64_t i, struct td_err *err)
{
    size_t len = (size_t)(l->context.left + example.left);
    if (len == 0) {
        return TD_OK; /* elements start as the empty string */
    }
    struct td_str *s = td_str_new(NULL, len);
    if (s == NULL) {
        return td_no_memory(err, len, "an Example");
    }
    td_wire_copy(l->context, s->bytes);
    td_wire_copy(example, s->bytes + l->context.left);
    s->bytes[len] = 0;
    td_tensor_set_obj(l->fill, i, &s->obj);
    return TD_OK;
}

static enum td_code walk(struct td_wire w, struct list *l, struct td_err *err)
{
    struct td_field f;
    int64_t i = 0;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.type != TD_WIRE_BYTES) {
            continue;
        }
        if (f.number == 1 && l->fill != NULL) {
            TD_TRY(fill_one(l, f.sub, i++, err));
        } else if (f.number == 1) {
            l->n++;
            l->bytes += f.sub.left;
        } else if (f.number == 2 && l->fill == NULL) {
            l->context = f.sub;
        }
    }
}

enum td_code td_input_read(struct td_wire w, uint64_t max_bytes, struct td_tensor *out, struct td_err *err)
{
    struct td_field f;
    struct td_wire kind = {0};
    bool with_context = false;
    do { /* one choice: the last wins */
        TD_TRY(td_wire_next(&w, &f, err));
        if ((f.number == 1 || f.number == 2) && f.type == TD_WIRE_BYTES) {
            kind = f.sub;
            with_context = f.number == 2;
        }
    } while (f.number != 0);
    struct list l = {0};
    TD_TRY(walk(kind, &l, err));
    TD_FAIL_IF(l.n == 0, err, INVALID_ARGUMENT, "Input is empty.");
    if (!with_context) {
        l.context = (struct td_wire){0};
    }
    TD_FAIL_IF(l.n > max_bytes || l.context.left > (max_bytes - l.n) / l.n ||
                   l.context.left * l.n + l.bytes > max_bytes,
               err, RESOURCE_EXHAUSTED,
               "Input: %llu examples of %llu bytes and a context of %llu bytes for each exceed %llu bytes",
               (unsigned long long)l.n, (unsigned long long)l.bytes, (unsigned long long)l.context.left,
               (unsigned long long)max_bytes);
    const struct td_shape shape = td_shape_vector((int64_t)l.n);
    TD_TRY(td_tensor_new(out, TD_STRING, &shape, err));
    l.fill = out;
    enum td_code rc = walk(kind, &l, err);
    if (rc) {
        td_tensor_clear(out);
    }
    return rc;
}

enum td_code td_examples_read(struct td_wire w, struct td_arena *a, struct td_examples_pb *out,
                              struct td_err *err)
{
    struct td_field f;
    *out = (struct td_examples_pb){.spec = {.name = "", .signature = ""}};
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_model_spec_read(f.sub, a, &out->spec, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            out->input = f.sub;
        }
    }
}

static enum td_code read_task(struct td_wire w, struct td_arena *a, struct td_task_pb *t, struct td_err *err)
{
    struct td_field f;
    *t = (struct td_task_pb){.spec = {.name = "", .signature = ""}, .method = ""};
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_model_spec_read(f.sub, a, &t->spec, err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &t->method, err));
        }
    }
}

static enum td_code count_tasks(struct td_wire w, int *n, struct td_err *err)
{
    struct td_field f;
    *n = 0;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        *n += f.number == 1 && f.type == TD_WIRE_BYTES;
        TD_FAIL_IF(*n > MAX_TASKS, err, INVALID_ARGUMENT, "MultiInferenceRequest: more than %d tasks",
                   MAX_TASKS);
    }
}

enum td_code td_multi_read(struct td_wire w, struct td_arena *a, struct td_multi_pb *out, struct td_err *err)
{
    int n;
    TD_TRY(count_tasks(w, &n, err));
    *out = (struct td_multi_pb){.task = td_arena_alloc(a, (size_t)n + 1, sizeof *out->task)};
    if (out->task == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *out->task, "a MultiInferenceRequest");
    }
    struct td_field f;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(read_task(f.sub, a, &out->task[out->n_task++], err));
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            out->input = f.sub;
        }
    }
}

/* Class { label = 1, score = 2 } */
static enum td_code write_class(struct td_sink *s, const struct td_scores *r, int64_t i, struct td_err *err)
{
    size_t len = 0, at = td_put_mark(s);
    const char *label = r->classes != NULL ? td_tensor_str(r->classes, i, &len) : "";
    float score = r->scores != NULL ? TD_DATA(r->scores, float)[i] : 0;
    if (len > 0) {
        TD_TRY(td_put_bytes(s, 1, label, len, err));
    }
    if (score != 0) {
        TD_TRY(td_put_float(s, 2, score, err));
    }
    return td_put_end(s, 1, at, err);
}

enum td_code td_scores_write(struct td_sink *s, uint32_t field, const struct td_scores *r, struct td_err *err)
{
    size_t result = td_put_mark(s);
    for (int64_t i = 0; i < r->n; i++) {
        size_t row = td_put_mark(s);
        for (int64_t k = 0; r->values == NULL && k < r->n_classes; k++) {
            TD_TRY(write_class(s, r, i * r->n_classes + k, err));
        }
        if (r->values != NULL && TD_DATA(r->values, float)[i] != 0) {
            TD_TRY(td_put_float(s, 1, TD_DATA(r->values, float)[i], err));
        }
        TD_TRY(td_put_end(s, 1, row, err));
    }
    return td_put_end(s, field, result, err);
}
