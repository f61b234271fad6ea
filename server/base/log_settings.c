/* server/base/log_settings.c - settings by name, turned into the bits of core/base/log.h's levels.
 *
 * All changes are made to a copy of the levels first; td_log_choose publishes them in one step when every one
 * was right. Nothing is stored here: what is in force is read back from the log. log_file and log_format have
 * one value each, which may be given (the format) or not be changed at all (the file).
 *
 * Does not: parse requests (server/http/rest_settings.c, server/grpc/grpc_settings.c), write log lines.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/log_settings.h"

#include <string.h>

#include "core/base/log.h"

static const struct {
    const char *key;
    enum td_log_level level;
} switches[] = {{"log_info", TD_LOG_INFO}, {"log_warning", TD_LOG_WARNING}, {"log_error", TD_LOG_ERROR}};

static unsigned with(unsigned levels, enum td_log_level level, bool on)
{
    return on ? levels | 1u << level : levels & ~(1u << level);
}

static enum td_code apply(const struct td_log_setting *s, unsigned *levels, struct td_err *err)
{
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        if (strcmp(s->key, switches[i].key) == 0) {
            TD_FAIL_IF(!s->is_flag, err, INVALID_ARGUMENT, "log setting '%s' must be true or false", s->key);
            *levels = with(*levels, switches[i].level, s->flag);
            return TD_OK;
        }
    }
    if (strcmp(s->key, "log_verbose_level") == 0) {
        TD_FAIL_IF(s->is_flag || s->text != NULL, err, INVALID_ARGUMENT,
                   "log setting 'log_verbose_level' must be a whole number, 0 or more");
        *levels = with(*levels, TD_LOG_DEBUG, s->number > 0);
        return TD_OK;
    }
    TD_FAIL_IF(strcmp(s->key, "log_file") == 0, err, UNIMPLEMENTED,
               "log file location can not be updated through network protocol: the log is standard error");
    if (strcmp(s->key, "log_format") == 0) {
        TD_FAIL_IF(s->text == NULL || strcmp(s->text, "ISO8601") != 0, err, UNIMPLEMENTED,
                   "log_format '%.100s' is not supported, ISO8601 is", s->text != NULL ? s->text : "");
        return TD_OK;
    }
    TD_FAIL(err, INVALID_ARGUMENT, "'%.100s' is no log setting", s->key);
}

enum td_code td_log_settings_set(const struct td_log_setting *list, int n, struct td_err *err)
{
    unsigned levels = td_log_levels();
    for (int i = 0; i < n; i++) {
        TD_TRY(apply(&list[i], &levels, err));
    }
    td_log_choose(levels);
    return TD_OK;
}

void td_log_settings_get(struct td_log_setting out[TD_LOG_N_SETTINGS])
{
    const unsigned levels = td_log_levels();
    out[0] = (struct td_log_setting){.key = "log_file", .text = ""};
    for (int i = 0; i < 3; i++) {
        out[1 + i] = (struct td_log_setting){
            .key = switches[i].key, .is_flag = true, .flag = (levels & 1u << switches[i].level) != 0};
    }
    out[4] =
        (struct td_log_setting){.key = "log_verbose_level", .number = (levels & 1u << TD_LOG_DEBUG) != 0};
    out[5] = (struct td_log_setting){.key = "log_format", .text = "ISO8601"};
}
