/* server/base/log_settings.h - log settings of the Open Inference Protocol, on core/base/log.h.
 *
 * log_info, log_warning and log_error switch these levels; log_verbose_level above 0 adds the debugging
 * lines. log_file is always standard error, log_format always ISO8601; neither can be changed here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_LOG_SETTINGS_H
#define TD_SERVER_BASE_LOG_SETTINGS_H

#include <stdint.h>

#include "core/base/status.h"

/* A setting: text NULL: a number or, of the keys that are switches, a flag. */
struct td_log_setting {
    const char *key, *text;
    bool is_flag, flag;
    uint32_t number;
};
/* Makes all of the changes or none. INVALID_ARGUMENT; UNIMPLEMENTED for what cannot be set here. */
TD_MUST enum td_code td_log_settings_set(const struct td_log_setting *list, int n, struct td_err *err);

#define TD_LOG_N_SETTINGS 6
void td_log_settings_get(struct td_log_setting out[TD_LOG_N_SETTINGS]);

#endif
