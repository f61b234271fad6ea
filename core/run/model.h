/* core/run/model.h - one loaded model version as runs and the compiler see it: graph, functions, options,
 * resources by name, state of nodes, files.
 *
 * What runs (a callable) is made in a room above this one (core/function/callable.h). A run needs callables
 * all the same, for the bodies of If and While and of TF1's loops: it reaches them through the model's table
 * of calls, which core/function fills in, and knows nothing else of them.
 *
 * Threads: any. Ownership: a td_model is counted; its callables belong to it and die with it, before its
 * resources do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_MODEL_H
#define TD_CORE_RUN_MODEL_H

#include <stdatomic.h>

#include "core/base/work.h"
#include "core/graph/graph.h"

struct td_model;
struct td_callable;  /* opaque here: core/function/callable.h */
struct td_precision; /* core/run/precision.h */
struct td_device_weights;
struct td_run;
struct td_bound_plan;
struct td_thread_pool;

struct td_model_opts {
    const struct td_op_table *ops; /* borrowed for the model's life */
    enum td_kernel_choice kernels; /* whose kernel rows are left out */
    int64_t trial_ns; /* may be spent on trying kernels that compete, a bound plan; 0: none are tried */
    struct td_timings *timings; /* where trials are remembered; borrowed; NULL: nowhere */
    const char *passes_off;  /* comma-separated names of compiler passes not to run; NULL none, "all" all */
    const char *dir;         /* the model's directory: files in it may be read by its ops */
    const char *scratch_dir; /* "" or NULL: no scratch files */
    uint64_t scratch_quota;  /* bytes that they may take; 0: no limit */
    const struct td_device *device; /* where kernels run when they can; NULL: the host */
    /* refuse a node that asks for a device that is not here or has no kernel for it */
    bool no_soft_placement;
    bool log_placement;                   /* a line for each node of a callable when it is compiled */
    size_t cache_bytes;                   /* plans of all callables; 0: 64 MiB */
    int retrace_warn;                     /* log a callable that traced more often; 0: 8 */
    bool alone;                           /* no two runs of it are ever under way at once: a training job's */
    const struct td_precision *precision; /* of products with weights; NULL: as the graph says. Counted */
};

/* Where nodes of such a model run: on the host, or on its device. */
static inline struct td_target td_target_host(const struct td_model_opts *o)
{
    return (struct td_target){.kernels = o->kernels, .trial_ns = o->trial_ns, .timings = o->timings};
}
static inline struct td_target td_target_device(const struct td_model_opts *o)
{
    struct td_target t = td_target_host(o);
    t.device = o->device;
    return t;
}

/* ------------------------------------------------------------------ callables, from below */

struct td_callable_opts;
/* What core/function does for runs and passes; "inside" a run: any input shapes, in[] borrowed, out[] owned
 * by the caller and nothing on failure. */
struct td_callable_calls {
    TD_MUST enum td_code (*make)(struct td_model *m, const struct td_graph *graph,
                                 const struct td_callable_opts *opts, struct td_callable **out,
                                 struct td_err *err);
    void (*free)(struct td_callable *f);
    TD_MUST enum td_code (*run_inside)(struct td_callable *f, const struct td_tensor *const *in,
                                       struct td_tensor *out, struct td_run *run, struct td_err *err);
    /* f's plan at the shapes of these tensors, whose bytes nobody looks at: *out is a reference. run NULL:
     * for the work at hand. */
    TD_MUST enum td_code (*bind)(struct td_callable *f, const struct td_tensor *const *in,
                                 const struct td_run *run, struct td_bound_plan **out, struct td_err *err);
    /* The callable of a library function, kept by the model. INVALID_ARGUMENT on another arity. */
    TD_MUST enum td_code (*function)(struct td_model *m, const char *name, int n_in, int n_out,
                                     struct td_callable **out, struct td_err *err);
    void (*free_all)(void *callables); /* those that belong to the model */
};
/* Takes the arena (and with it graph and lib, both resolved) and callables. Returns new. */
TD_MUST enum td_code td_model_make(const struct td_model_opts *opts, struct td_arena *takes,
                                   struct td_graph *graph, struct td_library *lib,
                                   const struct td_callable_calls *calls, struct td_model **out,
                                   struct td_err *err);
/* Likewise: a model of another graph and library with the options of base (counted), whose resources, node
 * state and rate of printing it shares; but it computes as its graph says: gradients are of floats. */
TD_MUST enum td_code td_model_derive_make(struct td_model *base, struct td_arena *takes,
                                          struct td_graph *graph, struct td_library *lib,
                                          struct td_model **out, struct td_err *err);
/* Likewise: base (counted) once more for another device, with its graph and library; it computes as base
 * does. Its callables are its own, and what it holds on its device. */
TD_MUST enum td_code td_model_replicate_make(struct td_model *base, const struct td_device *device,
                                             struct td_model **out, struct td_err *err);
const struct td_callable_calls *td_model_calls(const struct td_model *m);
/* core/function's own list. */
void td_model_set_callables(struct td_model *m, void *takes);
void *td_model_callables(const struct td_model *m);

/* ------------------------------------------------------------------ the model */

struct td_model *td_model_ref(struct td_model *m);
void td_model_unref(struct td_model *m);
const struct td_graph *td_model_graph(const struct td_model *m);
const struct td_library *td_model_library(const struct td_model *m);
const struct td_model_opts *td_model_opts_of(const struct td_model *m);
/* What the model and those derived from it hold on its device, but for those that have another; NULL: it has
 * none, or there is no memory. */
struct td_device_weights *td_model_device_weights(struct td_model *m);
/* Rate limit of lines that models print: at most 20 a second a model. */
bool td_model_may_print(struct td_model *m);

struct td_callable_opts {
    const char *name;             /* for logs and lists; copied */
    const struct td_value *feeds; /* cut here: nothing above runs */
    int n_feeds;
    const struct td_value *fetches;
    int n_fetches;
    struct td_node *const *targets; /* run for their effects */
    int n_targets;
    bool once; /* restore and init: do not keep plans */
};
/* A whole function: fed all of its arguments, for which feed[] has room. f and feed are borrowed. */
struct td_callable_opts td_callable_opts_of(const struct td_function *f, struct td_value *feed);

/* One step that has run. */
struct td_observed {
    const struct td_node *node;
    const struct td_tensor *const *in; /* node->n_in: dtypes and shapes, bytes may be another's by now; NULL:
                                        * not known */
    const struct td_tensor *out;       /* on the host */
    int n_out;
    int64_t ns;
    const char *kernel, *device; /* device: "cpu", or the name of the model's */
};

struct td_run_opts {
    struct td_work work; /* whose it is, and until when: entered by the run */
    bool eager;          /* unoptimised, node by node */
    /* After each step: outputs borrowed for the call, dtype NONE where a branch not taken left no value. */
    void (*observe)(void *ctx, const struct td_observed *what);
    void (*print)(void *ctx, const char *text, size_t len);
    void *ctx;
    /* threads to borrow (core/base/thread_pool.h); NULL: the run's thread alone */
    struct td_thread_pool *pool;
};
/* What a run goes by that was given `opts`. NULL: it is for the work at hand, no more. */
static inline struct td_run_opts td_run_opts_given(const struct td_run_opts *opts)
{
    const struct td_work *here = td_work_now();
    return opts != NULL   ? *opts
           : here != NULL ? (struct td_run_opts){.work = *here}
                          : (struct td_run_opts){0};
}
/* A variable of the model by its resource name (shared_name), or NULL: borrowed. */
struct td_obj *td_model_resource(struct td_model *m, const struct td_obj_type *type, const char *name);
/* Calls fn for each resource of the type, under the model's lock: fn must not run or change the model. Names
 * are without their container, which is the default one of all that are listed. */
void td_model_each_resource(struct td_model *m, const struct td_obj_type *type,
                            void (*fn)(void *ctx, const char *name, struct td_obj *o), void *ctx);

#endif
