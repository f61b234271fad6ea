/* core/grad/inspect.h - whether the fetches of a part can be differentiated, by what, and which node stands
 * in the way: without building a gradient.
 *
 * It says what td_program_new would, as far as ops alone say it: an op's gradient counts as one by all of its
 * floating-point inputs. What such a gradient leaves out or refuses by attributes is known only once it is
 * asked for.
 *
 * Ownership: the caller's. Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_INSPECT_H
#define TD_CORE_GRAD_INSPECT_H

#include "core/function/callable.h"

enum td_grad_way {
    TD_WAY_NONE, /* nothing leads from there */
    TD_WAY_OPEN,
    TD_WAY_BLOCKED, /* by a node without gradient; other paths may be open, but asking for it is an error */
};

struct td_grad_ways {
    const enum td_grad_way *feed; /* by feed of the part; valid until the next fetch is asked about */
    int open, blocked;            /* variables */
    char why[1024];               /* "": nothing is blocked; else what asking for the first one answers */
};

struct td_grad_inspection;

/* Returns new. base is borrowed, and outlives it. */
TD_MUST enum td_code td_grad_inspect(struct td_model *base, const struct td_callable_opts *part,
                                     struct td_grad_inspection **out, struct td_err *err);
/* Linear in the nodes, those of functions too. INVALID_ARGUMENT: the fetch is of no dtype that can be
 * differentiated. */
TD_MUST enum td_code td_grad_inspect_fetch(struct td_grad_inspection *x, int fetch, struct td_grad_ways *out,
                                           struct td_err *err);
void td_grad_inspection_free(struct td_grad_inspection *x);

#endif
