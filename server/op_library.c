/* server/op_library.c - opens op libraries and turns their rows into the engine's.
 *
 * Everything a row says is checked and copied here, but for its texts, which stay in the library. The library
 * is the operator's code and trusted as such; the checks are for honest mistakes, so that they stop the start
 * with a sentence.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/op_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/op_api.h"

enum { MAX_OPS = 1000 };

typedef const tensord_op_library_info *entry_fn(const tensord_op_api *api);

struct library {
    void *handle;
    struct td_library_op *ops;
};

struct td_op_libraries {
    struct library *list;
    int n;
};

/* ------------------------------------------------------------------ one row */

static bool is_name(const char *s)
{
    size_t n = s == NULL ? 0 : strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && n <= TD_OP_NAME_MAX && s[n] == 0 && (s[0] < '0' || s[0] > '9');
}

static enum td_dtype dtype_named(const char *name, size_t len)
{
    for (int t = 1; t < TD_DTYPE_END; t++) {
        const char *ours = td_dtype_name((enum td_dtype)t);
        if (td_dtype_valid(t) && strlen(ours) == len && memcmp(ours, name, len) == 0) {
            return (enum td_dtype)t;
        }
    }
    return TD_DTYPE_NONE;
}

/* "T: float, double; U: string" as rules; false with `at` where it does not parse. */
static bool read_rules(const char *text, struct td_type_rule *rules, char names[][TD_OP_NAME_MAX],
                       const char **at)
{
    static const char blank[] = " \t\n";
    int n = 0;
    for (const char *p = text; *(p += strspn(p, blank)) != 0; n++) {
        size_t len = strcspn(p, ": \t\n");
        const char *colon = p + len + strspn(p + len, blank);
        *at = p;
        if (n == TD_TYPE_RULES || len == 0 || len >= TD_OP_NAME_MAX || *colon != ':') {
            return false;
        }
        memcpy(names[n], p, len);
        rules[n].attr = names[n];
        for (p = colon; *p == ':' || *p == ',';) {
            p += 1 + strspn(p + 1, blank);
            len = strcspn(p, ",; \t\n");
            *at = p;
            enum td_dtype t = dtype_named(p, len);
            if (t == TD_DTYPE_NONE) {
                return false;
            }
            rules[n].set |= TD_BIT(t);
            p += len + strspn(p + len, blank);
        }
        if (*p != 0 && *p++ != ';') {
            return false;
        }
    }
    return true;
}

/* Rules of attributes that are no types would never hold back anything. */
static bool has_type_attr(const struct td_op_def *def, const char *name)
{
    for (int i = 0; i < def->n_attrs; i++) {
        if (strcmp(def->attrs[i].name, name) == 0) {
            return def->attrs[i].kind == TD_ATTR_TYPE;
        }
    }
    return false;
}

static enum td_code fill_kernel(const tensord_op *from, struct td_library_op *op, struct td_err *err)
{
    const char *at = "";
    op->infer = from->infer;
    op->run = from->run;
    op->prepare = from->prepare;
    op->release = from->release;
    snprintf(op->kernel_name, sizeof op->kernel_name, "%s.library", from->name);
    op->kernels[0] = (struct td_kernel){.name = op->kernel_name, .device = TD_CPU, .run = td_op_api_run};
    TD_FAIL_IF(from->types != NULL && !read_rules(from->types, op->kernels[0].types, op->rule_names, &at),
               err, INVALID_ARGUMENT,
               "op '%s': types \"%.100s\", want ATTRIBUTE: DTYPE, DTYPE; ... at \"%.40s\"", from->name,
               from->types, at);
    return TD_OK;
}

static enum td_code check_rules(const tensord_op *from, const struct td_library_op *op,
                                const struct td_op_table *table, struct td_err *err)
{
    const struct td_op_def *def = td_op_find(table, from->name);
    for (int r = 0; r < TD_TYPE_RULES && op->kernels[0].types[r].attr != NULL; r++) {
        const char *attr = op->kernels[0].types[r].attr;
        TD_FAIL_IF(!has_type_attr(def, attr), err, INVALID_ARGUMENT,
                   "op '%s': types speak of '%.60s', which is no type attribute of its signature", from->name,
                   attr);
    }
    return TD_OK;
}

/* A further kernel of an op that is there. */
static enum td_code add_kernel(const tensord_op *from, struct td_library_op *op, struct td_engine *engine,
                               struct td_err *err)
{
    TD_FAIL_IF(from->signature != NULL || from->infer != NULL || from->flags != TENSORD_OP_KERNEL, err,
               INVALID_ARGUMENT, "kernel for op '%s': signature, shapes and flags are the op's", from->name);
    TD_TRY(fill_kernel(from, op, err));
    op->kernels[0].library = TD_LIB_MODULE;
    op->kernels[0].prepare = td_op_api_prepare;
    op->kernels[0].release = td_op_api_release;
    op->kernels[0].run = td_op_api_run_kernel;
    TD_FAIL_IF(td_op_find(engine->ops, from->name) == NULL, err, INVALID_ARGUMENT,
               "kernel for op '%s': there is no such op", from->name);
    TD_TRY(check_rules(from, op, engine->ops, err));
    return td_engine_add_kernels(engine, from->name, op->kernels, err);
}

static enum td_code add_op(const tensord_op *from, struct td_library_op *op, struct td_engine *engine,
                           struct td_err *err)
{
    const uint32_t flags = TENSORD_OP_STATEFUL | TENSORD_OP_KERNEL;
    TD_FAIL_IF(!is_name(from->name), err, INVALID_ARGUMENT,
               "an op's name is '%.60s', want letters, digits and '_', at most %d",
               from->name == NULL ? "" : from->name, TD_OP_NAME_MAX);
    TD_FAIL_IF(from->flags & ~flags, err, INVALID_ARGUMENT,
               "op '%s': flags 0x%x, of which only 0x%x mean something", from->name, from->flags, flags);
    const bool kernel = (from->flags & TENSORD_OP_KERNEL) != 0;
    TD_FAIL_IF(from->run == NULL || (from->signature == NULL && !kernel), err, INVALID_ARGUMENT,
               "op '%s' has no %s", from->name, from->run == NULL ? "kernel" : "signature");
    if (kernel) {
        return add_kernel(from, op, engine, err);
    }
    TD_FAIL_IF(td_op_find(engine->ops, from->name) != NULL, err, INVALID_ARGUMENT,
               "op '%s' is there already: a library cannot replace it", from->name);
    TD_TRY(fill_kernel(from, op, err));
    op->row[0] = (struct td_op){.name = from->name,
                                .sig = from->signature,
                                .flags = from->flags & TENSORD_OP_STATEFUL ? TD_OP_STATEFUL : 0,
                                .infer = from->infer != NULL ? td_op_api_infer : NULL,
                                .kernels = op->kernels};
    TD_TRY(td_engine_add_ops(engine, op->row, err));
    return check_rules(from, op, engine->ops, err);
}

/* ------------------------------------------------------------------ one library */

static enum td_code open_object(const char *path, void **out, struct td_err *err)
{
    char below[PATH_MAX]; /* a name without '/' is a file here, not one of the system's libraries */
    TD_FAIL_IF(snprintf(below, sizeof below, "%s%s", strchr(path, '/') == NULL ? "./" : "", path) >=
                   (int)sizeof below,
               err, INVALID_ARGUMENT, "its path is too long");
    *out = dlopen(below, RTLD_NOW | RTLD_LOCAL);
    const char *why = *out == NULL ? dlerror() : NULL;
    TD_FAIL_IF(*out == NULL, err, INVALID_ARGUMENT, "it cannot be loaded: %s",
               why == NULL ? "unknown reason" : why);
    return TD_OK;
}

static enum td_code check_info(const tensord_op_library_info *info, struct td_err *err)
{
    TD_FAIL_IF(info == NULL, err, INVALID_ARGUMENT, "it refuses to work with this program (ABI %d)",
               TENSORD_OP_ABI);
    TD_FAIL_IF(info->abi != TENSORD_OP_ABI, err, INVALID_ARGUMENT,
               "it was built for ABI %u, this program has %d", info->abi, TENSORD_OP_ABI);
    TD_FAIL_IF(info->op_size < offsetof(tensord_op, run) + sizeof(((tensord_op *)0)->run), err,
               INVALID_ARGUMENT, "its rows have %u bytes, want %zu at least", info->op_size,
               sizeof(tensord_op));
    TD_FAIL_IF(info->n_ops == 0 || info->n_ops > MAX_OPS || info->ops == NULL, err, INVALID_ARGUMENT,
               "it has %u ops, want 1 to %d", info->ops == NULL ? 0 : info->n_ops, MAX_OPS);
    return TD_OK;
}

static enum td_code fill_library(struct library *l, const char *path, struct td_engine *engine,
                                 struct td_err *err)
{
    TD_TRY(open_object(path, &l->handle, err));
    entry_fn *entry;
    void *symbol = dlsym(l->handle, "tensord_op_library");
    TD_FAIL_IF(symbol == NULL, err, INVALID_ARGUMENT,
               "it has no function tensord_op_library (see tensord_op.h): it is no op library");
    memcpy(&entry, &symbol,
           sizeof entry); /* ISO C has no cast from an object pointer to a function pointer */
    const tensord_op_library_info *info = entry(&td_op_api);
    TD_TRY(check_info(info, err));
    l->ops = td_calloc(info->n_ops, sizeof *l->ops);
    if (l->ops == NULL) {
        return td_no_memory(err, info->n_ops, "an op library");
    }
    for (uint32_t i = 0; i < info->n_ops; i++) {
        tensord_op row = {0};
        size_t bytes = info->op_size < sizeof row ? info->op_size : sizeof row;
        memcpy(&row, (const char *)info->ops + (size_t)i * info->op_size, bytes);
        TD_TRY(add_op(&row, &l->ops[i], engine, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ all of them */

static enum td_code open_all(struct td_op_libraries *all, char *paths, struct td_engine *engine,
                             struct td_err *err)
{
    char *rest = paths;
    for (char *path = strsep(&rest, ","); path != NULL; path = strsep(&rest, ",")) {
        if (path[0] == 0) {
            continue;
        }
        struct library *more = td_realloc(all->list, (size_t)all->n + 1, sizeof *more);
        if (more == NULL) {
            return td_no_memory(err, sizeof *more, "an op library");
        }
        all->list = more;
        more[all->n] = (struct library){0};
        if (fill_library(&more[all->n++], path, engine, err)) {
            err->code = err->code == TD_INTERNAL ? TD_INVALID_ARGUMENT
                                                 : err->code; /* a bad signature is its author's */
            return td_err_wrap(err, "op library '%s'", path);
        }
    }
    return TD_OK;
}

enum td_code td_op_libraries_open(const char *paths, struct td_engine *engine, struct td_op_libraries **out,
                                  struct td_err *err)
{
    *out = NULL;
    if (paths == NULL || paths[0] == 0) {
        return TD_OK;
    }
    struct td_op_libraries *all = td_calloc(1, sizeof *all);
    char *copy = td_strdup(paths);
    enum td_code rc = all == NULL || copy == NULL ? td_no_memory(err, sizeof *all, "op libraries")
                                                  : open_all(all, copy, engine, err);
    td_free(copy);
    if (rc) {
        td_op_libraries_close(all);
        return rc;
    }
    *out = all;
    return TD_OK;
}

void td_op_libraries_close(struct td_op_libraries *l)
{
    for (int i = 0; l != NULL && i < l->n; i++) {
        td_free(l->list[i].ops);
        if (l->list[i].handle != NULL) {
            dlclose(l->list[i].handle);
        }
    }
    if (l != NULL) {
        td_free(l->list);
        td_free(l);
    }
}
