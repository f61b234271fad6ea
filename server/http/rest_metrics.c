/* server/http/rest_metrics.c - GET /metrics, and the same text on the path of TF Serving's monitoring
 * configuration.
 *
 * Behind the counters of server/base/metrics.h come values that are looked up now: of each version that is
 * loaded, of fine-tuning, of GPUs, and of the process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/buffer.h"
#include "core/base/mem.h"
#include "core/run/bound_plan.h"
#include "core/run/variable.h"
#include "server/base/busy_poll.h"
#include "server/base/connections.h"
#include "server/base/metrics.h"
#include "server/base/open_calls.h"
#include "server/base/statm.h"
#include "server/http/rest.h"
#include "server/jobs/jobs.h"
#include "server/models/devices.h"

enum { MOST_DEVICES = 64 }; /* that are told of */

/* ------------------------------------------------------------------ the process */

/* What is asked of a module that keeps it for the whole process. */
#define OF_PROCESS(name, value)                                                                              \
    static double name(const struct td_rest *rest)                                                           \
    {                                                                                                        \
        (void)rest;                                                                                          \
        return (double)(value);                                                                              \
    }
OF_PROCESS(resident_bytes, td_statm().resident)
OF_PROCESS(memory_held, td_budget_held())
OF_PROCESS(memory_tensors, td_buffer_live_bytes())
OF_PROCESS(memory_strings, td_budget_noted(TD_MEMORY_STRINGS))
OF_PROCESS(memory_bodies, td_budget_noted(TD_MEMORY_BODIES))
OF_PROCESS(memory_answers, td_budget_noted(TD_MEMORY_ANSWERS))
OF_PROCESS(memory_arenas, td_budget_noted(TD_MEMORY_ARENAS))
OF_PROCESS(memory_packed, td_budget_noted(TD_MEMORY_PACKED))
OF_PROCESS(memory_libraries, td_budget_noted(TD_MEMORY_LIBRARIES))
OF_PROCESS(memory_plans, td_bound_plans_bytes())
OF_PROCESS(memory_limit, td_budget_allowed())
OF_PROCESS(memory_refusals, td_budget_refusals())
OF_PROCESS(memory_shortages, td_budget_shortages())
#undef OF_PROCESS

static double open_files(const struct td_rest *rest)
{
    (void)rest;
    DIR *d = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and d itself */
    while (d != NULL && readdir(d) != NULL) {
        n++;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n > 0 ? n : 0;
}

static struct td_resident_counts count_residents(const struct td_rest *rest)
{
    struct td_resident_counts c;
    td_registry_count(rest->registry, &c);
    return c;
}

static double versions_resident(const struct td_rest *rest)
{
    return (double)count_residents(rest).resident;
}

static double versions_cold(const struct td_rest *rest)
{
    return (double)count_residents(rest).cold;
}

static double resident_versions(const struct td_rest *rest)
{
    return (double)count_residents(rest).bytes;
}

static double cold_loads(const struct td_rest *rest)
{
    return (double)count_residents(rest).first_loads;
}

static double evictions(const struct td_rest *rest)
{
    return (double)count_residents(rest).evictions;
}

static double requests_awaiting(const struct td_rest *rest)
{
    return (double)count_residents(rest).waiting;
}

static double cpu_seconds(const struct td_rest *rest)
{
    (void)rest;
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double busy_poll_seconds(const struct td_rest *rest)
{
    (void)rest;
    return (double)td_busy_poll_spent_ns() * 1e-9;
}

static double started_at(const struct td_rest *rest)
{
    return (double)rest->started_at;
}

/* What TYPE stands for in server/base/metrics.def. */
#define COUNTER "counter"
#define GAUGE "gauge"

static enum td_code put_process(const struct td_rest *rest, struct td_sink *out, struct td_err *err)
{
    static const struct {
        const char *name, *type, *help;
        double (*value)(const struct td_rest *rest);
    } metrics[] = {
#define METRIC_OF_PROCESS(kind, text, look, about) {text, kind, about, look},
#include "server/base/metrics.def"
    };
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        TD_TRY(td_metrics_put_head(out, metrics[i].name, metrics[i].type, metrics[i].help, err));
        TD_TRY(td_metrics_put(out, metrics[i].name, NULL, metrics[i].value(rest), err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ jobs, clients */

struct sample {
    const char *name, *type, *help;
    const char *label, *is; /* is NULL: it has no label */
};

static enum td_code put_sample(struct td_sink *out, const struct sample *m, double value, struct td_err *err)
{
    const char *const labels[] = {m->is != NULL ? m->label : NULL, m->is, NULL};
    TD_TRY(*m->help != '\0' ? td_metrics_put_head(out, m->name, m->type, m->help, err) : TD_OK);
    return td_metrics_put(out, m->name, labels, value, err);
}

static enum td_code put_jobs(const struct td_rest *rest, struct td_sink *out, struct td_err *err)
{
    struct td_jobs_stats s;
    if (rest->jobs == NULL) {
        return TD_OK;
    }
    td_jobs_stats(rest->jobs, &s);
#define METRIC_OF_JOBS(kind, text, which, member, about)                                                     \
    TD_TRY(put_sample(out, &(struct sample){text, kind, about, "status", which}, (double)s.member, err));
#include "server/base/metrics.def"
    return TD_OK;
}

/* What clients have open. */
struct clients {
    struct td_connections_counts connections;
    struct td_open_calls_counts calls;
};

static enum td_code put_clients(const struct td_rest *rest, struct td_sink *out, struct td_err *err)
{
    struct clients c = {.connections = {.open = 0}};
    if (rest->connections != NULL) {
        td_connections_count(rest->connections, &c.connections);
    }
    if (rest->calls != NULL) {
        td_open_calls_count(rest->calls, &c.calls);
    }
#define METRIC_OF_CLIENTS(kind, text, why, member, about)                                                    \
    TD_TRY(put_sample(out, &(struct sample){text, kind, about, "reason", why}, (double)c.member, err));
#include "server/base/metrics.def"
    return TD_OK;
}

/* ------------------------------------------------------------------ devices */

/* Of every device one sample; NAN: it does not tell. label: that of its name; a further one is m's. */
static enum td_code put_devices(struct td_sink *out, const struct sample *m, const char *label,
                                const char *const *names, const double *values, int n, struct td_err *err)
{
    bool begun = *m->help == '\0';
    for (int i = 0; i < n; i++) {
        const char *const labels[] = {label, names[i], m->is != NULL ? m->label : NULL, m->is, NULL};
        if (isnan(values[i])) {
            continue;
        }
        TD_TRY(begun ? TD_OK : td_metrics_put_head(out, m->name, m->type, m->help, err));
        TD_TRY(td_metrics_put(out, m->name, labels, values[i], err));
        begun = true;
    }
    return TD_OK;
}

static enum td_code put_gpus(const struct td_rest *rest, struct td_sink *out, struct td_err *err)
{
    struct td_device_state at[MOST_DEVICES];
    const char *names[MOST_DEVICES], *uuids[MOST_DEVICES];
    double values[MOST_DEVICES];
    const int all = td_devices_number(rest->devices), n = all < MOST_DEVICES ? all : MOST_DEVICES;
    for (int i = 0; i < n; i++) {
        td_devices_state(rest->devices, i, &at[i]);
        names[i] = at[i].device->name;
        uuids[i] = at[i].reading.uuid;
    }
#define PUT(kind, text, which, member, about, label, these)                                                  \
    for (int i = 0; i < n; i++) {                                                                            \
        values[i] = (double)at[i].member;                                                                    \
    }                                                                                                        \
    TD_TRY(put_devices(out, &(struct sample){text, kind, about, "direction", which}, label, these, values,   \
                       n, err));
#define METRIC_OF_DEVICE(kind, text, which, member, about)                                                   \
    PUT(kind, text, which, member, about, "device", names)
#define METRIC_OF_TRITON_GPU(kind, text, member, about)                                                      \
    PUT(kind, text, NULL, member, about, "gpu_uuid", uuids)
#include "server/base/metrics.def"
#undef PUT
    return TD_OK;
}

/* ------------------------------------------------------------------ loaded versions */

/* What a version counts: a number of its statistics; ns are told in seconds, and in microseconds. */
static double of_stats(const atomic_uint_fast64_t *n)
{
    return (double)atomic_load_explicit(n, memory_order_relaxed);
}

#define STAT(name, member, unit)                                                                             \
    static double name(struct td_servable *s)                                                                \
    {                                                                                                        \
        return of_stats(&td_servable_stats(s)->member) * (unit);                                             \
    }
STAT(count_ok, ok, 1)
STAT(count_failed, failed, 1)
STAT(count_rows, inferences, 1)
STAT(count_runs, executions, 1)
STAT(run_seconds, infer_ns, 1e-9)
STAT(request_us, ok_ns, 1e-3)
STAT(queue_us, queue_ns, 1e-3)
STAT(input_us, input_ns, 1e-3)
STAT(infer_us, infer_ns, 1e-3)
STAT(output_us, output_ns, 1e-3)
STAT(count_waiting, waiting, 1)
#undef STAT

static double weight_bytes(struct td_servable *s)
{
    return (double)td_variable_total_bytes(td_servable_engine(s));
}

static const struct version_metric {
    const char *name, *type, *help;
    const char *model;        /* the label of the model's name */
    const char *label, *kind; /* a further one and its value; NULL none */
    double (*value)(struct td_servable *s);
} VERSION_METRICS[] = {
#define METRIC_OF_VERSION(kind, text, which, look, about)                                                    \
    {text, kind, about, "model_name", "outcome", which, look},
#define METRIC_OF_TRITON(kind, text, which, look, about) {text, kind, about, "model", "reason", which, look},
#include "server/base/metrics.def"
};

/* Of every version, one sample. */
static enum td_code put_versions(struct td_servable *const *list, int n, const struct version_metric *what,
                                 struct td_sink *out, struct td_err *err)
{
    if (n > 0 && *what->help != '\0') {
        TD_TRY(td_metrics_put_head(out, what->name, what->type, what->help, err));
    }
    for (int i = 0; i < n; i++) {
        char version[24];
        (void)snprintf(version, sizeof version, "%lld", (long long)td_servable_version(list[i]));
        const char *const labels[] = {what->model,
                                      td_servable_name(list[i]),
                                      "version",
                                      version,
                                      what->kind != NULL ? what->label : NULL,
                                      what->kind,
                                      NULL};
        TD_TRY(td_metrics_put(out, what->name, labels, what->value(list[i]), err));
    }
    return TD_OK;
}

static enum td_code put_models(struct td_rest *rest, struct td_sink *out, struct td_err *err)
{
    struct td_servable **list = NULL;
    int n = 0;
    TD_TRY(td_registry_serving(rest->registry, &list, &n, err));
    enum td_code rc = TD_OK;
    for (size_t i = 0; i < sizeof VERSION_METRICS / sizeof VERSION_METRICS[0] && rc == TD_OK; i++) {
        rc = put_versions(list, n, &VERSION_METRICS[i], out, err);
    }
    td_registry_let_go(list, n);
    return rc;
}

enum td_code td_rest_metrics(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    x->content_type = "text/plain; version=0.0.4; charset=utf-8";
    TD_TRY(td_metrics_write(&x->out, err));
    TD_TRY(put_models(rest, &x->out, err));
    TD_TRY(put_jobs(rest, &x->out, err));
    TD_TRY(put_clients(rest, &x->out, err));
    TD_TRY(put_gpus(rest, &x->out, err));
    return put_process(rest, &x->out, err);
}
