/* server/train/spec_more.c - what a job may say beyond suites/finetune/FORMAT.md: head, lora, gate, padding,
 * constraints.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/train/activations.h"
#include "kernels/train/initializers.h"
#include "server/train/spec_read.h"

/* ------------------------------------------------------------------ head */

static const char *activation_name(int i)
{
    return td_activation_row(i) == NULL ? NULL : td_activation_row(i)->name;
}

static enum td_code read_activation(struct td_spec_reader *r, json_t *value,
                                    const struct td_spec_field *field, void *to)
{
    TD_TRY(td_spec_read_text(r, value, field, to));
    const char *name = json_string_value(value);
    return td_activation_find(name) != NULL ? TD_OK
                                            : td_spec_read_unknown(r, "activation", name, activation_name);
}

static const char *initializer_name(int i)
{
    return td_initializer_row(i) == NULL ? NULL : td_initializer_row(i)->name;
}

static enum td_code read_initializer(struct td_spec_reader *r, json_t *value,
                                     const struct td_spec_field *field, void *to)
{
    TD_TRY(td_spec_read_text(r, value, field, to));
    const char *name = json_string_value(value);
    return td_initializer_find(name) != NULL ? TD_OK
                                             : td_spec_read_unknown(r, "initializer", name, initializer_name);
}

#define AT(member) .at = offsetof(struct td_head_layer_spec, member)
static const struct td_spec_field LAYER[] = {
    {.name = "units", .read = td_spec_read_int, AT(units), .required = true, .least = 1, .most = 1 << 20},
    {.name = "activation", .read = read_activation, AT(activation)},
    {.name = "use_bias", .read = td_spec_read_bool, AT(use_bias)},
    {.name = "kernel_initializer", .read = read_initializer, AT(kernel_initializer)},
    {.name = "bias_initializer", .read = read_initializer, AT(bias_initializer)},
    {.name = "l1", .read = td_spec_read_number, AT(l1), .range = TD_NOT_NEGATIVE},
    {.name = "l2", .read = td_spec_read_number, AT(l2), .range = TD_NOT_NEGATIVE},
    {.name = "dropout", .read = td_spec_read_number, AT(dropout), .range = TD_BELOW_ONE},
    {0},
};
#undef AT

static enum td_code read_layers(struct td_spec_reader *r, json_t *value, const struct td_spec_field *field,
                                void *to)
{
    struct td_head_spec *head = to;
    (void)field;
    TD_TRY(td_spec_read_list(r, value, sizeof *head->layer, &head->layer, &head->n_layers));
    if (head->n_layers == 0) {
        return td_spec_read_wrong(r, value, "at least one layer");
    }
    for (int i = 0; i < head->n_layers; i++) {
        struct td_head_layer_spec *layer = &head->layer[i];
        const size_t mark = td_spec_read_item(r, i);
        *layer = (struct td_head_layer_spec){.activation = "linear",
                                             .use_bias = true,
                                             .kernel_initializer = "glorot_uniform",
                                             .bias_initializer = "zeros"};
        TD_TRY(td_spec_read_object(r, json_array_get(value, (size_t)i), LAYER, layer));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

static const struct td_spec_field HEAD[] = {
    {.name = "at", .read = td_spec_read_text, .at = offsetof(struct td_head_spec, at), .required = true},
    {.name = "output", .read = td_spec_read_text, .at = offsetof(struct td_head_spec, output)},
    {.name = "layers", .read = read_layers, .required = true},
    {0},
};

enum td_code td_spec_more_read_head(struct td_spec_reader *r, json_t *value,
                                    const struct td_spec_field *field, void *to)
{
    struct td_head_spec *head = to;
    (void)field;
    head->output = "output";
    return td_spec_read_object(r, value, HEAD, head);
}

/* ------------------------------------------------------------------ gate */

static const char *const MODES[] = {"min", "max", NULL};
struct gate {
    const char *monitor, *mode;
    double min_gain;
};
static const struct td_spec_field GATE[] = {
    {.name = "monitor", .read = td_spec_read_text, .at = offsetof(struct gate, monitor), .required = true},
    {.name = "mode", .read = td_spec_read_word, .at = offsetof(struct gate, mode), .words = MODES},
    {.name = "min_gain", .read = td_spec_read_number, .at = offsetof(struct gate, min_gain)},
    {0},
};

enum td_code td_spec_more_read_gate(struct td_spec_reader *r, json_t *value,
                                    const struct td_spec_field *field, void *to)
{
    struct td_gate_spec *gate = to;
    struct gate g = {0};
    (void)field;
    TD_TRY(td_spec_read_object(r, value, GATE, &g));
    if (strncmp(g.monitor, "val_", 4) != 0) {
        (void)td_spec_read_enter(r, "monitor");
        return TD_FAULT(r->f, "invalid_value", r->path, "%s is \"%.100s\", want val_loss or a val_ metric",
                        r->path, g.monitor);
    }
    const char *tail = strrchr(g.monitor, '_');
    *gate = (struct td_gate_spec){
        .on = true,
        .monitor = g.monitor,
        .max = g.mode != NULL ? strcmp(g.mode, "max") == 0 : strcmp(tail, "_loss") != 0,
        .min_gain = g.min_gain,
    };
    return TD_OK;
}

/* ------------------------------------------------------------------ padding, constraints */

enum td_code td_spec_more_read_padding(struct td_spec_reader *r, json_t *value,
                                       const struct td_spec_field *field, void *to)
{
    struct td_job_spec *s = to;
    const char *input;
    json_t *with;
    (void)field;
    if (!json_is_object(value)) {
        return td_spec_read_wrong(r, value, "an object of input -> value");
    }
    s->padding = td_spec_read_alloc(r, json_object_size(value), sizeof *s->padding);
    if (s->padding == NULL) {
        return r->f->err.code;
    }
    json_object_foreach(value, input, with)
    {
        const size_t mark = td_spec_read_enter(r, input);
        if (!json_is_number(with) && !json_is_string(with) && !json_is_boolean(with)) {
            return td_spec_read_wrong(r, with, "a number, a string, true or false");
        }
        const size_t n = json_dumpb(with, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
        char *name = td_spec_read_alloc(r, strlen(input) + 1, 1), *text = td_spec_read_alloc(r, n + 1, 1);
        if (name == NULL || text == NULL) {
            return r->f->err.code;
        }
        memcpy(name, input, strlen(input));
        (void)json_dumpb(with, text, n, JSON_ENCODE_ANY | JSON_COMPACT);
        s->padding[s->n_paddings++] = (struct td_padding_spec){name, text};
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}

static const struct td_spec_field CONSTRAINT[] = {
    {.name = "pattern",
     .read = td_spec_read_text,
     .at = offsetof(struct td_constraint_spec, pattern),
     .required = true},
    {.name = "name", .read = td_spec_read_nothing},
    {0},
};

static const char *constraint_name(int i)
{
    const struct td_constraint *row = td_constraint_row(i);
    return row != NULL ? row->name : NULL;
}

static enum td_code read_constraint(struct td_spec_reader *r, json_t *value, struct td_constraint_spec *c)
{
    const char *name;
    TD_TRY(td_spec_read_name(r, value, &name));
    c->constraint = td_constraint_find(name);
    if (c->constraint == NULL) {
        (void)td_spec_read_enter(r, "name");
        return td_spec_read_unknown(r, "constraint", name, constraint_name);
    }
    return td_spec_read_formula(r, value, CONSTRAINT, c, c->constraint->fields, &c->field);
}

enum td_code td_spec_more_read_constraints(struct td_spec_reader *r, json_t *value,
                                           const struct td_spec_field *field, void *to)
{
    struct td_job_spec *s = to;
    (void)field;
    TD_TRY(td_spec_read_list(r, value, sizeof *s->constraint, &s->constraint, &s->n_constraints));
    for (int i = 0; i < s->n_constraints; i++) {
        const size_t mark = td_spec_read_item(r, i);
        TD_TRY(read_constraint(r, json_array_get(value, (size_t)i), &s->constraint[i]));
        td_spec_read_leave(r, mark);
    }
    return TD_OK;
}
