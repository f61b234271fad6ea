/* server/jobs/child.h - the process of a job, from its parent's side and from its own.
 *
 *   td_child_start(&opts, &c, &err);           /proc/self/exe train --job=ID ...
 *   poll(td_child_fd(c)); td_child_read(c)     what it says on stderr; true: it has ended
 *   td_child_signal(c, SIGTERM)                save and end with TD_CHILD_PAUSED
 *   td_child_end(c)                            how it ended; c is gone
 *
 * Threads: a child is one thread's, and dies with it (PR_SET_PDEATHSIG).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOBS_CHILD_H
#define TD_SERVER_JOBS_CHILD_H

#include <stdint.h>

#include "core/base/status.h"

/* What it exits with: done or failed (and written down as that), stopped by SIGTERM with its progress
 * saved, its job ended or with another process, failed for the reason in its last words. */
enum {
    TD_CHILD_DONE = 0,
    TD_CHILD_FAILED = 1,
    TD_CHILD_PAUSED = 75,
    TD_CHILD_OUSTED = 76,
    TD_CHILD_UNTOLD = 77
};

struct td_child;

struct td_child_opts {
    const char *program;
    const char *const *args; /* behind the program's name; ends with NULL */
    const char *job;         /* id, for the log */
    const char *log_path;    /* what it says is added there, up to a limit */
};
/* Returns new. UNAVAILABLE when no process can be made. */
TD_MUST enum td_code td_child_start(const struct td_child_opts *o, struct td_child **out, struct td_err *err);
int td_child_fd(const struct td_child *c);
/* Takes what it has said, without waiting. True: it has ended, or will at once. */
bool td_child_read(struct td_child *c);
void td_child_signal(struct td_child *c, int number);
/* Waits for its end and frees c. */
struct td_child_end {
    int status; /* exit status; -1 where a signal ended it */
    int signal; /* 0: none */
    char last_words[300];
};
struct td_child_end td_child_end(struct td_child *c);

/* ---- called by the process itself, first of all: ends with its parent, is the last to get a processor and
 * the first that is killed where memory is short. FAILED_PRECONDITION: the parent has gone already. */
TD_MUST enum td_code td_child_enter(int64_t parent, struct td_err *err);
/* What the budget of --job_memory (core/base/budget.h) does not see, such as what libraries take, has an end
 * too: beyond what the process has now it gets twice `bytes` and 1 GiB of memory of its own (RLIMIT_DATA:
 * stacks and buffers count, mapped files do not), then allocations fail. 0: no end. */
void td_child_bound(int64_t bytes);

#endif
