/* tests/host_cuda/conv_weights_test.c - filters that are weights lie on the device as cuDNN wants them
 * (core/run/device_weights.h): what is sent, what is held, and what convolutions with them give, recorded and
 * not, where others read the filter as it is, where it is assigned, and where memory is short.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_weights.h"
#include "tests/host_cuda/there.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++; so is the next */
void host_cuda_fail(int error);

/* x [3,3] as a picture, two convolutions of it with a filter of 4 KiB or less, and what they sum up to. */
#define FLOAT "T:type=float"
#define PICTURE                                                                                              \
    X "p = Reshape {" FLOAT "; Tshape:type=int32} (x, int32[4] 1 -1 1 1)\n"                                  \
      "t = Tile {" FLOAT "; Tmultiples:type=int32} (p, int32[4] 1 1 1 8)\n"
#define FILTER "float[3,3,8,8] 0.5 -0.25 0.125 0.75 -1 0.375 0.25"
#define CONV(name, of, filter)                                                                               \
    name " = Conv2D {" FLOAT "; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (" of ", " filter ")\n"
#define ENDS(of) "m = Neg {" FLOAT "} (" of ")\nr = Exp {" FLOAT "} (m)\n"
enum { FILTER_BYTES = 3 * 3 * 8 * 8 * 4, ILLEGAL_ADDRESS = 700, WAIT_MS = 20 };

static const char *const one_filter =
    PICTURE "w = Identity {" FLOAT "} (" FILTER
            ")\n" CONV("c", "t", "w") "n = Tanh {" FLOAT "} (c)\n" CONV("d", "n", "w") ENDS("d");
static const char *const with_a_sum = PICTURE
    "w = Identity {" FLOAT "} (" FILTER
    ")\n" CONV("c", "t", "w") "k = Range {Tidx:type=float} (float[] -1, "
                              "float[] 1, float[] 0.25)\na = BiasAdd {" FLOAT "} (c, k)\nv = AddV2 {" FLOAT
                              "} (a, t)\ne = Relu {" FLOAT "} (v)\n" CONV("d", "e", "w") ENDS("d");
/* The filter is read as it is, too. */
static const char *const both_ways = PICTURE "w = Identity {" FLOAT "} (" FILTER ")\n" CONV(
    "c", "t",
    "w") "g = Slice {T:type=float; Index:type=int32} (x, int32[2] 0 0, int32[2] 1 1)\nf = Mul {" FLOAT
         "} (w, g)\n"
         "z = Sum {" FLOAT "; Tidx:type=int32} (f, int32[3] 0 1 2)\nu = AddV2 {" FLOAT "} (z, c)\n" ENDS("u");
/* A variable's, assigned in every run. */
#define HANDLE "h = VarHandleOp {dtype:type=float; shape:shape=[3,3,8,8]; shared_name:string='h'} ()\n"
#define READ(name, after) name " = ReadVariableOp {dtype:type=float} (h, ^" after ")\n"
static const char *const assigned = PICTURE HANDLE
    "g = Slice {T:type=float; Index:type=int32} (x, int32[2] 0 0, int32[2] 1 1)\n"
    "f = Mul {" FLOAT "} (g, " FILTER ")\nq = Reshape {" FLOAT "; Tshape:type=int32} (f, int32[4] 3 3 8 8)\n"
    "s = AssignVariableOp {dtype:type=float} (h, q)\n" READ("w", "s") CONV("c", "t", "w") ENDS("c");
/* In the body of a loop that goes round there. */
static const char *const in_a_loop =
    "@go (i:int32, x:float) -> (y:bool) = [ r = Less {T:type=int32} (i, int32[] 3) ] (r:z:0)\n"
    "@body (i:int32, x:float) -> (j:int32, y:float) = [ j = AddV2 {T:type=int32} (i, int32[] 1)\n"
    "c = Conv2D {" FLOAT "; strides:list(int)=[1,1,1,1]; padding:string='SAME'} (x, " FILTER ")\n"
    "t = Tanh {" FLOAT "} (c:output:0) ] (j:z:0, t:y:0)\n" PICTURE
    "l = StatelessWhile {T:list(type)=[int32,float]; cond:string='@go'; body:string='@body'} (int32[] 0, t)\n"
    "r = Neg {" FLOAT "} (l:1)\n";

static const struct td_device_opts stepped = {.pinned = MIB}, at_once = {.pinned = MIB, .graph_run = 1};

static const struct td_tensor *filter_in(const struct td_graph *g)
{
    const struct td_tensor *found = NULL;
    for (int i = 0; i < g->n_nodes && found == NULL; i++) {
        const struct td_tensor *t = td_known_value((struct td_value){g->nodes[i], 0});
        found = t != NULL && t->shape.rank == 4 ? t : NULL;
    }
    return found;
}

/* The filter on the host: a constant of the graph or of a function. */
static const struct td_tensor *filter_of(const struct there *d)
{
    const struct td_tensor *found = filter_in(&d->t.g.graph);
    for (int i = 0; i < d->t.g.lib.n_functions && found == NULL; i++) {
        found = filter_in(&d->t.g.lib.functions[i]->body);
    }
    CHECK(found != NULL);
    return found;
}

/* How many bytes more the model's weights take when the filter is asked for in this way. */
static size_t grows(struct there *d, bool swapped)
{
    struct td_device_weights *w = td_model_device_weights(d->m);
    struct td_tensor there;
    struct td_err err = {0};
    const size_t before = td_device_weights_bytes(w);
    CHECK_OK(td_device_weights_get(w, filter_of(d), swapped, &there, &err));
    td_tensor_clear(&there);
    return td_device_weights_bytes(w) - before;
}

/* After some runs the filter is there, swapped or as it is. */
static void check_there(const char *text, const struct td_device_opts *opts, bool swapped, bool plain)
{
    struct there d;
    struct td_err err = {0};
    (void)same_there(text, &square, opts);
    open_there(&d, text, opts);
    for (int k = 0; k < RUNS; k++) {
        struct td_tensor got = {0};
        CHECK_OK(ask(&d, &square, k, &got, &err));
        td_tensor_clear(&got);
    }
    CHECK_INT((long long)grows(&d, true), swapped ? 0 : FILTER_BYTES);
    CHECK_INT((long long)grows(&d, false), plain ? 0 : FILTER_BYTES);
    (void)close_there(&d);
    CHECK_INT(host_cuda_reports(), 0);
}

TEST(a_filter_lies_there_once_as_the_library_wants_it)
{
    check_there(one_filter, &stepped, true, false);
    check_there(one_filter, &at_once, true, false);
    check_there(one_filter, &recorded, true, false);
    check_there(with_a_sum, &stepped, true, false);
    check_there(with_a_sum, &recorded, true, false);
    check_there(in_a_loop, &at_once, true, false);
}

TEST(who_reads_it_as_it_is_finds_it_so)
{
    check_there(both_ways, &stepped, true, true);
    check_there(both_ways, &recorded, true, true);
}

TEST(a_filter_that_is_assigned_is_the_new_one)
{
    (void)same_there(assigned, &square, &stepped);
    (void)same_there(assigned, &square, &at_once);
    (void)same_there(assigned, &square, &recorded);
    CHECK_INT(host_cuda_reports(), 0);
}

TEST(several_streams_share_it)
{
    runs_at_once(one_filter);
    runs_at_once(both_ways);
    CHECK_INT(host_cuda_reports(), 0);
}

/* With trimming: a copy is dropped where memory is short, and swapped again. */
TEST(where_memory_is_short_it_is_dropped)
{
    struct there d;
    struct td_err err = {0};
    struct td_tensor want, got;
    open_there(&d, one_filter, &recorded);
    for (int k = 0; k < RUNS; k++) {
        CHECK_OK(ask(&d, &square, 0, k == 0 ? &want : &got, &err));
        if (k > 0) {
            check_same(&want, &got);
            td_tensor_clear(&got);
        }
        (void)td_device_graphs_trim(d.device);
        CHECK(td_device_weights_trim(d.device) >= FILTER_BYTES);
        CHECK_INT((long long)td_device_weights_bytes(td_model_device_weights(d.m)), 0);
    }
    td_tensor_clear(&want);
    (void)close_there(&d);
    finds_no_room(one_filter, 64 << 10, 512 << 10);
}

/* The device's next piece of work fails for good; then it gets another context. */
static void lose_and_restart(struct there *d)
{
    struct td_err err = {0};
    struct td_tensor got = {0};
    host_cuda_fail(ILLEGAL_ADDRESS);
    CHECK_INT(ask(d, &square, 0, &got, &err), TD_UNAVAILABLE);
    err = (struct td_err){0};
    CHECK_OK(td_cuda_device_restart(d->device, WAIT_MS, &err));
}

TEST(a_device_that_was_lost_gets_it_again)
{
    enum { MOST_NUMBERS = 128 };
    struct there d;
    struct td_err err = {0};
    float want[MOST_NUMBERS];
    open_there(&d, one_filter, &recorded);
    for (int k = 0; k < 2 * RUNS; k++) {
        struct td_tensor got = {0};
        CHECK_OK(ask(&d, &square, 0, &got, &err));
        CHECK(td_tensor_bytes(&got) > 0 && td_tensor_bytes(&got) <= sizeof want);
        if (k == 0) {
            memcpy(want, got.data, td_tensor_bytes(&got));
        }
        CHECK_INT(memcmp(want, got.data, td_tensor_bytes(&got)), 0);
        td_tensor_clear(&got); /* which is pinned */
        if (k % RUNS == RUNS - 1) {
            lose_and_restart(&d);
        }
    }
    (void)close_there(&d);
    CHECK_INT(host_cuda_reports(), 0);
}

/* ------------------------------------------------------------------ an input that begins anywhere */

static const char *const direct =
    X "w = Identity {" FLOAT "} (" FILTER ")\n" CONV("c", "x", "w") "r = Relu {" FLOAT "} (c)\n";

/* The same numbers on the device, one float behind where an allocation begins. */
static struct td_tensor odd_one(struct there *d, const struct td_tensor *here)
{
    const struct td_device *on = d->device;
    const size_t bytes = td_tensor_bytes(here);
    struct td_stream *stream;
    struct td_event *event;
    struct td_buffer *b;
    struct td_err err = {0};
    CHECK_OK(on->stream_open(on, &stream, &err));
    CHECK_OK(on->event_open(on, &event, &err));
    CHECK_OK(td_buffer_new_on(on, stream, bytes + sizeof(float), &b, &err));
    struct td_tensor there = *here;
    there.buf = b;
    there.data = (char *)b->data + sizeof(float);
    there.device = on;
    CHECK_OK(on->copy(on, stream, TD_COPY_TO_DEVICE, there.data, here->data, bytes, &err));
    CHECK_OK(on->event_record(on, stream, event, &err));
    CHECK_OK(on->event_wait(on, event, &err));
    td_buffer_off_stream(b);
    on->event_close(on, event);
    on->stream_close(on, stream);
    return there;
}

TEST(an_input_that_begins_anywhere_is_convolved_by_our_own)
{
    const struct td_shape shape = {.rank = 4, .dim = {2, 4, 5, 8}};
    struct td_tensor in = input(&shape, 1), want = {0}, got = {0};
    struct there d;
    struct td_err err = {0};
    open_there(&d, direct, &stepped);
    struct td_tensor odd = odd_one(&d, &in);
    CHECK_OK(td_callable_run(d.f, &in, &want, NULL, &err));
    CHECK_OK(td_callable_run(d.f, &odd, &got, NULL, &err));
    check_same(&want, &got);
    CHECK_INT((long long)grows(&d, true), 0);
    CHECK_INT((long long)grows(&d, false), FILTER_BYTES); /* ours had it from the swapped one */
    td_tensor_clear(&in);
    td_tensor_clear(&odd);
    td_tensor_clear(&want);
    td_tensor_clear(&got);
    (void)close_there(&d);
    CHECK_INT(host_cuda_reports(), 0);
}

/* ------------------------------------------------------------------ bytes */

static void swaps(enum td_dtype type, int64_t rows, int64_t columns)
{
    const struct td_shape shape = td_shape_matrix(rows, columns);
    const size_t element = td_dtype_size(type);
    struct there d;
    struct td_tensor here, there, back;
    struct td_err err = {0};
    open_there(&d, one_filter, &stepped);
    CHECK_OK(td_tensor_new(&here, type, &shape, &err));
    for (size_t i = 0; i < td_tensor_bytes(&here); i++) {
        ((unsigned char *)here.data)[i] = (unsigned char)(i * 37 % 251);
    }
    CHECK_OK(td_device_weights_get(td_model_device_weights(d.m), &here, true, &there, &err));
    CHECK_OK(td_device_bring(&there, NULL, &back, &err));
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t to = i % columns * rows + i / columns;
        CHECK(memcmp((char *)back.data + (size_t)to * element, (char *)here.data + (size_t)i * element,
                     element) == 0);
    }
    td_tensor_clear(&back);
    td_tensor_clear(&there);
    td_tensor_clear(&here);
    (void)close_there(&d);
}

TEST(a_weight_of_any_size_is_swapped)
{
    swaps(TD_FLOAT, 70, 45);
    swaps(TD_HALF, 31, 129);
    swaps(TD_DOUBLE, 1, 40);
    swaps(TD_BFLOAT16, 64, 1);
}

TEST_MAIN(RUN(a_weight_of_any_size_is_swapped) RUN(a_filter_lies_there_once_as_the_library_wants_it)
              RUN(who_reads_it_as_it_is_finds_it_so) RUN(a_filter_that_is_assigned_is_the_new_one)
                  RUN(several_streams_share_it) RUN(a_device_that_was_lost_gets_it_again)
                      RUN(an_input_that_begins_anywhere_is_convolved_by_our_own)
                          RUN(where_memory_is_short_it_is_dropped))
