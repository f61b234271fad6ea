/* server/base/state_quota.c - what a state directory may hold where nobody has said: half of what is free.
 *
 * Does not: look again at how much is free; writes say when there is none (proto/bytes/file.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/state_quota.h"

#include <sys/statvfs.h>

#include "core/base/mem.h"

static struct td_disk *make(const char *dir, uint64_t most)
{
    return td_disk_new(&(struct td_disk_opts){.path = dir, .flag = "--state_quota", .most = most});
}

enum td_code td_state_quota_open(const char *dir, int64_t quota, struct td_disk **out, struct td_err *err)
{
    struct statvfs fs;
    struct td_disk *d = make(dir, (uint64_t)quota);
    if (d != NULL && quota == 0 && statvfs(dir, &fs) == 0) {
        const uint64_t most = td_disk_used(d) + (uint64_t)fs.f_bavail * fs.f_frsize / 2;
        td_disk_free(d);
        d = make(dir, most > 0 ? most : 1);
    }
    if (d == NULL) {
        return td_no_memory(err, 1, "--state_quota");
    }
    *out = d;
    return TD_OK;
}

enum td_code td_state_quota_start(const char *dir, int64_t quota, struct td_err *err)
{
    struct td_disk *d = NULL;
    TD_TRY(td_state_quota_open(dir, quota, &d, err));
    td_disk_set_state(d);
    return TD_OK;
}
