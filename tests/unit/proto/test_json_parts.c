/* tests/unit/proto/test_json_parts.c - values that several threads read, held against one thread's reading.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_parts.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "proto/json/infer_json.h"
#include "tests/test.h"
#include "tests/unit/core/pool_make.h"

#ifdef __SANITIZE_THREAD__ /* seconds a text */
enum { WRONG = 12 };
#else
enum { WRONG = 60 };
#endif
enum { ROOM = 1 << 20, LEAST = 160 << 10 /* of text */, NUMBER = 64 };

static struct td_err err; /* CHECK_OK's */
static char text[ROOM + NUMBER];
static struct made_pool pool;
static uint64_t state = 17;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (uint32_t)(state >> 33) % n;
}

static size_t put_number(char *to, enum td_dtype dtype)
{
    static const char *const odd[] = {"1e-40", "-0", "12345678901234567890.5", "NaN", "-1.5E3", "0"};
    if (dtype == TD_INT32) {
        return (size_t)snprintf(to, NUMBER, "%d", (int)draw(1 << 30) - (1 << 29));
    }
    if (draw(50) == 0) {
        return (size_t)snprintf(to, NUMBER, "%s", odd[draw(6)]);
    }
    return (size_t)snprintf(to, NUMBER, "%.*g", 1 + (int)draw(17), (draw(1 << 30) - 5e8) / (1 + draw(1000)));
}

/* A list of dims[axis..rank); spaced: white space here and there. */
static size_t put_list(size_t n, const int *dims, int axis, int rank, enum td_dtype dtype, bool spaced)
{
    if (axis == rank) {
        return n + put_number(text + n, dtype);
    }
    text[n++] = '[';
    for (int i = 0; i < dims[axis]; i++) {
        n = put_list(n, dims, axis + 1, rank, dtype, spaced);
        if (i + 1 < dims[axis]) {
            text[n++] = ',';
        }
        if (spaced && draw(3) == 0) {
            text[n++] = " \n\t"[draw(3)];
        }
    }
    text[n++] = ']';
    return n;
}

/* Reads the text's value, and lets go of it. */
struct reading {
    enum td_code rc;
    struct td_err err;
    struct td_shape shape;
    struct td_gather g;
    size_t end;
};

static void read_text(struct reading *r, enum td_dtype dtype, size_t n, struct td_thread_pool *help)
{
    struct td_json j = td_json_make(text, n);
    j.pool = help;
    r->err = (struct td_err){0};
    CHECK_OK(td_gather_init(&r->g, dtype, &err));
    CHECK_OK(td_gather_reserve(&r->g, 1, &err));
    memset(r->g.data, 0, r->g.elem);
    r->g.n = 1; /* as behind a row before */
    r->rc = td_gather_value(&r->g, &j, &r->shape, &r->err);
    r->end = (size_t)(j.at - text);
}

static void reads_alike(enum td_dtype dtype, size_t n)
{
    struct reading one, many;
    read_text(&one, dtype, n, NULL);
    read_text(&many, dtype, n, &pool.pool);
    CHECK_INT(many.rc, one.rc);
    CHECK_STR(many.err.msg, one.err.msg);
    CHECK_INT(many.end, one.end);
    if (one.rc == TD_OK) {
        CHECK_STR(TD_SHAPE_STR(&many.shape), TD_SHAPE_STR(&one.shape));
        CHECK_INT(many.g.n, one.g.n);
        CHECK(memcmp(many.g.data, one.g.data, one.g.n * one.g.elem) == 0);
    }
    td_gather_fini(&one.g);
    td_gather_fini(&many.g);
}

static bool by_parts(enum td_dtype dtype, size_t n)
{
    struct td_shape shape;
    struct td_gather g;
    struct td_json j = td_json_make(text, n);
    j.pool = &pool.pool;
    CHECK_OK(td_gather_init(&g, dtype, &err));
    const bool read = td_gather_by_parts(&g, &j, &shape);
    td_gather_fini(&g);
    return read;
}

static const struct {
    int rank, dims[TD_MAX_RANK];
} shapes[] = {{1, {30000}},
              {2, {1, 30000}},
              {2, {30000, 1}},
              {4, {1, 100, 100, 3}},
              {4, {2, 1, 7000, 2}},
              {2, {5, 6000}},
              {6, {3, 5, 7, 11, 13, 2}},
              {12, {1, 1, 1, 2, 1, 9000, 1, 1, 2, 1, 1, 1}}};
static const enum td_dtype dtypes[] = {TD_FLOAT, TD_DOUBLE, TD_HALF, TD_INT32};

static size_t draw_text(int shape, enum td_dtype dtype)
{
    const size_t n = put_list(0, shapes[shape].dims, 0, shapes[shape].rank, dtype, draw(2) == 0);
    CHECK(n > LEAST && n < ROOM);
    text[n] = '\0';
    return n;
}

TEST(what_is_in_order_is_read_by_parts)
{
    pool_start(&pool);
    for (int shape = 0; shape < (int)(sizeof shapes / sizeof *shapes); shape++) {
        for (int d = 0; d < 4; d++) {
            const size_t n = draw_text(shape, dtypes[d]);
            CHECK(by_parts(dtypes[d], n));
            reads_alike(dtypes[d], n);
        }
    }
    pool_stop(&pool);
}

TEST(what_is_wrong_is_said_as_by_one)
{
    pool_start(&pool);
    static const char others[] = "[]],,x\"0.-eN {}";
    for (int i = 0; i < WRONG; i++) {
        const enum td_dtype dtype = dtypes[i % 4];
        size_t n = draw_text(i % (int)(sizeof shapes / sizeof *shapes), dtype);
        for (uint32_t k = draw(3); k < 3; k++) {
            const size_t at = draw((uint32_t)n);
            if (draw(2) == 0) {
                text[at] = others[draw(sizeof others - 1)];
            } else { /* a character less */
                memmove(text + at, text + at + 1, n - at);
                n--;
            }
        }
        reads_alike(dtype, n);
    }
    pool_stop(&pool);
}

/* Of lists so long that hardly a part has one whole. */
TEST(lists_of_other_lengths_are_not_joined)
{
    pool_start(&pool);
    for (int i = 0; i < 16; i++) {
        const int dims[] = {5, 6000};
        size_t n = put_list(0, dims, 0, 2, TD_FLOAT, false);
        text[n] = '\0';
        char *comma = strchr(text + draw((uint32_t)n * 3 / 4), ','), *list = strstr(comma + 1, "],[");
        if (i % 2 == 0) { /* a number less */
            memmove(comma, strchr(comma + 1, ','), strlen(strchr(comma + 1, ',')) + 1);
        } else { /* two lists are one */
            list[0] = ',';
            list[1] = list[2] = ' ';
        }
        n = strlen(text);
        CHECK(!by_parts(TD_FLOAT, n));
        reads_alike(TD_FLOAT, n);
    }
    pool_stop(&pool);
}

TEST(denormals_are_as_the_caller_has_them)
{
    pool_start(&pool);
    size_t n = 0;
    text[n++] = '[';
    while (n < LEAST) {
        n += (size_t)snprintf(text + n, NUMBER, "1e-40,");
    }
    text[n - 1] = ']';
    text[n] = '\0';
    reads_alike(TD_FLOAT, n);
    const unsigned long before = td_float_mode_enter();
    reads_alike(TD_FLOAT, n);
    td_float_mode_leave(before);
    pool_stop(&pool);
}

/* Commas without numbers do not ask for room. */
TEST(commas_alone_are_no_numbers)
{
    pool_start(&pool);
    memset(text, ',', LEAST);
    text[0] = '[';
    text[LEAST - 1] = ']';
    text[LEAST] = '\0';
    CHECK(!by_parts(TD_FLOAT, LEAST));
    reads_alike(TD_FLOAT, LEAST);
    for (int i = 1; i + 1 < LEAST; i++) { /* empty lists, and one value in the wrong place */
        text[i] = "[],"[(i - 1) % 3];
    }
    text[LEAST - 2] = ']';
    reads_alike(TD_FLOAT, LEAST);
    pool_stop(&pool);
}

/* ------------------------------------------------------------------ read ahead */

/* Bodies around a value. */
static const struct {
    const char *before, *behind;
    bool ahead;
} bodies[] = {{"{\"inputs\": ", "}", true},
              {" {\"signature_name\": \"s\", \"inputs\": {\"x\": ", " }\n} ", true},
              {"{\"instances\" : ", " } ", true},
              {"{\"instances\": [{\"x\":", "}]}", true},
              {"{\"instances\": [{\"x\":", "},]}", false},
              {"{\"instances\": ", "]}", false},
              {"{\"inputs\": {\"x\": ", "}, \"signature_name\": \"[]\"}", false},
              {"{\"inputs\": {\"y\": ", "}}", false},
              {"{\"other\": [1], \"inputs\": ", "}", false},
              {"{\"inputs\": [], \"inputs\": ", "}", false},
              {"{\"instances\": [{\"x\": ", "}, {\"x\": [1]}]}", false}};
enum { BODIES = sizeof bodies / sizeof *bodies };

static const struct td_json_field X = {"x", TD_FLOAT, false};

static char body[ROOM + 256];

static size_t write_body(int i, size_t n)
{
    return (size_t)snprintf(body, sizeof body, "%s%.*s%s", bodies[i].before, (int)n, text, bodies[i].behind);
}

struct inputs {
    enum td_code rc;
    struct td_err err;
    struct td_named in;
    int n;
};

static void read_inputs(struct inputs *r, size_t n, struct td_json_ahead *ahead)
{
    struct td_json_body b;
    struct td_arena *arena = td_arena_new(1 << 16);
    *r = (struct inputs){.n = 0};
    r->rc = td_json_body_ahead(body, n, ahead, arena, &b, &r->err);
    r->rc = r->rc ? r->rc : td_json_inputs(&b, &X, 1, &r->in, &r->n, &r->err);
    td_arena_free(arena);
}

/* Whether something was read ahead. */
static bool body_reads_alike(size_t n)
{
    struct td_json_ahead ahead;
    struct inputs one, other;
    td_json_ahead_read(&ahead, body, n, &X, 1, &pool.pool);
    const bool there = ahead.there;
    read_inputs(&one, n, NULL);
    read_inputs(&other, n, &ahead);
    CHECK_INT(other.rc, one.rc);
    CHECK_STR(other.err.msg, one.err.msg);
    CHECK(one.rc != TD_OK || (one.n == 1 && other.n == 1 && td_tensor_same(&one.in.t, &other.in.t)));
    CHECK(!there || one.rc != TD_OK || !ahead.there); /* it was taken */
    td_json_ahead_fini(&ahead);
    for (int i = 0; one.rc == TD_OK && i < 1; i++) {
        td_tensor_clear(&one.in.t);
        td_tensor_clear(&other.in.t);
    }
    return there;
}

TEST(what_is_read_ahead_is_read_alike)
{
    pool_start(&pool);
    for (int shape = 0; shape < (int)(sizeof shapes / sizeof *shapes); shape++) {
        const size_t n = draw_text(shape, TD_FLOAT);
        for (int i = shape % 2; i < BODIES; i += 2) {
            CHECK_INT(body_reads_alike(write_body(i, n)), bodies[i].ahead);
        }
    }
    pool_stop(&pool);
}

TEST(what_is_wrong_is_said_as_without_reading_ahead)
{
    static const char others[] = "[]{},:x\"0.-eN ";
    pool_start(&pool);
    for (int i = 0; i < WRONG; i++) {
        size_t n = draw_text(i % (int)(sizeof shapes / sizeof *shapes), TD_FLOAT);
        n = write_body(i % BODIES, n);
        const size_t at = draw(3) == 0 ? draw((uint32_t)n) : draw(2) == 0 ? draw(40) : n - 1 - draw(20);
        body[at] = others[draw(sizeof others - 1)];
        (void)body_reads_alike(n);
    }
    pool_stop(&pool);
}

/* The value is a float's, the field an integer's. */
TEST(what_was_read_ahead_as_another_dtype_is_read_again)
{
    struct td_json_ahead ahead;
    struct td_json_field field = {"x", TD_INT32, false};
    struct td_json_body b;
    struct td_named in;
    int n_in = 0;
    pool_start(&pool);
    const size_t n = write_body(0, draw_text(0, TD_INT32));
    struct td_arena *arena = td_arena_new(1 << 16);
    td_json_ahead_read(&ahead, body, n, &X, 1, &pool.pool);
    CHECK(ahead.there);
    CHECK_OK(td_json_body_ahead(body, n, &ahead, arena, &b, &err));
    CHECK_OK(td_json_inputs(&b, &field, 1, &in, &n_in, &err));
    CHECK_INT(in.t.dtype, TD_INT32);
    CHECK_INT(TD_DATA(&in.t, int32_t)[0], strtol(text + 1, NULL, 10));
    td_tensor_clear(&in.t);
    td_json_ahead_fini(&ahead);
    td_arena_free(arena);
    pool_stop(&pool);
}

/* ------------------------------------------------------------------ inference requests */

#define DATA_OF(name, type)                                                                                  \
    "{\"inputs\": [{\"name\": \"" name "\", \"shape\": [2], \"datatype\": \"" type "\", \"data\": "

static const struct {
    const char *before, *behind;
    bool ahead;
} infer_bodies[] = {
    {DATA_OF("x", "FP32"), "}]}", true},
    {DATA_OF("x", "FP32"), "\n } ], \"outputs\": [{\"name\": \"y\"}], \"parameters\": {}} ", true},
    {DATA_OF("x", "FP32"), "}, {\"name\": \"z\", \"shape\": [1], \"datatype\": \"FP32\", \"data\": [1]}]}",
     true},
    {DATA_OF("x", "INT32"), "}]}", false},
    {DATA_OF("z", "FP32"), "}]}", false},
    {DATA_OF("x", "FP32"), ", \"parameters\": {}}]}", false},
    {"{\"inputs\": [{\"datatype\": \"FP32\", \"shape\": [2], \"data\": ", ", \"name\": \"x\"}]}", false},
    {DATA_OF("x", "FP32"), "]}", false},
};
enum { INFER_BODIES = sizeof infer_bodies / sizeof *infer_bodies };

struct infer_inputs {
    enum td_code rc;
    struct td_err err;
    struct td_tensor t;
};

/* Its shape is what its data have. */
static enum td_code count_data(struct td_infer_json_in *in, struct td_err *e)
{
    struct td_gather g;
    struct td_json j = in->data;
    TD_TRY(td_gather_init(&g, td_v2_dtype(in->raw.datatype), e));
    const enum td_code rc = td_gather_flat(&g, &j, e);
    in->raw.shape = td_shape_vector((int64_t)g.n);
    td_gather_fini(&g);
    return rc;
}

/* The first input, as flat as its data are; known: what may be read ahead. Whether something was. */
static bool read_infer(struct infer_inputs *r, size_t n, const struct td_infer_json_known *known)
{
    struct td_infer_json p;
    struct td_arena *arena = td_arena_new(1 << 16);
    *r = (struct infer_inputs){.rc = TD_OK};
    r->rc = td_infer_json_read(body, n, n, arena, known, &p, &r->err);
    r->rc = r->rc == TD_OK && p.n_in == 0 ? td_fail(&r->err, TD_INVALID_ARGUMENT, "no input") : r->rc;
    const bool there = p.ahead.there;
    if (r->rc == TD_OK && there) {
        p.in[0].raw.shape = td_shape_vector((int64_t)p.ahead.g.n);
    } else if (r->rc == TD_OK) {
        r->rc = count_data(&p.in[0], &r->err);
    }
    r->rc = r->rc ? r->rc : td_infer_json_tensor(&p.in[0], UINT64_MAX, &r->t, &r->err);
    CHECK(!there || r->rc != TD_OK || !p.ahead.there); /* it was taken */
    td_infer_json_fini(&p);
    td_arena_free(arena);
    return there;
}

static bool infer_reads_alike(size_t n)
{
    const struct td_infer_json_known none = {0}, known = {&X, 1, &pool.pool};
    struct infer_inputs one, other;
    (void)read_infer(&one, n, &none);
    const bool there = read_infer(&other, n, &known);
    CHECK_INT(other.rc, one.rc);
    CHECK_STR(other.err.msg, one.err.msg);
    CHECK(one.rc != TD_OK || td_tensor_same(&one.t, &other.t));
    if (one.rc == TD_OK) {
        td_tensor_clear(&one.t);
        td_tensor_clear(&other.t);
    }
    return there;
}

static size_t write_infer_body(int i, size_t n)
{
    return (size_t)snprintf(body, sizeof body, "%s%.*s%s", infer_bodies[i].before, (int)n, text,
                            infer_bodies[i].behind);
}

TEST(data_of_an_inference_request_is_read_ahead_alike)
{
    pool_start(&pool);
    for (int i = 0; i < INFER_BODIES; i++) {
        const size_t n = draw_text(i % (int)(sizeof shapes / sizeof *shapes), TD_FLOAT);
        CHECK_INT(infer_reads_alike(write_infer_body(i, n)), infer_bodies[i].ahead);
    }
    pool_stop(&pool);
}

TEST(what_is_wrong_with_an_inference_request_is_said_as_without_reading_ahead)
{
    static const char others[] = "[]{},:x\"0.-eN ";
    pool_start(&pool);
    for (int i = 0; i < WRONG; i++) {
        size_t n = draw_text(i % (int)(sizeof shapes / sizeof *shapes), TD_FLOAT);
        n = write_infer_body(i % INFER_BODIES, n);
        const size_t at = draw(3) == 0 ? draw((uint32_t)n) : draw(2) == 0 ? draw(80) : n - 1 - draw(40);
        body[at] = others[draw(sizeof others - 1)];
        (void)infer_reads_alike(n);
    }
    pool_stop(&pool);
}

TEST_MAIN(RUN(what_is_in_order_is_read_by_parts) RUN(what_is_wrong_is_said_as_by_one)
              RUN(lists_of_other_lengths_are_not_joined) RUN(denormals_are_as_the_caller_has_them)
                  RUN(commas_alone_are_no_numbers) RUN(what_is_read_ahead_is_read_alike)
                      RUN(what_is_wrong_is_said_as_without_reading_ahead)
                          RUN(what_was_read_ahead_as_another_dtype_is_read_again)
                              RUN(data_of_an_inference_request_is_read_ahead_alike) RUN(
                                  what_is_wrong_with_an_inference_request_is_said_as_without_reading_ahead))
