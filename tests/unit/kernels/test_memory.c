/* tests/unit/kernels/test_memory.c - ops that other libraries compute for, when memory is short: whichever
 * block is not to be had, and whatever a request may hold, the run ends with RESOURCE_EXHAUSTED and leaves
 * nothing behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/budget.h"
#include "tests/unit/core/pass_make.h"

#define GIF                                                                                                  \
    "string[] "                                                                                              \
    "GIF89a\\x04\\x00\\x04\\x00\\x80\\x00\\x00\\xff\\xff\\xff\\x00\\x00\\x00!\\xfe\\x03abc\\x00\\x2c"        \
    "\\x00\\x00\\x00\\x00\\x01\\x00\\x01\\x00\\x00\\x02\\x02\\x44\\x01\\x00\\x3b"
#define PICTURE                                                                                              \
    X "u = Cast {SrcT:type=float; DstT:type=uint8} (x)\n"                                                    \
      "i = Reshape {T:type=uint8; Tshape:type=int32} (u, int32[3] 64 64 3)\n"
#define WORDS X "s = AsString {T:type=float} (x)\n"
#define JPEG "quality:int=95; chroma_downsampling:bool=true"

static const char *const rows[] = {
    PICTURE "p = EncodePng {T:type=uint8} (i)\nr = DecodePng {channels:int=4; dtype:type=uint8} (p)\n",
    PICTURE "p = EncodeJpeg {" JPEG "; progressive:bool=true} (i)\nr = DecodeJpeg {channels:int=3} (p)\n",
    PICTURE "p = EncodeJpeg {" JPEG "; optimize_size:bool=true} (i)\nr = DecodeJpeg {channels:int=1} (p)\n",
    X "r = DecodeGif {} (" GIF ")\n",
    WORDS "r = RegexReplace {} (s, string[] \\x28[0-9]+\\x29[.], string[] <\\x5c1>)\n",
    WORDS "r = StaticRegexReplace {pattern:string='[0-9]'; rewrite:string='ab'} (s)\n",
    WORDS "r = RegexFullMatch {} (s, string[] .*[13579][.]0*)\n",
    WORDS "r = UnicodeTranscode {input_encoding:string='UTF-8'; output_encoding:string='UTF-16-BE'} (s)\n",
    WORDS "r = UnicodeDecode {input_encoding:string='UTF-8'; Tsplits:type=int64} (s)\n",
    WORDS "r = StringUpper {encoding:string='utf-8'} (s)\n",
};
enum { N_ROWS = sizeof rows / sizeof *rows, MOST_BLOCKS = 100000 };

struct made {
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor in;
};

static enum td_code run(struct made *x, const struct td_run_opts *opts, struct td_err *err)
{
    struct td_tensor out = {0};
    *err = (struct td_err){0};
    const enum td_code rc = td_callable_run(x->f, &x->in, &out, opts, err);
    td_tensor_clear(&out);
    return rc;
}

/* The graph as it is written, and all that a first run makes. */
static void make(struct made *x, const char *text)
{
    struct td_err err = {0};
    passed_open(&x->t, text, "r");
    const struct td_model_opts how = {.ops = x->t.ops, .passes_off = "all"};
    CHECK_OK(td_model_new(&how, NULL, &x->t.g.graph, &x->t.g.lib, &x->m, &err));
    CHECK_OK(td_callable_new(x->m, &x->t.how, &x->f, &err));
    x->in = ramp(&(struct td_shape){1, {64 * 64 * 3}}, 0, 1);
    test_check_ok(__FILE__, __LINE__, text, run(x, NULL, &err), &err);
}

static void drop(struct made *x)
{
    td_tensor_clear(&x->in);
    td_model_unref(x->m);
    passed_close(&x->t);
}

/* Few of them are looked at in the midst of strings, which are thousands of blocks each the same. */
static long next(long n)
{
    return n < 60 ? n + 1 : n + n / 7;
}

TEST(whichever_block_is_not_to_be_had)
{
    for (int i = 0; i < N_ROWS; i++) {
        struct made x;
        struct td_err err;
        enum td_code rc = TD_RESOURCE_EXHAUSTED;
        int refused = 0;
        make(&x, rows[i]);
        for (long n = 1; rc != TD_OK && n < MOST_BLOCKS; n = next(n)) {
            td_buffer_trim();
            td_mem_fail_at(n);
            rc = run(&x, NULL, &err);
            td_mem_fail_at(0);
            refused += rc == TD_RESOURCE_EXHAUSTED;
            if (rc != TD_OK && rc != TD_RESOURCE_EXHAUSTED) {
                fprintf(stderr, "%s: without block %ld: %s\n", rows[i], n, err.msg);
            }
            CHECK(rc == TD_OK || rc == TD_RESOURCE_EXHAUSTED);
        }
        CHECK(rc == TD_OK && refused > 0);
        drop(&x);
    }
}

TEST(a_request_that_may_not_hold_so_much)
{
    for (int i = 0; i < N_ROWS; i++) {
        struct made x;
        struct td_err err;
        enum td_code rc = TD_RESOURCE_EXHAUSTED;
        int refused = 0;
        make(&x, rows[i]);
        for (uint64_t most = 64; rc != TD_OK && most < (uint64_t)1 << 30; most += most / 5) {
            td_account_limit(most, "--max_request_memory");
            const struct td_run_opts opts = {.work.account = td_account_open()};
            rc = run(&x, &opts, &err);
            refused += rc == TD_RESOURCE_EXHAUSTED;
            if (rc != TD_OK && (rc != TD_RESOURCE_EXHAUSTED || td_account_held(opts.work.account) != 0)) {
                fprintf(stderr, "%s: of %llu bytes: %s\n", rows[i], (unsigned long long)most, err.msg);
            }
            CHECK(rc == TD_OK || rc == TD_RESOURCE_EXHAUSTED);
            CHECK_INT(td_account_held(opts.work.account), 0);
            td_account_close(opts.work.account);
        }
        CHECK(rc == TD_OK && refused > 0);
        td_account_limit(0, "");
        drop(&x);
    }
}

TEST_MAIN(RUN(whichever_block_is_not_to_be_had) RUN(a_request_that_may_not_hold_so_much))
