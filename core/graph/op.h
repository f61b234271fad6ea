/* core/graph/op.h - what an op is, and what its functions see.
 *
 * An op is one row of a const table (struct td_op): its signature in TensorFlow's terms, its flags, its shape
 * function, its kernels in order of preference, and its gradient. Family files in kernels/ each export one
 * such table; kernels/ops.def lists the families; the engine is given them all and knows no op by name.
 *
 * Signature text:  "(a:T, b:T) -> (product:T) {T:type; transpose_a:bool=false; transpose_b:bool=false}"
 *   argument types: a dtype name (int32), a type attribute (T), a list of types (values:Tin where
 *   Tin:list(type)), a repetition (inputs:N*T, x:N*int64), a reference (ref:Ref(T)).
 *   attributes: string int float bool type shape tensor func, list(...) of these; "=default" where the OpDef
 *   has one (strings in single quotes with \n \t \\ \' escapes, lists in brackets, type names bare); "in
 *   ['SAME','VALID']" for strings.
 *
 * Shape functions and kernels: ONE place computes an op's output shapes. `infer` is called when a plan is
 * bound to input shapes, with the shapes known then (dims may be -1, ranks unknown) and with those input
 * values that are known; and again just before `run` whenever some output shape was still unknown, now with
 * every shape and value. It must therefore answer unknown where it cannot tell yet and must check ranks,
 * sizes and values where it can: a model file is hostile. A kernel may rely on everything infer checks with
 * full knowledge. An op whose output shape depends on data beyond what infer can reach (Where, Unique)
 * leaves that output unknown; its kernel then passes a shape to td_out.
 *
 * Kernels allocate nothing but outputs (td_out) and scratch (td_scratch), check data-dependent indices, and
 * look at td_stopped in long loops. They may run on several threads at once, so they keep no state but what
 * `prepare` made (immutable after, or guarded by itself) and the resources they are handed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_OP_H
#define TD_CORE_GRAPH_OP_H

#include "core/graph/attr.h"
#include "core/graph/kernel.h"
#include "core/base/tensor.h"

struct td_arena;
struct td_node;
struct td_run;
struct td_thread_pool;
struct td_grad;
struct td_vectorize;
struct td_grad_formulas;  /* core/grad/grad.h, both */
struct td_batchable_rule; /* core/batchable/batchable_rule.h */
struct td_emitter;        /* core/graph/emit.h */
struct td_stage;          /* kernels/fused/fused_stage.h */
struct td_permute_rule;   /* core/compile/permute.h */

/* An output of a node, which is what edges carry. */
struct td_value {
    struct td_node *node;
    int port;
};

/* ------------------------------------------------------------------ shape inference */

struct td_infer {
    const struct td_node *node;
    int n_in, n_out;
    const struct td_shape *in;            /* rank -1 / dim -1 where unknown */
    const struct td_tensor *const *value; /* value[i] is NULL while input i is not known; host memory */
    struct td_shape *out;                 /* unknown rank on entry; infer fills in what it can tell */
};
typedef enum td_code td_infer_fn(struct td_infer *c, struct td_err *err);

/* Ready-made shape functions (core/graph/shape_infer.c). */
td_infer_fn td_infer_same;      /* out[0] = in[0] */
td_infer_fn td_infer_broadcast; /* out[0] = broadcast of in[0] and in[1] */
td_infer_fn td_infer_scalar;    /* every output is a scalar */
td_infer_fn td_infer_merge_all; /* all inputs compatible; out[0] = their merge (AddN) */

/* Whether it is one of these: they ask for no input's value. */
bool td_infer_is_by_shapes(td_infer_fn *fn);

/* Checks for shape functions: INVALID_ARGUMENT naming the node, the input's name and shape, when the rank is
 * known and not `rank` / below `rank`. */
TD_MUST enum td_code td_infer_rank(const struct td_infer *c, int i, int rank, struct td_err *err);
TD_MUST enum td_code td_infer_min_rank(const struct td_infer *c, int i, int rank, struct td_err *err);
/* The shape that input i (a vector of int32/int64, -1 allowed when `partial`) spells: unknown dims while its
 * value is unknown (rank from its length when that is known). A scalar -1 with `partial` is an unknown
 * rank. */
TD_MUST enum td_code td_infer_shape_value(const struct td_infer *c, int i, bool partial, struct td_shape *out,
                                          struct td_err *err);
/* Integer scalar (or one-element vector) value of input i: *known false while unknown. */
TD_MUST enum td_code td_infer_int_value(const struct td_infer *c, int i, bool *known, int64_t *v,
                                        struct td_err *err);
/* *out = [n] and the axes of data from `used` on. INVALID_ARGUMENT past TD_MAX_RANK. */
TD_MUST enum td_code td_infer_rows(const struct td_node *node, const struct td_shape *data, int used,
                                   int64_t n, struct td_shape *out, struct td_err *err);

/* ------------------------------------------------------------------ a kernel call */

enum { TD_DRAWN_BYTES = 32 };
struct td_call {
    const struct td_node *node;
    int n_in, n_out;
    const struct td_tensor *const *in; /* borrowed for the call */
    const void *state;                 /* what the row's prepare made (core/graph/kernel.h) */
    void *workspace;                   /* as many bytes as it asked for; garbage; the call's alone */
    struct td_stream *stream;          /* of a device's kernel: where its work is queued; NULL: the host's */
    int32_t *fault;   /* on the device: 1 there refuses what is in the inputs that its row judges */
    int64_t *counts;  /* on the device: of a row's first part (struct td_kernel_sized) */
    uint32_t swapped; /* bit i: input i came so (struct td_kernel_offer); its shape is as ever */
    /* Of a row that draws: NULL: it draws, and launches. Without a stream: it draws alone, and puts here, on
     * the host, what a launch is to know of that, TD_DRAWN_BYTES at most. Else: on the device, that. */
    void *drawn;
    const float *const *post_in;    /* operands of the posts that prepare took, by post; NULL: none */
    const struct td_shape *seen_as; /* td_out shows output 0 under this shape (same count); NULL: its own */
    struct td_run *run;             /* opaque: stop word, resources, functions, printing (below) */
    void *step;                     /* the executor's */
};

/* Output i with the inferred shape (shape NULL) or the given one; *out is borrowed, its data ready to be
 * written (uninitialised; objects NULL). Call once an output. */
TD_MUST enum td_code td_out(struct td_call *c, int i, const struct td_shape *shape, struct td_tensor **out,
                            struct td_err *err);
/* Output i as the kernel left it: for kernels that run another one first. Borrowed. */
struct td_tensor *td_out_made(struct td_call *c, int i);
/* Output i, a scalar, holds the object, whose reference is taken (dropped on an error). */
TD_MUST enum td_code td_out_obj(struct td_call *c, int i, struct td_obj *takes, struct td_err *err);
/* Output i takes over *t (its reference), which is zeroed. Of an op flagged TD_OP_ANYWHERE it may lie on the
 * run's device, when it is held there (core/run/device_run.h). */
void td_out_move(struct td_call *c, int i, struct td_tensor *t);
/* Output i is input j's bytes under `shape` (NULL: its own) and its own dtype. Same element count. Of an op
 * flagged TD_OP_VIEW only (output 0 from input 0). */
TD_MUST enum td_code td_out_view(struct td_call *c, int i, int j, const struct td_shape *shape,
                                 struct td_err *err);
/* An owned reference to input i that may outlive the call (copies planned bytes; those on a device are held
 * for the run, and stay as they are). */
TD_MUST enum td_code td_keep(struct td_call *c, int i, struct td_tensor *out, struct td_err *err);
/* Like td_keep, but writable: takes input i's bytes over when this call is their last use, else copies
 * them. */
TD_MUST enum td_code td_take(struct td_call *c, int i, struct td_tensor *out, struct td_err *err);
/* Uninitialised bytes, 64-byte aligned, until the call returns: where their number depends on data. What
 * follows from shapes is asked for by prepare and planned with the run's memory. */
TD_MUST enum td_code td_scratch(struct td_call *c, size_t bytes, void **out, struct td_err *err);
/* Threads that may help with this call (core/base/thread_pool.h); NULL: none, or the run is watched. */
struct td_thread_pool *td_helpers(const struct td_call *c);
/* True once the run shall end (deadline, cancellation, shutdown): return td_stop_error. Cheap: one atomic
 * load. */
bool td_stopped(const struct td_call *c);
enum td_code td_stop_error(const struct td_call *c, struct td_err *err);

/* Whether somebody is shown each value of the run as it is made: nodes inside of others are to run by
 * themselves. */
bool td_watched(const struct td_call *c);
/* Runs the loop of a node of role RECURRENCE round by round (core/compile/loop.c). */
TD_MUST enum td_code td_run_loop(struct td_call *c, struct td_err *err);
/* Runs the node, with lists, that one of role RECURRENCE_TENSORS stands for, of these inputs (borrowed);
 * out[i] is the caller's. */
TD_MUST enum td_code td_run_listed(struct td_call *c, const struct td_tensor *const *in,
                                   struct td_tensor *out, struct td_err *err);

/* Runs the function that attribute `attr` (kind func; element i of a list) names, with n_in inputs (borrowed)
 * and n_out outputs (returned new in out[], to be cleared by the caller, also none on failure). */
struct td_function_values {
    const struct td_tensor *const *in;
    int n_in, n_out;
    struct td_tensor *out;
    /* in[i] is &gives[i]: the function may keep them and write into them. Those it took over are zeroed, also
     * on failure. NULL: they are borrowed. */
    struct td_tensor *gives;
    bool anywhere; /* of an op flagged TD_OP_ANYWHERE: in and out may lie on the run's device */
};
TD_MUST enum td_code td_call_function(struct td_call *c, const char *attr, int i,
                                      const struct td_function_values *v, struct td_err *err);

/* The resource of (type, container, name) of this model version: returned borrowed. Created by create(arg),
 * which returns new, when it does not exist and create is given; NOT_FOUND when create is NULL. */
typedef enum td_code td_resource_create_fn(const void *arg, struct td_obj **out, struct td_err *err);
struct td_resource_key {
    const struct td_obj_type *type;
    const char *container, *name;
};
TD_MUST enum td_code td_resource_get(struct td_call *c, const struct td_resource_key *key,
                                     td_resource_create_fn *create, const void *arg, struct td_obj **out,
                                     struct td_err *err);
TD_MUST enum td_code td_resource_delete(struct td_call *c, const struct td_obj_type *type, struct td_obj *o,
                                        struct td_err *err);
/* Resource input i, checked to be of `type`; borrowed. INVALID_ARGUMENT names node, expected and found
 * type. */
TD_MUST enum td_code td_in_resource(const struct td_call *c, int i, const struct td_obj_type *type,
                                    struct td_obj **out, struct td_err *err);
/* State of this node in this model version (random counters, print counts): `bytes` zeroed bytes, the same at
 * every call, and *lock guarding them. */
TD_MUST enum td_code td_node_state(struct td_call *c, size_t bytes, void **state, void **lock,
                                   struct td_err *err);
void td_state_lock(void *lock);
void td_state_unlock(void *lock);

/* Text printed by Print / PrintV2: to the log (rate-limited) and into a debug answer. stream: "stderr",
 * "stdout", "log(info)".. */
void td_print(struct td_call *c, const char *stream, const char *text, size_t len);

/* Maps a path that the graph names to the file that may be touched: the model's own directory (reading), or
 * the version's scratch directory below --state_dir (reading and writing). Result in buf.
 * PERMISSION_DENIED names the path. */
TD_MUST enum td_code td_file_path(struct td_call *c, const char *path, size_t len, bool write, char *buf,
                                  size_t buf_bytes, struct td_err *err);
/* The folder beneath which a path from td_file_path is opened (core/base/beneath.h). Lives as long as the
 * model. */
const char *td_file_root(const struct td_call *c, const char *resolved);

/* What the model's scratch files are taken from (core/base/disk.h): entered while one is written. */
struct td_disk *td_file_disk(const struct td_call *c);

/* ------------------------------------------------------------------ the table */

enum td_op_flags {
    /* OpDef.is_stateful: never folded, merged or pruned while a control edge keeps it */
    TD_OP_STATEFUL = 1 << 0,
    TD_OP_VIEW = 1 << 1,  /* output 0 may share input 0's bytes (td_out_view) */
    TD_OP_KEEPS = 1 << 2, /* inputs may outlive the call (td_keep): they get buffers of their own */
    /* output 0 may overwrite an input of equal size: element i reads only elements i */
    TD_OP_ELEMENTWISE = 1 << 3,
    /* makes a resource handle, the same at every run: evaluated once, when compiled */
    TD_OP_HANDLE = 1 << 4,
    TD_OP_IDENTITY = 1 << 5,    /* output i is input i: removed by the compiler */
    TD_OP_NO_FOLD = 1 << 6,     /* pure, but not evaluated at compile time */
    TD_OP_COMMUTATIVE = 1 << 7, /* inputs 0 and 1 may be swapped */
    TD_OP_CALL = 1 << 8,        /* calls attribute "f" with all inputs: inlined */
    TD_OP_CONST = 1 << 9,       /* the value is attribute "value" */
    TD_OP_ARG = 1 << 10,        /* fed: Placeholder, function arguments */
    /* known, and refused: runs code or touches files outside the model (doc says why) */
    TD_OP_REFUSED = 1 << 11,
    TD_OP_DEAD_OK = 1 << 12, /* runs with dead inputs (Merge) */
    TD_OP_SWITCH = 1 << 13,  /* this and the next four: TensorFlow 1's control flow, op by op */
    TD_OP_ENTER = 1 << 14,
    TD_OP_EXIT = 1 << 15,
    TD_OP_NEXT = 1 << 16,
    TD_OP_LOOP_COND = 1 << 17,
    /* outputs follow from the input shapes alone (Shape, Size, Rank): data may be NULL */
    TD_OP_SHAPE_ONLY = 1 << 18,
    TD_OP_READS = 1 << 19, /* stateful in that it reads state, no more: may run beside others that do */
    TD_OP_FREE = 1 << 20,  /* hands out what there is: its time is nothing */
    TD_OP_HEAVY = 1 << 21, /* much arithmetic an element: products, convolutions, whole images */
    /* sums of products of its float inputs, which may be of another float type (core/grad/mixed.h) */
    TD_OP_PRODUCT = 1 << 22,
    /* stateful in that it draws from a generator of its own, which lies on the host: a device's kernel draws
     * when it is launched */
    TD_OP_DRAWS = 1 << 23,
    /* hands values on as they are, wherever they lie: where its run has a device, inputs of floats may be
     * there (td_tensor.device), for td_keep, and so may what it gives td_out_move */
    TD_OP_ANYWHERE = 1 << 24,
    /* has a result for all values of its float, complex and bool inputs: what it refuses are types, shapes,
     * and what integers say; so do element-wise ops, views and products, which need not say it */
    TD_OP_TOTAL = 1 << 25,
    /* its shape function asks for no input's value; element-wise ops, and those whose shape function is one
     * of core/graph/shape_infer.c's, need not say it */
    TD_OP_BY_SHAPES = 1 << 26,
    TD_OP_CHECKS = 1 << 27, /* stateful in that it may end the run with an error, no more */
    /* moves whole values of the variables that its first inputs are handles of: with TD_OP_READS it reads
     * them, with outputs it takes them, else it assigns input 1. A recording does that around its launch
     * (core/run/stretch.h) */
    TD_OP_VARIABLES = 1 << 28,
};

/* ------------------------------------------------------------------ what the compiler asks of an op
 *
 * Optional knowledge, written where the op is: a row leaves out what does not hold for it. */

/* What may be read in place of output 0 of n, a node of this op with one output and no control inputs: a
 * value equal to it bit for bit, one of n's inputs or made of nodes that e adds (core/graph/emit.h), which
 * has n at hand. No node: n stays. */
typedef struct td_value td_simplify_fn(struct td_emitter *e, const struct td_node *n);

/* n, of a graph that is being loaded, becomes nodes of other ops, itself the last of them (td_emit_again); or
 * it stays as it is, and its kernel says why. (core/graph/expand.h) */
typedef void td_expand_fn(struct td_emitter *e, struct td_node *n);

/* How the fuse pass joins the op with others into one step (core/graph/fused.h). */
struct td_op_fuse {
    /* a float kernel with one output, written whole through td_out: may begin a fused node */
    bool head;
    /* shows input 0 under the shape that input 1 spells: may stand behind a head */
    bool view;
    /* element-wise on floats, inputs broadcast: may follow, and is computed so
     * (kernels/fused/fused_stage.h) */
    const struct td_stage *stage;
    /* of a stage: its inputs but the first are parameters, made outside of the fused node */
    bool first_only;
    /* of a stage: whether this node may not follow; NULL: every one may */
    bool (*refuse)(const struct td_node *n);
};

/* A node of halves may stand in a graph as one of floats (core/compile/pass_half.c). */
enum td_halves {
    TD_HALVES_NOT,   /* unless it is a product or a stage, ROUNDS, or a view, KEEPS */
    TD_HALVES_ROUND, /* it computes in float, and rounds its results to half */
    TD_HALVES_ADD,   /* the same, and adds input 1 to input 0 */
    /* results are elements of the inputs or those with another sign, and which ones does not depend on how
     * they are rounded */
    TD_HALVES_KEEP
};

/* Control flow by functions of the model: what the compiler must know to run one of them in the op's
 * place. */
struct td_op_branch {
    /* The function that n runs on its inputs but the first when that is the integer or bool `value`; NULL:
     * none. */
    const struct td_func_ref *(*taken)(const struct td_node *n, int64_t value);
    /* the attribute that has all of these functions, each taken by its number, and the last by any other;
     * NULL: there are two, by whether the value is zero */
    const char *list;
    /* a loop: the attributes naming the function that must answer true for it to go on, and the one that is
     * run then */
    const char *loop_cond, *loop_body;
};

/* An op that works along the axes of an image in attribute data_format. In a channels-first one it may become
 * the same op channels last between two Transposes (core/compile/channels_last.h), its lists of numbers an
 * axis in the other order. */
struct td_op_channels {
    int data;  /* the input that holds the image */
    int sizes; /* the input that spells the shape of the result; -1: none */
};

/* An op whose windows step over an image, channels last, as far as core/compile/pass_stride.c asks. by[2]:
 * rows and columns. */
struct td_stride_rule {
    /* Whether each pixel of n follows from one pixel of input 0, and how far apart those are. */
    bool (*single)(const struct td_emitter *e, const struct td_node *n, int64_t by[2]);
    /* Whether n can make each by-th row and column alone. */
    bool (*may)(const struct td_emitter *e, const struct td_node *n, const int64_t by[2]);
    /* Has n do so, where input 0 has each given-th pixel of what it had; {1, 1} unless n is `single`. */
    void (*set)(struct td_emitter *e, struct td_node *n, const int64_t by[2], const int64_t given[2]);
    /* Each by-th row and column of any image. */
    struct td_value (*thin)(struct td_emitter *e, struct td_value image, const int64_t by[2]);
};

/* Output 0 of n for many values of its first input at once: `all` holds them along one more axis in front,
 * `in` the others, which are the same for all of them. No node: not of this n. (core/compile/pass_hoist.c) */
typedef struct td_value td_over_slices_fn(struct td_emitter *e, const struct td_node *n, struct td_value all,
                                          const struct td_value *in);

/* Output 0 of n, whose first input is several values side by side, as the sum of what n makes of each of them
 * alone. No node: not of this n. (core/compile/pass_hoist.c) */
typedef struct td_value td_apart_fn(struct td_emitter *e, const struct td_node *n);

/* An op on arrays that live behind a handle (input 0) and change in place, ordered by a value that is handed
 * from op to op (its last input): how the same is done with a list, which is a value itself
 * (core/compile/array_lists.h). */
struct td_array_rule {
    enum { TD_ARRAY_NEW, TD_ARRAY_READ, TD_ARRAY_WRITE, TD_ARRAY_FILL, TD_ARRAY_ASK } kind;
    /* Whether n, of an array that `array` makes, can be done with a list. */
    bool (*fits)(const struct td_node *n, const struct td_node *array);
    /* That: the list it leaves (NEW, WRITE, FILL), or its output 0. */
    struct td_value (*as_list)(struct td_emitter *e, const struct td_node *n, const struct td_node *array,
                               struct td_value list);
};

/* A loop over functions (core/compile/loop.h) as a rule sees it: the graphs of its condition and its body,
 * which have no effects but that they read. */
struct td_loop_view {
    int n_vars, n_in;                               /* inputs: the variables, then what stays as it is */
    const struct td_value *cond_feeds, *body_feeds; /* n_in of each */
    const struct td_value *body_fetches;            /* n_vars */
    struct td_value cond;
    /* The number of the loop's input that v, of the body, is in every round: one more, when none is so yet.
     * -1: it differs from round to round, or that is not known. */
    int (*steady)(void *loop, struct td_value v);
    void *loop;
};
/* Whether the op can run such a loop as a whole: how many attributes its node then has, which are put into
 * attrs (room for TD_LOOP_ATTRS; what they point to lies in the arena), or 0. Its kernel may still leave a
 * run to td_run_loop. */
enum { TD_LOOP_ATTRS = 4 };
typedef int td_loop_rule_fn(struct td_arena *arena, const struct td_loop_view *v, struct td_attr *attrs);

enum { TD_READERS_MANY = 1000 };
/* What a rule sees that looks for nodes which one node of its op can stand for. */
struct td_readers {
    /* The one node that reads n's only output, once; NULL: more do, or the value must exist for itself. Those
     * that read its shape alone do not count. */
    const struct td_node *(*only)(const struct td_readers *r, const struct td_node *n);
    /* How many inputs of others n's only output is, those apart; TD_READERS_MANY: more than anybody wants to
     * know, or the value must exist for itself. */
    int (*count)(const struct td_readers *r, const struct td_node *n);
    /* The i-th of those; NULL: there are no more. */
    struct td_node *(*asker)(const struct td_readers *r, const struct td_node *n, int i);
    bool there; /* the nodes, and so the new one, run on the model's device */
};
/* Whether n, with nodes before and behind it that nobody else reads, comes to what the op computes: then a
 * new node of the op, made by e, and in *last the node whose output it is read in place of. No node: it does
 * not. (core/compile/groups.h) */
typedef struct td_value td_group_rule_fn(struct td_emitter *e, const struct td_readers *r,
                                         const struct td_node *n, const struct td_node **last);

/* Who reads an output of a node: stacks, nodes of role LIST_STACK of which it is the list, and others. */
enum { TD_OUTPUT_STACKS = 4 };
struct td_output_use {
    bool read; /* by others, or it is fetched */
    int n_stacks;
    const struct td_node *stack[TD_OUTPUT_STACKS];
};
/* A node of the op, made by e, that can stand for n, of role RECURRENCE, and has tensors where n has lists;
 * to[o]: what is read in place of each output that is, or of its stacks. NULL: there is none.
 * (core/compile/pass_unlist.c) */
typedef struct td_node *td_unlist_fn(struct td_emitter *e, const struct td_node *n,
                                     const struct td_output_use *use, struct td_value *to);

/* n, which changes variables where they are, becomes nodes that read them, compute what they become, and
 * assign them, itself the last of those; or stays as it is. What is added has no control edges yet.
 * (core/compile/pass_update.c) */
typedef void td_update_fn(struct td_emitter *e, struct td_node *n);

/* Ops that core makes nodes of, or treats by themselves. One row of the table each at most. */
enum td_op_role {
    TD_ROLE_NONE,
    TD_ROLE_ARG,                /* an argument of a function: attributes T and index */
    TD_ROLE_TRANSPOSE,          /* (x, perm) -> axis i of the result is axis perm[i] of x */
    TD_ROLE_FUSED,              /* a product with the stages behind it */
    TD_ROLE_FUSED_ELEMENTWISE,  /* stages alone */
    TD_ROLE_WHILE,              /* a loop over functions: its row says which attributes name them */
    TD_ROLE_CUSTOM_GRADIENT,    /* (inputs, kept) -> inputs: has a gradient that the file brings along */
    TD_ROLE_CAST,               /* (x) -> x in the dtype that an attribute says */
    TD_ROLE_ROUND_HALF,         /* (x) -> floats that halves have, the next to those of x */
    TD_ROLE_LIST_SLICES,        /* (x, shape) -> a list of the slices of x along axis 0 */
    TD_ROLE_LIST_ITEM,          /* (list, i, shape) -> its element i */
    TD_ROLE_LIST_STACK,         /* (list, shape) -> its elements, along a new axis 0 */
    TD_ROLE_GRADIENT_SEED,      /* (given, target) -> given, of target's shape; its row has the formulas */
    TD_ROLE_RECURRENCE,         /* a loop that is run as a whole: its row says of which ones it can be */
    TD_ROLE_RECURRENCE_TENSORS, /* the same with tensors for its lists: its row says of which ones */
    TD_ROLE_ATTENTION,          /* products with a softmax between: its row says of which nodes it can be */
    TD_ROLE_NORM,               /* rows normalised by their own mean and variance: likewise */
    TD_ROLES
};

struct td_op {
    const char *name;
    const char *sig;
    uint32_t flags;
    enum td_op_role role;
    /* What it does with the rows of a batch (core/batchable/batchable_rule.h). NULL: it may mix them;
     * element-wise ops need say nothing. */
    const struct td_batchable_rule *batchable;
    uint32_t host_in; /* bit i: input ARGUMENT i (of the signature) stays in host memory on any device */
    uint32_t host_out;
    uint32_t unjudged;  /* bit i: `infer` never asks for input i's value, integers though it has */
    td_infer_fn *infer; /* NULL: outputs are known only when run */
    const struct td_kernel *kernels; /* ends with a row without a name; the plain reference comes last */
    /* what the compiler asks (above); zeroed where nothing of the kind is known */
    td_expand_fn *expand;
    td_simplify_fn *simplify;
    struct td_op_fuse fuse;
    enum td_halves halves; /* its nodes of halves */
    struct td_op_branch branch;
    const struct td_op_channels *channels;
    td_over_slices_fn *over_slices;
    td_apart_fn *apart;
    td_update_fn *update;
    union {                           /* which one, the role says */
        td_loop_rule_fn *loop_rule;   /* TD_ROLE_RECURRENCE */
        td_group_rule_fn *group_rule; /* TD_ROLE_ATTENTION, TD_ROLE_NORM */
        td_unlist_fn *unlist_rule;    /* TD_ROLE_RECURRENCE_TENSORS */
    };
    const struct td_array_rule *array;
    const struct td_stride_rule *stride;
    const struct td_permute_rule *permute; /* NULL: TD_OP_ELEMENTWISE does not care for the order of axes */
    /* core/grad/grad.h; td_not_differentiable: none, as TensorFlow has it; NULL: none is known */
    void (*grad)(struct td_grad *g);
    /* core/grad/vectorize.h; NULL: element-wise, or called a row */
    bool (*vectorize)(struct td_vectorize *v);
    const char *grad_missing;                /* where it could have one, and grad is NULL: why, in words */
    const struct td_grad_formulas *formulas; /* of the row with TD_ROLE_GRADIENT_SEED */
    const char *doc;                         /* for refused ops: the reason, in words */
};

/* The gradient of an op through which none goes, as TensorFlow says: nothing is given to its inputs. */
void td_not_differentiable(struct td_grad *g);

/* Shorthand of a kernel list with one CPU row:  .kernels = TD_KERNEL("Relu", relu_run, {"T",
 * TD_SET_REALS}) */
#define TD_KERNEL(kname, fn, ...)                                                                            \
    (const struct td_kernel[])                                                                               \
    {                                                                                                        \
        {.name = kname, .device = TD_CPU, .types = {__VA_ARGS__}, .run = fn},                                \
        {                                                                                                    \
            .name = NULL                                                                                     \
        }                                                                                                    \
    }

/* ------------------------------------------------------------------ signatures */

struct td_arg_def {
    const char *name;
    enum td_dtype type;      /* fixed type, or TD_DTYPE_NONE */
    const char *type_attr;   /* "T"; NULL */
    const char *number_attr; /* "N" of N*T; NULL */
    const char *list_attr;   /* "Tin" with Tin:list(type); NULL */
    bool is_ref;
};
struct td_attr_def {
    const char *name;
    enum td_attr_kind kind;
    bool is_list, has_default;
    struct td_attr value;     /* the default, when there is one */
    struct td_bytes *allowed; /* strings allowed; NULL: any */
    int n_allowed;
};
struct td_kernel_rows { /* rows that a module added to an op */
    const struct td_kernel_rows *next;
    const struct td_kernel *rows;
    int n;
};
struct td_op_def { /* a parsed signature: of an op, of a function, or of an op only the file knows */
    const char *name;
    const struct td_op *op;             /* NULL for functions and unknown ops */
    const struct td_kernel_rows *added; /* asked before the op's own; NULL: none */
    struct td_arg_def *in, *out;
    int n_in, n_out;
    struct td_attr_def *attrs;
    int n_attrs;
};

struct td_op_table; /* name -> td_op_def */

/* families: a NULL-terminated array of op tables, each ending with a row whose name is NULL. Borrowed for the
 * table's life. INTERNAL when a signature text does not parse or a name occurs twice: our own mistake, named.
 * Returns new. */
TD_MUST enum td_code td_op_table_new(const struct td_op *const *families, struct td_op_table **out,
                                     struct td_err *err);
/* Further rows (of an op library), looked up beside those that are there; borrowed likewise. Before anything
 * uses the table. INTERNAL as above; the table may then only be freed. */
TD_MUST enum td_code td_op_table_add(struct td_op_table *t, const struct td_op *rows, struct td_err *err);
/* Further kernel rows of an op that is there, ending with a row without a name; borrowed likewise. They come
 * before those it has. Before anything uses the table. NOT_FOUND: no such op; INVALID_ARGUMENT: a row without
 * run, or too many. */
TD_MUST enum td_code td_op_table_add_kernels(struct td_op_table *t, const char *op,
                                             const struct td_kernel *rows, struct td_err *err);
void td_op_table_free(struct td_op_table *t);
const struct td_op_def *td_op_find(const struct td_op_table *t, const char *name);
/* NULL: no row has the role. */
const struct td_op_def *td_op_of_role(const struct td_op_table *t, enum td_op_role role);
/* All definitions in alphabetical order. */
const struct td_op_def *const *td_op_list(const struct td_op_table *t, int *n);

#endif
