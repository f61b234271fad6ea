/* server/models/variables_find.c - variables by what people call them, and all of them.
 *
 * The key is the surest name, then the engine's, then the object graph's path, and last its names, of which
 * several variables may have the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "server/base/glob.h"
#include "server/models/variables_impl.h"

/* ------------------------------------------------------------------ finding */

static struct td_variable_found found_as(const struct td_variables *v, const struct group *g,
                                         const char *name)
{
    return (struct td_variable_found){.name = name,
                                      .resources = g->resources,
                                      .n = g->n,
                                      .axis = g->axis,
                                      .dtype = v->rows[g->first].dtype};
}

static const char *key_of(const struct td_variables *v, const struct group *g)
{
    return v->rows[g->first].key;
}

/* One part of a variable, or the whole of one that was not cut, by its resource. */
static bool find_resource(const struct td_variables *v, const char *text, struct td_variable_found *out)
{
    for (int i = 0; i < v->n_groups; i++) {
        const struct group *g = &v->groups[i];
        for (int k = 0; k < g->n; k++) {
            if (td_variable_is_named(text, g->resources[k])) {
                const struct group one = {.resources = &g->resources[k], .first = g->first + k, .n = 1};
                *out = found_as(v, &one, text);
                return true;
            }
        }
    }
    return false;
}

static int find_object(const struct td_variables *v, const char *text, struct td_variable_found *out)
{
    int n = 0;
    for (int i = 0; i < v->n_groups; i++) {
        if (td_variable_is_named(text, v->rows[v->groups[i].first].stem)) {
            *out = found_as(v, &v->groups[i], text);
            return 1;
        }
    }
    for (int i = 0; i < v->n_groups; i++) {
        if (td_variable_is_named(text, v->rows[v->groups[i].first].object)) {
            *out = found_as(v, &v->groups[i], text);
            n++;
        }
    }
    return n;
}

/* The key is the surest name, then the engine's, of which there is one each; then the object graph's path,
 * and last its names. */
static enum td_code find_exact(const struct td_variables *v, const char *text, bool *known,
                               struct td_variable_found *out, struct td_err *err)
{
    *known = true;
    for (int i = 0; i < v->n_groups; i++) {
        if (td_variable_is_named(text, key_of(v, &v->groups[i]))) {
            *out = found_as(v, &v->groups[i], text);
            return TD_OK;
        }
    }
    if (find_resource(v, text, out)) {
        return TD_OK;
    }
    const int n = find_object(v, text, out);
    *known = n > 0;
    TD_FAIL_IF(n > 1, err, INVALID_ARGUMENT,
               "%d variables are called '%.200s': say which by its checkpoint key ('%.200s' is one)", n, text,
               out->resources[0]);
    return TD_OK;
}

/* TensorFlow's name of a variable that nobody named: Variable, Variable_1, .. */
static bool is_nameless(const char *resource)
{
    static const char word[] = "Variable";
    return strncmp(resource, word, sizeof word - 1) == 0 &&
           resource[sizeof word - 1 + strspn(resource + sizeof word - 1, "_0123456789")] == 0;
}

/* What a person would call it: the variable's own name; of the parts of one, the name they share; of one
 * without a name, where it hangs in the object graph. */
static const char *own_name(const struct td_variables *v, const struct group *g)
{
    const char *key = key_of(v, g), *stem = v->rows[g->first].stem;
    return stem != NULL && is_nameless(g->resources[0]) ? stem
           : key == NULL || stem != NULL                ? g->resources[0]
                                                        : key;
}

int td_variables_count(const struct td_variables *v)
{
    return v->n_groups;
}

struct td_variable_row td_variables_row(const struct td_variables *v, int i)
{
    const struct group *g = &v->groups[i];
    const struct row *row = &v->rows[g->first];
    return (struct td_variable_row){.resources = g->resources,
                                    .n = g->n,
                                    .axis = g->axis,
                                    .dtype = row->dtype,
                                    .shape = g->n > 1 ? row->whole : row->shape,
                                    .key = row->key,
                                    .stem = row->stem != NULL ? row->stem : row->key,
                                    .name = row->object != NULL ? row->object : own_name(v, g),
                                    .trainable = row->trainable};
}

/* The name of the group's that matches; NULL: none does. */
static const char *matching(const struct td_variables *v, const struct group *g, const char *pattern)
{
    const char *const names[] = {own_name(v, g), g->n == 1 ? g->resources[0] : NULL, v->rows[g->first].stem,
                                 key_of(v, g)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i] != NULL && td_glob(pattern, names[i])) {
            return names[i];
        }
    }
    /* the object graph may call several so: this one by what it alone is called */
    const char *object = v->rows[g->first].object;
    return object != NULL && td_glob(pattern, object) ? own_name(v, g) : NULL;
}

static enum td_code match_group(const struct td_variables *v, const struct group *g, const char *pattern,
                                td_variable_fn *fn, void *ctx, int *n, struct td_err *err)
{
    const char *name = matching(v, g, pattern);
    if (name != NULL) {
        const struct td_variable_found whole = found_as(v, g, name);
        ++*n;
        return fn(ctx, &whole, err);
    }
    for (int k = 0; g->n > 1 && k < g->n; k++) { /* its parts, each by its own name */
        const struct group one = {.resources = &g->resources[k], .first = g->first + k, .n = 1};
        if (td_glob(pattern, g->resources[k])) {
            const struct td_variable_found part = found_as(v, &one, g->resources[k]);
            ++*n;
            TD_TRY(fn(ctx, &part, err));
        }
    }
    return TD_OK;
}

static enum td_code not_found(const struct td_variables *v, const char *text, bool pattern,
                              struct td_err *err)
{
    char names[600];
    size_t n = 0;
    names[0] = 0;
    for (int i = 0; i < v->n_groups && n < sizeof names - 1; i++) {
        const int put =
            snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", own_name(v, &v->groups[i]));
        n += put > 0 ? (size_t)put : 0;
    }
    TD_FAIL(err, INVALID_ARGUMENT, "%s '%.200s'; its %d variables are: %s%s",
            pattern ? "no variable that training moves matches" : "the model has no variable", text,
            v->n_groups, names, n >= sizeof names ? ".." : "");
}

enum td_code td_variables_find(const struct td_variables *v, const char *text, td_variable_fn *fn, void *ctx,
                               struct td_err *err)
{
    struct td_variable_found found;
    bool known;
    TD_TRY(find_exact(v, text, &known, &found, err));
    if (known) {
        return fn(ctx, &found, err);
    }
    const bool pattern = strpbrk(text, "*?") != NULL;
    int n = 0;
    for (int i = 0; pattern && i < v->n_groups; i++) {
        const struct row *row = &v->rows[v->groups[i].first];
        if (row->trainable && td_dtype_in(row->dtype, TD_SET_FLOATS | TD_SET_COMPLEX)) {
            TD_TRY(match_group(v, &v->groups[i], text, fn, ctx, &n, err));
        }
    }
    return n > 0 ? TD_OK : not_found(v, text, pattern, err);
}

enum td_code td_variables_each_twin(const struct td_variables *v, td_twin_fn *fn, void *ctx,
                                    struct td_err *err)
{
    for (int i = 0; i < v->n_rows; i++) {
        if (v->rows[i].twin != NULL) {
            TD_TRY(fn(ctx, v->rows[i].key, v->rows[i].twin, err));
        }
    }
    return TD_OK;
}
