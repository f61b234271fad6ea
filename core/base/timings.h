/* core/base/timings.h - what has been learnt about how long things take: one vocabulary, and its memory.
 *
 *   td_timing_least  of work that is one thing: a slowly rising minimum. What several threads save
 *                    (core/base/thread_pool.h)
 *   td_timing_line   of n rows: t(n) = fixed + each * n. The batcher's (server/sched/cost.h)
 *   td_timing_peak   of a kind of which only a hash is known: a slowly falling maximum, for a guess that is
 *                    not to be too low. Duration hints of requests (server/http/duration_hint.h)
 *   td_timings       times by name, found again by the next plan and the next process: what kernels took
 *                    that were tried against each other (core/run/trial.h)
 *
 * The first three are numbers that their owner keeps beside what they are about, and forgets with it: they
 * follow a machine that becomes busy, and are worth nothing after a restart. Only trials are kept on disk.
 *
 * Threads: minima and td_timings may be used by any, a lost update of a minimum costs one wrong guess; lines
 * and peaks are guarded by their owner.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_TIMINGS_H
#define TD_CORE_BASE_TIMINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

int64_t td_now_ns(void); /* CLOCK_MONOTONIC */

/* ------------------------------------------------------------------ estimators; zeroed: nothing is known */

/* ns; 0: not known. A shorter time is taken as it is, of a longer one an eighth of the difference. */
typedef atomic_llong td_timing_least;
int64_t td_timing_known(const td_timing_least *m);
void td_timing_learn(td_timing_least *m, int64_t took_ns);

/* A weighted least-squares line through (rows, ns), the weight of a run halving every few runs. Before two
 * different sizes were seen all of the time counts as `each`. */
struct td_timing_line {
    double w, n, t, nn, nt; /* decayed sums of 1, rows, ns, rows^2, rows * ns */
};
struct td_timing_fit {
    double fixed, each; /* ns */
    bool fits;          /* sizes that differ were seen */
};
void td_timing_line_learn(struct td_timing_line *l, int64_t rows, int64_t took_ns);
bool td_timing_line_is_known(const struct td_timing_line *l);
struct td_timing_fit td_timing_line_fit(const struct td_timing_line *l); /* of a line that is known */
int64_t td_timing_line_at(const struct td_timing_line *l, int64_t rows); /* ns; 0: not known */

/* The peak after a run that took so long. */
static inline uint32_t td_timing_peak(uint32_t before_ns, uint32_t took_ns)
{
    return took_ns >= before_ns ? took_ns : before_ns - (before_ns - took_ns) / 8;
}

/* ------------------------------------------------------------------ times by name */

enum { TD_TIMING_NAME = 400 }; /* bytes of a name at most; printable ASCII */
struct td_timings;

/* dir: where the file lies that they are read from and written to, kept apart by `machine` (CPU, libraries:
 * what times depend on, one line); NULL: memory alone. A file that does not read back whole is as good as
 * none. Returns new. */
TD_MUST enum td_code td_timings_open(const char *dir, const char *machine, struct td_timings **out,
                                     struct td_err *err);
void td_timings_close(struct td_timings *t); /* accepts NULL */
/* ns; 0: not known. */
int64_t td_timings_find(struct td_timings *t, const char *name);
/* Remembers it, in place of the oldest when there are too many; a name that is too long is left out. */
void td_timings_note(struct td_timings *t, const char *name, int64_t ns);
/* Writes the file when something is new: beside it, synced, then renamed. */
TD_MUST enum td_code td_timings_save(struct td_timings *t, struct td_err *err);

#endif
