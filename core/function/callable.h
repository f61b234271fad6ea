/* core/function/callable.h - polymorphic functions of a loaded model: what runs.
 *
 * A callable is a polymorphic function: feeds and fetches by node:port, one plan for any shapes, and a
 * cache of concrete functions, one for each set of inner shapes with the leading dimensions symbolic. Each
 * of these keeps bound plans, one for each full set of input shapes: known shapes, values computable from
 * shapes alone, memory offsets and prepared kernels. Options are core/run/model.h's.
 *
 * Threads: callables may be run from any number of threads; a first call traces under a lock, others wait
 * for it. Ownership: callables belong to their model and die with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_FUNCTION_CALLABLE_H
#define TD_CORE_FUNCTION_CALLABLE_H

#include "core/run/model.h"

/* Takes the arena (and with it graph and lib, both resolved). Returns new. */
TD_MUST enum td_code td_model_new(const struct td_model_opts *opts, struct td_arena *takes,
                                  struct td_graph *graph, struct td_library *lib, struct td_model **out,
                                  struct td_err *err);

/* Likewise, a model that shares the resources of base (td_model_derive_make). Returns new. */
TD_MUST enum td_code td_model_derive(struct td_model *base, struct td_arena *takes, struct td_graph *graph,
                                     struct td_library *lib, struct td_model **out, struct td_err *err);

/* Likewise, base once more for another device (td_model_replicate_make). Returns new. */
TD_MUST enum td_code td_model_replicate(struct td_model *base, const struct td_device *device,
                                        struct td_model **out, struct td_err *err);

/* Returns borrowed (the model's). Nothing is compiled yet: the first run makes the plan. */
TD_MUST enum td_code td_callable_new(struct td_model *m, const struct td_callable_opts *opts,
                                     struct td_callable **out, struct td_err *err);
void td_callable_drop(struct td_callable *f); /* frees a callable made with once */

/* What f was made of: borrowed, as long as f. */
const struct td_graph *td_callable_graph(const struct td_callable *f, struct td_callable_opts *opts);

/* Runs with in[i] fed to feeds[i] (borrowed; host; dtype must be the fed edge's). out[i] gets fetch i, owned
 * by the caller (td_tensor_clear), nothing on failure. opts NULL: for the work at hand, no more.
 * INVALID_ARGUMENT, with TensorFlow's words where it has them, for whatever is wrong with values and
 * shapes; UNIMPLEMENTED names node, op and
 * function of an op we lack. */
TD_MUST enum td_code td_callable_run(struct td_callable *f, const struct td_tensor *in, struct td_tensor *out,
                                     const struct td_run_opts *opts, struct td_err *err);

/* True once f is compiled and its steps are known to have no effects: a run that was stopped may be had again
 * from the beginning. Of a generator's draws the next ones are as good. */
bool td_callable_repeats(const struct td_callable *f);

/* Nodes that running f would need and that we have no op or kernel for (names borrowed): up to cap rows,
 * returns the number found. */
struct td_missing {
    const char *node, *op, *function, *why;
};
int td_callable_missing(struct td_callable *f, struct td_missing *rows, int cap);

/* Statistics for GET .../functions. */
struct td_concrete_stat {
    int n_in;
    const enum td_dtype *dtype;   /* n_in */
    const struct td_shape *shape; /* n_in; -1 where symbolic */
    uint64_t calls;               /* runs begun: one that was cut and begun again counts twice */
    double trace_ms;
    size_t bytes;
    int graph_nodes, plan_steps;
    int regions;      /* where the plan falls apart into groups (core/compile/parallel_regions.h) */
    int device_steps; /* of plan_steps: those that run on the model's device, as last bound; so are kernels */
    const char *device_name; /* its name; NULL: there is none */
    struct {
        const char *kernel;
        int count;
    } kernels[32];
    int n_kernels;
};
struct td_callable_stat {
    uint64_t traces, evictions;
    int n_concrete;
};
void td_callable_stats(struct td_callable *f, struct td_callable_stat *s);
/* Bytes of its bound plans, and of a run's block for each: no lock is waited for. */
size_t td_callable_bytes(const struct td_callable *f);
/* Memory is short: lets bound plans go, of all callables, those first that have not been used for longest,
 * until is_enough(ctx) says so or none is left; what was used a moment ago goes last. By a thread that holds
 * no lock. */
void td_callables_trim(bool (*is_enough)(void *ctx), void *ctx);
/* Of all callables of the model, those of its functions too. */
size_t td_model_plan_bytes(const struct td_model *m);
/* Calls fn for each concrete function, under the callable's lock: fn must not call back. */
void td_callable_each(struct td_callable *f, void (*fn)(void *ctx, const struct td_concrete_stat *c),
                      void *ctx);

#endif
