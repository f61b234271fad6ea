/* server/train_command.c - a job by hand: what it is of, where it works, where its result goes.
 *
 *   job.json                     the body of POST /v1/fine_tuning/jobs, with files named relative to it
 *   --model=NAME=DIR             the model of that name: numbered versions, or one SavedModel
 *   --output=DIR                 where the result goes; else the next version beside the others
 *   --work_dir=DIR               progress, result.csv, tensorboard/; else JOB.work beside job.json
 *
 * One process at a time works in a work_dir (a lock on it), so progress is not shared. The version is written
 * beside its place under a name that begins with a dot, then renamed; where to is written down before, so
 * that a process which is killed right after the rename has a successor that knows. When it is there the
 * progress is removed: the same command would train anew.
 *
 * Under mpirun the processes share the job, and so do those that a job of several GPUs is made of; rank 0
 * has the work_dir, the others a directory each below it, which may be on another machine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train_command.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "server/command_args.h"
#include "server/drain.h"
#include "server/models/watch.h"
#include "server/train/progress.h"
#include "server/train_log.h"
#include "server/train_processes.h"
#include "server/train_run.h"

enum { MOST_THREADS = 16, MOST_GRAPH_RUN = 1000000 };

static const char USAGE[] =
    "usage: tensord train job.json --model=NAME=DIR | --model_base_path=DIR [options]\n"
    "Runs a fine-tuning job without a server; files are named relative to job.json.\n"
    "\n"
    "  --model=NAME=DIR         the job's model: a directory of numbered versions, or one SavedModel\n"
    "  --model_base_path=DIR    the same, whatever the job calls it\n"
    "  --output=DIR             where the tuned version goes; else the next version beside the others\n"
    "  --work_dir=DIR           progress, result.csv and tensorboard/; else JOB.work beside job.json\n"
    "  --events=FILE            writes the list of the job's events there when it ends\n"
    "  --threads=N              threads to compute with; else as many as processors\n"
    "  --saved_model_tags=TAGS  as the daemon's\n"
    "  --op_library=FILES       as the daemon's\n"
    "  --devices=cpu|auto|gpu   where it computes; the default is cpu\n"
    "  --device_module=FILE     as the daemon's\n"
    "  --gpu_graph_run=N        as the daemon's\n"
    "  --log_device_placement=true  as the daemon's, and what a GPU has done\n"
    "\n"
    "mpirun -n N tensord train ..: N processes share each batch; the result is the same.\n"
    "SIGINT or SIGTERM saves the job's progress, and the same command goes on. Exit status: 0 done, 75 "
    "stopped\n"
    "by a signal, 2 the job cannot be done as it is asked for, 1 anything else.\n";

struct command {
    const char *job, *model, *base_path, *output, *work_dir, *events, *threads, *tags, *op_library;
    const char *devices, *device_module, *log_placement, *graph_run;
    bool help;
};

/* All that is found out before training. */
struct plan {
    struct td_job_spec *spec;
    char training[TD_FILE_PATH], validation[TD_FILE_PATH], work[TD_FILE_PATH];
    char model[TD_FILE_PATH]; /* the directory that was given */
    char version[TD_FILE_PATH], serving[TD_FILE_PATH];
    int64_t number;            /* of the version */
    char parent[TD_FILE_PATH]; /* where the result goes: a base path, or what holds `target` */
    char target[TD_FILE_PATH]; /* --output; "": the next version of parent */
    char stage[TD_FILE_PATH];
    char placing[TD_FILE_PATH]; /* a file that says where the stage is being renamed to */
    int lock;
    struct td_ranks *ranks; /* of several processes; NULL: this one alone */
};

/* ------------------------------------------------------------------ arguments */

static enum td_code read_arguments(struct command *c, int argc, char **argv, struct td_fault *f)
{
    struct td_err err = {0};
    const struct td_command_option options[] = {
        {"model", &c->model},
        {"model_base_path", &c->base_path},
        {"output", &c->output},
        {"work_dir", &c->work_dir},
        {"events", &c->events},
        {"threads", &c->threads},
        {"op_library", &c->op_library},
        {"saved_model_tags", &c->tags},
        {"devices", &c->devices},
        {"device_module", &c->device_module},
        {"gpu_graph_run", &c->graph_run},
        {"log_device_placement", &c->log_placement},
    };
    struct td_command_args args = {
        .options = options, .n_options = sizeof options / sizeof options[0], .what = "job", .place = &c->job};
    if (td_command_args_read(&args, argc, argv, &err)) {
        return TD_FAULT(f, "invalid_value", "", "%s", err.msg);
    }
    c->help = args.help;
    if (!c->help && c->job == NULL) {
        return TD_FAULT(f, "missing_field", "", "which job? tensord train job.json ..");
    }
    if (!c->help && (c->model == NULL) == (c->base_path == NULL)) {
        return TD_FAULT(f, "missing_field", "",
                        "which model? One of --model=NAME=DIR, --model_base_path=DIR");
    }
    return TD_OK;
}

static bool logs_placement(const struct command *c)
{
    return c->log_placement != NULL && strcmp(c->log_placement, "true") == 0;
}

static enum td_code number_of_threads(const struct command *c, int *out, struct td_fault *f)
{
    char *end;
    *out = 0;
    if (c->threads == NULL) {
        return TD_OK;
    }
    const long n = strtol(c->threads, &end, 10);
    if (*end != 0 || end == c->threads || n < 1 || n > MOST_THREADS) {
        return TD_FAULT(f, "invalid_value", "", "--threads=%s: want 1 to %d", c->threads, MOST_THREADS);
    }
    *out = (int)n;
    return TD_OK;
}

static enum td_code graph_run(const struct command *c, int *out, struct td_fault *f)
{
    char *end;
    *out = TD_DEVICES_GRAPH_RUN;
    if (c->graph_run == NULL) {
        return TD_OK;
    }
    const long n = strtol(c->graph_run, &end, 10);
    if (*end != 0 || end == c->graph_run || n < 0 || n > MOST_GRAPH_RUN) {
        return TD_FAULT(f, "invalid_value", "", "--gpu_graph_run=%s: want 0 to %d", c->graph_run,
                        MOST_GRAPH_RUN);
    }
    *out = (int)n;
    return TD_OK;
}

/* ------------------------------------------------------------------ the job and its files */

static enum td_code too_long(const char *path, struct td_fault *f)
{
    return TD_FAULT(f, "invalid_value", "", "%.300s: the path is too long", path);
}

static enum td_code join(const char *dir, const char *name, char out[TD_FILE_PATH], struct td_fault *f)
{
    const int n = name[0] == '/' ? snprintf(out, TD_FILE_PATH, "%s", name)
                                 : snprintf(out, TD_FILE_PATH, "%s/%s", dir, name);
    return n < 0 || n >= TD_FILE_PATH ? too_long(name, f) : TD_OK;
}

/* The directory that path is in. */
static enum td_code directory_of(const char *path, char out[TD_FILE_PATH], struct td_fault *f)
{
    char copy[TD_FILE_PATH];
    if (strlen(path) >= sizeof copy) {
        return too_long(path, f);
    }
    memcpy(copy, path, strlen(path) + 1);
    (void)snprintf(out, TD_FILE_PATH, "%s", dirname(copy));
    return TD_OK;
}

static enum td_code find_file(const char *dir, const char *name, const char *param, char out[TD_FILE_PATH],
                              struct td_fault *f)
{
    TD_TRY(join(dir, name, out, f));
    return access(out, R_OK) != 0
               ? TD_FAULT(f, "file_not_found", param, "%s: %s: %s", param, out, strerror(errno))
               : TD_OK;
}

static enum td_code read_job(const struct command *c, struct plan *p, struct td_fault *f)
{
    json_error_t why;
    char dir[TD_FILE_PATH];
    json_t *body = json_load_file(c->job, JSON_REJECT_DUPLICATES, &why);
    if (body == NULL) {
        return access(c->job, R_OK) != 0
                   ? TD_FAULT(f, "file_not_found", "", "%s: %s", c->job, strerror(errno))
                   : TD_FAULT(f, "invalid_value", "", "%s: line %d: %s", c->job, why.line, why.text);
    }
    const enum td_code rc = td_job_spec_read(body, &p->spec, f);
    json_decref(body);
    TD_TRY(rc);
    if (p->spec->base != NULL) {
        return TD_FAULT(f, "invalid_value", "tensord.base",
                        "tensord.base names a job of a server: by hand, give its result as the model");
    }
    TD_TRY(directory_of(c->job, dir, f));
    TD_TRY(find_file(dir, p->spec->training_file, "training_file", p->training, f));
    return p->spec->validation_file == NULL
               ? TD_OK
               : find_file(dir, p->spec->validation_file, "validation_file", p->validation, f);
}

/* ------------------------------------------------------------------ the model */

static enum td_code model_directory(const struct command *c, struct plan *p, struct td_fault *f)
{
    const char *dir = c->base_path;
    if (c->model != NULL) {
        const char *equals = strchr(c->model, '=');
        const size_t n = equals != NULL ? (size_t)(equals - c->model) : 0;
        if (n == 0) {
            return TD_FAULT(f, "invalid_value", "", "--model=%s: want NAME=DIR", c->model);
        }
        if (strlen(p->spec->model) != n || strncmp(p->spec->model, c->model, n) != 0) {
            return TD_FAULT(f, "model_not_found", "model", "the job is for model '%s', --model gives '%.*s'",
                            p->spec->model, (int)n, c->model);
        }
        dir = equals + 1;
    }
    if (realpath(dir, p->model) == NULL) {
        return TD_FAULT(f, "model_not_found", "model", "%s: %s", dir, strerror(errno));
    }
    return TD_OK;
}

static enum td_code take_version(struct plan *p, const struct td_version_dir *all, int n, struct td_fault *f)
{
    if (p->spec->label != NULL) {
        return TD_FAULT(f, "invalid_value", "model", "label '%s': labels are a server's", p->spec->label);
    }
    for (int i = 0; i < n; i++) {
        if (p->spec->version < 0 || all[i].version == p->spec->version) {
            p->number = all[i].version;
            (void)snprintf(p->version, sizeof p->version, "%s", all[i].path);
            (void)snprintf(p->serving, sizeof p->serving, "%s", all[0].path);
            return TD_OK;
        }
    }
    return p->spec->version < 0
               ? TD_FAULT(f, "model_not_found", "model", "%s holds no SavedModel and no version", p->model)
               : TD_FAULT(f, "model_not_found", "model", "%s has no version %lld", p->model,
                          (long long)p->spec->version);
}

static enum td_code find_version(struct plan *p, struct td_fault *f)
{
    struct td_version_dir *all = NULL;
    int n = 0;
    TD_TRY(td_fault_of(f, td_watch_list(p->model, &all, &n, &f->err), "model_not_found", "model"));
    const enum td_code rc = take_version(p, all, n, f);
    td_watch_free(all, n);
    return rc;
}

/* ------------------------------------------------------------------ where the result goes */

static enum td_code check_place(struct plan *p, const struct command *c, struct td_fault *f)
{
    if (td_ranks_rank(p->ranks) == 0 && access(p->parent, W_OK | X_OK) != 0) {
        return TD_FAULT(f, "server_error", "", "the tuned version cannot be written to %s: %s", p->parent,
                        strerror(errno));
    }
    char real[TD_FILE_PATH];
    const char *named = realpath(c->job, real) != NULL ? real : c->job;
    /* the same each time, so that what a killed process left is found */
    const unsigned key = td_crc32c(0, named, strlen(named));
    const int n = snprintf(p->stage, sizeof p->stage, "%s/.train-%08x", p->parent, key);
    return n < 0 || (size_t)n >= sizeof p->stage ? too_long(p->parent, f) : TD_OK;
}

static enum td_code find_place(struct plan *p, const struct command *c, struct td_fault *f)
{
    if (c->output != NULL) {
        TD_TRY(join(".", c->output, p->target, f));
        for (size_t n = strlen(p->target); n > 1 && p->target[n - 1] == '/'; n--) {
            p->target[n - 1] = 0;
        }
        TD_TRY(directory_of(p->target, p->parent, f));
    } else if (strcmp(p->version, p->model) == 0) {
        return TD_FAULT(f, "missing_field", "",
                        "%s is a SavedModel, not a directory of versions: say where the result goes with "
                        "--output=DIR",
                        p->model);
    } else {
        (void)snprintf(p->parent, sizeof p->parent, "%s", p->model);
    }
    return check_place(p, c, f);
}

/* Of a process that is not rank 0: a directory of its own, removed at the end. */
static enum td_code find_aside(struct plan *p, struct td_fault *f)
{
    char name[40], dir[TD_FILE_PATH];
    memcpy(dir, p->work, sizeof dir);
    (void)snprintf(name, sizeof name, "rank-%d", td_ranks_rank(p->ranks));
    TD_TRY(join(dir, name, p->work, f));
    return td_fault_of(f, td_tree_make(p->work, 0755, &f->err), "server_error", "");
}

static enum td_code find_work(struct plan *p, const struct command *c, struct td_fault *f)
{
    char lock[TD_FILE_PATH];
    if (c->work_dir != NULL) {
        TD_TRY(join(".", c->work_dir, p->work, f));
    } else {
        const size_t n = strlen(c->job), tail = n > 5 && strcmp(c->job + n - 5, ".json") == 0 ? 5 : 0;
        const int put = snprintf(p->work, sizeof p->work, "%.*s.work", (int)(n - tail), c->job);
        TD_TRY(put < 0 || (size_t)put >= sizeof p->work ? too_long(c->job, f) : TD_OK);
    }
    TD_TRY(td_fault_of(f, td_tree_make(p->work, 0755, &f->err), "server_error", ""));
    if (td_ranks_rank(p->ranks) > 0) {
        return find_aside(p, f);
    }
    TD_TRY(join(p->work, "lock", lock, f));
    p->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (p->lock < 0) {
        return TD_FAULT(f, "server_error", "", "Creating %s: %s", lock, strerror(errno));
    }
    return flock(p->lock, LOCK_EX | LOCK_NB) != 0
               ? TD_FAULT(f, "server_error", "", "another process works in %s", p->work)
               : TD_OK;
}

/* Behind read_job. */
static enum td_code make_plan(const struct command *c, struct plan *p, struct td_fault *f)
{
    TD_TRY(td_train_check_gpus(p->spec, c->devices, f));
    TD_TRY(model_directory(c, p, f));
    TD_TRY(find_version(p, f));
    TD_TRY(find_place(p, c, f));
    TD_TRY(find_work(p, c, f));
    return join(p->work, "placing", p->placing, f);
}

/* ------------------------------------------------------------------ publishing */

static enum td_code next_version(const struct plan *p, char out[TD_FILE_PATH], struct td_err *err)
{
    struct td_version_dir *all = NULL;
    int n = 0;
    TD_TRY(td_watch_list(p->parent, &all, &n, err));
    const int64_t next = n > 0 ? all[0].version + 1 : 1;
    td_watch_free(all, n);
    const int put = snprintf(out, TD_FILE_PATH, "%s/%lld", p->parent, (long long)next);
    TD_FAIL_IF(put < 0 || put >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s: the path is too long", p->parent);
    return TD_OK;
}

/* Where the result goes: --output, a place that no server looks at, or the next version. */
static enum td_code choose_place(const struct plan *p, const struct td_train_outcome *out,
                                 char where[TD_FILE_PATH], struct td_err *err)
{
    if (p->target[0] != 0) {
        memcpy(where, p->target, sizeof p->target);
        return TD_OK;
    }
    if (p->spec->publish && out->gate_passed) {
        return next_version(p, where, err);
    }
    const int n = snprintf(where, TD_FILE_PATH, "%s/.tuned-%s", p->parent, strrchr(p->stage, '-') + 1);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%s: the path is too long", p->parent);
    return td_tree_remove(where, err);
}

/* What is said here before the rename is how a later process knows that this one was killed after it. */
static enum td_code note_place(const struct plan *p, const char *where, struct td_err *err)
{
    (void)unlink(p->placing);
    TD_TRY(td_file_write(p->placing, where, strlen(where), err));
    td_file_sync_directory(p->placing);
    return TD_OK;
}

/* The stage gets its name. */
static enum td_code place_result(const struct plan *p, const struct td_train_outcome *out,
                                 char where[TD_FILE_PATH], struct td_err *err)
{
    for (int tries = 0;; tries++) {
        TD_TRY(choose_place(p, out, where, err));
        TD_TRY(note_place(p, where, err));
        const bool done = renameat2(AT_FDCWD, p->stage, AT_FDCWD, where, RENAME_NOREPLACE) == 0;
        /* some file systems do not know NOREPLACE */
        const bool plain = !done && errno == EINVAL && access(where, F_OK) != 0;
        if (done || (plain && rename(p->stage, where) == 0)) {
            td_file_sync_directory(where);
            return TD_OK;
        }
        const bool taken = errno == EEXIST && p->target[0] == 0 && tries < 100; /* by somebody else */
        TD_FAIL_IF(!taken, err, UNAVAILABLE, "Renaming %s to %s: %s", p->stage, where, strerror(errno));
    }
}

static enum td_code clean_up(const struct plan *p, struct td_err *err)
{
    TD_TRY(td_progress_remove(p->work, err));
    (void)unlink(p->placing);
    return TD_OK;
}

/* Whether an earlier process has placed the result, and was killed before it could say so. */
static bool was_placed(const struct plan *p, char where[TD_FILE_PATH])
{
    struct stat st;
    struct td_err none = {0};
    char *text = NULL;
    size_t n = 0;
    if (td_file_read(p->placing, TD_FILE_PATH - 1, &text, &n, &none)) {
        return false;
    }
    memcpy(where, text, n + 1);
    td_free(text);
    return lstat(p->stage, &st) != 0 && lstat(where, &st) == 0;
}

static enum td_code tell_place(const struct plan *p, const char *where, struct td_train_log *l,
                               struct td_err *err)
{
    char text[TD_FILE_PATH + 100];
    TD_TRY(clean_up(p, err));
    (void)snprintf(text, sizeof text, "The tuned version is %s", where);
    return td_train_log_tell(l, "m:done", "info", text, err);
}

static enum td_code publish(const struct plan *p, const struct td_train_outcome *out, struct td_train_log *l,
                            struct td_err *err)
{
    char where[TD_FILE_PATH];
    TD_TRY(place_result(p, out, where, err));
    return tell_place(p, where, l, err);
}

/* ------------------------------------------------------------------ all of it */

static enum td_code open_log(const struct plan *p, struct td_train_log **out, struct td_err *err)
{
    struct td_progress *saved = NULL;
    TD_TRY(td_progress_open(p->work, &saved, err));
    const bool goes_on = saved != NULL || access(p->placing, F_OK) == 0;
    td_progress_close(saved);
    return td_train_log_open(p->work, goes_on, out, err);
}

static enum td_code run(const struct command *c, const struct plan *p, struct td_train_log *l,
                        struct td_train_outcome *out, struct td_fault *f)
{
    struct td_train_run_opts opts = {
        .model = p->spec->model,
        .version = p->number,
        .dir = p->version,
        .serving_dir = p->serving,
        .tags = c->tags,
        .op_library = c->op_library,
        .devices = {.devices = c->devices,
                    .most = 1,
                    .module = c->device_module,
                    .device = {.pinned = TD_DEVICES_PINNED}},
        .log_placement = logs_placement(c),
        .train = {.spec = p->spec,
                  .training_path = p->training,
                  .training_name = p->spec->training_file,
                  .validation_path = p->validation[0] != 0 ? p->validation : NULL,
                  .validation_name = p->spec->validation_file,
                  .work_dir = p->work,
                  .stage_dir = p->stage,
                  .sink = l != NULL ? td_train_log_sink(l) : td_train_silence(),
                  .ranks = p->ranks},
    };
    TD_TRY(number_of_threads(c, &opts.threads, f));
    TD_TRY(graph_run(c, &opts.devices.device.graph_run, f));
    TD_TRY(td_train_run(&opts, out, f));
    return l != NULL && out->end == TD_TRAIN_DONE
               ? td_fault_of(f, publish(p, out, l, &f->err), "server_error", "")
               : TD_OK;
}

/* Before anything is trained: whether it is all done, and else that its place is free. */
static enum td_code look_at_place(const struct command *c, const struct plan *p, struct td_train_log *l,
                                  bool *done, struct td_fault *f)
{
    char where[TD_FILE_PATH];
    struct stat st;
    if (was_placed(p, where)) {
        *done = true;
        return td_fault_of(f, tell_place(p, where, l, &f->err), "server_error", "");
    }
    if (p->target[0] != 0 && lstat(p->target, &st) == 0 && rmdir(p->target) != 0) {
        return TD_FAULT(f, "invalid_value", "", "--output=%s is there already", c->output);
    }
    return TD_OK;
}

/* All processes of the job; those but rank 0 without a log. */
static enum td_code run_if_not_done(const struct command *c, const struct plan *p, struct td_train_log *l,
                                    struct td_train_outcome *out, struct td_fault *f)
{
    bool done = false;
    const enum td_code rc = l != NULL ? look_at_place(c, p, l, &done, f) : TD_OK;
    TD_TRY(td_ranks_agree(p->ranks, rc, f));
    TD_TRY(td_fault_of(f, td_ranks_share(p->ranks, &done, sizeof done, &f->err), "server_error", ""));
    return done ? TD_OK : run(c, p, l, out, f);
}

static enum td_code run_told(const struct command *c, const struct plan *p, struct td_train_outcome *out,
                             struct td_fault *f)
{
    struct td_train_log *l = NULL;
    struct td_err unsaid = {0};
    enum td_code rc = td_fault_of(f, open_log(p, &l, &f->err), "server_error", "");
    TD_TRY(td_ranks_agree(p->ranks, rc, f));
    rc = run_if_not_done(c, p, l, out, f);
    if (rc && td_train_log_tell(l, "m:failed", "error", f->err.msg, &unsaid)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaid.msg);
    }
    if (c->events != NULL && rc == TD_OK) {
        rc = td_fault_of(f, td_train_log_list(l, c->events, &f->err), "server_error", "");
    } else if (c->events != NULL && td_train_log_list(l, c->events, &unsaid)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaid.msg);
    }
    td_train_log_close(l);
    json_decref(out->gate);
    return rc;
}

/* A process but rank 0: it computes, and says nothing. */
static enum td_code run_silently(const struct command *c, const struct plan *p, struct td_train_outcome *out,
                                 struct td_fault *f)
{
    struct td_err unsaid = {0};
    TD_TRY(td_ranks_agree(p->ranks, TD_OK, f));
    const enum td_code rc = run_if_not_done(c, p, NULL, out, f);
    if (td_tree_remove(p->work, &unsaid)) {
        td_log(TD_LOG_WARNING, NULL, "%s", unsaid.msg);
    }
    json_decref(out->gate);
    return rc;
}

static enum td_code train(const struct command *c, struct plan *p, struct td_train_outcome *out,
                          struct td_fault *f)
{
    struct td_err err = {0};
    td_drain_init(); /* before MPI makes threads, which signals must not reach */
    enum td_code rc = read_job(c, p, f);
    const bool fits = rc == TD_OK && td_train_check_gpus(p->spec, c->devices, f) == TD_OK;
    if (td_ranks_open(fits ? (int)p->spec->gpus : 1, &p->ranks, &err)) {
        f->err = err;
        return td_fault_of(f, err.code, "server_error", "");
    }
    rc = rc ? rc : make_plan(c, p, f);
    TD_TRY(td_ranks_agree(p->ranks, rc, f));
    return td_ranks_rank(p->ranks) == 0 ? run_told(c, p, out, f) : run_silently(c, p, out, f);
}

int td_train_command(int argc, char **argv)
{
    struct command c = {0};
    static struct plan p = {.lock = -1};
    struct td_fault f = {0};
    struct td_train_outcome out = {0};
    td_log_setup(TD_LOG_WARNING, false);
    enum td_code rc = read_arguments(&c, argc, argv, &f);
    if (rc || c.help) {
        (void)dprintf(rc ? STDERR_FILENO : STDOUT_FILENO, "%s", USAGE);
    }
    if (logs_placement(&c)) {
        td_log_setup(TD_LOG_INFO, false);
    }
    if (rc == TD_OK && !c.help) {
        rc = train(&c, &p, &out, &f);
    }
    if (rc && td_ranks_rank(p.ranks) == 0) {
        (void)dprintf(STDERR_FILENO, "tensord train: %s\n", f.err.msg);
    }
    td_job_spec_free(p.spec);
    if (p.lock >= 0) {
        close(p.lock);
    }
    td_ranks_close(p.ranks); /* waits for the others: mpirun ends who is left when one fails */
    return td_train_exit_status(rc, &out, &f);
}
