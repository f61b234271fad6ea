/* tests/unit/server/test_trace.c - trace and log settings.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/trace.h"

#include "core/base/log.h"
#include "server/base/log_settings.h"
#include "tests/test.h"

static struct td_err err;
static char text[400];

static enum td_code say(void *ctx, const char *key, const char *const *values, int n_values, struct td_err *e)
{
    (void)ctx;
    (void)e;
    const size_t n = strlen(text);
    (void)snprintf(text + n, sizeof text - n, "%s=%s%s%s ", key, values[0], n_values > 1 ? "," : "",
                   n_values > 1 ? values[1] : "");
    return TD_OK;
}

static const char *settings(const char *model)
{
    text[0] = '\0';
    CHECK_OK(td_trace_each(model, say, NULL, &err));
    return text;
}

static enum td_code set(const char *model, const char *key, const char *value)
{
    const struct td_trace_change c = {key, &value, value != NULL};
    err = (struct td_err){0};
    return td_trace_set(model, &c, 1, &err);
}

#define DEFAULTS                                                                                             \
    "trace_file= trace_level=OFF trace_rate=1000 trace_count=-1 log_frequency=0 trace_mode=triton "

TEST(a_model_without_settings_has_those_of_all)
{
    CHECK_STR(settings("m"), DEFAULTS);
    CHECK_INT(set("", "trace_rate", "5"), TD_OK);
    CHECK_INT(set("m", "trace_count", "3"), TD_OK);
    CHECK_STR(settings("m"),
              "trace_file= trace_level=OFF trace_rate=5 trace_count=3 log_frequency=0 trace_mode=triton ");
    CHECK_INT(set("m", "trace_rate", "7"), TD_OK);
    CHECK(strstr(settings("m"), "trace_rate=7") != NULL && strstr(settings("n"), "trace_rate=5") != NULL);
    CHECK_INT(set("m", "trace_rate", NULL), TD_OK);
    CHECK(strstr(settings("m"), "trace_rate=5") != NULL);
}

TEST(every_nth_request_until_there_are_enough)
{
    int due = 0;
    CHECK(!td_trace_due("m"));
    CHECK_INT(set("", "trace_rate", "3"), TD_OK);
    CHECK_INT(set("m", "trace_level", "TIMESTAMPS"), TD_OK);
    CHECK_INT(set("m", "trace_count", "2"), TD_OK);
    for (int i = 1; i <= 30; i++) {
        const bool now = td_trace_due("m") != 0;
        CHECK(!now || i == 3 || i == 6);
        due += now;
        CHECK(!td_trace_due("n"));
    }
    CHECK_INT(due, 2);
}

TEST(wrong_settings_change_nothing)
{
    static const char *const wrong[][3] = {
        {"trace_level", "LOUD", "no trace_level"},
        {"trace_level", "TENSORS", "without --trace_file"},
        {"trace_rate", "0", "Unable to parse"},
        {"trace_rate", "", "Unable to parse"},
        {"trace_count", "-2", "Unable to parse"},
        {"trace_rate", "99999999999999999999", "Unable to parse"},
        {"log_frequency", "1x", "Unable to parse"},
        {"trace_file", "/tmp/x", "can not be updated"},
        {"trace_color", "1", "is no trace setting"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(set("", wrong[i][0], wrong[i][1]) != TD_OK);
        CHECK(strstr(err.msg, wrong[i][2]) != NULL);
    }
    err = (struct td_err){0};
    CHECK_STR(settings(""), DEFAULTS);
    for (int i = 0; i < TD_TRACE_MAX_MODELS + 1; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "m%d", i);
        CHECK_INT(set(name, "trace_rate", "2"), i < TD_TRACE_MAX_MODELS ? TD_OK : TD_RESOURCE_EXHAUSTED);
    }
}

TEST(log_levels_are_switched_one_by_one)
{
    struct td_log_setting now[TD_LOG_N_SETTINGS];
    const struct td_log_setting off = {.key = "log_info", .is_flag = true};
    const struct td_log_setting both[2] = {{.key = "log_verbose_level", .number = 3},
                                           {.key = "log_color", .is_flag = true}};
    CHECK_OK(td_log_settings_set(&off, 1, &err));
    CHECK_INT(td_log_levels(), 1 << TD_LOG_WARNING | 1 << TD_LOG_ERROR);
    CHECK_INT(td_log_settings_set(both, 2, &err), TD_INVALID_ARGUMENT);
    CHECK_INT(td_log_levels(), 1 << TD_LOG_WARNING | 1 << TD_LOG_ERROR);
    err = (struct td_err){0};
    CHECK_OK(td_log_settings_set(both, 1, &err));
    td_log_settings_get(now);
    CHECK_STR(now[1].key, "log_info");
    CHECK(!now[1].flag && now[2].flag && now[3].flag);
    CHECK_INT(now[4].number, 1);
}

TEST_MAIN(RUN(a_model_without_settings_has_those_of_all) RUN(every_nth_request_until_there_are_enough)
              RUN(wrong_settings_change_nothing) RUN(log_levels_are_switched_one_by_one))
