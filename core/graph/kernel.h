/* core/graph/kernel.h - what a kernel row is: one way to compute an op, and what it says of itself.
 *
 * An op has its rows in order of preference. Which one runs is decided in two steps (core/run/select.h):
 *
 *   when a plan is made     by device, element types, library, and what `refuse` says of the node
 *   when shapes are known   by `prepare`: a row without one serves every shape and needs nothing. Each row
 *                           that is left is asked in turn, with the concrete shapes, until one serves.
 *
 * `prepare` answers for those shapes (struct td_kernel_offer): that it does not serve, and why; or how many
 * bytes of workspace a call needs, how many of the wanted epilogues it takes, and the state that it has made
 * once: packed weights, a library's primitive, an algorithm. An error passes the row over like a refusal,
 * with its text as the reason.
 *
 * A plain row says nothing of all that:   {"relu.cpu", TD_CPU, {{"T", TD_SET_REALS}}, .run = relu_run}
 *
 * The same rows serve every device. What runs on one is asked with the query's device set, so that its state
 * is the device's; its workspace lies in the device's memory, and its run queues work on td_call.stream
 * (core/base/device.h).
 *
 * Threads: prepare and run may be called by any number of threads at once; state is immutable or guards
 * itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_KERNEL_H
#define TD_CORE_GRAPH_KERNEL_H

#include "core/base/device.h"
#include "core/base/tensor.h"

struct td_node;
struct td_call;

/* ------------------------------------------------------------------ epilogues */

/* What a kernel of floats may be asked to do to each element y of its output by itself (an epilogue): y =
 * kind(y), or y kind operand; on a device of half and bfloat16 as well, whose operands are of their type. A
 * kernel that can takes the first so many; whoever asked does the rest. AFFINE only comes first. */
enum td_post_kind {
    TD_POST_NONE,
    TD_POST_RELU,
    TD_POST_RELU6,
    TD_POST_LEAKY,
    TD_POST_ELU,
    TD_POST_SIGMOID,
    TD_POST_TANH,
    TD_POST_SWISH,
    TD_POST_GELU_ERF,
    TD_POST_ADD,
    TD_POST_SUB,
    TD_POST_MUL,    /* operand from here on */
    TD_POST_BIAS,   /* y + shift: one float a channel */
    TD_POST_AFFINE, /* y * scale + shift: a float a channel of each, one after the other */
};
/* Channel: one float an element of the last axis. */
enum td_post_operand { TD_POST_SCALAR, TD_POST_CHANNEL, TD_POST_ELEMENT };
struct td_post {
    enum td_post_kind kind;
    enum td_post_operand operand;
    float alpha; /* slope of LEAKY */
};

/* ------------------------------------------------------------------ libraries */

/* Whose arithmetic a row is: what --kernels leaves out. */
enum td_library_kind {
    TD_LIB_REFERENCE, /* ours, plain or the only one: never left out. Rows that say nothing are this */
    TD_LIB_OWN,       /* ours, made for speed */
    TD_LIB_OPENBLAS,
    TD_LIB_DNNL,
    TD_LIB_MODULE, /* a device module's or an op library's */
};
enum td_kernel_choice { TD_KERNELS_FAST, TD_KERNELS_REFERENCE, TD_KERNELS_OPENBLAS };

/* ------------------------------------------------------------------ asking a row */

/* Where a node is to run, and with whose arithmetic. */
struct td_target {
    const struct td_device *device; /* NULL: the host */
    enum td_kernel_choice kernels;
    int64_t trial_ns; /* may be spent on trying rows that compete, for one set of shapes; 0: the first wins */
    struct td_timings *timings; /* where such trials are remembered; NULL: nowhere */
};

struct td_choice;
struct td_kernel_query {
    const struct td_node *node;
    int n_in, n_out;
    const struct td_shape *in, *out; /* known, but for outputs whose size depends on data */
    /* lasting: the constants among the inputs, NULL where not constant; else all inputs of the one run. Host
     * memory. */
    const struct td_tensor *const *value;
    const struct td_post *post; /* epilogues wanted, n_post of them */
    int n_post;
    bool leaves; /* behind these come steps that no row takes: whichever runs, more goes over its result */
    struct td_target target;
    const bool *on_host; /* inputs that stay on the host where the target is a device; NULL: none */
    /* told of rows passed over, for `step`; NULL: nobody asks (core/run/select.h) */
    struct td_select_notes *notes;
    int step;
    /* which of n rows that compete is fastest, the first being the preferred; NULL: it, untried */
    int (*fastest)(const struct td_kernel_query *q, const struct td_choice *rival, int n);
    bool lasting; /* the state will serve many runs; false: it is made within a run, for that alone */
};

struct td_kernel;
struct td_kernel_offer {         /* zeroed before prepare; what it does not set is so */
    const struct td_kernel *row; /* that is asked: set */
    const char *refusal;         /* the row does not serve, and why: a text that stays, such as a literal */
    void *state;                 /* handed to run, freed by release */
    size_t state_bytes;          /* what state holds, packed weights of its own included */
    size_t workspace_bytes;      /* td_call.workspace: 64-byte aligned, uninitialised */
    int n_posts;                 /* the first so many of the wanted epilogues are taken */
    /* of a device's row: bit i: input i may come swapped, its last axis first: [a, .., b] as [b, a, ..]. It
     * does where it is a weight (core/run/device_weights.h), and td_call.swapped says so */
    uint32_t swapped;
    /* what was chosen inside, for reports; part of state, or NULL: the row's name says it */
    const char *name;
};

/* Which dtypes an attribute of kind type (or each of a list(type)) may have for a kernel row. */
struct td_type_rule {
    const char *attr;
    uint32_t set;
};
#define TD_TYPE_RULES 6
enum { TD_TRIAL_MOST = 6 }; /* rows that are tried against each other */
#define TD_KERNEL_MOST 32   /* rows of one op, added ones included (core/graph/op.c sees to it) */

/* Of a device's row whose results are as large as values say: it runs in two parts. `count` finds how large,
 * and leaves so many numbers at td_call.counts, and what it likes in the workspace; they are waited for, and
 * `shapes` makes the outputs' shapes of them; then `run` writes the outputs. Such a row keeps no state, and
 * what it judges, count does. Of the inputs its op's shape function asks for the values of those that stay
 * on the host (td_op.host_in) alone. */
struct td_kernel_sized {
    int (*n_counts)(const struct td_node *n);
    enum td_code (*count)(struct td_call *c, struct td_err *err);
    /* c has the node and its inputs: of those on the device the shapes */
    enum td_code (*shapes)(const struct td_call *c, const int64_t *counts, struct td_shape *out,
                           struct td_err *err);
};

struct td_kernel {
    const char *name; /* "matmul.dnnl", "matmul.reference" */
    enum td_device_kind device;
    struct td_type_rule types[TD_TYPE_RULES]; /* unused rules zeroed; an attribute without a rule takes all */
    enum td_library_kind library;
    bool competes; /* with its neighbours that say so too: which is faster is worth trying */
    bool draws; /* of a device's row: run knows td_call.drawn, so that it may be recorded though it draws */
    bool hands_on; /* output 0 is input 0's bytes, of whatever shapes: on a device nothing is queued for it */
    /* of a device's row: bit i: what input i holds may be refused, by td_call.fault */
    uint32_t judged;
    uint32_t there; /* bit i: input i is read on the device, though the op says that it is on the host */
    /* NULL, or a reason why this row does not serve this node */
    const char *(*refuse)(const struct td_node *n);
    enum td_code (*prepare)(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err);
    void (*release)(void *state); /* of a state that is not NULL; NULL: nothing to free */
    enum td_code (*run)(struct td_call *c, struct td_err *err);
    const struct td_kernel_sized *sized; /* NULL: sizes are known before it runs */
};

#endif
