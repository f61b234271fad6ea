/* server/base/sandbox.h - what the process may still do once it is set up (--sandbox): Landlock for files and
 * connections, seccomp for system calls that no server needs. Both are the kernel's, for good, and for all
 * threads and processes that come after.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_SANDBOX_H
#define TD_SERVER_BASE_SANDBOX_H

#include <stdbool.h>

#include "core/base/status.h"

enum { TD_SANDBOX_PATHS = 512 };

/* Paths that are there now; each holds for what is below it, and for its real path. */
struct td_sandbox_list {
    char *at[TD_SANDBOX_PATHS];
    int n;
};

struct td_sandbox {
    struct td_sandbox_list read, write; /* write includes read */
    bool jobs;                          /* the daemon's own program may be executed, as a job's process */
    int connect_port[2];                /* TCP ports that may be connected to; 0: none */
    bool names;                         /* names of hosts may be looked up, by UDP */
};

/* path may be "" or not there: then it adds nothing. RESOURCE_EXHAUSTED when there are too many. */
TD_MUST enum td_code td_sandbox_read(struct td_sandbox *s, const char *path, enum td_code before);
TD_MUST enum td_code td_sandbox_write(struct td_sandbox *s, const char *path, enum td_code before);
/* The folder of a model: it, the folder that it lies in (models that come later), and the folders of versions
 * that are links to elsewhere, with those that they lie in. writes: results of jobs go there. */
TD_MUST enum td_code td_sandbox_model(struct td_sandbox *s, const char *base_path, bool writes);

/* From now on. Called by the only thread. FAILED_PRECONDITION: the kernel has no Landlock or no seccomp. */
TD_MUST enum td_code td_sandbox_enter(const struct td_sandbox *s, struct td_err *err);
/* Whether path could be read beneath the sandbox's folders; true where there is none. */
bool td_sandbox_may_read(const struct td_sandbox *s, const char *path);
void td_sandbox_fini(struct td_sandbox *s);

#endif
