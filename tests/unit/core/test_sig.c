/* tests/unit/core/test_sig.c - signature texts: what each part becomes, and where a wrong text is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/sig.h"

#include "tests/test.h"

static struct td_arena *arena;

static struct td_op_def parse(const char *text)
{
    struct td_op_def def = {0};
    struct td_err err = {0};
    arena = td_arena_new(1 << 20);
    CHECK_OK(td_sig_parse(arena, "Op", text, &def, &err));
    return def;
}

TEST(arguments_of_every_form)
{
    struct td_op_def d = parse("(a:float, b : T, c:N*T, d:M*int64, e:Tin, f:Ref(T), g:Ref(N*T)) -> (y:Tout) "
                               "{T:type; N:int; M:int; Tin:list(type); Tout:list(type)}");
    CHECK_INT(d.n_in, 7);
    CHECK(d.in[0].type == TD_FLOAT && d.in[0].type_attr == NULL && !d.in[0].is_ref);
    CHECK(d.in[1].type == TD_DTYPE_NONE && strcmp(d.in[1].type_attr, "T") == 0 && d.in[1].list_attr == NULL);
    CHECK(strcmp(d.in[2].number_attr, "N") == 0 && strcmp(d.in[2].type_attr, "T") == 0);
    CHECK(strcmp(d.in[3].number_attr, "M") == 0 && d.in[3].type == TD_INT64);
    CHECK(d.in[4].type_attr == NULL && strcmp(d.in[4].list_attr, "Tin") == 0);
    CHECK(d.in[5].is_ref && d.in[6].is_ref && strcmp(d.in[6].number_attr, "N") == 0);
    CHECK(d.n_out == 1 && strcmp(d.out[0].list_attr, "Tout") == 0);
    td_arena_free(arena);
}

TEST(attributes_with_their_defaults)
{
    struct td_op_def d =
        parse("() -> () {s:string='a\\n\\'\\\\'; i:int=-3; f:float=1e-3; b:bool=true; t:type=int32; "
              "l:list(int)=[1, -2]; e:list(type)=[]; p:string='X' in ['X','Y']; need:int}");
    CHECK_INT(d.n_attrs, 9);
    CHECK_STR(d.attrs[0].value.str[0].p, "a\n'\\");
    CHECK_INT(d.attrs[0].value.str[0].len, 4);
    CHECK_INT(d.attrs[1].value.i[0], -3);
    CHECK(d.attrs[2].value.f[0] == 1e-3f && d.attrs[3].value.b[0] && d.attrs[4].value.type[0] == TD_INT32);
    CHECK(d.attrs[5].is_list && d.attrs[5].value.n == 2 && d.attrs[5].value.i[1] == -2);
    CHECK(d.attrs[6].has_default && d.attrs[6].value.is_list && d.attrs[6].value.n == 0);
    CHECK(d.attrs[7].n_allowed == 2 && strcmp(d.attrs[7].allowed[1].p, "Y") == 0);
    CHECK(!d.attrs[8].has_default && d.attrs[8].kind == TD_ATTR_INT);
    td_arena_free(arena);
}

TEST(a_wrong_text_is_told_where)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "expected '(' at \"\""},
        {"(x:float)", "expected '->' at \"\""},
        {"(x float) -> ()", "expected ':' at \"float) -> ()\""},
        {"(x:float y:float) -> ()", "at \"y:float) -> ()\""},
        {"(x:) -> ()", "expected a name at \") -> ()\""},
        {"(x:T) -> ()", "expected a dtype or a type attribute at \"T\""},
        {"(x:N) -> () {N:int}", "expected a dtype or a type attribute at \"N\""},
        {"(x:Ref(float) -> ()", "expected ',' or ')' at \"-> ()\""},
        {"() -> () {a:thing}", "expected an attribute kind"},
        {"() -> () {a:list(int}", "expected an attribute kind"},
        {"() -> () {a:int b:int}", "expected ';' or '}' at \"b:int}\""},
        {"() -> () {a:int} more", "expected the end at \"more\""},
        {"() -> () {a:int", "expected ';' or '}'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct td_op_def def;
        struct td_err err = {0};
        struct td_arena *a = td_arena_new(1 << 20);
        CHECK_INT(td_sig_parse(a, "Op", rows[i].text, &def, &err), TD_INTERNAL);
        if (strstr(err.msg, rows[i].words) == NULL || strstr(err.msg, "signature of op 'Op'") == NULL) {
            CHECK_STR(err.msg, rows[i].words);
        }
        td_arena_free(a);
    }
}

TEST(no_cut_of_a_text_is_read_beyond_its_end)
{
    static const char whole[] =
        "(a:N*T, b:Ref(T)) -> (y:Tout) {T:type=float; N:int=2; Tout:list(type)=[int32,float]; "
        "s:string='a\\'b' in ['a','b']; l:list(float)=[1.5]}";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        struct td_op_def def;
        struct td_err err = {0};
        struct td_arena *a = td_arena_new(1 << 20);
        char *text = malloc(n + 1); /* a block of its own, for AddressSanitizer */
        memcpy(text, whole, n);
        text[n] = 0;
        enum td_code rc = td_sig_parse(a, "Op", text, &def, &err);
        bool complete = n >= strlen("(a:N*T, b:Ref(T)) -> (y:Tout)");
        CHECK(rc == TD_INTERNAL || complete);
        free(text);
        td_arena_free(a);
    }
}

TEST_MAIN(RUN(arguments_of_every_form) RUN(attributes_with_their_defaults) RUN(a_wrong_text_is_told_where)
              RUN(no_cut_of_a_text_is_read_beyond_its_end))
