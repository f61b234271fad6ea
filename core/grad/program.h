/* core/grad/program.h - a part of a model, differentiated: what a client asks for with :gradient.
 *
 * A program is a model of its own (td_model_derive) whose graph holds the part's nodes, calls inlined and
 * loops lifted, and those that compute gradients; one callable runs both. It shares the variables of the
 * model it was made of. Its feeds are the part's, then one for each target that is seeded, then (TD_HVP) one
 * for each source; its fetches are the part's, then one for each source that something leads to.
 *
 * Ownership: counted; holds its base model. Threads: any, once made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_PROGRAM_H
#define TD_CORE_GRAD_PROGRAM_H

#include "core/function/callable.h"
#include "core/grad/grad.h"

enum td_grad_kind {
    TD_GRADIENT, /* of the sum of all targets: shaped like the source */
    TD_JACOBIAN, /* of one target: its shape followed by the source's */
    TD_HESSIAN,  /* of one scalar target: the source's shape twice (a source by itself, no mixed terms) */
    TD_HVP,      /* the Hessian of the sum of all targets times a vector, which is fed for each source */
};

struct td_grad_source {
    int feed; /* of the part's feeds; -1: */
    /* A variable by its resource name; or several, the parts of one that was cut along `axis` (negative:
     * counted from the last), which are one source. */
    const char *const *variables;
    int n_variables, axis;
    enum td_dtype dtype; /* of its value */
};

struct td_program_opts {
    const char *name;
    struct td_callable_opts part; /* what of base's graph: feeds, fetches, targets with effects */
    enum td_grad_kind kind;
    const int *target;              /* numbers of fetches */
    const char *const *target_name; /* for errors */
    int n_targets;
    const bool *seeded; /* by target: a feed follows for it, the gradient from above; else, and NULL: ones */
    const struct td_grad_source *source;
    int n_sources;
    bool recompute;      /* forward values again, rather than keep them */
    int64_t limit_bytes; /* of the results of a jacobian or a hessian together; 0: TD_PROGRAM_LIMIT_BYTES */
};

#define TD_PROGRAM_LIMIT_BYTES ((int64_t)1 << 30)

struct td_program;

/* Returns new. base is counted. INVALID_ARGUMENT: a target that is no float; UNIMPLEMENTED: a node in the way
 * without gradient, named with its op and function. */
TD_MUST enum td_code td_program_new(struct td_model *base, const struct td_program_opts *opts,
                                    struct td_program **out, struct td_err *err);
struct td_program *td_program_ref(struct td_program *p);
void td_program_unref(struct td_program *p);
/* Borrowed. */
struct td_callable *td_program_callable(const struct td_program *p);
/* Number of the fetch that is source i's gradient; -1: nothing leads to it. */
int td_program_fetch(const struct td_program *p, int source);
/* Feeds behind the part's. */
int td_program_further_feeds(const struct td_program *p);
/* What it holds: nodes, compiled plans, and a block of memory for each bound plan, those of its functions
 * (loops, the backward pass of a jacobian) too. */
size_t td_program_bytes(const struct td_program *p);

#endif
