/* tests/unit/server/test_job_queue.c - jobs of a server from creation to their end. Their process is this
 * program again, with a part that a test gives it (TRAIN_AS).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/job_server.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "server/jobs/child.h"
#include "server/jobs/job_sink.h"

static const char *created(const char *file)
{
    static char id[TD_JOBS_ID];
    json_t *job = NULL;
    test_check_ok(__FILE__, __LINE__, "create", create(file, "", &job), &fault.err);
    snprintf(id, sizeof id, "%s", text_of(job, "id"));
    json_decref(job);
    return id;
}

/* ------------------------------------------------------------------ the jobs' process, played here */

static struct td_train_sink sink;
static volatile sig_atomic_t told_to_pause;

static void on_term(int number)
{
    (void)number;
    told_to_pause = 1;
}

static void say(const char *key, const char *type, json_t *takes_data)
{
    const struct td_train_event e = {
        .key = key, .level = "info", .type = type, .message = key, .data = takes_data};
    if (sink.event(sink.ctx, &e, &err)) {
        exit(TD_CHILD_OUSTED);
    }
    json_decref(takes_data);
}

struct part {
    struct td_store *store;
    struct td_job_sink *sink;
    char id[TD_JOBS_ID], stage[300], folder[300];
    int64_t attempt, job, step;
};

static enum td_code take_part(void *ctx, const struct td_sql_row *r, struct td_err *e)
{
    struct part *p = ctx;
    (void)e;
    p->job = td_sql_int(r, 0);
    p->step = td_sql_int(r, 1);
    snprintf(p->stage, sizeof p->stage, "%s", td_sql_text(r, 2));
    return TD_OK;
}

static void finish_part(struct part *p)
{
    run("cp -r %s %s", DIGITS_DIR, p->stage);
    run("echo step,epoch,train_loss,learning_rate,valid_loss >%s/result.csv%s", p->folder, "");
    json_t *m = json_pack("{s:i, s:f}", "step", 20, "train_loss", 0.5);
    CHECK_OK(sink.checkpoint(sink.ctx, 10, m, &err));
    CHECK_OK(sink.checkpoint(sink.ctx, 20, m, &err));
    json_decref(m);
    const bool publishes = strcmp(getenv("TRAIN_AS"), "keeps") != 0;
    CHECK_OK(td_job_sink_done(p->sink, 200, 20, publishes, &err));
}

/* Twenty steps of 10 ms. Progress is what the row says, so a process goes on where the last one was; one that
 * dies does so before it can say more than its seventh step. */
static int steps(struct part *p, const char *as)
{
    CHECK_OK(sink.state(sink.ctx, TD_TRAIN_RUNNING, &err));
    for (int64_t i = p->step + 1; i <= 20; i++) {
        if (i == 8 && (strcmp(as, "dies") == 0 || (strcmp(as, "dies once") == 0 && p->attempt == 1))) {
            raise(SIGKILL);
        }
        char key[20];
        snprintf(key, sizeof key, "s%d", (int)i);
        say(key, "metrics", json_pack("{s:I}", "step", (json_int_t)i));
        CHECK_OK(sink.progress(sink.ctx, (int64_t[]){i, 20, 1, i * 10}, told_to_pause || i == 7, &err));
        if (told_to_pause) {
            return TD_CHILD_PAUSED;
        }
        usleep(10000);
    }
    finish_part(p);
    return TD_CHILD_DONE;
}

static int fails(struct part *p)
{
    fault = (struct td_fault){0};
    CHECK(TD_FAULT(&fault, "invalid_training_file", "training_file", "row 7: targets is missing") != TD_OK);
    CHECK_OK(td_job_sink_fail(p->sink, &fault, &err));
    return TD_CHILD_FAILED;
}

static int play(int argc, char **argv)
{
    struct part p = {0};
    int64_t parent = 0;
    for (int i = 2; i < argc; i++) {
        snprintf(p.id, strncmp(argv[i], "--job=", 6) == 0 ? sizeof p.id : 0, "%s", argv[i] + 6);
        snprintf(state, strncmp(argv[i], "--state_dir=", 12) == 0 ? sizeof state : 0, "%s", argv[i] + 12);
        p.attempt = strncmp(argv[i], "--attempt=", 10) == 0 ? strtoll(argv[i] + 10, NULL, 10) : p.attempt;
        parent = strncmp(argv[i], "--parent=", 9) == 0 ? strtoll(argv[i] + 9, NULL, 10) : parent;
    }
    const char *as = getenv("TRAIN_AS");
    signal(SIGTERM, on_term);
    CHECK_OK(td_child_enter(parent, &err));
    if (strcmp(as, "breaks") == 0) {
        fprintf(stderr, "there is no processor of that kind\n");
        return 3;
    }
    CHECK_OK(td_store_open(state, false, &p.store, &err));
    CHECK_OK(td_store_ask(p.store, "SELECT seq, step, stage FROM jobs WHERE id = ?",
                          TD_SQL(TD_SQL_TEXT(p.id)), take_part, &p, &err));
    snprintf(p.folder, sizeof p.folder, "%.200s/jobs/%s", state, p.id);
    CHECK_OK(td_job_sink_open(p.store, p.job, p.attempt, &p.sink, &err));
    sink = td_job_sink_of(p.sink);
    const int status = strcmp(as, "fails") == 0 ? fails(&p) : steps(&p, as);
    td_job_sink_close(p.sink);
    td_store_close(p.store);
    return status;
}

/* ------------------------------------------------------------------ jobs that run */

static json_t *job_now(const char *id)
{
    json_t *job = NULL;
    fault = (struct td_fault){0};
    test_check_ok(__FILE__, __LINE__, "get", td_jobs_get(jobs, id, &job, &fault), &fault.err);
    return job;
}

static json_t *await(const char *id, const char *status)
{
    for (int i = 0; i < 2000; i++) {
        json_t *job = job_now(id);
        if (strcmp(text_of(job, "status"), status) == 0) {
            return job;
        }
        json_decref(job);
        usleep(5000);
    }
    CHECK_STR(text_of(job_now(id), "status"), status);
    return NULL;
}

static void await_step(const char *id, int step)
{
    for (int i = 0; i < 2000; i++) {
        json_t *job = job_now(id);
        const int at = (int)json_integer_value(json_object_get(json_object_get(job, "progress"), "step"));
        json_decref(job);
        if (at >= step) {
            return;
        }
        usleep(5000);
    }
    CHECK(!"the step comes");
}

static json_t *events(const char *id)
{
    json_t *list = NULL;
    CHECK_INT(td_jobs_events(jobs, id, &(struct td_page){.limit = 1000}, &list, &fault), TD_OK);
    json_t *data = json_incref(json_object_get(list, "data"));
    json_decref(list);
    return data;
}

/* The steps of its events, newest first, are 20 to 1, each once. */
static void check_steps(const char *id)
{
    json_t *all = events(id), *e;
    size_t i;
    int want = 20;
    json_array_foreach(all, i, e)
    {
        if (strcmp(text_of(e, "type"), "metrics") == 0) {
            CHECK_INT(json_integer_value(json_object_get(json_object_get(e, "data"), "step")), want);
            want--;
        }
    }
    CHECK_INT(want, 0);
    json_decref(all);
}

static enum td_code tell(const char *id, enum td_job_verb verb)
{
    json_t *job = NULL;
    fault = (struct td_fault){0};
    const enum td_code rc = td_jobs_tell(jobs, id, verb, &job, &fault);
    json_decref(job);
    return rc;
}

static int n_versions(void)
{
    int n = 0;
    for (int v = 1; v < 9; v++) {
        char path[300];
        struct stat st;
        snprintf(path, sizeof path, "%.250s/%d/saved_model.pb", base, v);
        n += stat(path, &st) == 0;
    }
    return n;
}

static int n_hidden(void)
{
    char command[300], line[40] = "";
    snprintf(command, sizeof command, "ls -A %.250s | grep -c '^[.]'", base);
    FILE *p = popen(command, "r");
    CHECK(p != NULL && fgets(line, sizeof line, p) != NULL);
    pclose(p);
    return (int)strtol(line, NULL, 10);
}

static void await_version(int64_t version)
{
    struct td_servable *s = NULL;
    for (int i = 0; i < 1000; i++) {
        struct td_err not_yet = {0};
        if (td_registry_find(registry, "digits", version, NULL, NULL, &s, &not_yet) == TD_OK) {
            td_servable_unref(s);
            return;
        }
        usleep(5000);
    }
    CHECK(!"the version is loaded");
}

/* Whether so many bytes more can be had, of memory that is the process's own. */
static bool can_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED && munmap(p, bytes) == 0;
}

TEST(a_process_that_is_bounded_gets_so_much_and_no_more)
{
    const size_t mb = (size_t)1 << 20;
    int status;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        td_child_bound(100 << 20);
        const bool fine = can_map(1200 * mb) && !can_map(1300 * mb);
        td_child_bound(0); /* nothing */
        _exit(fine && !can_map(1300 * mb) ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(can_map(1300 * mb));
}

TEST(a_job_ends_as_the_next_version)
{
    setup("steps");
    const char *file = upload("x.jsonl", "{}");
    const char *id = created(file);
    json_t *job = await(id, "succeeded");
    CHECK_STR(text_of(job, "fine_tuned_model"), "digits/versions/2");
    CHECK_INT(json_integer_value(json_object_get(job, "trained_tokens")), 200);
    CHECK(json_is_null(json_object_get(job, "error")));
    const char *result = json_string_value(json_array_get(json_object_get(job, "result_files"), 0));
    json_t *csv = NULL;
    CHECK_INT(td_files_get(jobs, "", result, &csv, &fault), TD_OK);
    CHECK_STR(text_of(csv, "purpose"), "fine-tune-results");
    CHECK_INT(json_integer_value(json_object_get(csv, "bytes")), 47);
    json_decref(csv);
    json_decref(job);
    await_version(2);
    check_steps(id);
    CHECK_INT(n_hidden(), 0);
    CHECK_INT(tell(id, TD_JOB_CANCEL), TD_FAILED_PRECONDITION);
    CHECK_STR(fault.code, "invalid_job_state");
    CHECK_INT(tell(id, TD_JOB_PAUSE), TD_FAILED_PRECONDITION);
    teardown();
}

TEST(the_checkpoint_of_the_result_names_it)
{
    setup("steps");
    const char *id = created(upload("x.jsonl", "{}"));
    json_decref(await(id, "succeeded"));
    json_t *list = NULL;
    CHECK_INT(td_jobs_checkpoints(jobs, id, &(struct td_page){0}, &list, &fault), TD_OK);
    const json_t *data = json_object_get(list, "data");
    CHECK_INT(json_array_size(data), 2);
    CHECK_STR(text_of(json_array_get(data, 0), "fine_tuned_model_checkpoint"), "digits/versions/2");
    CHECK(strncmp(text_of(json_array_get(data, 1), "fine_tuned_model_checkpoint"), "ftjob-", 6) == 0);
    CHECK_INT(json_integer_value(json_object_get(json_array_get(data, 0), "step_number")), 20);
    json_decref(list);
    teardown();
}

TEST(a_failed_job_says_why_and_leaves_nothing)
{
    setup("fails");
    const char *id = created(upload("x.jsonl", "{}"));
    json_t *job = await(id, "failed"), *all = events(id);
    CHECK_STR(text_of(json_object_get(job, "error"), "code"), "invalid_training_file");
    CHECK_STR(text_of(json_object_get(job, "error"), "message"), "row 7: targets is missing");
    CHECK_STR(text_of(json_object_get(job, "error"), "param"), "training_file");
    CHECK_STR(text_of(json_array_get(all, 0), "level"), "error");
    CHECK_STR(text_of(json_array_get(all, 0), "message"), "row 7: targets is missing");
    CHECK_INT(n_versions(), 1);
    json_decref(all);
    json_decref(job);
    teardown();
}

TEST(a_process_that_breaks_is_a_failed_job_in_its_last_words)
{
    setup("breaks");
    json_t *job = await(created(upload("x.jsonl", "{}")), "failed");
    CHECK_STR(text_of(json_object_get(job, "error"), "code"), "server_error");
    CHECK(strstr(text_of(json_object_get(job, "error"), "message"), "no processor of that kind") != NULL);
    json_decref(job);
    teardown();
}

TEST(a_paused_job_stands_still_until_it_is_resumed)
{
    setup("steps");
    const char *file = upload("x.jsonl", "{}");
    const char *id = created(file);
    await_step(id, 3);
    CHECK_INT(tell(id, TD_JOB_PAUSE), TD_OK);
    json_decref(await(id, "paused"));
    json_t *before = events(id);
    CHECK_INT(tell(id, TD_JOB_PAUSE), TD_OK);
    usleep(100000);
    json_t *after = events(id), *answer = NULL;
    CHECK(json_equal(before, after));
    fault = (struct td_fault){0};
    CHECK(td_files_delete(jobs, "", file, &answer, &fault) != TD_OK);
    CHECK_STR(fault.code, "file_in_use");
    CHECK_INT(tell(id, TD_JOB_RESUME), TD_OK);
    json_decref(await(id, "succeeded"));
    check_steps(id);
    json_decref(before);
    json_decref(after);
    teardown();
}

TEST(a_cancelled_job_leaves_nothing)
{
    setup("steps");
    const char *id = created(upload("x.jsonl", "{}"));
    await_step(id, 3);
    CHECK_INT(tell(id, TD_JOB_CANCEL), TD_OK);
    json_t *job = job_now(id), *before = events(id);
    CHECK_STR(text_of(job, "status"), "cancelled");
    CHECK(json_is_null(json_object_get(job, "error")) &&
          json_is_null(json_object_get(job, "fine_tuned_model")));
    usleep(200000);
    json_t *after = events(id);
    CHECK(json_equal(before, after));
    CHECK_INT(n_versions(), 1);
    CHECK_INT(n_hidden(), 0);
    json_decref(before);
    json_decref(after);
    json_decref(job);
    teardown();
}

TEST(jobs_run_in_order_and_the_queue_has_an_end)
{
    setup("steps");
    char id[3][TD_JOBS_ID];
    const char *file = upload("x.jsonl", "{}");
    for (int i = 0; i < 3; i++) {
        snprintf(id[i], sizeof id[i], "%s", created(file));
    }
    json_t *job = NULL;
    CHECK_INT(create(file, "", &job), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(fault.err.msg, "--max_jobs") != NULL);
    CHECK_INT(tell(id[1], TD_JOB_PAUSE), TD_OK);
    job = job_now(id[1]);
    CHECK_STR(text_of(job, "status"), "paused");
    json_decref(job);
    job = await(id[2], "succeeded");
    CHECK_STR(text_of(job, "fine_tuned_model"), "digits/versions/3");
    json_decref(job);
    CHECK_INT(tell(id[1], TD_JOB_RESUME), TD_OK);
    job = await(id[1], "succeeded");
    CHECK_STR(text_of(job, "fine_tuned_model"), "digits/versions/4");
    json_decref(job);
    teardown();
}

TEST(a_process_that_a_signal_ended_is_started_again)
{
    setup("dies once");
    const char *id = created(upload("x.jsonl", "{}"));
    json_decref(await(id, "succeeded"));
    check_steps(id);
    teardown();
}

TEST(a_process_that_dies_again_and_again_is_a_failed_job)
{
    setup("dies");
    json_t *job = await(created(upload("x.jsonl", "{}")), "failed");
    CHECK_STR(text_of(json_object_get(job, "error"), "code"), "server_error");
    CHECK(strstr(text_of(json_object_get(job, "error"), "message"), "signal 9") != NULL);
    json_decref(job);
    teardown();
}

/* As on a full disk: the database takes nothing of the kind until there is room again. */
static void hold(const char *sql)
{
    struct td_store *s;
    CHECK_OK(td_store_open(state, false, &s, &err));
    CHECK_OK(td_store_do(s, sql, TD_SQL_NONE, NULL, &err));
    td_store_close(s);
}

TEST(an_end_that_had_no_room_is_written_when_there_is_some)
{
    setup("steps");
    char id[TD_JOBS_ID];
    snprintf(id, sizeof id, "%s", created(upload("x.jsonl", "{}")));
    await_step(id, 1);
    hold("CREATE TRIGGER hold BEFORE UPDATE OF live ON jobs WHEN NEW.live = 0"
         " BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await_step(id, 20);
    usleep(500000);
    json_decref(await(id, "running")); /* its process is over by now */
    hold("DROP TRIGGER hold");
    json_decref(await(id, "succeeded"));
    CHECK_INT(n_versions(), 2);
    teardown();
}

TEST(a_server_that_ends_leaves_jobs_to_the_next_one)
{
    setup("steps");
    char id[2][TD_JOBS_ID];
    const char *file = upload("x.jsonl", "{}");
    for (int i = 0; i < 2; i++) {
        snprintf(id[i], sizeof id[i], "%s", created(file));
    }
    await_step(id[0], 3);
    td_jobs_close(jobs);
    open_jobs();
    for (int i = 0; i < 2; i++) {
        json_decref(await(id[i], "succeeded"));
        check_steps(id[i]);
    }
    CHECK_INT(n_versions(), 3);
    teardown();
}

TEST(a_result_kept_aside_is_published_once_when_told)
{
    setup("keeps");
    const char *id = created(upload("x.jsonl", "{}"));
    json_t *job = await(id, "succeeded");
    CHECK(json_is_null(json_object_get(job, "fine_tuned_model")));
    json_decref(job);
    CHECK_INT(n_versions(), 1);
    CHECK_INT(n_hidden(), 1);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(tell(id, TD_JOB_PUBLISH), TD_OK);
        job = job_now(id);
        CHECK_STR(text_of(job, "fine_tuned_model"), "digits/versions/2");
        json_decref(job);
    }
    await_version(2);
    CHECK_INT(n_versions(), 2);
    CHECK_INT(n_hidden(), 0);
    teardown();
}

/* As a server leaves it that was killed right after its rename. */
TEST(a_publication_that_was_cut_off_is_finished_not_repeated)
{
    setup("keeps");
    char to[300], file[TD_JOBS_ID + 20];
    struct stat st;
    const char *id = created(upload("x.jsonl", "{}"));
    json_decref(await(id, "succeeded"));
    snprintf(file, sizeof file, "%.250s", ".tensord-");
    char from[400];
    snprintf(from, sizeof from, "%.250s/.tensord-%s", base, id);
    snprintf(to, sizeof to, "%.250s/2", base);
    CHECK(rename(from, to) == 0 && stat(to, &st) == 0);
    CHECK_OK(td_store_do(jobs->store,
                         "UPDATE jobs SET status = 2, publishes = 1, intent_version = 2, intent_inode = ?",
                         TD_SQL(TD_SQL_INT((int64_t)st.st_ino)), NULL, &err));
    td_jobs_close(jobs);
    open_jobs();
    json_t *job = await(id, "succeeded");
    CHECK_STR(text_of(job, "fine_tuned_model"), "digits/versions/2");
    json_decref(job);
    CHECK_INT(n_versions(), 2);
    teardown();
}

TEST(a_follower_is_given_each_event_once_and_the_end)
{
    setup("steps");
    const char *id = created(upload("x.jsonl", "{}"));
    struct td_follower *w = NULL;
    CHECK_INT(td_follow_open(jobs, id, NULL, &w, &fault), TD_OK);
    json_t *got = json_array(), *all = events(id);
    for (bool ended = false; !ended;) {
        json_t *some = NULL;
        CHECK_INT(td_follow_next(w, 3, &some, &ended, &fault), TD_OK);
        CHECK_INT(json_array_extend(got, some), 0);
        json_decref(some);
        usleep(3000);
    }
    td_follow_close(w);
    json_decref(all);
    all = events(id);
    const size_t n = json_array_size(all);
    CHECK_INT(json_array_size(got), n);
    for (size_t i = 0; i < n; i++) {
        CHECK(json_equal(json_array_get(got, i), json_array_get(all, n - 1 - i)));
    }
    const char *last_but_one = text_of(json_array_get(got, n - 2), "id");
    json_t *rest = NULL;
    bool ended = false;
    CHECK_INT(td_follow_open(jobs, id, last_but_one, &w, &fault), TD_OK);
    CHECK_INT(td_follow_next(w, 10, &rest, &ended, &fault), TD_OK);
    CHECK(ended && json_array_size(rest) == 1);
    td_follow_close(w);
    json_decref(rest);
    json_decref(got);
    json_decref(all);
    teardown();
}

#define EACH_TEST                                                                                            \
    RUN(a_process_that_is_bounded_gets_so_much_and_no_more)                                                  \
    RUN(a_job_ends_as_the_next_version)                                                                      \
    RUN(the_checkpoint_of_the_result_names_it)                                                               \
    RUN(a_failed_job_says_why_and_leaves_nothing)                                                            \
    RUN(a_process_that_breaks_is_a_failed_job_in_its_last_words)                                             \
    RUN(a_paused_job_stands_still_until_it_is_resumed)                                                       \
    RUN(a_cancelled_job_leaves_nothing)                                                                      \
    RUN(jobs_run_in_order_and_the_queue_has_an_end)                                                          \
    RUN(a_process_that_a_signal_ended_is_started_again)                                                      \
    RUN(a_process_that_dies_again_and_again_is_a_failed_job)                                                 \
    RUN(an_end_that_had_no_room_is_written_when_there_is_some)                                               \
    RUN(a_server_that_ends_leaves_jobs_to_the_next_one)                                                      \
    RUN(a_result_kept_aside_is_published_once_when_told)                                                     \
    RUN(a_publication_that_was_cut_off_is_finished_not_repeated)                                             \
    RUN(a_follower_is_given_each_event_once_and_the_end)

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    int bad = 0;
    if (only != NULL && strcmp(only, "train") == 0) {
        return play(argc, argv);
    }
    EACH_TEST
    return bad != 0;
}
