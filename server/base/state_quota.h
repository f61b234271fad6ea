/* server/base/state_quota.h - the limit of what lies below the state directory (--state_quota).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_STATE_QUOTA_H
#define TD_SERVER_BASE_STATE_QUOTA_H

#include "core/base/disk.h"

/* Counts what lies below dir. quota 0: that, and half of what is free on its file system. Returns new; the
 * caller says whose it is (td_disk_set_state, td_disk_set_default). */
TD_MUST enum td_code td_state_quota_open(const char *dir, int64_t quota, struct td_disk **out,
                                         struct td_err *err);
/* Likewise, and that is the state directory of this process, as long as it lives (td_disk_state). */
TD_MUST enum td_code td_state_quota_start(const char *dir, int64_t quota, struct td_err *err);

#endif
