/* proto/json/gradient_json.c - one walk over a body's members; tensors are left as text.
 *
 * The dtypes of output_gradients and vector follow from the model, which is found later: so their names are
 * read and their values only leapt over. A member that comes twice is refused: half of each would count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/gradient_json.h"

#include <string.h>

#include "core/base/mem.h"

enum member { TARGET, WRT, KIND, OUTPUT_GRADIENTS, VECTOR, UNCONNECTED, RECOMPUTE, N_MEMBERS };
static const char *const MEMBERS[N_MEMBERS] = {"target", "wrt",         "kind",     "output_gradients",
                                               "vector", "unconnected", "recompute"};

struct walk {
    struct td_json j;
    struct td_arena *arena;
    struct td_gradient_json *to;
    const char *at; /* the member's name */
};

static enum td_code add_name(struct walk *w, const struct td_json_str *s, struct td_gradient_json_names *to,
                             struct td_err *err)
{
    TD_FAIL_IF(to->n == TD_GRADIENT_JSON_NAMES, err, INVALID_ARGUMENT, "'%s' holds more than %d names", w->at,
               TD_GRADIENT_JSON_NAMES);
    if (to->n == to->cap) {
        const int cap = to->cap == 0 ? 8 : 2 * to->cap;
        const char **grown = td_arena_alloc(w->arena, (size_t)cap, sizeof *grown);
        if (grown == NULL) {
            return td_no_memory(err, (size_t)cap * sizeof *grown, "the names of a gradient");
        }
        if (to->n > 0) {
            memcpy(grown, to->name, (size_t)to->n * sizeof *grown);
        }
        to->name = grown;
        to->cap = cap;
    }
    return td_json_text(&w->j, s, w->arena, &to->name[to->n++], err);
}

static enum td_code one_name(struct walk *w, struct td_gradient_json_names *to, struct td_err *err)
{
    struct td_json_str s;
    TD_FAIL_IF(td_json_peek(&w->j) != '"', err, INVALID_ARGUMENT,
               "'%s' must be a string or a list of strings", w->at);
    TD_TRY(td_json_string(&w->j, &s, err));
    return add_name(w, &s, to, err);
}

static enum td_code names(struct walk *w, struct td_gradient_json_names *to, struct td_err *err)
{
    if (!td_json_eat(&w->j, '[')) {
        return one_name(w, to, err);
    }
    if (td_json_eat(&w->j, ']')) {
        return TD_OK;
    }
    for (;;) {
        TD_TRY(one_name(w, to, err));
        if (td_json_eat(&w->j, ']')) {
            return TD_OK;
        }
        if (!td_json_eat(&w->j, ',')) {
            return td_json_fail(&w->j, err, "Missing a comma or ] after an array element.");
        }
    }
}

static enum td_code tensors(struct walk *w, struct td_gradient_json_tensors *to, struct td_err *err)
{
    bool more = true;
    TD_FAIL_IF(td_json_peek(&w->j) != '{', err, INVALID_ARGUMENT,
               "'%s' must be an object, a tensor for each name", w->at);
    to->body = (struct td_json_body){.signature = "", .form = TD_JSON_COLUMNS, .value = w->j, .root = w->j};
    w->j.at++;
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        TD_TRY(td_json_member(&w->j, first, &key, &more, err));
        if (more) {
            TD_TRY(add_name(w, &key, &to->names, err));
            TD_TRY(td_json_leap(&w->j, err));
        }
    }
    to->body.value.end = w->j.at;
    return TD_OK;
}

static enum td_code text(struct walk *w, const char **out, struct td_err *err)
{
    struct td_json_str s;
    TD_FAIL_IF(td_json_peek(&w->j) != '"', err, INVALID_ARGUMENT, "'%s' must be a string", w->at);
    TD_TRY(td_json_string(&w->j, &s, err));
    return td_json_text(&w->j, &s, w->arena, out, err);
}

static enum td_code unconnected(struct walk *w, struct td_err *err)
{
    const char *word = "";
    TD_TRY(text(w, &word, err));
    w->to->zeros = strcmp(word, "zero") == 0;
    TD_FAIL_IF(!w->to->zeros && strcmp(word, "none") != 0, err, INVALID_ARGUMENT,
               "'unconnected' is \"%.100s\"; it must be \"none\" or \"zero\"", word);
    return TD_OK;
}

static enum td_code flag(struct walk *w, bool *out, struct td_err *err)
{
    const char c = td_json_literal(&w->j);
    TD_FAIL_IF(c != 't' && c != 'f', err, INVALID_ARGUMENT, "'%s' must be true or false", w->at);
    *out = c == 't';
    return TD_OK;
}

static enum td_code member(struct walk *w, enum member which, struct td_err *err)
{
    struct td_gradient_json *to = w->to;
    switch (which) {
    case TARGET:
        return names(w, &to->target, err);
    case WRT:
        return names(w, &to->wrt, err);
    case KIND:
        return text(w, &to->kind, err);
    case OUTPUT_GRADIENTS:
        return tensors(w, &to->output_gradients, err);
    case VECTOR:
        return tensors(w, &to->vector, err);
    case UNCONNECTED:
        return unconnected(w, err);
    case RECOMPUTE:
        return flag(w, &to->recompute, err);
    default:
        return td_json_skip(&w->j, err);
    }
}

enum td_code td_gradient_json_read(struct td_json members, struct td_arena *arena,
                                   struct td_gradient_json *out, struct td_err *err)
{
    struct walk w = {.j = members, .arena = arena, .to = out};
    bool seen[N_MEMBERS] = {false}, more = true;
    *out = (struct td_gradient_json){.kind = ""};
    for (bool first = true; more; first = false) {
        struct td_json_str key;
        int which = 0;
        TD_TRY(td_json_member(&w.j, first, &key, &more, err));
        if (!more) {
            break;
        }
        while (which < N_MEMBERS && !td_json_str_is(&key, MEMBERS[which])) {
            which++;
        }
        if (which == N_MEMBERS) {
            TD_TRY(td_json_leap(&w.j, err));
            continue;
        }
        TD_FAIL_IF(seen[which], err, INVALID_ARGUMENT, "'%s' is given twice", MEMBERS[which]);
        seen[which] = true;
        w.at = MEMBERS[which];
        TD_TRY(member(&w, (enum member)which, err));
    }
    return TD_OK;
}

enum td_code td_gradient_json_write(struct td_sink *s, const struct td_named *gradients, int n_gradients,
                                    const struct td_named *outputs, int n_outputs, struct td_err *err)
{
    static const char first[] = "{\n    \"gradients\": ", second[] = ",\n    \"outputs\": ";
    TD_TRY(td_sink_put(s, first, sizeof first - 1, err));
    TD_TRY(td_json_put_object(s, gradients, n_gradients, false, err));
    TD_TRY(td_sink_put(s, second, sizeof second - 1, err));
    TD_TRY(td_json_put_object(s, outputs, n_outputs, true, err));
    return td_sink_put(s, "\n}", 2, err);
}
