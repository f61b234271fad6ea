/* tests/host_cuda/fused_test.c - kernels that are made at run time: they give what the one gives that looks
 * the steps up, for programs drawn at random; they are made once, and found again in memory and in files.
 * The stand-in for NVRTC is in LD_LIBRARY_PATH, with HOST_CUDA_NVRTC=1; the last test is a process without.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>
#include <pthread.h>

#include "core/base/mem.h"
#include "core/graph/op.h"
#include "kernels/cuda/fused/fused_posts.h"
#include "kernels/cuda/fused/fused_source.h"
#include "kernels/cuda/base/made.h"
#include "kernels/cuda/base/made_files.h"
#include "kernels/cuda/base/nvrtc.h"
#include "kernels/ops.h"
#include "tests/test.h"

void host_cuda_fail(int error); /* host_cuda.h, which is C++ */

enum { DRAWS = 12, MOST = 4096, CAPABILITY = 80, ILLEGAL_ADDRESS = 700 };

static uint64_t drawn = 7;

static int draw(int n)
{
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)(drawn >> 33) % n;
}

/* ------------------------------------------------------------------ programs at random */

static const enum td_cuda_fused_op one_operand[] = {TD_CUDA_FUSED_Relu,    TD_CUDA_FUSED_Tanh,
                                                    TD_CUDA_FUSED_Sigmoid, TD_CUDA_FUSED_Abs,
                                                    TD_CUDA_FUSED_Square,  TD_CUDA_FUSED_Leaky,
                                                    TD_CUDA_FUSED_Elu,     TD_CUDA_FUSED_Erf,
                                                    TD_CUDA_FUSED_Neg,     TD_CUDA_FUSED_Sign,
                                                    TD_CUDA_FUSED_Relu6,   TD_CUDA_FUSED_Softsign},
                                   two_operands[] = {TD_CUDA_FUSED_AddV2,   TD_CUDA_FUSED_Mul,
                                                     TD_CUDA_FUSED_Sub,     TD_CUDA_FUSED_Maximum,
                                                     TD_CUDA_FUSED_Minimum, TD_CUDA_FUSED_SquaredDifference};
enum {
    ONE_OPERAND = sizeof one_operand / sizeof *one_operand,
    TWO_OPERANDS = sizeof two_operands / sizeof *two_operands
};

/* An operand's own dims are the result's or 1: the bits say where. */
static void draw_pattern(struct td_cuda_fused *p, int at, int repeated)
{
    int64_t elements = 1;
    for (int d = 0; d < p->rank; d++) {
        p->step[at][d] = repeated >> d & 1 ? 0 : elements;
        elements *= repeated >> d & 1 ? 1 : p->dim[d];
    }
}

static void draw_program(struct td_cuda_fused *p)
{
    static const int64_t inner[] = {1, 3, 4, 8, 12};
    *p = (struct td_cuda_fused){
        .rank = 1 + draw(3), .n = 1, .n_operands = 2 + draw(4), .n_instr = 2 + draw(6)};
    for (int d = 0; d < p->rank; d++) {
        p->dim[d] = d == 0 ? inner[draw(5)] : 2 + draw(6);
        p->n *= p->dim[d];
    }
    draw_pattern(p, p->n_patterns++, 0);
    for (int k = 1; k < p->n_operands; k++) {
        p->pattern[k] = (unsigned char)(draw(2) ? draw(p->n_patterns) : p->n_patterns);
        if (p->pattern[k] == p->n_patterns) {
            draw_pattern(p, p->n_patterns++, 1 + draw((1 << p->rank) - 1));
        }
    }
    for (int k = 0; k < p->n_instr; k++) {
        const bool two = k < p->n_operands || draw(2);
        const int before = p->n_operands + k;
        p->instr[k] = (struct td_cuda_instr){
            .op = (short)(two ? two_operands[draw(TWO_OPERANDS)] : one_operand[draw(ONE_OPERAND)]),
            .a = (short)(k > 0 ? before - 1 : 0),
            .b = (short)(two ? draw(before) : -1),
            .parameter = 0.25f};
    }
}

/* ------------------------------------------------------------------ both ways */

struct both {
    struct td_cuda_fused p;
    enum td_cuda_type type;
    struct td_cuda_operands a;
    void *looked_up, *made;
    struct td_cuda_stream *stream;
};

static bool is_short(const struct both *b)
{
    return b->type == TD_CUDA_HALF || b->type == TD_CUDA_BFLOAT16;
}

static size_t bytes_of(const struct both *b)
{
    return MOST * (b->type == TD_CUDA_DOUBLE ? sizeof(double) : is_short(b) ? sizeof(short) : sizeof(float));
}

/* Of either sign, between 1/8 and 2; of half one in sixteen is denormal. */
static unsigned short draw_short(const struct both *b)
{
    const int sign = draw(2) << 15;
    if (b->type == TD_CUDA_BFLOAT16) {
        return (unsigned short)(sign | (124 + draw(4)) << 7 | draw(128));
    }
    return (unsigned short)(sign | (draw(16) == 0 ? 0 : 12 + draw(4)) << 10 | draw(1024));
}

static void *new_numbers(const struct both *b)
{
    static double host[MOST];
    void *at;
    for (int i = 0; i < MOST; i++) {
        const double v = draw(2000) / 500.0 - 2;
        if (b->type == TD_CUDA_DOUBLE) {
            host[i] = v;
        } else if (is_short(b)) {
            ((unsigned short *)host)[i] = draw_short(b);
        } else {
            ((float *)host)[i] = (float)v;
        }
    }
    CHECK_INT(td_cuda_allocate(0, b->stream, bytes_of(b), &at), 0);
    CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_DEVICE, at, host, bytes_of(b)), 0);
    CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
    return at;
}

static void compare(const struct both *b)
{
    static unsigned char want[MOST * sizeof(double)], got[MOST * sizeof(double)];
    const size_t bytes = bytes_of(b) / MOST * (size_t)b->p.n;
    CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_HOST, want, b->looked_up, bytes), 0);
    CHECK_INT(td_cuda_copy(0, b->stream, TD_CUDA_TO_HOST, got, b->made, bytes), 0);
    CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
    for (size_t i = 0; i < bytes; i++) {
        CHECK_INT(got[i], want[i]);
    }
}

static void run_both(struct td_cuda_makers *m, struct both *b)
{
    const char *why;
    char *source = td_cuda_fused_source(b->type, &b->p);
    CHECK(source != NULL);
    const struct td_cuda_made *made = td_cuda_made_get(m, source, &why);
    CHECK(made != NULL);
    for (int k = 0; k < b->p.n_operands; k++) {
        b->a.at[k] = new_numbers(b);
    }
    b->looked_up = new_numbers(b);
    b->made = new_numbers(b);
    CHECK_INT(td_cuda_fused_interpret(b->type, &b->p, &b->a, b->looked_up, b->stream), 0);
    CHECK_INT(td_cuda_fused_launch(made, b->type, &b->p, &b->a, b->made, b->stream), 0);
    compare(b);
    b->made = (char *)b->made + 8; /* where nothing is read or written 16 bytes at a time */
    CHECK_INT(td_cuda_fused_launch(made, b->type, &b->p, &b->a, b->made, b->stream), 0);
    compare(b);
    b->made = (void *)b->a.at[0]; /* in place */
    CHECK_INT(td_cuda_fused_launch(made, b->type, &b->p, &b->a, b->made, b->stream), 0);
    compare(b);
    td_cuda_made_put(made);
    td_free(source);
}

TEST(kernels_that_are_made_give_what_the_one_gives_that_looks_steps_up)
{
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, NULL);
    for (int i = 0; i < DRAWS; i++) {
        static const enum td_cuda_type types[] = {TD_CUDA_FLOAT, TD_CUDA_HALF, TD_CUDA_BFLOAT16,
                                                  TD_CUDA_DOUBLE};
        struct both b = {.type = types[i % 4]};
        CHECK_INT(td_cuda_stream_new(0, &b.stream), 0);
        draw_program(&b.p);
        run_both(m, &b);
    }
    td_cuda_makers_free(m);
}

/* ------------------------------------------------------------------ step by step */

/* All operands and results are whole, and lie in `at` by their registers. */
static void run_one_by_one(const struct both *b, void *const *at)
{
    for (int k = 0; k < b->p.n_instr; k++) {
        const struct td_cuda_instr *s = &b->p.instr[k];
        struct td_cuda_fused one = b->p;
        struct td_cuda_operands a = {{at[s->a], at[s->b < 0 ? s->a : s->b]}};
        one.n_operands = 2;
        one.n_instr = 1;
        one.instr[0] = *s;
        one.instr[0].a = 0;
        one.instr[0].b = (short)(s->b < 0 ? -1 : 1);
        CHECK_INT(td_cuda_fused_interpret(b->type, &one, &a, at[b->p.n_operands + k], b->stream), 0);
    }
}

/* A step's result is what its type can hold, though it never is in memory. */
TEST(steps_are_rounded_as_nodes_of_their_own_are)
{
    for (int i = 0; i < 8; i++) {
        struct both b = {.type = i % 2 ? TD_CUDA_HALF : TD_CUDA_BFLOAT16};
        void *at[TD_CUDA_FUSED_OPERANDS + TD_CUDA_FUSED_INSTRS];
        CHECK_INT(td_cuda_stream_new(0, &b.stream), 0);
        draw_program(&b.p);
        memset(b.p.pattern, 0, sizeof b.p.pattern);
        b.p.n_patterns = 1;
        for (int k = 0; k < b.p.n_operands + b.p.n_instr; k++) {
            at[k] = new_numbers(&b);
            b.a.at[k < b.p.n_operands ? k : 0] = at[k < b.p.n_operands ? k : 0];
        }
        b.made = new_numbers(&b);
        b.looked_up = at[b.p.n_operands + b.p.n_instr - 1];
        run_one_by_one(&b, at);
        CHECK_INT(td_cuda_fused_interpret(b.type, &b.p, &b.a, b.made, b.stream), 0);
        compare(&b);
    }
}

/* ------------------------------------------------------------------ what a head does itself */

static float operand_of(const struct td_cuda_fused_plan *f, const float *of, enum td_post_operand how,
                        int64_t i)
{
    return how == TD_POST_SCALAR ? of[0] : how == TD_POST_CHANNEL ? of[i % f->program.dim[0]] : of[i];
}

static float posted(const struct td_post *p, float y, float with)
{
    switch (p->kind) {
    case TD_POST_RELU:
        return y < 0 ? 0 : y;
    case TD_POST_LEAKY:
        return y > 0 ? y : y * p->alpha;
    case TD_POST_ELU:
        return y < 0 ? expm1f(y) : y;
    case TD_POST_SIGMOID:
        return 1 / (1 + expf(-y));
    case TD_POST_TANH:
        return tanhf(y);
    case TD_POST_SWISH:
        return y / (1 + expf(-y));
    case TD_POST_ADD:
        return y + with;
    case TD_POST_SUB:
        return y - with;
    case TD_POST_MUL:
        return y * with;
    default:
        CHECK(!"a post that is known");
        return 0;
    }
}

static void copy(const struct both *b, enum td_cuda_copy way, void *to, const void *from)
{
    CHECK_INT(td_cuda_copy(0, b->stream, way, to, from, (size_t)b->p.n * sizeof(float)), 0);
    CHECK_INT(td_cuda_stream_wait(0, b->stream), 0);
}

/* In operand 0, the head's result. */
static void do_posts(struct both *b, const struct td_cuda_fused_plan *f,
                     const struct td_cuda_fused_posts *posts, int n)
{
    static float head[MOST], with[MOST];
    copy(b, TD_CUDA_TO_HOST, head, b->a.at[0]);
    for (int k = 0; k < n; k++) {
        if (posts->operand[k] >= 0) {
            CHECK(f->from[posts->operand[k]] >= 0);
            copy(b, TD_CUDA_TO_HOST, with, b->a.at[posts->operand[k]]);
        }
        for (int64_t i = 0; i < b->p.n; i++) {
            head[i] = posted(&posts->post[k], head[i], operand_of(f, with, posts->post[k].operand, i));
        }
    }
    copy(b, TD_CUDA_TO_DEVICE, (void *)b->a.at[0], head);
}

static int run_in_two(struct both *b, struct td_cuda_fused_plan *f)
{
    static float want[MOST], got[MOST];
    const struct td_cuda_fused_posts posts = td_cuda_fused_find_posts(f);
    const int n = posts.n > 0 ? draw(posts.n + 1) : 0;
    CHECK_INT(td_cuda_fused_interpret(TD_CUDA_FLOAT, &f->program, &b->a, b->looked_up, b->stream), 0);
    copy(b, TD_CUDA_TO_HOST, want, b->looked_up);
    do_posts(b, f, &posts, n);
    td_cuda_fused_take_posts(f, &posts, n);
    if (f->program.n_instr > 0) {
        CHECK_INT(td_cuda_fused_interpret(TD_CUDA_FLOAT, &f->program, &b->a, (void *)b->a.at[0], b->stream),
                  0);
    }
    copy(b, TD_CUDA_TO_HOST, got, b->a.at[0]);
    for (int64_t i = 0; i < b->p.n; i++) {
        CHECK(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])));
    }
    return n;
}

TEST(what_a_head_does_itself_and_what_is_left_give_the_whole)
{
    int taken = 0;
    struct both b = {.type = TD_CUDA_FLOAT};
    CHECK_INT(td_cuda_stream_new(0, &b.stream), 0);
    b.looked_up = new_numbers(&b);
    for (int i = 0; i < 1000; i++) {
        struct td_cuda_fused_plan f = {.from = {-1}};
        b.a = (struct td_cuda_operands){0};
        draw_program(&f.program);
        b.p = f.program;
        f.bare = (struct td_shape){.rank = 2, .dim = {f.program.n / f.program.dim[0], f.program.dim[0]}};
        for (int k = 0; k < f.program.n_operands; k++) {
            f.from[k] = (short)(k - 1);
            b.a.at[k] = new_numbers(&b);
        }
        taken += run_in_two(&b, &f);
        for (int k = 0; k < f.program.n_operands; k++) {
            CHECK_INT(td_cuda_free(0, b.stream, (void *)b.a.at[k]), 0);
        }
    }
    CHECK(taken > 50);
}

/* ------------------------------------------------------------------ which steps there are */

TEST(what_may_follow_in_a_fused_node_of_the_hosts_has_a_step_here)
{
    int known = 0;
    for (const struct td_op *const *family = td_op_families; *family != NULL; family++) {
        for (const struct td_op *op = *family; op->name != NULL; op++) {
            if (op->role == TD_ROLE_ROUND_HALF) {
                continue; /* made where there is no device: core/compile/pass_half.c */
            }
            struct td_node part = {.op = op, .op_name = op->name}, node = {0};
            struct td_part parts[] = {{.node = &part}};
            const struct td_fused fused = {.parts = parts, .n_parts = 1};
            node.fused = &fused;
            for (part.n_in = 1; op->fuse.stage != NULL && td_cuda_fused_refuses(&node) != NULL; part.n_in++) {
                if (part.n_in > 5) {
                    CHECK_STR(op->name, "known");
                }
            }
            known += op->fuse.stage != NULL;
        }
    }
    CHECK(known > 30);
}

/* ------------------------------------------------------------------ made once */

static char dir[] = "/tmp/tensord-kernels.XXXXXX";

static const char *relu(void)
{
    static struct td_cuda_fused p = {.rank = 1,
                                     .n_operands = 1,
                                     .n_instr = 1,
                                     .n_patterns = 1,
                                     .n = 4,
                                     .dim = {4},
                                     .instr = {{TD_CUDA_FUSED_Relu, 0, -1, 0}},
                                     .step = {{1}}};
    static char text[TD_CUDA_FUSED_TEXT];
    char *source = td_cuda_fused_source(TD_CUDA_FLOAT, &p);
    memcpy(text, source, strlen(source) + 1);
    td_free(source);
    return text;
}

/* What asking once makes: 1 compiled, 2 read. */
static int ask(const char *where)
{
    const char *why;
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, where);
    const struct td_cuda_made *made = td_cuda_made_get(m, relu(), &why);
    CHECK(made != NULL && made == td_cuda_made_get(m, relu(), &why));
    const struct td_cuda_made_counts c = td_cuda_made_count(m);
    td_cuda_made_put(made);
    td_cuda_made_put(made);
    td_cuda_makers_free(m);
    CHECK_INT(c.compiled + c.read, 1);
    return c.compiled ? 1 : 2;
}

static const char *file_of(int *files)
{
    static char path[600];
    char folder[200];
    snprintf(folder, sizeof folder, "%s/cuda-kernels", dir);
    DIR *d = opendir(folder);
    *files = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.') {
            ++*files;
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        }
    }
    closedir(d);
    return path;
}

TEST(a_source_is_compiled_once_and_read_by_the_next_process)
{
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(ask(dir), 1);
    CHECK_INT(ask(dir), 2);
    CHECK_INT(ask(NULL), 1);
}

TEST(a_damaged_file_is_compiled_anew_and_replaced)
{
    int files;
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(ask(dir), 1);
    FILE *f = fopen(file_of(&files), "r+");
    CHECK_INT(files, 1);
    CHECK_INT(fseek(f, 3000, SEEK_SET), 0);
    fputc(fgetc(f) ^ 1, f);
    fclose(f);
    CHECK_INT(ask(dir), 1);
    CHECK_INT(ask(dir), 2);
    CHECK_INT(truncate(file_of(&files), 50), 0);
    CHECK_INT(ask(dir), 1);
    CHECK_INT(ask(dir), 2);
}

TEST(files_read_the_longest_ago_make_room)
{
    enum { BYTES = TD_CUDA_MADE_FILE - 1000, FIT = TD_CUDA_MADE_BYTES / TD_CUDA_MADE_FILE };
    char *blob = td_calloc(1, BYTES), *code, key[20];
    size_t bytes;
    int files;
    CHECK(mkdtemp(dir) != NULL);
    for (int i = 0; i < FIT + 3; i++) {
        snprintf(key, sizeof key, "key %d", i);
        td_cuda_made_write(dir, key, blob, BYTES);
        CHECK(td_cuda_made_read(dir, "key 0", &code, &bytes) && bytes == BYTES);
        td_free(code);
        usleep(2000);
    }
    (void)file_of(&files);
    CHECK_INT(files, FIT);
    CHECK(!td_cuda_made_read(dir, "key 1", &code, &bytes));
    CHECK(td_cuda_made_read(dir, key, &code, &bytes));
    td_free(code);
    td_free(blob);
}

TEST(a_source_that_does_not_compile_is_remembered)
{
    const char *why;
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(td_cuda_made_get(m, "extern \"C\" __global__ void fused_one(shape s) { no }", &why) == NULL);
        CHECK_STR(why, "its kernel could not be made");
    }
    td_cuda_makers_free(m);
}

/* The device of this process fails for good. */
static void lose_device(void)
{
    struct td_cuda_stream *s;
    void *p;
    CHECK_INT(td_cuda_stream_new(0, &s), 0);
    CHECK_INT(td_cuda_allocate(0, s, 8, &p), 0);
    host_cuda_fail(ILLEGAL_ADDRESS);
    (void)td_cuda_free(0, s, p);
    CHECK_INT(td_cuda_stream_wait(0, s), ILLEGAL_ADDRESS);
}

TEST(what_a_lost_device_did_not_load_is_made_when_it_works_again)
{
    const char *why;
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, NULL);
    lose_device();
    CHECK(td_cuda_made_get(m, relu(), &why) == NULL);
    CHECK_INT(td_cuda_reset(0), 0);
    CHECK(td_cuda_made_get(m, relu(), &why) == NULL); /* it is remembered */
    td_cuda_makers_retry(m);
    const struct td_cuda_made *made = td_cuda_made_get(m, relu(), &why);
    CHECK(made != NULL);
    td_cuda_made_put(made);
    td_cuda_makers_free(m);
}

static const char *once; /* the source that all ask for */

static void *ask_beside(void *m)
{
    const char *why;
    return (void *)td_cuda_made_get(m, once, &why);
}

TEST(who_asks_for_what_is_being_made_waits_for_it)
{
    pthread_t threads[4];
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, NULL);
    void *first = NULL, *made;
    once = relu();
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, ask_beside, m), 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_INT(pthread_join(threads[i], &made), 0);
        first = i == 0 ? made : first;
        CHECK(made != NULL && made == first);
        td_cuda_made_put(made);
    }
    CHECK_INT(td_cuda_made_count(m).compiled, 1);
    td_cuda_makers_free(m);
}

TEST(without_nvrtc_nothing_is_made)
{
    const char *why;
    if (td_cuda_nvrtc_version() != NULL) {
        return;
    }
    struct td_cuda_makers *m = td_cuda_makers_new(0, CAPABILITY, NULL);
    CHECK(td_cuda_made_get(m, relu(), &why) == NULL);
    CHECK_STR(why, "there is no NVRTC");
    td_cuda_makers_free(m);
}

TEST_MAIN(RUN(what_a_head_does_itself_and_what_is_left_give_the_whole)
              RUN(what_may_follow_in_a_fused_node_of_the_hosts_has_a_step_here)
                  RUN(kernels_that_are_made_give_what_the_one_gives_that_looks_steps_up)
                      RUN(steps_are_rounded_as_nodes_of_their_own_are)
                          RUN(a_source_is_compiled_once_and_read_by_the_next_process)
                              RUN(a_damaged_file_is_compiled_anew_and_replaced)
                                  RUN(files_read_the_longest_ago_make_room)
                                      RUN(a_source_that_does_not_compile_is_remembered)
                                          RUN(who_asks_for_what_is_being_made_waits_for_it)
                                              RUN(what_a_lost_device_did_not_load_is_made_when_it_works_again)
                                                  RUN(without_nvrtc_nothing_is_made))
