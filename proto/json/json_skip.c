/* proto/json/json_skip.c - past values, checking them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_read.h"

/* The kinds of the brackets that are open around a value, innermost last. */
struct nest {
    char open[TD_JSON_MAX_DEPTH];
    int n;
};

/* One value that holds no others, or the opening of one that does. */
static enum td_code skip_start(struct td_json *j, struct nest *nest, struct td_err *err)
{
    const char c = td_json_peek(j);
    if (c == '[' || c == '{') {
        if (nest->n == TD_JSON_MAX_DEPTH) {
            return td_json_fail(j, err, "Values are nested too deeply (more than 128 levels).");
        }
        nest->open[nest->n++] = c;
        j->at++;
        return TD_OK;
    }
    struct td_json_str s;
    struct td_json_num number;
    if (c == '"') {
        return td_json_string(j, &s, err);
    }
    if (td_json_at_number(j)) {
        return td_json_number(j, &number, err);
    }
    return td_json_literal(j) ? TD_OK : td_json_fail(j, err, "Invalid value.");
}

static enum td_code skip_key(struct td_json *j, struct td_err *err)
{
    struct td_json_str key;
    if (td_json_peek(j) != '"') {
        return td_json_fail(j, err, "Missing a name for object member.");
    }
    TD_TRY(td_json_string(j, &key, err));
    return td_json_eat(j, ':') ? TD_OK
                               : td_json_fail(j, err, "Missing a colon after a name of object member.");
}

/* After a value: closes what ends here. *more is set when another value must follow. */
static enum td_code skip_after(struct td_json *j, struct nest *nest, bool *more, struct td_err *err)
{
    *more = false;
    while (nest->n > 0) {
        const bool object = nest->open[nest->n - 1] == '{';
        if (td_json_eat(j, ',')) {
            *more = true;
            return object ? skip_key(j, err) : TD_OK;
        }
        if (!td_json_eat(j, object ? '}' : ']')) {
            return td_json_fail(j, err,
                                object ? "Missing a comma or } after an object member."
                                       : "Missing a comma or ] after an array element.");
        }
        nest->n--;
    }
    return TD_OK;
}

enum td_code td_json_skip(struct td_json *j, struct td_err *err)
{
    struct nest nest = {.n = 0};
    bool more = true;
    while (more) {
        const int depth = nest.n;
        TD_TRY(skip_start(j, &nest, err));
        if (nest.n > depth) { /* opened: either empty or a first member follows */
            const bool object = nest.open[nest.n - 1] == '{';
            if (!td_json_eat(j, object ? '}' : ']')) {
                if (object) {
                    TD_TRY(skip_key(j, err));
                }
                continue;
            }
            nest.n--;
        }
        TD_TRY(skip_after(j, &nest, &more, err));
    }
    return TD_OK;
}
