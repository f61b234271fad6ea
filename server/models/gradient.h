/* server/models/gradient.h - the gradient of a signature is a signature again.
 *
 *   the signature     x, w              -> y, z
 *   its gradient      x, w, output_gradients/y -> y, z, gradient/x          of y by x, seeded
 *
 * Its callable runs forward and backward (core/grad/program.h), so that a request for it goes the way of any
 * other: queue, batches where it is proven row-wise, chunks, deadline, statistics.
 *
 * A version keeps the gradients that were asked for lately, so many and so many bytes of them; the least
 * recently used goes. Each is made once, however many ask for it at that time, under no lock that anything
 * else needs. Who asked holds a reference while he uses it, and may outlast its being kept.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_GRADIENT_H
#define TD_SERVER_MODELS_GRADIENT_H

#include "core/grad/program.h"
#include "server/models/servable.h"

struct td_gradient;

/* What is asked, by name. */
struct td_gradient_ask {
    const char *const *targets; /* outputs: their sum is differentiated */
    int n_targets;
    const char *const *wrt; /* inputs, and "var:NAME" for variables (server/models/variables.h) */
    int n_wrt;
    enum td_grad_kind kind;
    const char *const *seeded; /* targets whose gradient from above is given; of the others it is ones */
    int n_seeded;
    const char *const *vectors; /* sources that a vector is given for: all of them when kind is TD_HVP */
    int n_vectors;
    bool recompute;
};
/* The kind of that name; NULL and "": TD_GRADIENT. */
TD_MUST enum td_code td_gradient_kind(const char *name, enum td_grad_kind *out, struct td_err *err);
/* "gradient", "jacobian", .. */
const char *td_gradient_kind_name(enum td_grad_kind kind);
/* Whether a source is a variable. */
bool td_gradient_ask_by_weights(const struct td_gradient_ask *ask);

/* Counted for the caller; NULL: it is not kept, and has to be made. */
struct td_gradient *td_gradient_known(struct td_servable *s, const struct td_signature *sig,
                                      const struct td_gradient_ask *ask);
/* Counted for the caller, made if need be. run: whose deadline and stop word end the waiting for another
 * who makes it; NULL none. INVALID_ARGUMENT names what in the ask is wrong, and what there is; else the
 * program's errors. */
TD_MUST enum td_code td_gradient_get(struct td_servable *s, const struct td_signature *sig,
                                     const struct td_gradient_ask *ask, const struct td_run_opts *run,
                                     struct td_gradient **out, struct td_err *err);
struct td_gradient *td_gradient_ref(struct td_gradient *g);
void td_gradient_unref(struct td_gradient *g); /* accepts NULL */
/* The gradient that a signature is; NULL: it is none. Borrowed. */
struct td_gradient *td_gradient_of(const struct td_servable *s, const struct td_signature *sig);

/* Good for td_servable_bind and all that follows; borrowed. Its outputs are those of the signature that it is
 * of, then those gradients that there are. */
const struct td_signature *td_gradient_signature(const struct td_gradient *g);
/* Numbers of the inputs that take a target's gradient from above, and a source's vector; -1: none does. */
int td_gradient_seed_input(const struct td_gradient *g, const char *target);
int td_gradient_vector_input(const struct td_gradient *g, const char *source);
int td_gradient_n_outputs(const struct td_gradient *g); /* of the signature that it is of */
int td_gradient_n_sources(const struct td_gradient *g);

/* result[n_sources], counted for the caller and named as asked for: dtype NONE where nothing leads to the
 * source, or zeros. in and out are those of a run, in the signature's order. */
TD_MUST enum td_code td_gradient_results(const struct td_gradient *g, struct td_servable *s,
                                         const struct td_tensor *in, const struct td_named *out, bool zeros,
                                         struct td_named *result, struct td_err *err);

/* For GET .../functions: those of a signature that are kept. */
struct td_gradient_stat {
    const struct td_gradient_ask *ask;
    const struct td_signature *sig;
    size_t bytes; /* of nodes, plans, and a block of memory for each bound plan */
};
void td_gradient_each(struct td_servable *s, const struct td_signature *sig,
                      void (*fn)(void *ctx, const struct td_gradient_stat *g), void *ctx);
/* "gradient of y by x" */
const char *td_gradient_title(const struct td_gradient *g);

#endif
