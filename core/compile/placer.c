/* core/compile/placer.c - device names are read as TensorFlow reads them, then compared with what is here.
 *
 * "/job:J/replica:R/task:T/device:TYPE:ID", each part optional, ID a number or '*'; "/cpu:0" and "/gpu:0" are
 * old forms of the last. This process is job localhost, replica 0, task 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/placer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/log.h"
#include "core/run/model.h"
#include "core/run/select.h"

#define HERE "/job:localhost/replica:0/task:0"

enum { TYPE_MAX = 24, NAME_MAX = 160, KERNELS_MAX = 500 };

enum ask { ASK_NOTHING, ASK_HOST, ASK_DEVICE, ASK_ABSENT };

struct device_name {
    char type[TYPE_MAX]; /* "" any */
    int id;              /* -1 any */
    bool elsewhere;      /* another job, replica or task, or no device name at all */
};

/* ------------------------------------------------------------------ names */

static bool is(const char *s, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(s, word, n) == 0;
}

static void read_type(struct device_name *d, const char *type, size_t n, const char *id)
{
    d->elsewhere |= n == 0 || n >= TYPE_MAX;
    snprintf(d->type, sizeof d->type, "%.*s", (int)(n < TYPE_MAX ? n : 0), type);
    for (char *c = d->type; *c != 0; c++) {
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    d->id = id == NULL || *id == '*' ? -1 : (int)strtol(id, NULL, 10);
}

/* One "key:value" of n bytes. */
static void read_part(struct device_name *d, const char *part, size_t n)
{
    const char *colon = memchr(part, ':', n);
    size_t key = colon == NULL ? n : (size_t)(colon - part), rest = colon == NULL ? 0 : n - key - 1;
    if (is(part, key, "device")) {
        const char *second = rest > 0 ? memchr(colon + 1, ':', rest) : NULL;
        read_type(d, colon + 1, second == NULL ? rest : (size_t)(second - colon - 1),
                  second == NULL ? NULL : second + 1);
    } else if (is(part, key, "cpu") || is(part, key, "gpu")) {
        read_type(d, part, key, rest > 0 ? colon + 1 : NULL);
    } else if (is(part, key, "job")) {
        d->elsewhere |= !is(colon + 1, rest, "localhost");
    } else if (is(part, key, "replica") || is(part, key, "task")) {
        d->elsewhere |= rest == 0 || !(colon[1] == '*' || is(colon + 1, rest, "0"));
    } else {
        d->elsewhere = true;
    }
}

static struct device_name read_name(const char *text)
{
    struct device_name d = {.id = -1};
    d.elsewhere = text[0] != 0 && text[0] != '/';
    for (const char *p = text; *p == '/';) {
        size_t n = strcspn(p + 1, "/");
        read_part(&d, p + 1, n);
        p += 1 + n;
    }
    return d;
}

static bool admits(const struct device_name *wanted, const char *type, int id)
{
    return strcmp(wanted->type, type) == 0 && (wanted->id < 0 || wanted->id == id);
}

static enum ask asked(const struct td_model_opts *o, const struct td_node *n)
{
    if (n->device == NULL || n->device[0] == 0) {
        return ASK_NOTHING;
    }
    struct device_name wanted = read_name(n->device);
    if (wanted.elsewhere) {
        return ASK_ABSENT;
    }
    if (wanted.type[0] == 0) {
        return ASK_NOTHING;
    }
    if (admits(&wanted, "CPU", 0)) {
        return ASK_HOST;
    }
    struct device_name dev = o->device == NULL ? (struct device_name){0} : read_name(o->device->name);
    return o->device != NULL && admits(&wanted, dev.type, dev.id) ? ASK_DEVICE : ASK_ABSENT;
}

int td_placer_device_number(const char *name)
{
    const struct device_name d = name == NULL ? (struct device_name){.id = -1} : read_name(name);
    return d.elsewhere || strcmp(d.type, "GPU") != 0 ? -1 : d.id;
}

static int asked_in(const struct td_graph *g)
{
    int number = -1;
    for (int i = 0; number < 0 && i < g->n_nodes; i++) {
        number = td_placer_device_number(g->nodes[i]->device);
    }
    return number;
}

int td_placer_asked_for(const struct td_graph *graph, const struct td_library *lib)
{
    int number = asked_in(graph);
    for (int i = 0; number < 0 && lib != NULL && i < lib->n_functions; i++) {
        number = asked_in(&lib->functions[i]->body);
    }
    return number;
}

/* ------------------------------------------------------------------ what may go to the device */

/* State, calls, control flow and what only shapes decide stay on the host on purpose: asking otherwise is no
 * mistake. */
static bool stays(const struct td_node *n)
{
    const uint32_t never = TD_OP_STATEFUL | TD_OP_HANDLE | TD_OP_NO_FOLD | TD_OP_CALL | TD_OP_CONST |
                           TD_OP_ARG | TD_OP_REFUSED | TD_OP_DEAD_OK | TD_OP_SWITCH | TD_OP_ENTER |
                           TD_OP_EXIT | TD_OP_NEXT | TD_OP_LOOP_COND | TD_OP_SHAPE_ONLY;
    const uint32_t flags = n->op == NULL                ? never
                           : n->op->flags & TD_OP_DRAWS ? n->op->flags & ~(uint32_t)TD_OP_STATEFUL
                                                        : n->op->flags;
    bool yes = n->n_out == 0 || (flags & never) != 0;
    for (int i = 0; !yes && i < n->n_attrs; i++) {
        yes = n->attrs[i].kind == TD_ATTR_FUNC;
    }
    return yes;
}

/* Numbers in, numbers out, of shapes that a shape function can tell. */
static bool may_go(const struct td_node *n)
{
    bool ok = !stays(n) && n->op->infer != NULL && n->op->host_out == 0;
    for (int i = 0; ok && i < n->n_in; i++) {
        ok = !n->in_ref[i] && !td_dtype_is_object(n->in[i].node->out_type[n->in[i].port]);
    }
    for (int i = 0; ok && i < n->n_out; i++) {
        ok = !n->out_ref[i] && !td_dtype_is_object(n->out_type[i]);
    }
    return ok;
}

static int rows_there(const struct td_model_opts *o, const struct td_node *n,
                      const struct td_kernel *rows[TD_KERNEL_MOST])
{
    struct td_err ignored = {0};
    const struct td_target there = td_target_device(o);
    int n_rows;
    const bool found = o->device != NULL && may_go(n) &&
                       td_select_rows(n, &there, rows, &n_rows, NULL, 0, &ignored) == TD_OK;
    return found ? n_rows : 0;
}

int td_placer_device_rows(const struct td_model_opts *o, const struct td_node *n,
                          const struct td_kernel *rows[TD_KERNEL_MOST])
{
    return o->device == NULL || asked(o, n) == ASK_HOST ? 0 : rows_there(o, n, rows);
}

bool td_placer_on_device(const struct td_model_opts *o, const struct td_node *n)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    return td_placer_device_rows(o, n, rows) > 0;
}

static int arg_length(const struct td_node *n, const struct td_arg_def *a)
{
    if (a->number_attr != NULL) {
        return (int)td_attr_int(n, a->number_attr);
    }
    return a->list_attr != NULL ? td_attr_len(n, a->list_attr) : 1;
}

enum td_code td_placer_step(struct td_plan *p, struct td_step *s, struct td_err *err)
{
    const struct td_node *n = s->node;
    const struct td_kernel *found[TD_KERNEL_MOST];
    const int n_rows = s->deref != NULL ? 0 : td_placer_device_rows(td_model_opts_of(p->model), n, found);
    if (n_rows == 0) {
        return TD_OK;
    }
    bool *on_host = td_arena_alloc(p->arena, (size_t)n->n_in + 1, sizeof *on_host);
    const struct td_kernel **rows = td_arena_alloc(p->arena, (size_t)n_rows, sizeof *rows);
    if (on_host == NULL || rows == NULL) {
        return td_no_memory(err, (size_t)n->n_in, "compiling a plan");
    }
    memcpy(rows, found, (size_t)n_rows * sizeof *rows);
    for (int a = 0, i = 0; a < n->def->n_in; a++) {
        int end = i + arg_length(n, &n->def->in[a]);
        for (; i < end && i < n->n_in; i++) {
            on_host[i] = a < 32 && (n->op->host_in >> a & 1) != 0;
        }
    }
    s->device_rows = rows;
    s->n_device_rows = n_rows;
    s->on_host = on_host;
    return TD_OK;
}

/* ------------------------------------------------------------------ asking in vain */

static bool in_vain(const struct td_model_opts *o, const struct td_node *n, enum ask *ask)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    *ask = asked(o, n);
    return *ask == ASK_ABSENT || (*ask == ASK_DEVICE && !stays(n) && rows_there(o, n, rows) == 0);
}

void td_placer_note(const struct td_model_opts *o, const struct td_node *n, char *text, size_t bytes)
{
    enum ask ask;
    text[0] = 0;
    if (in_vain(o, n, &ask)) {
        snprintf(text, bytes, "asks for %.*s, which %s", NAME_MAX, n->device,
                 ask == ASK_ABSENT ? "is not here" : "has no kernel for it");
    }
}

/* "device='CPU'; T in [DT_FLOAT, DT_HALF]" of each row. */
static void list_kernels(const struct td_model_opts *o, const struct td_node *n, char *text, size_t bytes)
{
    size_t used = 0;
    struct device_name dev = o->device == NULL ? (struct device_name){0} : read_name(o->device->name);
    snprintf(text, bytes, "<no registered kernels>");
    for (int i = 0; n->op != NULL && td_select_row(n, i) != NULL; i++) {
        const struct td_kernel *k = td_select_row(n, i);
        bool there = o->device != NULL && k->device == o->device->kind;
        used += (size_t)snprintf(text + used, bytes - used, "%sdevice='%s'", used > 0 ? " | " : "",
                                 there                 ? dev.type
                                 : k->device == TD_CPU ? "CPU"
                                                       : "GPU");
        for (int r = 0; r < TD_TYPE_RULES && k->types[r].attr != NULL && used < bytes; r++) {
            const char *before = "";
            used += (size_t)snprintf(text + used, bytes - used, "; %s in [", k->types[r].attr);
            for (int t = 1; t < TD_DTYPE_END && used < bytes; t++) {
                if (td_dtype_in((enum td_dtype)t, k->types[r].set)) {
                    used += (size_t)snprintf(text + used, bytes - used, "%s%s", before,
                                             td_dtype_tf_name((enum td_dtype)t));
                    before = ", ";
                }
            }
            used += used < bytes ? (size_t)snprintf(text + used, bytes - used, "]") : 0;
        }
        if (used >= bytes) {
            return;
        }
    }
}

static enum td_code refuse(const struct td_model_opts *o, const struct td_node *n, enum ask ask,
                           struct td_err *err)
{
    char kernels[KERNELS_MAX];
    list_kernels(o, n, kernels, sizeof kernels);
    TD_FAIL_IF(ask == ASK_DEVICE, err, INVALID_ARGUMENT,
               "Cannot assign a device for operation %.*s: Could not satisfy explicit device specification "
               "'%.*s' because no "
               "supported kernel for %s devices is available. Op: %s. Registered kernels: %s",
               NAME_MAX, n->name, NAME_MAX, n->device, read_name(o->device->name).type, n->op_name, kernels);
    return td_fail(err, TD_INVALID_ARGUMENT,
                   "Cannot assign a device for operation %.*s: {{node %.*s}} was explicitly assigned to %.*s "
                   "but available "
                   "devices are [ " HERE
                   "/device:CPU:0%s%s ]. Make sure the device specification refers to a valid device. "
                   "Op: %s. Registered kernels: %s",
                   NAME_MAX, n->name, NAME_MAX, n->name, NAME_MAX, n->device,
                   o->device == NULL ? "" : ", " HERE, o->device == NULL ? "" : o->device->name, n->op_name,
                   kernels);
}

enum td_code td_placer_run(const struct td_model_opts *o, const struct td_ir *ir, bool log,
                           struct td_err *err)
{
    for (int i = 0; (log || o->no_soft_placement) && i < ir->n_nodes; i++) {
        const struct td_node *n = ir->nodes[i];
        enum ask ask;
        if (o->no_soft_placement && in_vain(o, n, &ask)) {
            return refuse(o, n, ask, err);
        }
        if (log && n->op != &td_op_join) {
            td_log(TD_LOG_INFO, NULL, "%s: (%s): " HERE "%s", n->name, n->op_name,
                   td_placer_on_device(o, n) ? o->device->name : "/device:CPU:0");
        }
    }
    return TD_OK;
}
