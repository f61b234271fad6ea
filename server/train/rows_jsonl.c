/* server/train/rows_jsonl.c - JSON lines: one object a line.
 *
 * A line that has not been read before is first checked to be JSON and nothing else
 * (proto/json/json_strict.h); from then on whatever is wrong is wrong with the row. Members are read where
 * they stand; what depends on others (sample_weight on the targets' shapes, inputs that a train_signature
 * looks for among the targets) is noted and read at the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "server/train/rows_impl.h"

static size_t extent(const char *p, size_t n, bool end)
{
    const char *eol = memchr(p, '\n', n);
    return eol != NULL ? (size_t)(eol - p) + 1 : end ? n : 0;
}

/* Places of values that are read at the end; text NULL: not there. */
struct noted {
    struct td_json inputs, targets, weight; /* inputs: a bare value */
};

/* ------------------------------------------------------------------ inputs */

/* The input whose name this is, looking first at `hint`; -1: none. */
static int find_input(const struct td_row_layout *l, const struct td_json_str *key, int hint)
{
    for (int i = 0; i < l->n; i++) {
        const int at = (hint + i) % l->n;
        if (l->field[at].kind == TD_ROW_INPUT && td_json_str_is(key, l->field[at].name)) {
            return at;
        }
    }
    return -1;
}

static enum td_code read_inputs(struct td_row_reader *r, struct td_json *j, struct noted *noted,
                                struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    const bool bare = td_json_peek(j) != '{' ||
                      (td_json_at_b64(j) && l->bare_input && strcmp(l->field[0].name, "b64") != 0);
    if (bare && l->bare_input) {
        return td_row_cells_json(r->cells, 0, j, err);
    }
    if (bare) {
        noted->inputs = *j;
        return td_json_leap(j, err);
    }
    j->at++;
    bool more = true;
    int at = -1;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(j, first, &key, &more, err));
        if (!more) {
            break;
        }
        at = find_input(l, &key, at + 1);
        TD_FAIL_IF(at<0, err, INVALID_ARGUMENT, "inputs.%.*s: the signature has no such input", key.len> 100
                       ? 100
                       : (int)key.len,
                   key.p);
        TD_TRY(td_row_cells_json(r->cells, at, j, err));
    }
    return TD_OK;
}

/* Inputs of a train_signature that `inputs` did not name: the bare value of `inputs`, when one is left. */
static enum td_code read_bare(struct td_row_reader *r, const struct noted *noted, struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    int left = -1;
    for (int i = 0; i < l->n; i++) {
        if (l->field[i].kind == TD_ROW_INPUT && !r->cells->cell[i].seen) {
            TD_FAIL_IF(left >= 0 || noted->inputs.text == NULL || !l->field[i].or_target, err,
                       INVALID_ARGUMENT, "input %s is missing%s", l->field[i].name,
                       noted->inputs.text != NULL ? ": inputs is one value, want an object of several" : "");
            left = i;
        }
    }
    struct td_json j = noted->inputs;
    return left >= 0 ? td_row_cells_json(r->cells, left, &j, err) : TD_OK;
}

/* ------------------------------------------------------------------ targets */

/* A target that is the whole of `targets`: each field that wants it. */
static enum td_code read_whole(struct td_row_reader *r, const struct noted *noted, struct td_err *err)
{
    const struct td_row_layout *l = r->rows->layout;
    for (int i = 0; i < l->n; i++) {
        if (l->field[i].kind == TD_ROW_TARGET && strcmp(l->field[i].name, "targets") == 0) {
            struct td_json j = noted->targets;
            TD_TRY(td_row_cells_json(r->cells, i, &j, err));
        }
    }
    return TD_OK;
}

/* Whether the field wants this member of targets. */
static bool wants(const struct td_row_reader *r, int i, const struct td_json_str *key)
{
    const struct td_row_field *field = &r->rows->layout->field[i];
    if (field->kind == TD_ROW_TARGET) {
        return strncmp(field->name, "targets.", 8) == 0 && td_json_str_is(key, field->name + 8);
    }
    return field->or_target && !r->cells->cell[i].seen && td_json_str_is(key, field->name);
}

static enum td_code read_members(struct td_row_reader *r, struct td_json j, struct td_err *err)
{
    bool more = true;
    j.at++;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(&j, first, &key, &more, err));
        for (int i = 0; more && i < r->rows->layout->n; i++) {
            if (wants(r, i, &key)) {
                struct td_json value = j;
                TD_TRY(td_row_cells_json(r->cells, i, &value, err));
            }
        }
        TD_TRY(more ? td_json_leap(&j, err) : TD_OK);
    }
    return TD_OK;
}

static enum td_code read_targets(struct td_row_reader *r, struct noted *noted, struct td_err *err)
{
    TD_FAIL_IF(noted->targets.text == NULL && r->rows->layout->any_targets, err, INVALID_ARGUMENT,
               "targets is missing");
    if (noted->targets.text == NULL) {
        return TD_OK;
    }
    TD_TRY(read_whole(r, noted, err));
    return td_json_peek(&noted->targets) == '{' ? read_members(r, noted->targets, err) : TD_OK;
}

/* ------------------------------------------------------------------ weights */

static enum td_code read_weight(struct td_row_reader *r, struct td_json j, struct td_err *err)
{
    static const char before[] = "sample_weight.";
    char name[1024 + sizeof before] = "sample_weight.";
    if (td_json_peek(&j) != '{') {
        return td_row_cells_weight(r->cells, NULL, &j, err);
    }
    bool more = true;
    j.at++;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        size_t n = 0;
        TD_TRY(td_json_member(&j, first, &key, &more, err));
        if (!more) {
            break;
        }
        TD_FAIL_IF(key.len >= 1024, err, INVALID_ARGUMENT, "sample_weight names no output: '%.60s...'",
                   key.p);
        TD_TRY(td_json_unescape(&j, &key, name + sizeof before - 1, &n, err));
        name[sizeof before - 1 + n] = '\0';
        TD_TRY(td_row_cells_weight(r->cells, name, &j, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ a row */

static enum td_code read_member(struct td_row_reader *r, const struct td_json_str *key, struct td_json *j,
                                struct noted *noted, struct td_err *err)
{
    if (td_json_str_is(key, "inputs")) {
        return read_inputs(r, j, noted, err);
    }
    if (td_json_str_is(key, "targets")) {
        noted->targets = *j;
    } else if (td_json_str_is(key, "sample_weight")) {
        noted->weight = *j;
    }
    return td_json_leap(j, err);
}

static enum td_code check_line(struct td_row_reader *r, const char *p, size_t n, struct td_err *err)
{
    struct td_json j = td_json_make(p, n);
    r->line = true;
    n -= n > 0 && p[n - 1] == '\n' ? 1 : 0;
    TD_TRY(td_json_strict_check(&r->strict, p, n, err));
    TD_FAIL_IF(td_json_peek(&j) != '{', err, INVALID_ARGUMENT,
               "a JSON %s, want an object with inputs and targets", *j.at == '[' ? "list" : "value");
    r->line = false;
    return TD_OK;
}

static enum td_code read_row(struct td_row_reader *r, const char *p, size_t n, bool strict,
                             struct td_err *err)
{
    struct td_json j = td_json_make(p, n);
    struct noted noted = {.inputs.text = NULL};
    bool more = true;
    if (strict) {
        TD_TRY(check_line(r, p, n, err));
    }
    TD_FAIL_IF(!td_json_eat(&j, '{'), err, INVALID_ARGUMENT, "no object is there any more");
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(&j, first, &key, &more, err));
        TD_TRY(more ? read_member(r, &key, &j, &noted, err) : TD_OK);
    }
    TD_TRY(read_targets(r, &noted, err));
    TD_TRY(read_bare(r, &noted, err));
    return noted.weight.text != NULL ? read_weight(r, noted.weight, err) : TD_OK;
}

const struct td_row_format td_rows_jsonl = {.text = true, .extent = extent, .read = read_row};
