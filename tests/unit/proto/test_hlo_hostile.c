/* tests/unit/proto/test_hlo_hostile.c - artifacts that no writer leaves: what the reader refuses, bounds and
 * levels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "proto/stablehlo/hlo_read.h"
#include "tests/hlo/hlo_build.h"
#include "tests/hlo/hlo_walk.h"
#include "tests/test.h"

static struct td_arena *arena;
static struct td_err err;
static struct hlo_out bytes;

static const struct td_hlo_function *read_bytes(size_t limit)
{
    static struct td_hlo_module m;
    err = (struct td_err){0};
    arena = td_arena_new(limit);
    CHECK(arena != NULL);
    if (td_hlo_read(arena, (struct td_bytes){(const char *)bytes.p, bytes.n}, &m, &err)) {
        return NULL;
    }
    hlo_walk(&m, arena);
    CHECK_STR(m.version, "1.2.3");
    CHECK_INT(m.n_functions, 1);
    return &m.functions[0];
}

static const struct td_hlo_function *read_parts(struct hlo_parts *p)
{
    bytes = hlo_bytes(p);
    return read_bytes((size_t)1 << 24);
}

static void done(void)
{
    td_arena_free(arena);
    free(bytes.p);
}

static void check_refused(struct hlo_parts *p, enum td_code code, const char *text)
{
    CHECK(read_parts(p) == NULL);
    CHECK_STR(td_code_name(err.code), td_code_name(code));
    if (strstr(err.msg, text) == NULL) {
        CHECK_STR(err.msg, text);
    }
    done();
}

/* The value of a constant that main begins with. */
static const struct td_hlo_attr *read_constant(struct hlo_parts *p, int attr)
{
    hlo_constant(p, attr);
    hlo_return(p, 0);
    const struct td_hlo_function *f = read_parts(p);
    CHECK_STR(err.msg, "");
    CHECK_STR(f->body.ops[0]->name, "constant");
    const struct td_hlo_attr *value =
        td_hlo_attr_find(f->body.ops[0]->attrs, f->body.ops[0]->n_attrs, "value");
    CHECK(value != NULL);
    return value;
}

TEST(what_was_built_is_read)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_op(&p.body, HLO_ADD, HLO_RESULTS | HLO_OPERANDS);
    struct hlo_out rest = HLO_NUMBERS(1, HLO_T_TENSOR, 2, 0, 0);
    hlo_append(&p.body, &rest);
    free(rest.p);
    p.n_ops++;
    p.n_values++;
    hlo_return(&p, 1);
    const struct td_hlo_function *f = read_parts(&p);
    CHECK_STR(err.msg, "");
    CHECK_STR(f->name, "main");
    CHECK_INT(f->n_values, 2);
    CHECK_INT(f->body.n_ops, 2);
    CHECK_STR(f->body.ops[0]->name, "add");
    CHECK(f->body.ops[0]->in[1] == f->body.args[0] && f->body.ops[1]->in[0] == f->body.ops[0]->out[0]);
    done();
}

TEST(every_prefix_and_every_limit_of_memory_is_an_error)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_constant(&p, HLO_A_X);
    hlo_return(&p, 1);
    CHECK(read_parts(&p) != NULL);
    size_t n = bytes.n, used = td_arena_bytes(arena);
    td_arena_free(arena);
    for (bytes.n = 0; bytes.n < n; bytes.n++) {
        CHECK(read_bytes((size_t)1 << 24) == NULL && err.code != TD_RESOURCE_EXHAUSTED);
        td_arena_free(arena);
    }
    bool ok = false;
    for (size_t limit = 16; limit < 2 * used && !ok; limit += 16) {
        ok = read_bytes(limit) != NULL;
        CHECK(ok || err.code == TD_RESOURCE_EXHAUSTED);
        td_arena_free(arena);
    }
    CHECK(ok);
    free(bytes.p);
}

TEST(a_value_is_there_before_it_is_used)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_return(&p, 1);
    hlo_constant(&p, HLO_A_X);
    check_refused(&p, TD_INVALID_ARGUMENT, "value 1 is used before it is there");
    p = hlo_parts_new();
    hlo_return(&p, 1);
    check_refused(&p, TD_INVALID_ARGUMENT, "value 1 of 1");
}

TEST(a_region_has_as_many_values_as_it_says)
{
    struct hlo_parts p = hlo_parts_new();
    p.n_values = 2;
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "a region of 1 values says that it has 2");
    p = hlo_parts_new();
    p.n_values = 0;
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "1 values more in a region of 0");
    p = hlo_parts_new();
    p.n_values = 1000000;
    hlo_return(&p, 0);
    check_refused(&p, TD_DATA_LOSS, "1000000 values, but only");
}

TEST(an_attribute_that_holds_itself_is_refused)
{
    struct hlo_parts p = hlo_parts_new();
    int self = p.n_attrs;
    CHECK_INT(hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(1, 1, (uint64_t)self)), self);
    hlo_constant(&p, self);
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "lies in 64 others");
}

TEST(lists_of_lists_are_shared_not_multiplied)
{
    struct hlo_parts p = hlo_parts_new();
    int attr = HLO_A_X;
    for (int i = 0; i < 60; i++) {
        attr = hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(1, 2, (uint64_t)attr, (uint64_t)attr));
    }
    const struct td_hlo_attr *a = read_constant(&p, attr);
    int depth = 0;
    for (; a->kind == TD_HLO_ARRAY; a = &a->items[1]) {
        CHECK_INT(a->n, 2);
        depth++;
    }
    CHECK_INT(depth, 60);
    CHECK_STR(a->str.p, "x");
    CHECK(td_arena_bytes(arena) < 1 << 20);
    done();
}

TEST(a_long_list_counts_against_the_limit)
{
    struct hlo_parts p = hlo_parts_new();
    enum { N = 200000 };
    struct hlo_out list = HLO_NUMBERS(1, N);
    for (int i = 0; i < N; i++) {
        hlo_varint(&list, HLO_A_X);
    }
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, list));
    hlo_return(&p, 0);
    check_refused(&p, TD_RESOURCE_EXHAUSTED, "200000 elements");
}

static const struct td_hlo_attr *read_booleans(int n, const void *raw, size_t len)
{
    struct hlo_parts p = hlo_parts_new();
    int boolean = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(0));
    int type = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(20, 1, (uint64_t)n << 1, (uint64_t)boolean));
    struct hlo_out value = HLO_NUMBERS(15, (uint64_t)type, len);
    hlo_put(&value, raw, len);
    return read_constant(&p, hlo_attr_of(&p, HLO_VHLO, value));
}

TEST(booleans_are_bits_also_where_they_were_bytes)
{
    const struct td_hlo_attr *a = read_booleans(11, "\1\0\0\1\0\0\0\1\1\0\1", 11);
    CHECK_INT(a->raw.len, 2);
    CHECK_INT((unsigned char)a->raw.p[0], 0x89);
    CHECK_INT((unsigned char)a->raw.p[1], 0x05);
    CHECK(!a->splat);
    done();
    a = read_booleans(11, "\x89\x05", 2);
    CHECK(!a->splat && a->raw.len == 2 && (unsigned char)a->raw.p[0] == 0x89);
    done();
    a = read_booleans(11, "\xff", 1);
    CHECK(a->splat && a->raw.len == 1);
    done();
    a = read_booleans(1, "\1", 1);
    CHECK(!a->splat && a->raw.len == 1 && a->raw.p[0] == 1);
    done();
}

TEST(a_constant_has_the_bytes_of_its_shape)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(15, HLO_T_TENSOR, 5, 1, 1, 1, 1, 1)));
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "5 bytes for a constant of shape [2]");
    p = hlo_parts_new();
    int type = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(20, 1, 1, HLO_T_F32)); /* zigzag: -1 */
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(15, (uint64_t)type, 0)));
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "a constant of shape [?]");
    p = hlo_parts_new();
    uint64_t large = (uint64_t)1 << 41; /* zigzag: 2 to the 40 */
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(15, HLO_T_TENSOR, 0)));
    hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(20, 2, large, large, HLO_T_F32));
    hlo_return(&p, 0);
    check_refused(&p, TD_INVALID_ARGUMENT, "0 bytes for a constant");
}

TEST(an_integer_is_of_its_type)
{
    static const struct {
        unsigned code; /* of the type */
        int64_t wrote, want;
    } cases[] = {{11, 0xff, -1},
                 {16, 0xff, 255},
                 {12, -2, -2},
                 {12, 65534, -2},
                 {13, -1, -1},
                 {13, 4294967295, -1},
                 {18, 4294967295, 4294967295},
                 {14, INT64_MIN, INT64_MIN},
                 {9, 7, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hlo_parts p = hlo_parts_new();
        int type = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(cases[i].code));
        struct hlo_out value = HLO_NUMBERS(9, (uint64_t)type);
        if (cases[i].code == 11 || cases[i].code == 16) {
            hlo_byte(&value, (unsigned)cases[i].wrote);
        } else {
            hlo_signed(&value, cases[i].wrote);
        }
        const struct td_hlo_attr *a = read_constant(&p, hlo_attr_of(&p, HLO_VHLO, value));
        CHECK_INT(a->kind, TD_HLO_INT);
        CHECK_INT(a->i, cases[i].want);
        done();
    }
}

TEST(a_float_is_of_its_type)
{
    static const struct {
        unsigned code;
        uint64_t bits;
        double want;
    } cases[] = {
        {4, 0x3fc00000, 1.5}, {4, 0x80000001, -0x1p-149}, {4, 0xff800000, -INFINITY},  {3, 0x3e00, 1.5},
        {3, 0x0001, 0x1p-24}, {2, 0xc020, -2.5},          {5, 0x3ff8000000000000, 1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hlo_parts p = hlo_parts_new();
        int type = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(cases[i].code));
        struct hlo_out value = HLO_NUMBERS(8, (uint64_t)type);
        hlo_signed(&value, (int64_t)cases[i].bits);
        const struct td_hlo_attr *a = read_constant(&p, hlo_attr_of(&p, HLO_VHLO, value));
        CHECK_INT(a->kind, TD_HLO_FLOAT);
        CHECK(a->f == cases[i].want);
        done();
    }
}

TEST(what_this_reader_does_not_know_is_named)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_op(&p.body, HLO_NEWER, 0);
    p.n_ops++;
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "operation vhlo.frobnicate_v9 is newer");
    p = hlo_parts_new();
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(99)));
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "attribute 99 of VHLO");
    p = hlo_parts_new();
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(11, 9)));
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "value 9 of VHLO's enumeration 11");
    p = hlo_parts_new();
    int type = hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(99));
    hlo_constant(&p, hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(17, (uint64_t)type)));
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "type 99 of VHLO");
}

TEST(what_another_dialect_says_is_passed_over)
{
    struct hlo_parts p = hlo_parts_new();
    struct hlo_out text = {.n = 0};
    hlo_put(&text, "#sdy.sharding<@mesh>", 21);
    int foreign = hlo_entry(&p.attrs, &p.attr_sizes, &p.n_attrs, HLO_SDY, 0, &text);
    free(text.p);
    int dictionary =
        hlo_attr_of(&p, HLO_BUILTIN, HLO_NUMBERS(1, 2, HLO_A_MAIN, (uint64_t)foreign, HLO_A_X, HLO_A_MAIN));
    hlo_op(&p.beside, HLO_MESH, HLO_ATTRS | HLO_PROPS);
    hlo_varint(&p.beside, (uint64_t)dictionary);
    hlo_varint(&p.beside, 0);
    p.n_beside = 1;
    hlo_op(&p.body, HLO_ADD, HLO_ATTRS);
    hlo_varint(&p.body, (uint64_t)dictionary);
    p.n_ops++;
    hlo_return(&p, 0);
    const struct td_hlo_function *f = read_parts(&p);
    CHECK_STR(err.msg, "");
    CHECK_INT(f->body.ops[0]->n_attrs, 1);
    CHECK_STR(f->body.ops[0]->attrs[0].name, "x");
    CHECK_STR(f->body.ops[0]->attrs[0].str.p, "main");
    done();
}

static void put_cast(struct hlo_parts *p, int type)
{
    hlo_op(&p->body, HLO_CAST, HLO_RESULTS | HLO_OPERANDS);
    struct hlo_out rest = HLO_NUMBERS(1, (uint64_t)type, 1, 0);
    hlo_append(&p->body, &rest);
    free(rest.p);
    p->n_ops++;
    p->n_values++;
    hlo_return(p, 1);
}

TEST(a_cast_between_dialects_is_its_operand)
{
    struct hlo_parts p = hlo_parts_new();
    int number = hlo_type_of(&p, HLO_BUILTIN, HLO_NUMBERS(5));
    put_cast(&p, hlo_type_of(&p, HLO_BUILTIN, HLO_NUMBERS(13, 1, 4, (uint64_t)number)));
    const struct td_hlo_function *f = read_parts(&p);
    CHECK_STR(err.msg, "");
    CHECK_INT(f->body.n_ops, 1);
    CHECK(f->body.ops[0]->in[0] == f->body.args[0]);
    done();
    p = hlo_parts_new();
    put_cast(&p, HLO_T_F32);
    check_refused(&p, TD_UNIMPLEMENTED, "builtin.unrealized_conversion_cast to another type");
}

TEST(text_of_a_dialect_that_matters_is_refused)
{
    struct hlo_parts p = hlo_parts_new();
    struct hlo_out text = {.n = 0};
    hlo_put(&text, "#vhlo.odd<1>", 13);
    int attr = hlo_entry(&p.attrs, &p.attr_sizes, &p.n_attrs, HLO_VHLO, 0, &text);
    free(text.p);
    hlo_constant(&p, attr);
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "an attribute of dialect vhlo as text: '#vhlo.odd<1>");
}

TEST(use_orders_are_passed_over)
{
    struct hlo_parts p = hlo_parts_new();
    p.argument_orders = 1;
    hlo_op(&p.body, HLO_ADD, HLO_RESULTS | HLO_OPERANDS | HLO_ORDERS);
    struct hlo_out rest =
        HLO_NUMBERS(2, HLO_T_TENSOR, HLO_T_TENSOR, 2, 0, 0, /* orders */ 1, 1, 2 << 1 | 1, 0, 1);
    hlo_append(&p.body, &rest);
    free(rest.p);
    p.n_ops++;
    p.n_values += 2;
    hlo_return(&p, 2);
    CHECK(read_parts(&p) != NULL);
    done();
}

/* A while of n others in each other, whose regions have no values. */
static void put_nested(struct hlo_out *o, int n)
{
    hlo_op(o, HLO_WHILE, HLO_REGIONS);
    hlo_varint(o, 1 << 1);
    struct hlo_out region = HLO_NUMBERS(1, 0, (n > 1 ? 2 : 1) << 1);
    hlo_append(o, &region);
    free(region.p);
    if (n > 1) {
        put_nested(o, n - 1);
    }
    hlo_op(o, HLO_RETURN, 0);
}

TEST(regions_nest_up_to_a_bound)
{
    for (int n = 61; n < 64; n++) {
        struct hlo_parts p = hlo_parts_new();
        put_nested(&p.body, n);
        p.n_ops++;
        hlo_return(&p, 0);
        if (n == 63) {
            check_refused(&p, TD_INVALID_ARGUMENT, "a region in 64 others");
            continue;
        }
        CHECK(read_parts(&p) != NULL);
        done();
    }
}

/* Two values beside main, whose region says that it may read them: value 2 would be main's argument. */
TEST(a_function_reads_nothing_of_the_module_around_it)
{
    struct hlo_parts p = hlo_parts_new();
    p.is_open = 1;
    for (int i = 0; i < 2; i++) {
        hlo_op(&p.beside, HLO_ADD, HLO_RESULTS);
        struct hlo_out type = HLO_NUMBERS(1, HLO_T_TENSOR);
        hlo_append(&p.beside, &type);
        free(type.p);
        p.n_beside++;
        p.n_outside++;
    }
    hlo_return(&p, 2);
    check_refused(&p, TD_INVALID_ARGUMENT, "value 2 of 1");
    p = hlo_parts_new();
    p.is_open = 1;
    hlo_return(&p, 0);
    const struct td_hlo_function *f = read_parts(&p);
    CHECK(f != NULL && f->body.ops[0]->in[0] == f->body.args[0]);
    done();
}

TEST(a_region_is_one_block_that_returns)
{
    struct hlo_parts p = hlo_parts_new();
    hlo_op(&p.body, HLO_WHILE, HLO_REGIONS);
    hlo_varint(&p.body, 1 << 1);
    hlo_varint(&p.body, 2);
    p.n_ops++;
    hlo_return(&p, 0);
    check_refused(&p, TD_UNIMPLEMENTED, "a region of 2 blocks");
    p = hlo_parts_new();
    hlo_op(&p.body, HLO_ADD, 0);
    p.n_ops++;
    check_refused(&p, TD_INVALID_ARGUMENT, "region 0 of func ends with add, want return");
}

TEST_MAIN(RUN(what_was_built_is_read) RUN(every_prefix_and_every_limit_of_memory_is_an_error)
              RUN(a_value_is_there_before_it_is_used) RUN(a_region_has_as_many_values_as_it_says) RUN(
                  an_attribute_that_holds_itself_is_refused) RUN(lists_of_lists_are_shared_not_multiplied)
                  RUN(a_long_list_counts_against_the_limit) RUN(booleans_are_bits_also_where_they_were_bytes)
                      RUN(a_constant_has_the_bytes_of_its_shape) RUN(an_integer_is_of_its_type)
                          RUN(a_float_is_of_its_type) RUN(what_this_reader_does_not_know_is_named)
                              RUN(what_another_dialect_says_is_passed_over)
                                  RUN(a_cast_between_dialects_is_its_operand)
                                      RUN(text_of_a_dialect_that_matters_is_refused)
                                          RUN(use_orders_are_passed_over) RUN(regions_nest_up_to_a_bound)
                                              RUN(a_function_reads_nothing_of_the_module_around_it)
                                                  RUN(a_region_is_one_block_that_returns))
