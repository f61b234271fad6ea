/* kernels/data/files.c - ReadFile inside the model's directory, and the ops that are refused.
 *
 * The path is resolved by the model first (td_file_path), which refuses what leaves its directory; then the
 * file is opened beneath that directory, links resolved, and read in blocks into a string that has a limit.
 * Ops that would run code or touch other files have rows here with TD_OP_REFUSED and the reason as their
 * doc, so that a model with one of them loads, and says why when it is called.
 *
 * Does not: write, list folders, keep files open.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/files.h"
#include "core/base/beneath.h"
#include "core/graph/graph.h"
#include "kernels/ops.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static enum td_code read_all(int fd, const char *name, struct td_strbuf *out, struct td_err *err)
{
    for (;;) {
        TD_TRY(td_strbuf_reserve(out, 65536, err));
        ssize_t n = read(fd, out->p + out->n, 65536);
        if (n == 0) {
            return TD_OK;
        }
        TD_FAIL_IF(n < 0 && errno != EINTR, err, UNKNOWN, "reading %s: %s", name, strerror(errno));
        out->n += n > 0 ? (size_t)n : 0;
    }
}

enum td_code td_files_read(struct td_call *c, const char *path, size_t len, struct td_strbuf *out,
                           struct td_err *err)
{
    char real[PATH_MAX];
    TD_TRY(td_file_path(c, path, len, false, real, sizeof(real), err));
    struct td_err why = {0};
    int fd;
    enum td_code rc = td_beneath_open(td_file_root(c, real), real, &fd, &why);
    TD_FAIL_IF(rc == TD_NOT_FOUND, err, NOT_FOUND, "%s: %.*s; No such file or directory",
               TD_NODE_STR(c->node), (int)(len > 512 ? 512 : len), path);
    if (rc) {
        return td_fail(err, rc, "%s: %s", TD_NODE_STR(c->node), why.msg);
    }
    rc = read_all(fd, real, out, err);
    close(fd);
    return rc;
}

static enum td_code read_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    c->out[0] = td_shape_scalar();
    return TD_OK;
}

static enum td_code read_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    struct td_strbuf b = {0};
    size_t len;
    const char *path = td_tensor_str(c->in[0], 0, &len);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    enum td_code rc = td_files_read(c, path, len, &b, err);
    if (!rc) {
        rc = td_tensor_set_str(y, 0, b.n ? b.p : "", b.n, err);
    }
    td_strbuf_fini(&b);
    return rc;
}

#define PYTHON "runs Python code of the process that made the model; a server has none"
#define DISK "touches files outside the model's directory"

const struct td_op td_ops_files[] = {
    {.name = "ReadFile",
     .sig = "(filename:string) -> (contents:string) {}",
     .flags = TD_OP_NO_FOLD,
     .infer = read_infer,
     .kernels = TD_KERNEL("files.cpu", read_run, {0})},
    {.name = "WriteFile",
     .sig = "(filename:string, contents:string) -> () {}",
     .flags = TD_OP_STATEFUL | TD_OP_REFUSED,
     .doc = DISK},
    {.name = "MatchingFiles",
     .sig = "(pattern:string) -> (filenames:string) {}",
     .flags = TD_OP_REFUSED,
     .doc = DISK},
    {.name = "PyFunc",
     .sig = "(input:Tin) -> (output:Tout) {token:string; Tin:list(type); Tout:list(type)}",
     .flags = TD_OP_STATEFUL | TD_OP_REFUSED,
     .doc = PYTHON,
     .grad = td_not_differentiable},
    {.name = "PyFuncStateless",
     .sig = "(input:Tin) -> (output:Tout) {token:string; Tin:list(type); Tout:list(type)}",
     .flags = TD_OP_REFUSED,
     .doc = PYTHON,
     .grad = td_not_differentiable},
    {.name = "EagerPyFunc",
     .sig =
         "(input:Tin) -> (output:Tout) {token:string; is_async:bool=false; Tin:list(type); Tout:list(type)}",
     .flags = TD_OP_STATEFUL | TD_OP_REFUSED,
     .doc = PYTHON},
    {.name = NULL},
};
