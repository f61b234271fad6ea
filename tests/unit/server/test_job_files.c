/* tests/unit/server/test_job_files.c - uploaded files of a server, and jobs that are refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/job_server.h"

TEST(a_file_is_what_was_sent_under_its_last_name)
{
    setup("");
    json_t *file = NULL;
    CHECK_INT(upload_of("", "C:\\rows/train\xff.jsonl", "{}\n", 3, &file), TD_OK);
    CHECK_STR(text_of(file, "filename"), "train_.jsonl");
    CHECK_INT(json_integer_value(json_object_get(file, "bytes")), 3);
    CHECK(json_is_null(json_object_get(file, "expires_at")));
    int fd = -1;
    int64_t n = 0;
    char got[8] = "";
    CHECK_INT(td_files_content(jobs, "", text_of(file, "id"), &fd, &n, &fault), TD_OK);
    CHECK(n == 3 && read(fd, got, sizeof got) == 3);
    CHECK_STR(got, "{}\n");
    close(fd);
    int64_t known = 0;
    CHECK_OK(td_store_ask_int(jobs->store,
                              "SELECT count(*) FROM files WHERE sha256 ="
                              " 'ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356'",
                              TD_SQL_NONE, 0, &known, &err));
    CHECK_INT(known, 1);
    json_decref(file);
    teardown();
}

TEST(files_have_limits_each_and_together)
{
    setup("");
    static const char ROWS[1001];
    json_t *file = NULL;
    CHECK_INT(upload_of("a", "x", ROWS, 1001, &file), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(fault.err.msg, "--upload_max_bytes") != NULL);
    CHECK_STR(fault.code, "file_too_large");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(upload_of("a", "x", ROWS, 900, &file), TD_OK);
        json_decref(file);
    }
    CHECK_INT(upload_of("a", "x", ROWS, 900, &file), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(fault.err.msg, "--upload_quota") != NULL);
    CHECK_INT(upload_of("b", "x", ROWS, 900, &file), TD_OK);
    json_decref(file);
    CHECK_INT(n_in("files"), 3);
    teardown();
}

TEST(lists_of_files_are_paged_both_ways)
{
    setup("");
    char id[3][TD_JOBS_ID];
    for (int i = 0; i < 3; i++) {
        snprintf(id[i], sizeof id[i], "%s", upload("x", "{}"));
    }
    json_t *list = NULL;
    CHECK_INT(td_files_list(jobs, "", &(struct td_page){.limit = 2}, &list, &fault), TD_OK);
    CHECK_STR(text_of(list, "first_id"), id[2]);
    CHECK_STR(text_of(list, "last_id"), id[1]);
    CHECK(json_is_true(json_object_get(list, "has_more")));
    json_decref(list);
    CHECK_INT(td_files_list(jobs, "", &(struct td_page){.limit = 2, .after = id[0], .ascending = true}, &list,
                            &fault),
              TD_OK);
    CHECK_STR(text_of(list, "first_id"), id[1]);
    CHECK(json_is_false(json_object_get(list, "has_more")));
    json_decref(list);
    CHECK_INT(td_files_list(jobs, "", &(struct td_page){.purpose = "fine-tune-results"}, &list, &fault),
              TD_OK);
    CHECK(json_is_null(json_object_get(list, "first_id")));
    json_decref(list);
    CHECK(td_files_list(jobs, "", &(struct td_page){.limit = 10001}, &list, &fault) == TD_INVALID_ARGUMENT);
    teardown();
}

TEST(what_a_crash_left_of_uploads_is_removed)
{
    setup("");
    const char *id = upload("x", "{}");
    struct td_file_upload *u = NULL;
    CHECK_INT(td_file_upload_open(jobs, "", &u, &fault), TD_OK);
    CHECK_INT(n_in("files"), 2);
    td_jobs_close(jobs); /* as if it had died: u is still there */
    open_jobs();
    CHECK_INT(n_in("files"), 1);
    json_t *file = NULL;
    CHECK_INT(td_files_get(jobs, "", id, &file, &fault), TD_OK);
    json_decref(file);
    CHECK_INT(td_files_delete(jobs, "", id, &file, &fault), TD_OK);
    CHECK(json_is_true(json_object_get(file, "deleted")));
    json_decref(file);
    CHECK_INT(n_in("files"), 0);
    CHECK_INT(td_files_get(jobs, "", id, &file, &fault), TD_NOT_FOUND);
    CHECK_STR(fault.code, "not_found");
    td_file_upload_abandon(u);
    teardown();
}

TEST(a_directory_has_one_server)
{
    setup("");
    struct td_jobs *second = NULL;
    json_t *list = NULL;
    CHECK_OK(td_jobs_open(&opts, &second, &err));
    CHECK_INT(td_files_list(second, "", &(struct td_page){0}, &list, &fault), TD_UNAVAILABLE);
    CHECK(strstr(fault.err.msg, "another server uses it") != NULL);
    td_jobs_close(jobs);
    jobs = second;
    usleep(1100000); /* it tries again once a second */
    fault = (struct td_fault){0};
    CHECK_INT(td_files_list(second, "", &(struct td_page){0}, &list, &fault), TD_OK);
    json_decref(list);
    teardown();
}

static int n_jobs(void)
{
    json_t *list = NULL;
    CHECK_INT(td_jobs_list(jobs, &(struct td_page){0}, &list, &fault), TD_OK);
    const int n = (int)json_array_size(json_object_get(list, "data"));
    json_decref(list);
    return n;
}

static void refused(const char *file, const char *more, const char *code, const char *param)
{
    json_t *job = NULL;
    CHECK(create(file, more, &job) != TD_OK);
    CHECK_STR(fault.code, code);
    CHECK_STR(fault.param, param);
    CHECK_INT(n_jobs(), 0);
    CHECK_INT(n_in("jobs"), 0);
}

TEST(a_job_is_refused_for_what_request_and_model_show)
{
    setup("sleep");
    char file[TD_JOBS_ID];
    snprintf(file, sizeof file, "%s", upload("x.jsonl", ""));
    refused("file-nosuch", "", "file_not_found", "training_file");
    refused(file, ",\"signature\":\"serving_defualt\"", "invalid_value", "tensord.signature");
    refused(file, ",\"learing_rate\":1", "unknown_field", "tensord.learing_rate");
    refused(file, ",\"base\":\"ftjob-nosuch\"", "invalid_value", "tensord.base");
    json_t *o = json_pack("{s:s,s:s,s:{s:{s:s}}}", "model", "nosuch", "training_file", file, "tensord",
                          "loss", "name", "mse");
    json_t *job = NULL;
    fault = (struct td_fault){0};
    CHECK(td_jobs_create(jobs, o, "", &job, &fault) != TD_OK);
    CHECK_STR(fault.code, "model_not_found");
    json_decref(o);
    teardown();
}

TEST_MAIN(RUN(a_file_is_what_was_sent_under_its_last_name) RUN(files_have_limits_each_and_together)
              RUN(lists_of_files_are_paged_both_ways) RUN(what_a_crash_left_of_uploads_is_removed)
                  RUN(a_directory_has_one_server) RUN(a_job_is_refused_for_what_request_and_model_show))
