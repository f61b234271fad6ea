/* tests/unit/proto/test_json_strict.c - texts that are JSON, and texts that only look like it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_strict.h"

#include "core/base/mem.h"
#include "tests/test.h"

static struct td_json_strict s;
static struct td_err err;

static enum td_code check(const char *text)
{
    err = (struct td_err){0};
    return td_json_strict_check(&s, text, strlen(text), &err);
}

TEST(json_is_taken)
{
    static const char *const texts[] = {
        "0",
        " -0.5e+10 ",
        "[]",
        "{}",
        "[[],{}]",
        "\"\"",
        "null",
        "[true,false,null]",
        "1e999",
        "{\"a\":1,\"b\":{\"a\":[{\"a\":2}]}}",
        "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
        "\"\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x82\xac\"",
        "123456789012345678901234567890",
        "[1,2,3]\n\t\r ",
        "\"eight bytes and more without anything in them\"",
        "{\"\\ud83d\\ude00\":1,\"\\ud83d\\ude01\":2}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK_OK(check(texts[i]));
    }
    td_json_strict_fini(&s);
}

TEST(what_is_no_json_is_named_with_its_place)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "the text ends before a value at column 1"},
        {"[1,2", "the text ends inside a list or an object at column 5"},
        {"[1,]", "no value that JSON has at column 4"},
        {"[1 2]", "no comma or ] after an element at column 4"},
        {"{\"a\" 1}", "no colon after a key at column 6"},
        {"{a:1}", "no key in quotes at column 2"},
        {"{\"a\":1,}", "no key in quotes at column 8"},
        {"{\"a\":1]", "no comma or } after a member at column 7"},
        {"1 1", "text after the end of the value at column 3"},
        {"01", "text after the end of the value at column 2"},
        {"-", "no value that JSON has at column 1"},
        {"1.", "no value that JSON has"},
        {".5", "no value that JSON has"},
        {"+1", "no value that JSON has"},
        {"1e", "no value that JSON has"},
        {"NaN", "no value that JSON has"},
        {"-Infinity", "no value that JSON has"},
        {"nul", "no value that JSON has"},
        {"True", "no value that JSON has"},
        {"\"a", "the text ends inside a string at column 3"},
        {"\"a\tb\"", "a control character inside a string at column 3"},
        {"\"\\x\"", "an escape that JSON has not at column 2"},
        {"\"\\u12g4\"", "an escape that JSON has not"},
        {"\"\\", "an escape that JSON has not"},
        {"\"\\ud800\"", "half a surrogate pair at column 2"},
        {"\"\\ud800\\u0041\"", "half a surrogate pair"},
        {"\"\\udc00\\ud800\"", "half a surrogate pair"},
        {"\"\xff\"", "a byte that is not UTF-8 at column 2"},
        {"\"\xc0\x80\"", "a byte that is not UTF-8"},
        {"\"\xe0\x80\x80\"", "a byte that is not UTF-8"},
        {"\"\xed\xa0\x80\"", "a byte that is not UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "a byte that is not UTF-8"},
        {"\"\xe2\x82\"", "a byte that is not UTF-8"},
        {"{\"a\":1,\"a\":2}", "the key \"a\" is given twice"},
        {"[{\"k\":{\"b\":1,\"\\u0062\":2}}]", "the key \"\\u0062\" is given twice"},
        {"{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", "is given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (check(rows[i].text) == TD_OK || strstr(err.msg, rows[i].words) == NULL) {
            fprintf(stderr, "%s: '%s', want '%s'\n", rows[i].text, err.msg, rows[i].words);
            exit(1);
        }
    }
    td_json_strict_fini(&s);
}

TEST(nesting_ends_at_its_limit)
{
    char text[2 * TD_JSON_STRICT_DEPTH + 8];
    for (int more = 0; more < 2; more++) {
        const int n = TD_JSON_STRICT_DEPTH + more;
        memset(text, '[', (size_t)n);
        memset(text + n, ']', (size_t)n);
        text[2 * n] = '\0';
        CHECK_INT(check(text), more ? TD_INVALID_ARGUMENT : TD_OK);
    }
    CHECK(strstr(err.msg, "nested more than 64 deep at column 65") != NULL);
    td_json_strict_fini(&s);
}

TEST(many_keys_are_taken_and_too_many_refused)
{
    const int most = 16384;
    char *text = td_calloc(32, 20000);
    CHECK(text != NULL);
    for (int n = most; n <= most + 1; n++) {
        size_t at = 0;
        text[at++] = '{';
        for (int i = 0; i < n; i++) {
            at += (size_t)snprintf(text + at, 32, "%s\"k%d\":0", i > 0 ? "," : "", i);
        }
        text[at++] = '}';
        text[at] = '\0';
        CHECK_INT(check(text), n > most ? TD_INVALID_ARGUMENT : TD_OK);
    }
    td_free(text);
    td_json_strict_fini(&s);
}

TEST_MAIN(RUN(json_is_taken) RUN(what_is_no_json_is_named_with_its_place) RUN(nesting_ends_at_its_limit)
              RUN(many_keys_are_taken_and_too_many_refused))
