/* proto/json/json_ahead.c - a value whose end is taken from the end of the text.
 *
 *   {"inputs": [[1, 2], [3, 4]]}           bare: the whole list, and of rows too
 *              |               |
 *   {"instances": [{"x": [1, 2]}]}         named: the closing brackets behind it are known by those before it
 *                        |     |
 *   {"inputs": [{.., "data": [1, 2]}], ..} last: numbers have no braces, so the first brace of the text's
 *                            |     |       last KB is that of its object
 *
 * Who goes through the members of a body has to find where the large one ends, and who reads that by parts
 * once more: by one thread, as long as several then take to read it. Where little follows the value, its end
 * is seen from behind. Whether it is right shows when the value has been read: it ends just there.
 *
 * Nothing here is an error: what is strange, or wrong, is left to who goes through the text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_ahead.h"

#include <string.h>

#include "proto/json/json_parts.h"

#define TAIL 4096 /* bytes in which the end of a last member is looked for */

void td_json_ahead_fini(struct td_json_ahead *a)
{
    if (a->there) {
        td_gather_fini(&a->g);
        a->there = false;
    }
}

/* ------------------------------------------------------------------ where the value is */

/* The value at j is one field's; closing: the brackets behind it, the last one first. */
struct place {
    const struct td_json_field *field;
    const char *closing;
};

/* Of named values at j, behind the brace: the field that the first one is of; NULL: none. */
static const struct td_json_field *named_field(struct td_json *j, const struct td_json_field *fields, int n)
{
    struct td_json_str key;
    struct td_err ignored = {0};
    bool more = false;
    if (td_json_member(j, true, &key, &more, &ignored) || !more) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if (td_json_str_is(&key, fields[i].name)) {
            return &fields[i];
        }
    }
    return NULL;
}

/* At what instances or inputs are. */
static struct place place_in(struct td_json *j, bool rows, const struct td_json_field *fields, int n)
{
    struct td_json row = *j;
    if (rows && td_json_eat(&row, '[') && td_json_eat(&row, '{')) {
        *j = row;
        return (struct place){named_field(j, fields, n), "}]}"};
    }
    if (!rows && td_json_eat(j, '{')) {
        return (struct place){named_field(j, fields, n), "}}"};
    }
    return (struct place){n == 1 ? fields : NULL, "}"};
}

/* Goes through the members before the value. */
static struct place find(struct td_json *j, const struct td_json_field *fields, int n)
{
    const struct place none = {NULL, ""};
    struct td_err ignored = {0};
    struct td_json_str key, name;
    bool more = td_json_eat(j, '{');
    for (bool first = true; more; first = false) {
        if (td_json_member(j, first, &key, &more, &ignored) || !more) {
            break;
        }
        const bool rows = td_json_str_is(&key, "instances");
        if (rows || td_json_str_is(&key, "inputs")) {
            return place_in(j, rows, fields, n);
        }
        if (!td_json_str_is(&key, "signature_name") || td_json_peek(j) != '"' ||
            td_json_string(j, &name, &ignored)) {
            break;
        }
    }
    return none;
}

/* end without the spaces before it. */
static const char *before_spaces(const struct td_json *j, const char *end)
{
    while (end > j->at && td_json_is_space(end[-1])) {
        end--;
    }
    return end;
}

/* The end of the value at j; NULL: something else is behind it. */
static const char *end_of(const struct td_json *j, const char *closing)
{
    const char *end = before_spaces(j, j->end);
    for (; *closing != '\0'; closing++) {
        if (end == j->at || end[-1] != *closing) {
            return NULL;
        }
        end = before_spaces(j, end - 1);
    }
    return end > j->at && end[-1] == ']' ? end : NULL;
}

/* The same of the last member of an object, from what is behind it. */
static const char *end_in_object(const struct td_json *j)
{
    const char *at = j->end - j->at > TAIL ? j->end - TAIL : j->at;
    while (at < j->end && *at != '{' && *at != '}') {
        at++;
    }
    const char *end = before_spaces(j, at);
    return at < j->end && *at == '}' && end > j->at && end[-1] == ']' ? end : NULL;
}

/* The value at j, if it ends there. */
static void read_to(struct td_json_ahead *a, struct td_json j, const char *end, enum td_dtype dtype)
{
    struct td_err ignored = {0};
    if (end == NULL || td_json_peek(&j) != '[' || td_gather_init(&a->g, dtype, &ignored)) {
        return;
    }
    a->from = (size_t)(j.at - j.text);
    a->to = (size_t)(end - j.text);
    a->there = td_gather_to(&a->g, &j, end, &a->shape) && a->g.n > 0;
    if (!a->there) {
        td_gather_fini(&a->g);
    }
}

void td_json_ahead_read(struct td_json_ahead *a, const char *text, size_t n,
                        const struct td_json_field *fields, int n_fields, struct td_thread_pool *pool)
{
    struct td_json j = td_json_make(text, n);
    *a = (struct td_json_ahead){0};
    if (n < TD_JSON_LARGE) {
        return;
    }
    j.pool = pool;
    const struct place place = find(&j, fields, n_fields);
    if (place.field != NULL) {
        read_to(a, j, end_of(&j, place.closing), place.field->dtype);
    }
}

void td_json_ahead_last(struct td_json_ahead *a, const struct td_json *j, enum td_dtype dtype)
{
    *a = (struct td_json_ahead){0};
    if (j->end - j->at >= TD_JSON_LARGE) {
        read_to(a, *j, end_in_object(j), dtype);
    }
}

/* ------------------------------------------------------------------ when the text is gone through */

size_t td_json_ahead_end(const struct td_json_ahead *a, size_t at)
{
    return a != NULL && a->there && at == a->from ? a->to : 0;
}

bool td_json_ahead_take(struct td_json *j, struct td_gather *g, struct td_shape *shape)
{
    struct td_json_ahead *a = j->ahead;
    if (a == NULL || td_json_peek(j) != '[' || td_json_ahead_end(a, (size_t)(j->at - j->text)) == 0 ||
        a->g.dtype != g->dtype || g->n > 0 || a->g.data == a->g.own) {
        return false;
    }
    td_gather_fini(g);
    g->data = a->g.data;
    g->block = a->g.block;
    g->n = a->g.n;
    g->cap = a->g.cap;
    *shape = a->shape;
    j->at = j->text + a->to;
    a->there = false;
    return true;
}
