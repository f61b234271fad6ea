/* clients/tensorctl_finetune.c - tensorctl finetune: a second table of verbs, for files and jobs; and
 * tensorctl train, which is the daemon's own command.
 *
 * Each verb asks once and prints rows, or with --json the documents as they came. What watches or waits is
 * clients/tensorctl_watch.c's. `train` becomes the tensord that lies beside this program, so that the two are
 * of one build; without one there it is looked for as the shell would.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clients/cli.h"
#include "clients/tensorctl_job.h"
#include "proto/schema/tensord.pb-c.h"

typedef int verb_fn(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err);

static void print_json(const json_t *doc)
{
    json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
}

static int64_t limit_of(const struct tdc_args *a)
{
    return a->limit != NULL ? strtoll(a->limit, NULL, 10) : 0;
}

/* "2026-01-31 12:00" in local time. */
static const char *when(const json_t *doc, const char *key, char text[20])
{
    const time_t t = (time_t)json_integer_value(json_object_get(doc, key));
    struct tm parts;
    if (t == 0 || localtime_r(&t, &parts) == NULL || strftime(text, 20, "%Y-%m-%d %H:%M", &parts) == 0) {
        snprintf(text, 20, "-");
    }
    return text;
}

/* ------------------------------------------------------------------ files */

static void print_file(const json_t *f)
{
    char created[20];
    printf("%-32s %-18s %12lld  %s  %s\n", tdc_job_text(f, "id"), tdc_job_text(f, "purpose"),
           (long long)json_integer_value(json_object_get(f, "bytes")), when(f, "created_at", created),
           tdc_job_text(f, "filename"));
}

/* Takes list, whose rows are in its data. */
static int print_list(json_t *list, const struct tdc_args *a, void (*print_row)(const json_t *row))
{
    size_t i;
    json_t *row;
    if (a->json) {
        print_json(list);
    } else {
        json_array_foreach(json_object_get(list, "data"), i, row)
        {
            print_row(row);
        }
        if (json_is_true(json_object_get(list, "has_more"))) {
            fprintf(stderr, "there are more: --limit says how many are shown\n");
        }
    }
    json_decref(list);
    return 0;
}

static int files(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__ListFilesRequest ask = TENSORD__V1__LIST_FILES_REQUEST__INIT;
    json_t *list = NULL;
    ask.limit = limit_of(a);
    ask.purpose = (char *)(a->purpose != NULL ? a->purpose : "");
    const int rc =
        tdc_job_call(c, "ListFiles", &ask.base, &tensord__v1__list_files_response__descriptor, &list, err);
    return rc != 0 ? rc : print_list(list, a, print_file);
}

static int upload(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    json_t *file = NULL;
    const int rc = tdc_job_upload(c, a->model, &file, err);
    if (rc == 0) {
        a->json ? print_json(file) : (void)printf("%s\n", tdc_job_text(file, "id"));
    }
    json_decref(file);
    return rc;
}

static int download(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__FileRequest ask = TENSORD__V1__FILE_REQUEST__INIT;
    uint8_t packed[600];
    ask.id = (char *)a->model;
    if (strlen(a->model) > 500) {
        return snprintf(err->text, sizeof err->text, "that is no id"), err->code = 3;
    }
    const size_t size = tensord__v1__file_request__pack(&ask, packed);
    struct tdc_stream *s = tdc_stream_open(c, "/tensord.v1.FineTuning/DownloadFile", err);
    void *bytes = NULL;
    size_t n = 0;
    int rc = s != NULL ? 0 : err->code;
    if (s != NULL) {
        (void)(tdc_stream_send(s, packed, size) && tdc_stream_done(s));
    }
    while (rc == 0 && (rc = tdc_stream_receive(s, &bytes, &n, err)) == 0 && bytes != NULL) {
        Tensord__V1__FileChunk *chunk = tensord__v1__file_chunk__unpack(NULL, n, bytes);
        if (chunk != NULL) {
            fwrite(chunk->data.data, 1, chunk->data.len, stdout);
            tensord__v1__file_chunk__free_unpacked(chunk, NULL);
        }
        tdc_free(bytes);
    }
    tdc_stream_close(s);
    return rc;
}

static int delete_file(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__FileRequest ask = TENSORD__V1__FILE_REQUEST__INIT;
    json_t *gone = NULL;
    ask.id = (char *)a->model;
    const int rc =
        tdc_job_call(c, "DeleteFile", &ask.base, &tensord__v1__delete_file_response__descriptor, &gone, err);
    if (rc == 0) {
        a->json ? print_json(gone) : (void)printf("%s deleted\n", a->model);
    }
    json_decref(gone);
    return rc;
}

/* ------------------------------------------------------------------ jobs */

static void print_job(const json_t *job)
{
    char created[20], steps[60] = "";
    const json_t *p = json_object_get(job, "progress");
    if (json_integer_value(json_object_get(p, "total_steps")) > 0) {
        snprintf(steps, sizeof steps, "%lld/%lld", (long long)json_integer_value(json_object_get(p, "step")),
                 (long long)json_integer_value(json_object_get(p, "total_steps")));
    }
    const char *result = tdc_job_text(job, "fine_tuned_model");
    printf("%-32s %-16s %-14s %s  %s%s%s\n", tdc_job_text(job, "id"), tdc_job_text(job, "status"), steps,
           when(job, "created_at", created), tdc_job_text(job, "model"), *result != 0 ? " -> " : "", result);
}

static int list(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__ListJobsRequest ask = TENSORD__V1__LIST_JOBS_REQUEST__INIT;
    json_t *jobs = NULL;
    ask.limit = limit_of(a);
    const int rc =
        tdc_job_call(c, "ListJobs", &ask.base, &tensord__v1__list_jobs_response__descriptor, &jobs, err);
    return rc != 0 ? rc : print_list(jobs, a, print_job);
}

static int create(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    json_t *job = NULL;
    int rc = tdc_job_create(c, a->model, &job, err);
    if (rc == 0 && a->wait) {
        fprintf(stderr, "created %s\n", tdc_job_text(job, "id"));
        rc = tdc_job_watch(c, tdc_job_text(job, "id"), a->json) == 0 ? 0 : -1;
    } else if (rc == 0) {
        a->json ? print_json(job) : (void)printf("%s\n", tdc_job_text(job, "id"));
    }
    json_decref(job);
    return rc;
}

static int watch(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    (void)err;
    return tdc_job_watch(c, a->model, a->json) == 0 ? 0 : -1; /* it has told why */
}

static int get(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    json_t *job = NULL;
    const int rc = tdc_job_get(c, a->model, &job, err);
    if (rc == 0) {
        print_json(job);
    }
    json_decref(job);
    return rc;
}

static int events(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__ListEventsRequest ask = TENSORD__V1__LIST_EVENTS_REQUEST__INIT;
    json_t *page = NULL;
    ask.id = (char *)a->model;
    ask.limit = limit_of(a);
    const int rc =
        tdc_job_call(c, "ListEvents", &ask.base, &tensord__v1__list_events_response__descriptor, &page, err);
    if (rc != 0) {
        return rc;
    }
    const json_t *data = json_object_get(page, "data");
    for (size_t i = json_array_size(data); !a->json && i-- > 0;) { /* the newest comes last */
        tdc_job_print_event(json_array_get(data, i));
    }
    if (a->json) {
        print_json(page);
    }
    json_decref(page);
    return 0;
}

static int tell(struct tdc_client *c, const char *method, const struct tdc_args *a, struct tdc_error *err)
{
    Tensord__V1__JobRequest ask = TENSORD__V1__JOB_REQUEST__INIT;
    json_t *job = NULL;
    ask.id = (char *)a->model;
    const int rc = tdc_job_call(c, method, &ask.base, &tensord__v1__job__descriptor, &job, err);
    if (rc == 0) {
        a->json ? print_json(job) : print_job(job);
    }
    json_decref(job);
    return rc;
}

static int cancel_job(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    return tell(c, "CancelJob", a, err);
}

static int pause_job(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    return tell(c, "PauseJob", a, err);
}

static int resume_job(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    return tell(c, "ResumeJob", a, err);
}

static int publish_job(struct tdc_client *c, const struct tdc_args *a, struct tdc_error *err)
{
    return tell(c, "PublishJob", a, err);
}

/* ------------------------------------------------------------------ the table */

static const struct {
    const char *name, *wanted; /* what the positional argument is; NULL: none need be */
    verb_fn *run;
} VERBS[] = {{"create", "job's file", create},
             {"watch", "job", watch},
             {"list", NULL, list},
             {"get", "job", get},
             {"events", "job", events},
             {"cancel", "job", cancel_job},
             {"pause", "job", pause_job},
             {"resume", "job", resume_job},
             {"publish", "job", publish_job},
             {"files", NULL, files},
             {"upload", "file", upload},
             {"download", "file", download},
             {"delete", "file", delete_file}};

int td_cli_finetune(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++) {
        struct tdc_args a;
        struct tdc_error err = {0};
        if (strcmp(VERBS[i].name, name) != 0) {
            continue;
        }
        argv[1] = argv[0]; /* what is left reads as a verb of one word */
        if (!tdc_args_parse(&a, argc - 1, argv + 1, VERBS[i].wanted)) {
            return 2;
        }
        struct tdc_client *c = tdc_args_open(&a);
        const int rc = c != NULL ? VERBS[i].run(c, &a, &err) : -1;
        tdc_close(c);
        return rc > 0 ? tdc_args_failed("finetune", &err) : rc != 0;
    }
    fprintf(stderr, "%s", tdc_usage("finetune"));
    return 2;
}

/* Becomes tensord with these arguments; returns where there is none. */
static int become_tensord(const char *verb, int argc, char **argv)
{
    char beside[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - sizeof "tensord");
    beside[n > 0 ? n : 0] = 0;
    char *slash = strrchr(beside, '/');
    if (argc < 2) {
        fprintf(stderr, "%s", tdc_usage(verb));
        return 2;
    }
    char **command = calloc((size_t)argc + 2, sizeof *command);
    if (command == NULL) {
        return 1;
    }
    command[0] = (char *)"tensord";
    memcpy(command + 1, argv, (size_t)argc * sizeof *command);
    if (slash != NULL) {
        memcpy(slash + 1, "tensord", sizeof "tensord");
        execv(beside, command);
    }
    execvp("tensord", command);
    fprintf(stderr, "tensorctl %s: starting tensord: %s\n", verb, strerror(errno));
    free(command);
    return 1;
}

int td_cli_train(int argc, char **argv)
{
    return become_tensord("train", argc, argv);
}

int td_cli_quantize(int argc, char **argv)
{
    return become_tensord("quantize", argc, argv);
}
