/* tests/unit/job_server.h - what a server gives its jobs, for tests: a database, a registry and the bundled
 * model, all real, in a directory of the test's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_JOB_SERVER_H
#define TD_TESTS_UNIT_JOB_SERVER_H

#include "server/jobs/jobs.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "kernels/ops.h"
#include "server/jobs/jobs_impl.h"
#include "tests/unit/temp_dir.h"

static struct temp_dir dir;
static char state[250], base[250];
static struct td_op_table *ops;
static struct td_registry *registry;
static struct td_jobs *jobs;
static struct td_jobs_opts opts;
static struct td_err err;
static struct td_fault fault;

static inline void run(const char *format, const char *a, const char *b)
{
    char command[900];
    snprintf(command, sizeof command, format, a, b);
    CHECK_INT(system(command), 0);
}

static inline void open_jobs(void)
{
    CHECK_OK(td_jobs_open(&opts, &jobs, &err));
}

static inline void setup(const char *train_as)
{
    td_log_setup(TD_LOG_ERROR, false);
    setenv("TRAIN_AS", train_as, 1);
    dir = temp_dir_make();
    snprintf(state, sizeof state, "%s/state", dir.path);
    snprintf(base, sizeof base, "%s/models/digits", dir.path);
    run("mkdir -p %s %s", state, base);
    run("cp -r %s %s/1", DIGITS_DIR, base);
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    const struct td_registry_opts r = {.servable = {.ops = ops}, .poll_wait_s = -1, .load_threads = 1};
    CHECK_OK(td_registry_start(&r, &registry, &err));
    const struct td_model_config c = {.name = (char *)"digits", .base_path = base, .n_latest = 1};
    CHECK_OK(td_registry_configure(registry, &c, 1, true, &err));
    CHECK_OK(td_registry_rescan(registry, "digits", &err));
    opts = (struct td_jobs_opts){.state_dir = state,
                                 .registry = registry,
                                 .servable = {.ops = ops},
                                 .program = "/proc/self/exe",
                                 .most_running = 1,
                                 .most_waiting = 2,
                                 .cores = 1,
                                 .file_bytes = 1000,
                                 .quota_bytes = 2000};
    open_jobs();
}

static inline void teardown(void)
{
    td_jobs_close(jobs);
    td_registry_stop(registry);
    td_op_table_free(ops);
    run("rm -rf %s%s", dir.path, "");
}

/* ------------------------------------------------------------------ files */

static inline enum td_code upload_of(const char *owner, const char *name, const char *text, size_t n,
                                     json_t **file)
{
    struct td_file_upload *u = NULL;
    fault = (struct td_fault){0};
    TD_TRY(td_file_upload_open(jobs, owner, &u, &fault));
    if (td_file_upload_write(u, text, n, &fault)) {
        td_file_upload_abandon(u);
        return fault.err.code;
    }
    return td_file_upload_finish(u, name, "fine-tune", file, &fault);
}

static inline const char *text_of(const json_t *o, const char *field)
{
    const char *s = json_string_value(json_object_get(o, field));
    return s != NULL ? s : "(none)";
}

static inline const char *upload(const char *name, const char *text)
{
    static char id[TD_JOBS_ID];
    json_t *file = NULL;
    test_check_ok(__FILE__, __LINE__, "upload", upload_of("", name, text, strlen(text), &file), &fault.err);
    snprintf(id, sizeof id, "%s", text_of(file, "id"));
    json_decref(file);
    return id;
}

static inline int n_in(const char *folder)
{
    char path[300], line[40] = "";
    snprintf(path, sizeof path, "ls -A %.200s/%.60s | wc -l", state, folder);
    FILE *p = popen(path, "r");
    CHECK(p != NULL && fgets(line, sizeof line, p) != NULL);
    pclose(p);
    return (int)strtol(line, NULL, 10);
}

#define BODY                                                                                                 \
    "{\"model\":\"digits\",\"training_file\":\"%s\",\"tensord\":{\"loss\":"                                  \
    "{\"name\":\"sparse_categorical_crossentropy\",\"output\":\"probabilities\"}%s}}"

static inline enum td_code create(const char *file, const char *more, json_t **job)
{
    char body[2000];
    snprintf(body, sizeof body, BODY, file, more);
    json_t *o = json_loads(body, 0, NULL);
    CHECK(o != NULL);
    fault = (struct td_fault){0};
    const enum td_code rc = td_jobs_create(jobs, o, "", job, &fault);
    json_decref(o);
    return rc;
}

#endif
