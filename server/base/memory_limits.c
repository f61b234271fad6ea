/* server/base/memory_limits.c - two flags into the limits of core/base/budget.h.
 *
 * Where the address space is limited, the C library's arenas are kept few: each reserves 64 MiB of it,
 * whether it is used or not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/memory_limits.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/log.h"
#include "server/base/cgroup.h"
#include "server/base/cores.h"
#include "server/base/statm.h"

/* The allocator's arenas: glibc has eight a core; each keeps pages that its few last blocks hold. */
enum { ARENAS_A_CORE = 2, FEW_ARENAS = 2 };

/* ------------------------------------------------------------------ what there is */

static double limit_in(const char *folder, const char *name)
{
    char line[64];
    const bool is_set = td_cgroup_line(folder, name, line, sizeof line) && line[0] >= '0' && line[0] <= '9';
    return is_set ? strtod(line, NULL) : TD_CGROUP_NONE;
}

static double limit_v1(const char *folder)
{
    return limit_in(folder, "memory.limit_in_bytes");
}

static double limit_v2(const char *folder)
{
    const double max = limit_in(folder, "memory.max"), high = limit_in(folder, "memory.high");
    return max < high ? max : high;
}

/* What is left for us of a limited address space: half. Threads' stacks, models' files and what libraries
 * take count there too, and gRPC does not survive that there is no more. */
static bool space_is_limited(uint64_t *left)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) != 0 || r.rlim_cur == RLIM_INFINITY) {
        return false;
    }
    const uint64_t used = td_statm().mapped;
    *left = r.rlim_cur > used ? (r.rlim_cur - used) / 2 : 1;
    return true;
}

enum td_code td_memory_space_check(uint64_t largest_message, struct td_err *err)
{
    enum { BESIDES = 400 << 20, MESSAGES = 2 };
    uint64_t half;
    const uint64_t need = BESIDES + MESSAGES * largest_message;
    TD_FAIL_IF(
        space_is_limited(&half) && 2 * half < need, err, RESOURCE_EXHAUSTED,
        "ulimit -v leaves %llu bytes of address space, want at least %llu: gRPC ends the process when it "
        "has no more, and takes %d messages of --max_request_bytes=%llu; raise the one, lower the other, "
        "or serve without gRPC (--port=0)",
        (unsigned long long)(2 * half), (unsigned long long)need, MESSAGES,
        (unsigned long long)largest_message);
    return TD_OK;
}

bool td_memory_space_is_limited(void)
{
    uint64_t left;
    return space_is_limited(&left);
}

uint64_t td_memory_there_is(const char *root)
{
    uint64_t whole = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), left;
    const double group = td_cgroup_least(root, "memory", limit_v1, limit_v2);
    whole = group < (double)whole ? (uint64_t)group : whole;
    return space_is_limited(&left) && left < whole ? left : whole;
}

/* ------------------------------------------------------------------ the flags */

static const struct {
    const char *text;
    double bytes;
} UNITS[] = {{"", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};

enum td_code td_memory_parse(const char *flag, const char *text, uint64_t whole, uint64_t *out,
                             struct td_err *err)
{
    char *end;
    const double number = strtod(text, &end);
    double bytes = -1;
    if (end != text && text[0] >= '0' && text[0] <= '9') {
        bytes = strcmp(end, "%") == 0 && number <= 100 ? number / 100 * (double)whole : -1;
        for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
            bytes = strcmp(end, UNITS[i].text) == 0 ? number * UNITS[i].bytes : bytes;
        }
    }
    TD_FAIL_IF(
        !(bytes >= 0 && bytes < 1e18), err, INVALID_ARGUMENT,
        "--%s is '%.60s', want bytes, such as 2000000000 or 2GiB, or a share of at most 100%%, such as "
        "80%%",
        flag, text);
    *out = (uint64_t)bytes;
    return TD_OK;
}

enum td_code td_memory_resident_limit(const char *text, bool lazy_loading, uint64_t *out, struct td_err *err)
{
    const uint64_t whole = td_budget_allowed() > 0 ? td_budget_allowed() : td_memory_there_is("");
    TD_TRY(td_memory_parse("max_resident_bytes", text, whole, out, err));
    TD_FAIL_IF(*out > 0 && !lazy_loading, err, INVALID_ARGUMENT,
               "--max_resident_bytes is '%.60s', and needs --lazy_loading: what is unloaded for it is loaded "
               "again at its next request",
               text);
    return TD_OK;
}

enum td_code td_memory_limits_set(const char *max_memory, const char *max_request_memory, struct td_err *err)
{
    const uint64_t there_is = td_memory_there_is("");
    uint64_t all, left, request;
    TD_TRY(td_memory_parse("max_memory", max_memory, there_is, &all, err));
    TD_TRY(
        td_memory_parse("max_request_memory", max_request_memory, all > 0 ? all : there_is, &request, err));
    request = all > 0 && (request == 0 || request > all) ? all : request;
    td_budget_limit(all, "--max_memory");
    td_account_limit(request, "--max_request_memory");
    (void)mallopt(M_ARENA_MAX, space_is_limited(&left) ? FEW_ARENAS : ARENAS_A_CORE * td_cores_usable(""));
    td_log(TD_LOG_INFO, NULL,
           "memory: at most %llu bytes (--max_memory=%s of %llu), %llu for one request "
           "(--max_request_memory=%s)",
           (unsigned long long)all, max_memory, (unsigned long long)there_is, (unsigned long long)request,
           max_request_memory);
    return TD_OK;
}
