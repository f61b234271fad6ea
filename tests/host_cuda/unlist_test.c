/* tests/host_cuda/unlist_test.c - loops that are the steps of a cell, of models with a GPU: which have
 * tensors for lists (core/compile/pass_unlist.c), that they run there, and give what they give on the host,
 * recorded and not; and what is left to the loop with lists.
 *
 * The loop: s [steps, 2, 3] made of x; w and u are made of y, h and c [h_rows, units] of a number in the
 * text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/model.h"
#include "kernels/cuda/base/device.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define LIST "{element_dtype:type=float; shape_type:type=int32} "
#define VARIABLES "i:int32, l:variant, w:float, u:float, h:float, c:float, r:variant"

enum { UNITS = 5, GATES = 4, MOST_STEPS = 4 };

#define LSTM                                                                                                 \
    "k = AddV2 {T:type=int32} (i, int32[] 1)\n"                                                              \
    "e = TensorListGetItem {element_dtype:type=float; Tshape:type=int32} (l, i, int32[2] -1 3)\n"            \
    "p = MatMul {T:type=float} (e:item:0, w)\nq = MatMul {T:type=float} (h, u)\na = AddV2 " T                \
    "(p:product:0, q:product:0)\n"                                                                           \
    "s = Split {num_split:int=4; T:type=float} (int32[] 1, a:z:0)\nsi = Sigmoid " T                          \
    "(s:output:0)\nsf = Sigmoid " T "(s:output:1)\nsg = Tanh " T "(s:output:2)\nso = Sigmoid " T             \
    "(s:output:3)\nfc = Mul " T "(sf:y:0, c)\nig = Mul " T "(si:y:0, sg:y:0)\nd = AddV2 " T                  \
    "(fc:z:0, ig:z:0)\ntd = Tanh " T "(d:z:0)\nh2 = Mul " T "(so:y:0, td:y:0)\n"                             \
    "o = TensorListSetItem {element_dtype:type=float} (r, i, h2:z:0)"                                        \
    " ] (k:z:0, l, w, u, h2:z:0, d:z:0, o:output_handle:0)"

/* How a graph differs from the usual one. */
struct how {
    int rounds, h_rows;
    const char *shape; /* of the list's elements: what was reserved, and what is stacked */
    const char *read;  /* `all` of the list n:6 */
    bool is_target;    /* the loop is to run, whoever reads it */
};
static const char stacked[] = "TensorListStack {element_dtype:type=float; num_elements:int=-1} (n:6, ";

static const char *loop(const struct how *how)
{
    static char text[20000], read[400];
    (void)snprintf(read, sizeof read, "%s%s", how->read != NULL ? how->read : stacked,
                   how->read != NULL ? "" : how->shape);
    (void)snprintf(
        text, sizeof text,
        "@go (" VARIABLES ") -> (b:bool) = [ b = Less {T:type=int32} (i, int32[] %d) ] (b:z:0)\n"
        "@body (" VARIABLES
        ") -> (j:int32, m:variant, v:float, t:float, g:float, d:float, y:variant) = [ %s\n" X
        "y = " PLACEHOLDER "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] -1 2 3)\n"
        "l = TensorListFromTensor " LIST "(s, int32[2] 2 3)\n"
        "wf = Slice {T:type=float; Index:type=int32} (y, int32[2] 0 0, int32[2] 3 %d)\n"
        "uf = Slice {T:type=float; Index:type=int32} (y, int32[2] 3 0, int32[2] %d %d)\n"
        "sh = Shape {T:type=float; out_type:type=int32} (s)\n"
        "num = StridedSlice {T:type=int32; Index:type=int32; shrink_axis_mask:int=1} (sh, int32[1] 0, "
        "int32[1] 1, int32[1] 1)\n"
        "res = TensorListReserve " LIST "(%s, num)\n"
        "h0 = Fill {T:type=float; index_type:type=int32} (int32[2] %d %d, float[] 0.25)\n"
        "n = While {T:list(type)=[int32,variant,float,float,float,float,variant]; cond:string='@go'; "
        "body:string='@body'} (int32[] 0, l, wf, uf, h0, h0, res)\n"
        "al = %s)\nf1 = Reshape {T:type=float; Tshape:type=int32} (al, int32[1] -1)\n"
        "f2 = Reshape {T:type=float; Tshape:type=int32} (n:4, int32[1] -1)\n"
        "f3 = Reshape {T:type=float; Tshape:type=int32} (n:5, int32[1] -1)\n"
        "r = ConcatV2 {N:int=3; T:type=float; Tidx:type=int32} (f1, f2, f3, int32[] 0)\n",
        how->rounds, LSTM, GATES * UNITS, UNITS, GATES * UNITS, how->shape, how->h_rows, UNITS, read);
    return text;
}

/* ------------------------------------------------------------------ with a device, and without */

struct there {
    struct passed t;
    struct td_device *device;
    struct td_model *m;
};

static void open(struct there *d, const char *text, bool on_device)
{
    *d = (struct there){.device = NULL};
    passed_open_with(&d->t, on_device ? device_ops() : passed_ops(), text, "r");
    if (on_device) {
        CHECK_INT(td_cuda_device_open(&(struct td_device_opts){.graph_run = 2}, &d->device, &d->t.err),
                  TD_OK);
    }
    const struct td_model_opts opts = {.ops = d->t.ops, .device = d->device};
    CHECK_INT(td_model_new(&opts, NULL, &d->t.g.graph, &d->t.g.lib, &d->m, &d->t.err), TD_OK);
}

static void close_there(struct there *d)
{
    td_model_unref(d->m);
    passed_close(&d->t);
    td_cuda_device_close(d->device);
}

/* How many nodes of the op the compiler has made. */
static void has(const struct how *how, const char *op, int want)
{
    struct there d;
    open(&d, loop(how), true);
    struct td_node *n_loop = td_graph_find(&d.t.g.graph, "n", 1);
    d.t.how.targets = &n_loop;
    d.t.how.n_targets = how->is_target;
    CHECK_INT(td_ir_build(&d.t.ir, d.t.g.arena, &d.t.g.graph, &d.t.g.lib, &d.t.how, TD_IR_INLINE, &d.t.err),
              TD_OK);
    CHECK_INT(td_ir_check_types(&d.t.ir, &d.t.err), TD_OK);
    CHECK_INT(td_rewrite_run(&d.t.ir, d.m, "", &d.t.err), TD_OK);
    int n = 0;
    for (int k = 0; k < d.t.ir.n_nodes; k++) {
        const struct td_op *of = d.t.ir.nodes[k]->op;
        n += of != NULL && strcmp(of->name, op) == 0;
    }
    CHECK_INT(n, want);
    close_there(&d);
}

/* The result, after some runs; none where there is an error, which *rc is. Counts what the device did. */
static struct td_tensor run(const struct how *how, bool on_device, enum td_code *rc,
                            struct td_device_counts *counts)
{
    struct there d;
    struct td_callable *f;
    struct td_tensor out = {0};
    const struct td_shape x = td_shape_vector((int64_t)MOST_STEPS * 6),
                          y = td_shape_matrix(3 + UNITS, (int64_t)GATES * UNITS);
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, 0.5f, -0.0625f)};
    open(&d, loop(how), on_device);
    CHECK_INT(td_callable_new(d.m, &d.t.how, &f, &d.t.err), TD_OK);
    *rc = TD_OK;
    for (int k = 0; k < 4 && *rc == TD_OK; k++) { /* the second is recorded */
        td_tensor_clear(&out);
        *rc = td_callable_run(f, in, &out, NULL, &d.t.err);
    }
    if (on_device) {
        td_cuda_device_count(d.device, counts);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    close_there(&d);
    return out;
}

static struct td_device_counts same_as_on_the_host(const struct how *how)
{
    struct td_device_counts counts = {0};
    enum td_code here, there;
    struct td_tensor want = run(how, false, &here, NULL), got = run(how, true, &there, &counts);
    CHECK_INT(there, here);
    CHECK(td_shape_equal(&want.shape, &got.shape));
    for (int64_t i = 0; here == TD_OK && i < td_tensor_count(&want); i++) {
        const float a = TD_DATA(&want, float)[i], b = TD_DATA(&got, float)[i];
        CHECK(fabsf(a - b) <= 1e-5f * (1 + fabsf(a)));
    }
    td_tensor_clear(&want);
    td_tensor_clear(&got);
    return counts;
}

/* ------------------------------------------------------------------ cases */

static const char known[] = "int32[2] 2 5", unknown[] = "int32[2] -1 5", nothing[] = "int32[] -1";

TEST(a_loop_runs_there_as_a_whole)
{
    const char *const shapes[] = {known, unknown, nothing};
    for (int k = 0; k < 3; k++) {
        const struct how how = {.rounds = MOST_STEPS, .h_rows = 2, .shape = shapes[k]};
        has(&how, "_RecurrenceTensors", 1);
        has(&how, "_Recurrence", 0);
        has(&how, "TensorListFromTensor", 0);
        has(&how, "TensorListStack", 0);
        const struct td_device_counts c = same_as_on_the_host(&how);
        CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], 4); /* an answer a run: nothing else comes back */
        CHECK(c.graph_launches >= 2);                       /* recorded, all of it */
    }
}

TEST(a_loop_that_is_to_run_by_itself_runs_once)
{
    const struct how how = {.rounds = MOST_STEPS, .h_rows = 2, .shape = known, .is_target = true};
    has(&how, "_RecurrenceTensors", 1);
    has(&how, "_Recurrence", 0);
}

TEST(fewer_steps_leave_zeros)
{
    same_as_on_the_host(&(struct how){.rounds = 3, .h_rows = 2, .shape = known});
    same_as_on_the_host(&(struct how){.rounds = 1, .h_rows = 2, .shape = known});
    same_as_on_the_host(&(struct how){.rounds = 0, .h_rows = 2, .shape = known});
}

/* Nothing tells the shape of what was never set; elements end before the loop does. */
TEST(what_is_an_error_is_one_there)
{
    same_as_on_the_host(&(struct how){.rounds = 0, .h_rows = 2, .shape = unknown});
    same_as_on_the_host(&(struct how){.rounds = MOST_STEPS + 1, .h_rows = 2, .shape = known});
    same_as_on_the_host(&(struct how){.rounds = MOST_STEPS, .h_rows = 2, .shape = "int32[2] 2 6"});
}

/* One row of h for the two of x: it grows in the first round, as no cell's does. */
TEST(shapes_that_are_no_cells_are_left_to_the_loop)
{
    const struct how how = {.rounds = MOST_STEPS, .h_rows = 1, .shape = known};
    has(&how, "_RecurrenceTensors", 1);
    same_as_on_the_host(&how);
}

TEST(a_list_that_is_read_as_such_stays)
{
    const struct how how = {
        .rounds = MOST_STEPS,
        .h_rows = 2,
        .shape = known,
        .read =
            "TensorListGetItem {element_dtype:type=float; Tshape:type=int32} (n:6, int32[] 1, int32[2] 2 5"};
    has(&how, "_RecurrenceTensors", 0);
    has(&how, "_Recurrence", 1);
    same_as_on_the_host(&how);
}

TEST_MAIN(RUN(a_loop_runs_there_as_a_whole) RUN(a_loop_that_is_to_run_by_itself_runs_once)
              RUN(fewer_steps_leave_zeros) RUN(what_is_an_error_is_one_there)
                  RUN(shapes_that_are_no_cells_are_left_to_the_loop) RUN(a_list_that_is_read_as_such_stays))
