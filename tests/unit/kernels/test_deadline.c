/* tests/unit/kernels/test_deadline.c - a run ends soon after its deadline, wherever in a large op that falls.
 *
 * Each row is computed once to its end, then stopped after some shares of that time. Times are the process's
 * own, so that what the machine does beside counts for nothing: a timer of processor time sets the stop word.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "tests/unit/core/pass_make.h"

#define T "{T:type=float} "
#define IDX "{T:type=float; Tidx:type=int32} "
/* 4 Mi floats of x's 4,096 in m and, turned, in w. */
#define BIG X "m = Tile {T:type=float; Tmultiples:type=int32} (x, int32[1] 1024)\n"
#define WIDE BIG "w = Reshape {T:type=float; Tshape:type=int32} (m, int32[2] 1024 4096)\n"
#define SPARSE(name, from)                                                                                   \
    "i" name " = Where " T "(" from ")\n" name " = DenseToCSRSparseMatrix " T "(" from ", i" name ")\n"
#define IMAGES BIG "w = Reshape {T:type=float; Tshape:type=int32} (m, int32[4] 4 256 256 16)\n"
#define POOLED "ksize:list(int)=[1,3,3,1]; strides:list(int)=[1,1,1,1]; padding:string='SAME'"

static const char *const rows[] = {
    BIG "r = Neg " T "(m)\n",
    X "r = Fill {T:type=float; index_type:type=int32} (int32[1] 20000000, float[] 2)\n",
    X "b = BroadcastTo {T:type=float; Tidx:type=int32} (x, int32[2] 2048 4096)\nr = Neg " T "(b)\n",
    WIDE "r = Transpose {T:type=float; Tperm:type=int32} (w, int32[2] 1 0)\n",
    WIDE "r = ReverseV2 " IDX "(w, int32[1] 1)\n",
    WIDE "r = Pad {T:type=float; Tpaddings:type=int32} (w, int32[2,2] 7 8 9 10)\n",
    WIDE
    "r = MirrorPad {T:type=float; Tpaddings:type=int32; mode:string='REFLECT'} (w, int32[2,2] 7 8 9 10)\n",
    WIDE "r = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (w, w, int32[] 1)\n",
    WIDE "r = Softmax " T "(w)\n",
    WIDE "r = LogSoftmax " T "(w)\n",
    WIDE "r = BiasAdd " T "(w, x)\n",
    WIDE "r = Cumsum " IDX "(w, int32[] 1)\n",
    WIDE "r = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (w, int32[1] 0)\n",
    WIDE "r = ArgMax {T:type=float; Tidx:type=int32; output_type:type=int64} (w, int32[] 0)\n",
    WIDE "z = Greater " T "(w, float[] 1)\nr = SelectV2 " T "(z, w, x)\n",
    WIDE "r = TopKV2 {T:type=float; sorted:bool=true} (w, int32[] 5)\n",
    X "b = BroadcastTo {T:type=float; Tidx:type=int32} (x, int32[2] 64 4096)\n"
      "s = AsString {T:type=float} (b)\nr = StringLength {} (s)\n",
    BIG "r = Bucketize {T:type=float; boundaries:list(float)=[0,1,2]} (m)\n",
    IMAGES "r = MaxPool {T:type=float; " POOLED "} (w)\n",
    IMAGES "r = AvgPool {T:type=float; " POOLED "} (w)\n",
    IMAGES "r = ResizeBilinear {T:type=float} (w, int32[2] 300 300)\n",
    IMAGES "r = ResizeNearestNeighbor {T:type=float} (w, int32[2] 300 300)\n",
    IMAGES "r = ResizeBicubic {T:type=float} (w, int32[2] 260 260)\n",
    IMAGES "r = LRN {T:type=float} (w)\n",
    IMAGES "r = DepthToSpace {T:type=float; block_size:int=2} (w)\n",
    BIG "r = Where {T:type=float} (m)\n",
    BIG "r = Unique {T:type=float; out_idx:type=int32} (m)\n",
    BIG "r = Erfinv " T "(m)\n",
    X "m = Tile {T:type=float; Tmultiples:type=int32} (x, int32[1] 16)\nw = Reshape {T:type=float; "
      "Tshape:type=int32} (m, int32[2] 256 256)\nr = MatrixExponential " T "(w)\n",
    X "m = Mean {T:type=float; Tidx:type=int32} (x, int32[1] 0)\nr = StatelessParameterizedTruncatedNormal "
      "{S:type=int32; Tseed:type=int32; dtype:type=float} (int32[1] 20000000, int32[2] 1, m, float[] 200, "
      "float[] -300, float[] 900)\n",
    WIDE SPARSE("a", "w") "c = Reshape {T:type=float; Tshape:type=int32} (x, int32[2] 4096 1)\n"
                          "d = BroadcastTo {T:type=float; Tidx:type=int32} (c, int32[2] 4096 64)\n" SPARSE(
                              "b", "d") "p = SparseMatrixSparseMatMul {type:type=float} (a, b)\n"
                                        "r = SparseMatrixNNZ {} (p)\n",
    BIG "c = Cast {SrcT:type=float; DstT:type=complex64} (m)\nr = FFT {Tcomplex:type=complex64} (c)\n",
};

enum {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SOON_MS = 400,
#else
    SOON_MS = 120,
#endif
    SHARES = 6
};

static td_stop word;
static volatile double stopped_ms; /* when, by now_ms */

static double now_ms(void)
{
    struct timespec t;
    CHECK_INT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void stop(int signal)
{
    (void)signal;
    stopped_ms = now_ms();
    atomic_store(&word, TD_DEADLINE_EXCEEDED);
}

static void stop_after(double ms)
{
    const long us = (long)(ms * 1e3) + 1;
    const struct itimerval once = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
    atomic_store(&word, 0);
    stopped_ms = 0;
    CHECK_INT(setitimer(ITIMER_PROF, &once, NULL), 0);
}

/* What the row takes, in ms. */
static double whole(const char *text, struct td_callable *f, const struct td_tensor *in)
{
    struct td_err err = {0};
    struct td_tensor out;
    const double from = now_ms();
    test_check_ok(__FILE__, __LINE__, text, td_callable_run(f, in, &out, NULL, &err), &err);
    td_tensor_clear(&out);
    return now_ms() - from;
}

/* Whether a run that was stopped went on for long. */
static bool goes_on(const char *text, struct td_callable *f, const struct td_tensor *in, double after)
{
    struct td_tensor out = {0};
    struct td_err err = {0};
    const struct td_run_opts opts = {.work.stop = &word};
    stop_after(after);
    const enum td_code rc = td_callable_run(f, in, &out, &opts, &err);
    const double end = now_ms();
    td_tensor_clear(&out);
    if (stopped_ms == 0) {
        return false; /* it was quicker this time */
    }
    const bool bad = end - stopped_ms > SOON_MS || (rc != TD_OK && rc != TD_DEADLINE_EXCEEDED);
    if (bad) {
        fprintf(stderr, "%s: stopped after %.0f ms: %s after %.0f more\n", text, after, td_code_name(rc),
                end - stopped_ms);
    }
    return bad;
}

static int late(const char *text)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    int n = 0;
    struct td_tensor in = ramp(&(struct td_shape){1, {4096}}, -1.5f, 0.25f);
    passed_open(&t, text, "r");
    struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    const double took = whole(text, f, &in);
    for (int k = 1; k < SHARES; k++) {
        n += goes_on(text, f, &in, took * k / SHARES);
    }
    td_tensor_clear(&in);
    td_model_unref(m);
    passed_close(&t);
    return n;
}

TEST(a_run_ends_soon_after_it_is_stopped)
{
    int n = 0;
    CHECK(signal(SIGPROF, stop) != SIG_ERR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        n += late(rows[i]);
    }
    CHECK_INT(n, 0);
}

TEST_MAIN(RUN(a_run_ends_soon_after_it_is_stopped))
