/* tests/unit/server/test_options.c - the command line.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/options.h"

#include "tests/test.h"

static enum td_code parse(struct td_options *o, struct td_err *err, char *const *argv)
{
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    return td_options_parse(o, argc, argv, err);
}
#define PARSE(...) parse(&o, &err, (char *[]){"tensord", __VA_ARGS__, NULL})

TEST(defaults_are_tf_servings)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_OK(td_options_parse(&o, 1, (char *[]){"tensord", NULL}, &err));
    CHECK_INT(o.port, 8500);
    CHECK_INT(o.rest_api_port, 0);
    CHECK_INT(o.rest_api_timeout_in_ms, 0);
    CHECK_INT(o.load_retry_interval_micros, 60000000);
    CHECK_STR(o.model_name, "default");
    CHECK_STR(o.saved_model_tags, "serve");
}

TEST(values_of_every_kind_are_read)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_OK(PARSE("--port=auto", "--rest_api_port=0", "--enable_batching", "--strict_shapes=true",
                   "--model_name=a=b", "--file_system_poll_wait_seconds=-1", "--enable_model_warmup=false"));
    CHECK_INT(o.port, TD_PORT_AUTO);
    CHECK(o.enable_batching && o.strict_shapes && !o.enable_model_warmup);
    CHECK_STR(o.model_name, "a=b");
    CHECK_INT(o.file_system_poll_wait_seconds, -1);
}

TEST(a_directory_is_served_on_both_default_ports)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_OK(PARSE("/models/m"));
    CHECK_STR(o.dir, "/models/m");
    CHECK_INT(o.rest_api_port, 8501);
    CHECK_OK(PARSE("/models/m", "--rest_api_port=0"));
    CHECK_INT(o.rest_api_port, 0);
}

TEST(tritons_command_line_is_read)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_OK(PARSE("--model-store=/mnt/models", "--grpc-port=9000", "--http-port", "8080",
                   "--allow-grpc=true", "--allow-http=true", "--log-verbose", "1", "--load-model=a",
                   "--load-model", "b"));
    CHECK(o.port == 9000 && o.rest_api_port == 8080 && o.dir == NULL);
    CHECK_INT(o.n_unknown, 0);
    CHECK_INT(o.model_repository.n, 1);
    CHECK_STR(o.model_repository.at[0], "/mnt/models");
    CHECK_INT(o.load_model.n, 2);
    CHECK_STR(o.load_model.at[1], "b");
    CHECK_OK(PARSE("--model-repository=/a", "--model_repository=/b", "--http-address=::1"));
    CHECK(o.port == 8001 && o.rest_api_port == 8000 && o.model_repository.n == 2);
    CHECK_STR(o.bind_address, "::1");
    CHECK_OK(PARSE("--model-repository=/a", "--allow-http=false"));
    CHECK(o.port == 8001 && o.rest_api_port == 0);
    CHECK_OK(PARSE("/models/m", "--allow-grpc=false"));
    CHECK(o.port == 0 && o.rest_api_port == 8501);
    CHECK_INT(PARSE("--http-port"), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--http-port", "--allow-http")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--rest_api_port", "80")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--model-control-mode=some")), TD_INVALID_ARGUMENT);
    char *many[TD_MAX_LIST + 3] = {"tensord"};
    for (int i = 0; i <= TD_MAX_LIST; i++) {
        many[i + 1] = "--load-model=x";
    }
    CHECK_INT((err = (struct td_err){0}, parse(&o, &err, many)), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "--load_model: given more than 64 times") != NULL);
}

TEST(unknown_arguments_are_skipped_and_counted)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_OK(PARSE("--no_such_flag=3", "--port=9", "-x", "--use_alts_credentials=false"));
    CHECK_INT(o.n_unknown, 2);
    CHECK_INT(o.port, 9);
}

TEST(malformed_values_are_refused_by_name)
{
    struct td_options o;
    struct td_err err = {0};
    CHECK_INT(PARSE("--port=85x"), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "--port") != NULL && strstr(err.msg, "85x") != NULL);
    CHECK_INT((err = (struct td_err){0}, PARSE("--port=70000")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--enable_batching=maybe")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--model_name")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--kernels=slow")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--log_level=in")), TD_INVALID_ARGUMENT);
    CHECK_INT((err = (struct td_err){0}, PARSE("--batching_parameters_file=x")), TD_INVALID_ARGUMENT);
}

/* What parsing writes to stderr. */
static const char *warned(char *const *argv, enum td_code *rc)
{
    static char text[2000];
    struct td_options o;
    struct td_err err = {0};
    FILE *f = tmpfile();
    int before = dup(STDERR_FILENO);
    CHECK(f != NULL && dup2(fileno(f), STDERR_FILENO) == STDERR_FILENO);
    *rc = parse(&o, &err, argv);
    dup2(before, STDERR_FILENO);
    close(before);
    ssize_t n = pread(fileno(f), text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    fclose(f);
    return text;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text != 0; text++) {
        n += *text == '\n';
    }
    return n;
}

TEST(a_flag_without_effect_costs_one_line_that_says_so)
{
    static const char *const flags[] = {"enable_grpc_healthcheck_service", "tensorflow_session_parallelism=2",
                                        "tensorflow_inter_op_parallelism=2", "num_unload_threads=3",
                                        "mixed_precision=x"};
    enum td_code rc;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char arg[100], want[100];
        snprintf(arg, sizeof arg, "--%s", flags[i]);
        snprintf(want, sizeof want, "flag --%.*s has no effect: ", (int)strcspn(flags[i], "="), flags[i]);
        const char *text = warned((char *[]){"tensord", arg, NULL}, &rc);
        CHECK(rc == TD_OK && lines(text) == 1 && strstr(text, want) != NULL);
    }
    const char *text = warned((char *[]){"tensord", "--tensorflow_inter_op_parallelism=two", NULL}, &rc);
    CHECK(rc == TD_INVALID_ARGUMENT && strstr(text, "no effect") != NULL);
    text = warned((char *[]){"tensord", "--port=1", "--op_library=x", "--no_soft_placement", NULL}, &rc);
    CHECK(rc == TD_OK && text[0] == 0);
}

TEST_MAIN(RUN(defaults_are_tf_servings) RUN(values_of_every_kind_are_read)
              RUN(a_directory_is_served_on_both_default_ports) RUN(tritons_command_line_is_read)
                  RUN(unknown_arguments_are_skipped_and_counted) RUN(malformed_values_are_refused_by_name)
                      RUN(a_flag_without_effect_costs_one_line_that_says_so))
