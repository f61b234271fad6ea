/* core/base/work.h - what the calling thread works for: to whose account, and until when.
 *
 *   front end   td_work_enter when the body of a request begins to be read, decoded, or its answer encoded
 *   worker      while it runs a request, or a batch; threads that help it work for the same
 *   others      a load, a warm-up, a management request that waits
 *
 * What allocates charges the account (core/base/budget.h); what takes long asks td_work_over now and then,
 * wherever it stands: codecs, pictures, regular expressions, sorting. Kernels may ask td_stopped
 * (core/graph/op.h), which is the same of their run; or, in the midst of loops that return no error,
 *
 *     if (td_work_spent(n)) { return; }      n elements have been computed: leave, if the work is over
 *
 * What such a loop leaves unwritten nobody will read: the work is then cut short (td_work_cut), and the
 * executor, who looks after every kernel, ends the run. It may not be used to reach memory by, though.
 *
 * Threads: a work is entered by any number of threads; its stop word is set by anybody, the rest by who owns
 * it, before others enter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_WORK_H
#define TD_CORE_BASE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/budget.h"
#include "core/base/log.h"
#include "core/base/status.h"

/* The stop word of a work: 0 go on; else the td_code that it shall end with (CANCELLED, DEADLINE_EXCEEDED,
 * UNAVAILABLE). */
typedef atomic_int td_stop;

struct td_work {
    td_stop *stop;                    /* may be NULL */
    int64_t deadline_ns;              /* CLOCK_MONOTONIC; 0 none */
    struct td_account *account;       /* may be NULL: of no request */
    const struct td_log_trace *trace; /* what its log lines carry; may be NULL */
};

extern __thread const struct td_work *td_work_here;
extern __thread int64_t td_work_left; /* elements until the next look */
extern __thread bool td_work_cut;     /* td_work_spent has said so */

/* The calling thread works for w (NULL: for nobody in particular) from now on. Returns what it worked for, to
 * be entered again. w is borrowed until then. */
static inline const struct td_work *td_work_enter(const struct td_work *w)
{
    const struct td_work *before = td_work_here;
    td_work_here = w;
    td_work_cut = false;
    return before;
}

/* What it works for; NULL: nobody in particular. */
static inline const struct td_work *td_work_now(void)
{
    return td_work_here;
}

static inline struct td_account *td_work_account(void)
{
    return td_work_here != NULL ? td_work_here->account : NULL;
}

/* Why w shall end now; OK: it shall not. One relaxed load, and a look at the clock if there is a deadline. */
enum td_code td_work_why(const struct td_work *w);
/* The same of the work at hand: to be asked about once in every 100 us. */
enum td_code td_work_over(void);
/* Tells that so many elements have been computed, each in a few nanoseconds (say more of dearer ones). True:
 * the work is over, and cut short here. Costs a subtraction, and a look at the clock every so often. */
bool td_work_look(void);
static inline bool td_work_spent(int64_t elements)
{
    td_work_left -= elements;
    return td_work_left < 0 && td_work_look();
}

/* That as an error, whose code is why (CANCELLED for OK). */
enum td_code td_work_error(enum td_code why, struct td_err *err);

#endif
