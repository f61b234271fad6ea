/* core/function/model.h - one loaded model version as the engine sees it: graph, functions, resources, and
 * its callables.
 *
 * A callable is a polymorphic function: feeds and fetches by node:port, and a cache of concrete functions
 * (plans), one per dtypes and inner shapes with the leading dimensions symbolic. Each plan keeps bound plans,
 * one per full set of input shapes: known shapes, values computable from shapes alone, memory offsets and
 * prepared kernels.
 *
 * Threads: callables may be run from any number of threads; a first call traces under a lock, others wait for
 * it. Ownership: a td_model is counted; callables belong to it and die with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_FUNCTION_MODEL_H
#define TD_CORE_FUNCTION_MODEL_H

#include <stdatomic.h>

#include "core/graph/graph.h"

struct td_model;
struct td_callable;
struct td_thread_pool;

enum td_kernel_choice { TD_KERNELS_FAST, TD_KERNELS_REFERENCE, TD_KERNELS_OPENBLAS };

struct td_model_opts {
    const struct td_op_table *ops; /* borrowed for the model's life */
    enum td_kernel_choice
        kernels;             /* rows whose name ends in ".dnnl" (or ".openblas") are left out accordingly */
    const char *passes_off;  /* comma-separated names of compiler passes not to run; NULL none, "all" all */
    const char *dir;         /* the model's directory: files in it may be read by its ops */
    const char *scratch_dir; /* "" or NULL: no scratch files */
    const struct td_device *device; /* where kernels run when they can; NULL: the host */
    /* refuse a node that asks for a device that is not here or has no kernel for it */
    bool no_soft_placement;
    bool log_placement; /* a line for each node of a callable when it is compiled */
    size_t cache_bytes; /* plans of all callables; 0: 64 MiB */
    int retrace_warn;   /* log a callable that traced more often; 0: 8 */
};

/* Takes the arena (and with it graph and lib, both resolved). Returns new. */
TD_MUST enum td_code td_model_new(const struct td_model_opts *opts, struct td_arena *takes,
                                  struct td_graph *graph, struct td_library *lib, struct td_model **out,
                                  struct td_err *err);
struct td_model *td_model_ref(struct td_model *m);
void td_model_unref(struct td_model *m);
const struct td_graph *td_model_graph(const struct td_model *m);
const struct td_library *td_model_library(const struct td_model *m);

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
/* Returns borrowed (the model's). Nothing is compiled yet. */
TD_MUST enum td_code td_callable_new(struct td_model *m, const struct td_callable_opts *opts,
                                     struct td_callable **out, struct td_err *err);
void td_callable_drop(struct td_callable *f); /* frees a callable made with once */

/* The stop word of a run: 0 run on; else the td_code the run shall end with (CANCELLED, DEADLINE_EXCEEDED,
 * UNAVAILABLE). */
typedef atomic_int td_stop;

/* One step that has run. */
struct td_observed {
    const struct td_node *node;
    const struct td_tensor *out; /* on the host */
    int n_out;
    int64_t ns;
    const char *kernel, *device; /* device: "cpu", or the name of the model's */
};

struct td_run_opts {
    td_stop *stop;       /* may be NULL */
    int64_t deadline_ns; /* CLOCK_MONOTONIC; 0 none */
    bool eager;          /* unoptimised, node by node */
    /* After each step: outputs borrowed for the call, dtype NONE where a branch not taken left no value. */
    void (*observe)(void *ctx, const struct td_observed *what);
    void (*print)(void *ctx, const char *text, size_t len);
    void *ctx;
    /* threads to borrow (core/base/thread_pool.h); NULL: the run's thread alone */
    struct td_thread_pool *pool;
};
/* Runs with in[i] fed to feeds[i] (borrowed; host; dtype must be the fed edge's). out[i] gets fetch i, owned
 * by the caller (td_tensor_clear), nothing on failure. opts may be NULL. INVALID_ARGUMENT, with TensorFlow's
 * words where it has them, for whatever is wrong with values and shapes; UNIMPLEMENTED names node, op and
 * function of an op we lack. */
TD_MUST enum td_code td_callable_run(struct td_callable *f, const struct td_tensor *in, struct td_tensor *out,
                                     const struct td_run_opts *opts, struct td_err *err);

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
    uint64_t calls;
    double trace_ms;
    size_t bytes;
    int graph_nodes, plan_steps;
    int regions;             /* where the plan falls apart into groups (core/compile/parallel_regions.h) */
    int device_steps;        /* of plan_steps: those that may run on the model's device */
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
/* Calls fn for each concrete function, under the callable's lock: fn must not call back. */
void td_callable_each(struct td_callable *f, void (*fn)(void *ctx, const struct td_concrete_stat *c),
                      void *ctx);

/* A variable of the model by its resource name (shared_name), or NULL: borrowed. */
struct td_obj *td_model_resource(struct td_model *m, const struct td_obj_type *type, const char *name);
/* Calls fn for each resource of the type, under the model's lock: fn must not run or change the model. Names
 * are without their container, which is the default one of all that are listed. */
void td_model_each_resource(struct td_model *m, const struct td_obj_type *type,
                            void (*fn)(void *ctx, const char *name, struct td_obj *o), void *ctx);
/* Sum of the bytes of all variables. */
size_t td_model_weight_bytes(struct td_model *m);

#endif
