/* server/base/statm.c - /proc/self/statm, which counts pages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/statm.h"

#include <stdio.h>
#include <unistd.h>

struct td_statm td_statm(void)
{
    unsigned long long mapped, resident, of_files, data;
    struct td_statm s = {0};
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) {
        return s;
    }
    if (fscanf(f, "%llu %llu %llu %*u %*u %llu", &mapped, &resident, &of_files, &data) == 4) {
        const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        s = (struct td_statm){mapped * page, resident * page, of_files * page, data * page};
    }
    (void)fclose(f);
    return s;
}
