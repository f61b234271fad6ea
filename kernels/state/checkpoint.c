/* kernels/state/checkpoint.c - reading and writing checkpoints from inside a graph.
 *
 * All of them are TensorBundles (proto/checkpoint/bundle.h), also those of the first Save and SaveSlices,
 * whose own file format nothing writes any more: what Save wrote, Restore and RestoreV2 read. Every path goes
 * through td_file_path first, so a model touches its own directory and its scratch directory only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/disk.h"
#include "core/base/mem.h"
#include "proto/checkpoint/bundle.h"

#define PATH_BYTES 4096

/* ------------------------------------------------------------------ arguments */

/* Makes the directories that lead to path; td_file_path has put it below the scratch directory. */
static enum td_code make_parents(const struct td_call *c, char *path, struct td_err *err)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        int why = errno;
        *p = '/';
        TD_FAIL_IF(!made, err, PERMISSION_DENIED, "%s: making the directories of '%s': %s",
                   TD_NODE_STR(c->node), path, strerror(why));
    }
    return TD_OK;
}

static enum td_code one_path(struct td_call *c, int i, bool write, char *buf, struct td_err *err)
{
    size_t len;
    TD_FAIL_IF(td_tensor_count(c->in[i]) != 1, err, INVALID_ARGUMENT,
               "%s: Input prefix should have a single element, got %lld instead.", TD_NODE_STR(c->node),
               (long long)td_tensor_count(c->in[i]));
    const char *path = td_tensor_str(c->in[i], 0, &len);
    return td_file_path(c, path, len, write, buf, PATH_BYTES, err);
}

/* Inputs `names` and `slices` (-1 when the op has none) describe n tensors. */
static enum td_code check_lists(const struct td_call *c, int names, int slices, int n, struct td_err *err)
{
    for (int k = 0; k < 2; k++) {
        int i = k == 0 ? names : slices;
        if (i < 0) {
            continue;
        }
        const struct td_shape *s = &c->in[i]->shape;
        TD_FAIL_IF(s->rank != 1, err, INVALID_ARGUMENT,
                   "%s: Input %d should be an 1-D tensor, got %s instead.", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(s));
        TD_FAIL_IF(s->dim[0] != n, err, INVALID_ARGUMENT,
                   "%s: input %d has %lld elements, expected one for each of %d tensors",
                   TD_NODE_STR(c->node), i, (long long)s->dim[0], n);
    }
    return TD_OK;
}

static const char *text_at(const struct td_call *c, int input, int64_t i)
{
    size_t len;
    return input < 0 ? "" : td_tensor_str(c->in[input], i, &len);
}

/* ------------------------------------------------------------------ restoring */

static enum td_code open_bundle(struct td_call *c, const char *prefix, struct td_bundle **out,
                                struct td_err *err)
{
    size_t len;
    enum td_code rc = td_bundle_open_beneath(td_file_root(c, prefix), prefix, out, err);
    if (rc == TD_NOT_FOUND) {
        td_err_wrap(
            err, "%s: Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s",
            TD_NODE_STR(c->node), td_tensor_str(c->in[0], 0, &len));
    }
    return rc;
}

static enum td_code restore_one(struct td_call *c, struct td_bundle *b, int i, const char *name,
                                const char *slice, struct td_err *err)
{
    struct td_tensor t;
    enum td_dtype want = c->node->out_type[i];
    TD_FAIL_IF(!name[0], err, INVALID_ARGUMENT,
               "%s: tensor name %d is empty, want the name of a saved tensor", TD_NODE_STR(c->node), i);
    TD_TRY(td_bundle_read(b, name, slice, &t, err));
    if (t.dtype != want) {
        enum td_dtype found = t.dtype;
        td_tensor_clear(&t);
        TD_FAIL(err, INVALID_ARGUMENT,
                "%s: tensor_name = %s; expected dtype %s does not equal original dtype %s",
                TD_NODE_STR(c->node), name, td_dtype_name(want), td_dtype_name(found));
    }
    td_out_move(c, i, &t);
    return TD_OK;
}

/* Reads what is asked for whole. */
static void read_ahead(struct td_call *c, struct td_bundle *b, int slices)
{
    const char **names = td_calloc((size_t)c->n_out + 1, sizeof *names);
    int n = 0;
    for (int i = 0; names != NULL && i < c->n_out; i++) {
        if (text_at(c, slices, i)[0] == '\0') {
            names[n++] = text_at(c, 1, i);
        }
    }
    if (n > 0) {
        td_bundle_read_ahead(b, names, n, td_helpers(c));
    }
    td_free(names);
}

static enum td_code restore_all(struct td_call *c, int slices, struct td_err *err)
{
    char prefix[PATH_BYTES];
    struct td_bundle *b;
    TD_TRY(check_lists(c, 1, slices, c->n_out, err));
    TD_TRY(one_path(c, 0, false, prefix, err));
    TD_TRY(open_bundle(c, prefix, &b, err));
    read_ahead(c, b, slices);
    enum td_code rc = TD_OK;
    for (int i = 0; i < c->n_out && !rc; i++) {
        rc = restore_one(c, b, i, text_at(c, 1, i), text_at(c, slices, i), err);
    }
    td_bundle_close(b);
    return rc;
}

static enum td_code restore_v2_run(struct td_call *c, struct td_err *err)
{
    return restore_all(c, 2, err);
}

/* Restore and RestoreSlice name their one tensor by a scalar. */
static enum td_code restore_run(struct td_call *c, struct td_err *err)
{
    char prefix[PATH_BYTES];
    struct td_bundle *b;
    for (int i = 1; i < c->n_in; i++) {
        TD_FAIL_IF(td_tensor_count(c->in[i]) != 1, err, INVALID_ARGUMENT,
                   "%s: Input %d (tensor_name) must be a scalar string tensor, got shape %s",
                   TD_NODE_STR(c->node), i, TD_SHAPE_STR(&c->in[i]->shape));
    }
    TD_TRY(one_path(c, 0, false, prefix, err));
    TD_TRY(open_bundle(c, prefix, &b, err));
    enum td_code rc = restore_one(c, b, 0, text_at(c, 1, 0), text_at(c, c->n_in > 2 ? 2 : -1, 0), err);
    td_bundle_close(b);
    return rc;
}

/* ------------------------------------------------------------------ saving */

/* Makes one checkpoint; what it takes of the disk is entered. */
static enum td_code write_bundle(struct td_call *c, int slices, int first, struct td_err *err)
{
    char prefix[PATH_BYTES];
    struct td_bundle_writer *w;
    TD_TRY(check_lists(c, 1, slices, c->n_in - first, err));
    TD_TRY(one_path(c, 0, true, prefix, err));
    TD_TRY(make_parents(c, prefix, err));
    TD_TRY(td_bundle_create(prefix, &w, err));
    enum td_code rc = TD_OK;
    for (int i = first; i < c->n_in && !rc; i++) {
        const char *name = text_at(c, 1, i - first), *slice = text_at(c, slices, i - first);
        rc = slice[0] ? td_bundle_add_slice(w, name, slice, c->in[i], err)
                      : td_bundle_add(w, name, c->in[i], err);
        if (!rc && td_stopped(c)) {
            rc = td_stop_error(c, err);
        }
    }
    if (rc) {
        td_bundle_abandon(w);
        td_err_wrap(err, "%s", TD_NODE_STR(c->node));
        return rc;
    }
    return td_bundle_finish(w, err);
}

static enum td_code save_all(struct td_call *c, int slices, int first, struct td_err *err)
{
    struct td_disk *before = td_disk_enter(td_file_disk(c));
    const enum td_code rc = write_bundle(c, slices, first, err);
    td_disk_enter(before);
    return rc;
}

static enum td_code save_v2_run(struct td_call *c, struct td_err *err)
{
    return save_all(c, 2, 3, err);
}
static enum td_code save_run(struct td_call *c, struct td_err *err)
{
    return save_all(c, -1, 2, err);
}

static bool bundle_exists(const struct td_call *c, const char *prefix)
{
    struct td_bundle *b;
    struct td_err ignored = {0};
    if (td_bundle_open_beneath(td_file_root(c, prefix), prefix, &b, &ignored)) {
        return false;
    }
    td_bundle_close(b);
    return true;
}

static enum td_code merge_run(struct td_call *c, struct td_err *err)
{
    char to[PATH_BYTES];
    int64_t n = td_tensor_count(c->in[0]);
    void *mem;
    TD_FAIL_IF(c->in[0]->shape.rank != 1 || n > 4096, err, INVALID_ARGUMENT,
               "%s: Input checkpoint_prefixes should be an 1-D tensor, got %s instead.", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]->shape));
    TD_TRY(one_path(c, 1, true, to, err));
    TD_TRY(make_parents(c, to, err));
    TD_TRY(td_scratch(c, (size_t)n * (PATH_BYTES + sizeof(char *)) + 1, &mem, err));
    const char **from = mem;
    char *paths = (char *)(from + n);
    int kept = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t len;
        char *path = paths + i * PATH_BYTES;
        const char *given = td_tensor_str(c->in[0], i, &len);
        TD_TRY(td_file_path(c, given, len, true, path, PATH_BYTES, err));
        bool exists = bundle_exists(c, path);
        TD_FAIL_IF(!exists && !td_attr_bool(c->node, "allow_missing_files"), err, INVALID_ARGUMENT,
                   "%s: allow_missing_files was set to false and %.*s did not exist", TD_NODE_STR(c->node),
                   (int)(len > 512 ? 512 : len), given);
        if (exists) {
            from[kept++] = path;
        }
    }
    struct td_disk *before = td_disk_enter(td_file_disk(c));
    const enum td_code rc = td_bundle_merge(from, kept, to, td_attr_bool(c->node, "delete_old_dirs"), err);
    td_disk_enter(before);
    return rc;
}

/* ------------------------------------------------------------------ file names */

static enum td_code sharded_infer(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < c->n_in; i++) {
        TD_TRY(td_infer_rank(c, i, 0, err));
    }
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code set_sharded(struct td_call *c, const char *shard, int64_t n, struct td_err *err)
{
    struct td_tensor *out;
    void *mem;
    size_t len;
    const char *base = td_tensor_str(c->in[0], 0, &len);
    len = strnlen(base, len); /* TensorFlow prints it as a C string */
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_TRY(td_scratch(c, len + 64, &mem, err));
    char *name = mem;
    memcpy(name, base, len);
    int tail = snprintf(name + len, 64, "-%s-of-%05lld", shard, (long long)n);
    return td_tensor_set_str(out, 0, name, len + (size_t)tail, err);
}

static enum td_code sharded_filename_run(struct td_call *c, struct td_err *err)
{
    char shard[32];
    snprintf(shard, sizeof shard, "%05lld", (long long)td_tensor_int(c->in[1], 0));
    return set_sharded(c, shard, td_tensor_int(c->in[2], 0), err);
}

static enum td_code sharded_filespec_run(struct td_call *c, struct td_err *err)
{
    return set_sharded(c, "?????", td_tensor_int(c->in[1], 0), err);
}

/* ------------------------------------------------------------------ the table */

const struct td_op td_ops_checkpoint[] = {
    {.name = "RestoreV2",
     .sig = "(prefix:string, tensor_names:string, shape_and_slices:string) -> (tensors:dtypes) "
            "{dtypes:list(type)}",
     .flags = TD_OP_STATEFUL,
     .host_in = 7,
     .kernels = TD_KERNEL("checkpoint.cpu", restore_v2_run)},
    {.name = "Restore",
     .sig = "(file_pattern:string, tensor_name:string) -> (tensor:dt) {dt:type; preferred_shard:int=-1}",
     .flags = TD_OP_STATEFUL,
     .host_in = 3,
     .kernels = TD_KERNEL("checkpoint.cpu", restore_run)},
    {.name = "RestoreSlice",
     .sig = "(file_pattern:string, tensor_name:string, shape_and_slice:string) -> (tensor:dt) {dt:type; "
            "preferred_shard:int=-1}",
     .flags = TD_OP_STATEFUL,
     .host_in = 7,
     .kernels = TD_KERNEL("checkpoint.cpu", restore_run)},
    {.name = "SaveV2",
     .sig = "(prefix:string, tensor_names:string, shape_and_slices:string, tensors:dtypes) -> () "
            "{dtypes:list(type)}",
     .flags = TD_OP_STATEFUL,
     .host_in = 15,
     .kernels = TD_KERNEL("checkpoint.cpu", save_v2_run)},
    {.name = "Save",
     .sig = "(filename:string, tensor_names:string, data:T) -> () {T:list(type)}",
     .flags = TD_OP_STATEFUL,
     .host_in = 7,
     .kernels = TD_KERNEL("checkpoint.cpu", save_run)},
    {.name = "SaveSlices",
     .sig = "(filename:string, tensor_names:string, shapes_and_slices:string, data:T) -> () {T:list(type)}",
     .flags = TD_OP_STATEFUL,
     .host_in = 15,
     .kernels = TD_KERNEL("checkpoint.cpu", save_v2_run)},
    {.name = "MergeV2Checkpoints",
     .sig = "(checkpoint_prefixes:string, destination_prefix:string) -> () {delete_old_dirs:bool=true; "
            "allow_missing_files:bool=false}",
     .flags = TD_OP_STATEFUL,
     .host_in = 3,
     .kernels = TD_KERNEL("checkpoint.cpu", merge_run)},
    {.name = "ShardedFilename",
     .sig = "(basename:string, shard:int32, num_shards:int32) -> (filename:string) {}",
     .host_in = 7,
     .infer = sharded_infer,
     .kernels = TD_KERNEL("checkpoint.cpu", sharded_filename_run)},
    {.name = "ShardedFilespec",
     .sig = "(basename:string, num_shards:int32) -> (filename:string) {}",
     .host_in = 3,
     .infer = sharded_infer,
     .kernels = TD_KERNEL("checkpoint.cpu", sharded_filespec_run)},
    {.name = NULL},
};
