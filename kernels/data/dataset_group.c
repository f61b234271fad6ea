/* kernels/data/dataset_group.c - datasets that remember keys: UniqueDataset, GroupByWindowDataset.
 *
 *   Unique         elements (one component: int32, int64 or string) that have not come yet
 *   GroupByWindow  elements gathered by key(element); once window_size(key) of them are there, the elements
 *                  of reduce(key, dataset of them) follow. At the end the groups that are left follow, by
 *                  their keys.
 *
 * What an iterator remembers is its own (struct td_dataset_iter, own) and grows with the input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "kernels/data/dataset.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ Unique */

struct seen {
    struct td_tensor *item;
    uint64_t *hash;
    int64_t n, cap, *slot; /* slot: 1 + index of an item, 0 where free; 2 * cap of them */
};

static void seen_free(void *own, int width)
{
    struct seen *s = own;
    (void)width;
    td_dataset_clear(s->item, s->n);
    td_free(s->item);
    td_free(s->hash);
    td_free(s->slot);
    td_free(s);
}

static uint64_t hash_tensor(const struct td_tensor *t)
{
    uint64_t h = td_hash_more(td_hash_start, t->shape.dim, (size_t)t->shape.rank * sizeof *t->shape.dim);
    const int64_t n = td_tensor_count(t);
    for (int64_t i = 0; t->dtype == TD_STRING && i < n; i++) {
        size_t len;
        const char *s = td_tensor_str(t, i, &len);
        h = td_hash_more(td_hash_more(h, &len, sizeof len), s, len);
    }
    return td_hash_mix(t->dtype == TD_STRING ? h
                                             : td_hash_more(h, t->data, (size_t)n * td_dtype_size(t->dtype)));
}

static bool tensors_equal(const struct td_tensor *a, const struct td_tensor *b)
{
    const int64_t n = td_tensor_count(a);
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    if (a->dtype != TD_STRING) {
        return n == 0 || memcmp(a->data, b->data, (size_t)n * td_dtype_size(a->dtype)) == 0;
    }
    for (int64_t i = 0; i < n; i++) {
        size_t na, nb;
        const char *sa = td_tensor_str(a, i, &na), *sb = td_tensor_str(b, i, &nb);
        if (na != nb || memcmp(sa, sb, na) != 0) {
            return false;
        }
    }
    return true;
}

static enum td_code seen_grow(struct seen *s, struct td_err *err)
{
    const int64_t cap = s->cap ? 2 * s->cap : 16;
    struct td_tensor *item = td_realloc(s->item, (size_t)cap, sizeof *item);
    s->item = item ? item : s->item;
    uint64_t *hash = td_realloc(s->hash, (size_t)cap, sizeof *hash);
    s->hash = hash ? hash : s->hash;
    int64_t *slot = td_calloc(2 * (size_t)cap, sizeof *slot);
    if (!item || !hash || !slot) {
        td_free(slot);
        return td_no_memory(err, (size_t)cap * sizeof *item, "elements that have come");
    }
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t at = s->hash[i] % (2 * (uint64_t)cap);
        while (slot[at]) {
            at = (at + 1) % (2 * (uint64_t)cap);
        }
        slot[at] = i + 1;
    }
    td_free(s->slot);
    s->slot = slot;
    s->cap = cap;
    return TD_OK;
}

/* *fresh: t has not come before; it is remembered. */
static enum td_code seen_add(struct seen *s, const struct td_tensor *t, bool *fresh, struct td_err *err)
{
    const uint64_t hash = hash_tensor(t);
    if (s->n == s->cap) {
        TD_TRY(seen_grow(s, err));
    }
    uint64_t at = hash % (2 * (uint64_t)s->cap);
    for (; s->slot[at]; at = (at + 1) % (2 * (uint64_t)s->cap)) {
        const int64_t i = s->slot[at] - 1;
        if (s->hash[i] == hash && tensors_equal(&s->item[i], t)) {
            *fresh = false;
            return TD_OK;
        }
    }
    td_tensor_ref(&s->item[s->n], t);
    s->hash[s->n] = hash;
    s->slot[at] = ++s->n;
    *fresh = true;
    return TD_OK;
}

static enum td_code next_unique(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                bool *end, struct td_err *err)
{
    if (!it->own) {
        it->own_free = seen_free;
        it->own = td_calloc(1, sizeof(struct seen));
        if (!it->own) {
            return td_no_memory(err, sizeof(struct seen), "elements that have come");
        }
    }
    for (bool fresh = false; !fresh;) {
        td_tensor_clear(&out[0]);
        TD_TRY(td_dataset_next(c, it->from[0], out, end, err));
        if (*end) {
            return TD_OK;
        }
        TD_TRY(seen_add(it->own, &out[0], &fresh, err));
    }
    return TD_OK;
}

static enum td_code finish_unique(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    const enum td_dtype t = ds->n_out == 1 ? td_attr_types(n, "output_types", &(int){0})[0] : TD_DTYPE_NONE;
    TD_FAIL_IF(ds->n_out != 1, err, INVALID_ARGUMENT,
               "%s: UniqueDataset only supports inputs with a single component, has %d", TD_NODE_STR(n),
               ds->n_out);
    TD_FAIL_IF(t != TD_INT32 && t != TD_INT64 && t != TD_STRING, err, INVALID_ARGUMENT,
               "%s: UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` "
               "component, "
               "is %s",
               TD_NODE_STR(n), td_dtype_name(t));
    return td_dataset_same_width(n, ds, err);
}

static enum td_code unique_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {1, false, next_unique, finish_unique};
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* ------------------------------------------------------------------ GroupByWindow */

struct group {
    int64_t key, want, n, cap;
    struct td_tensor *item; /* n elements */
};

struct groups {
    struct group *group; /* by key; those that went stay for their size, without elements */
    int64_t n, cap;
    int width; /* components of an element */
};

static void groups_free(void *own, int width)
{
    struct groups *g = own;
    (void)width;
    for (int64_t i = 0; i < g->n; i++) {
        td_dataset_clear(g->group[i].item, g->group[i].n * g->width);
        td_free(g->group[i].item);
    }
    td_free(g->group);
    td_free(g);
}

/* Calls a function that returns a scalar int64. */
static enum td_code call_int(struct td_call *c, const char *function, const char *role,
                             const struct td_tensor *const parts[3], const int n_part[3], int64_t *v,
                             struct td_err *err)
{
    struct td_tensor answer = {0};
    TD_TRY(td_dataset_call(c, function, parts, n_part, &answer, 1, err));
    const bool fits = answer.dtype == TD_INT64 && td_tensor_count(&answer) == 1;
    *v = fits ? td_tensor_int(&answer, 0) : 0;
    td_tensor_clear(&answer);
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT, "%s: `%s` must return a scalar int64.", function, role);
    return TD_OK;
}

static enum td_code new_key(int64_t key, struct td_tensor *out, struct td_err *err)
{
    const struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_tensor_new(out, TD_INT64, &scalar, err));
    TD_DATA(out, int64_t)[0] = key;
    return TD_OK;
}

static enum td_code size_of_group(struct td_call *c, const struct td_dataset *ds, int64_t key, int64_t *size,
                                  struct td_err *err)
{
    struct td_tensor of = {0};
    TD_TRY(new_key(key, &of, err));
    const int before = ds->n_key_args + ds->n_reduce_args;
    const struct td_tensor *const parts[3] = {&of, ds->arg + before, NULL};
    enum td_code rc = call_int(c, ds->window_size, "window_size_func", parts,
                               (const int[3]){1, ds->n_args - before, 0}, size, err);
    td_tensor_clear(&of);
    TD_FAIL_IF(!rc && *size <= 0, err, INVALID_ARGUMENT,
               "Window size must be greater than zero, but got %lld.", (long long)*size);
    return rc;
}

/* The group of `key`, new where it has none. */
static enum td_code find_group(struct td_call *c, const struct td_dataset *ds, struct groups *g, int64_t key,
                               struct group **out, struct td_err *err)
{
    int64_t at = 0, to = g->n;
    while (at < to) {
        const int64_t middle = at + (to - at) / 2;
        if (g->group[middle].key < key) {
            at = middle + 1;
        } else {
            to = middle;
        }
    }
    if (at == g->n || g->group[at].key != key) {
        struct group fresh = {.key = key};
        TD_TRY(size_of_group(c, ds, key, &fresh.want, err));
        if (g->n == g->cap) {
            const int64_t cap = g->cap ? 2 * g->cap : 8;
            struct group *more = td_realloc(g->group, (size_t)cap, sizeof *more);
            if (!more) {
                return td_no_memory(err, (size_t)cap * sizeof *more, "groups of a dataset");
            }
            g->group = more;
            g->cap = cap;
        }
        memmove(&g->group[at + 1], &g->group[at], (size_t)(g->n++ - at) * sizeof fresh);
        g->group[at] = fresh;
    }
    *out = &g->group[at];
    return TD_OK;
}

/* Element `in` joins its group, which is *of; the tensors are then the group's. */
static enum td_code join_group(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *in,
                               struct group **of, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    struct groups *g = it->own;
    int64_t key;
    const struct td_tensor *const parts[3] = {in, ds->arg, NULL};
    TD_TRY(
        call_int(c, ds->function, "key_func", parts, (const int[3]){g->width, ds->n_key_args, 0}, &key, err));
    TD_TRY(find_group(c, ds, g, key, of, err));
    struct group *to = *of;
    if (to->n == to->cap) {
        const int64_t cap = to->cap ? 2 * to->cap : 4;
        struct td_tensor *more = td_realloc(to->item, (size_t)cap * (size_t)(g->width + 1), sizeof *more);
        if (!more) {
            return td_no_memory(err, (size_t)cap * sizeof *more, "a group's elements");
        }
        to->item = more;
        to->cap = cap;
    }
    td_dataset_move(to->item + to->n++ * g->width, in, g->width);
    return TD_OK;
}

/* reduce(in) is a dataset, `made`; an iterator of it becomes the one under way. in[0] is filled with the
 * key. */
static enum td_code open_reduced(struct td_call *c, struct td_dataset_iter *it, int64_t key,
                                 struct td_tensor in[2], struct td_tensor *made, struct td_err *err)
{
    const struct td_dataset *ds = it->ds;
    const struct td_tensor *const parts[3] = {in, ds->arg + ds->n_key_args, NULL};
    struct td_dataset *result;
    TD_TRY(new_key(key, &in[0], err));
    TD_TRY(td_dataset_call(c, ds->reduce, parts, (const int[3]){2, ds->n_reduce_args, 0}, made, 1, err));
    TD_TRY(td_dataset_given(made, ds->reduce, ds->n_out, &result, err));
    return td_dataset_iter_new(result, &it->open[0], err);
}

/* reduce(key, the group's elements) becomes the dataset under way; the group is empty then. */
static enum td_code flush(struct td_call *c, struct td_dataset_iter *it, struct group *of, struct td_err *err)
{
    const struct groups *g = it->own;
    const struct td_shape scalar = td_shape_scalar();
    struct td_tensor in[2] = {{0}}, made = {0};
    struct td_dataset *elements;
    TD_TRY(td_dataset_of_elements(of->item, of->n, 1, g->width, TD_DATASET_ALL, &elements, err));
    enum td_code rc = td_tensor_new(&in[1], TD_VARIANT, &scalar, err);
    if (rc) {
        td_obj_unref(&elements->nest.obj);
        return rc;
    }
    td_tensor_set_obj(&in[1], 0, &elements->nest.obj);
    rc = open_reduced(c, it, of->key, in, &made, err);
    it->n_open = !rc;
    td_tensor_clear(&made);
    td_dataset_clear(in, 2);
    td_dataset_clear(of->item, of->n * g->width);
    of->n = 0;
    return rc;
}

static enum td_code open_groups(struct td_dataset_iter *it, struct td_err *err)
{
    if (it->own) {
        return TD_OK;
    }
    struct groups *g = td_calloc(1, sizeof *g);
    it->open = td_calloc(1, sizeof *it->open);
    if (!g || !it->open) {
        td_free(g);
        return td_no_memory(err, sizeof *g, "groups of a dataset");
    }
    g->width = it->ds->from[0]->n_out;
    it->own = g;
    it->own_free = groups_free;
    return TD_OK;
}

/* Reads until a group is full, or, at the end, takes the first that is left; *of NULL when none is. */
static enum td_code fill_group(struct td_call *c, struct td_dataset_iter *it, struct group **of,
                               struct td_err *err)
{
    struct groups *g = it->own;
    struct td_tensor *in = td_calloc((size_t)g->width + 1, sizeof *in);
    enum td_code rc = in ? TD_OK : td_no_memory(err, (size_t)g->width * sizeof *in, "dataset element");
    bool end = false, full = false;
    while (!rc && !full) {
        rc = td_dataset_next(c, it->from[0], in, &end, err);
        if (rc || end) {
            break;
        }
        rc = join_group(c, it, in, of, err);
        full = !rc && (*of)->n == (*of)->want;
        td_dataset_clear(in, g->width);
    }
    td_free(in);
    *of = full ? *of : NULL;
    for (int64_t i = 0; i < g->n && !rc && !*of; i++) {
        *of = g->group[i].n > 0 ? &g->group[i] : NULL;
    }
    return rc;
}

static enum td_code next_group(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                               bool *end, struct td_err *err)
{
    TD_TRY(open_groups(it, err));
    for (;;) {
        struct group *of = NULL;
        if (it->n_open > 0) {
            TD_TRY(td_dataset_next(c, it->open[0], out, end, err));
            if (!*end) {
                return TD_OK;
            }
            td_dataset_iter_free(it->open[0]);
            it->n_open = 0;
        }
        TD_TRY(fill_group(c, it, &of, err));
        *end = !of;
        if (*end) {
            return TD_OK;
        }
        TD_TRY(flush(c, it, of, err));
    }
}

static enum td_code keep_name(const struct td_node *n, const char *attr, char **to, struct td_err *err)
{
    const struct td_func_ref *f = td_attr_func(n, attr, 0);
    TD_FAIL_IF(!f, err, INVALID_ARGUMENT, "%s: no function %s", TD_NODE_STR(n), attr);
    *to = td_strdup(f->name);
    return *to ? TD_OK : td_no_memory(err, strlen(f->name), "function name");
}

static enum td_code finish_group(const struct td_node *n, struct td_dataset *ds, struct td_err *err)
{
    ds->n_key_args = td_attr_len(n, "Tkey_func_other_arguments");
    ds->n_reduce_args = td_attr_len(n, "Treduce_func_other_arguments");
    TD_TRY(keep_name(n, "key_func", &ds->function, err));
    TD_TRY(keep_name(n, "reduce_func", &ds->reduce, err));
    return keep_name(n, "window_size_func", &ds->window_size, err);
}

static enum td_code group_run(struct td_call *c, struct td_err *err)
{
    static const struct td_dataset_kind k = {1, true, next_group, finish_group};
    struct td_dataset *ds;
    TD_TRY(td_dataset_build(c, &k, &ds, err));
    return td_tensor_list_out_nest(c, &ds->nest, err);
}

/* ------------------------------------------------------------------ the table */

#define T_S "output_types:list(type); output_shapes:list(shape); metadata:string=''"
#define ROW(opname, signature, fn)                                                                           \
    {                                                                                                        \
        .name = opname, .sig = signature, .flags = TD_OP_KEEPS | TD_OP_NO_FOLD, .infer = td_dataset_scalars, \
        .kernels = TD_KERNEL("dataset.cpu", fn)                                                              \
    }

const struct td_op td_ops_dataset_group[] = {
    ROW("UniqueDataset", "(input_dataset:variant) -> (handle:variant) {" T_S "}", unique_run),
    ROW("GroupByWindowDataset",
        "(input_dataset:variant, key_func_other_arguments:Tkey_func_other_arguments, "
        "reduce_func_other_arguments:Treduce_func_other_arguments, "
        "window_size_func_other_arguments:Twindow_size_func_other_arguments) -> (handle:variant) "
        "{key_func:func; "
        "reduce_func:func; window_size_func:func; Tkey_func_other_arguments:list(type); "
        "Treduce_func_other_arguments:list(type); Twindow_size_func_other_arguments:list(type); " T_S "}",
        group_run),
    {.name = NULL},
};
