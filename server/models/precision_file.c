/* server/models/precision_file.c - precision.json, read strictly: a key that is not known, or a range that is
 * none, fails the load.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/precision_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "proto/bytes/file.h"

#define MAX_FILE ((size_t)4 << 20)

static enum td_code path_of(const char *dir, char path[TD_FILE_PATH], struct td_err *err)
{
    const int n = snprintf(path, TD_FILE_PATH, "%s/" TD_PRECISION_FILE, dir);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%.200s: the path is too long", dir);
    return TD_OK;
}

/* ------------------------------------------------------------------ reading */

static enum td_code range_of(const char *weights, const json_t *pair, struct td_precision_range *out,
                             struct td_err *err)
{
    const json_t *min = json_array_get(pair, 0), *max = json_array_get(pair, 1);
    TD_FAIL_IF(json_array_size(pair) != 2 || !json_is_number(min) || !json_is_number(max), err,
               INVALID_ARGUMENT, "ranges: '%.200s' is not [least, largest]", weights);
    *out = (struct td_precision_range){.weights = (char *)weights,
                                       .min = (float)json_number_value(min),
                                       .max = (float)json_number_value(max)};
    TD_FAIL_IF(!isfinite(out->min) || !isfinite(out->max) || out->min > out->max, err, INVALID_ARGUMENT,
               "ranges: '%.200s' is from %g to %g", weights, (double)out->min, (double)out->max);
    return TD_OK;
}

static enum td_code kind_of(const json_t *root, enum td_precision_kind *out, struct td_err *err)
{
    const char *name = json_string_value(json_object_get(root, "precision"));
    TD_FAIL_IF(name == NULL, err, INVALID_ARGUMENT, "no text \"precision\"");
    const bool int8 = strcmp(name, "int8") == 0;
    TD_FAIL_IF(!int8 && strcmp(name, "bfloat16") != 0, err, INVALID_ARGUMENT,
               "\"precision\" is \"%.40s\": there are int8 and bfloat16", name);
    *out = int8 ? TD_PRECISION_INT8 : TD_PRECISION_BFLOAT16;
    return TD_OK;
}

static enum td_code parse(json_t *root, struct td_precision **out, struct td_err *err)
{
    enum td_precision_kind kind = TD_PRECISION_INT8;
    const char *key;
    json_t *value;
    int n = 0;
    TD_FAIL_IF(!json_is_object(root), err, INVALID_ARGUMENT, "not an object");
    json_object_foreach(root, key, value)
    {
        TD_FAIL_IF(strcmp(key, "precision") != 0 && strcmp(key, "ranges") != 0, err, INVALID_ARGUMENT,
                   "there is no key \"%.40s\"", key);
    }
    TD_TRY(kind_of(root, &kind, err));
    json_t *ranges = json_object_get(root, "ranges");
    TD_FAIL_IF((kind == TD_PRECISION_INT8) != json_is_object(ranges), err, INVALID_ARGUMENT,
               "int8 wants an object \"ranges\", and bfloat16 none");
    struct td_precision_range *r = td_calloc(json_object_size(ranges) + 1, sizeof *r);
    enum td_code rc = r == NULL ? td_no_memory(err, 1, "a precision file") : TD_OK;
    json_object_foreach(ranges, key, value)
    {
        rc = rc ? rc : range_of(key, value, &r[n++], err);
    }
    rc = rc ? rc : td_precision_new(kind, r, n, out, err);
    td_free(r);
    return rc;
}

enum td_code td_precision_parse(const char *text, size_t n, struct td_precision **out, struct td_err *err)
{
    json_error_t at;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    TD_FAIL_IF(root == NULL, err, INVALID_ARGUMENT, "line %d: %s", at.line, at.text);
    const enum td_code rc = parse(root, out, err);
    json_decref(root);
    return rc;
}

enum td_code td_precision_file_read(const char *dir, struct td_precision **out, struct td_err *err)
{
    char path[TD_FILE_PATH], *text;
    size_t n;
    *out = NULL;
    TD_TRY(path_of(dir, path, err));
    struct td_err why = {0};
    const enum td_code read = td_file_read_beneath(dir, path, MAX_FILE, &text, &n, &why);
    if (read) {
        return read == TD_NOT_FOUND ? TD_OK : td_fail(err, read, "%s", why.msg);
    }
    const enum td_code rc = td_precision_parse(text, n, out, err);
    td_free(text);
    return rc ? td_err_wrap(err, "%s", path) : TD_OK;
}

/* ------------------------------------------------------------------ writing */

static char *print(const struct td_precision *p)
{
    const bool int8 = p->kind == TD_PRECISION_INT8;
    json_t *root = json_pack("{s:s}", "precision", int8 ? "int8" : "bfloat16"), *ranges = json_object();
    bool ok = root != NULL && ranges != NULL;
    for (int i = 0; ok && i < p->n; i++) {
        const struct td_precision_range *r = &p->range[i];
        ok = json_object_set_new(ranges, r->weights, json_pack("[f,f]", (double)r->min, (double)r->max)) == 0;
    }
    ok = ok && (!int8 || json_object_set(root, "ranges", ranges) == 0);
    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(9),
                 n = ok ? json_dumpb(root, NULL, 0, flags) : 0;
    char *text = n > 0 ? td_calloc(n + 1, 1) : NULL;
    if (text != NULL) {
        (void)json_dumpb(root, text, n, flags);
    }
    json_decref(ranges);
    json_decref(root);
    return text;
}

static enum td_code write_beside(const char *path, const char *text, struct td_err *err)
{
    char made[TD_FILE_PATH];
    TD_TRY(td_file_temp_name(path, made, err));
    TD_TRY(td_file_write(made, text, strlen(text), err));
    const enum td_code rc = td_file_rename(made, path, err);
    if (rc) {
        (void)remove(made);
    } else {
        td_file_sync_directory(path);
    }
    return rc;
}

enum td_code td_precision_file_write(const char *dir, const struct td_precision *p, struct td_err *err)
{
    char path[TD_FILE_PATH];
    TD_TRY(path_of(dir, path, err));
    char *slash = strrchr(path, '/');
    *slash = 0;
    const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    TD_FAIL_IF(!made, err, PERMISSION_DENIED, "%s: %s", path, strerror(errno));
    *slash = '/';
    char *text = print(p);
    if (text == NULL) {
        return td_no_memory(err, (size_t)p->n, "a precision file");
    }
    const enum td_code rc = write_beside(path, text, err);
    td_free(text);
    return rc;
}
