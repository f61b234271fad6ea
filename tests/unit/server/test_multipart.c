/* tests/unit/server/test_multipart.c - multipart bodies, whole and in chunks of every size.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/multipart.h"

#include "tests/test.h"

/* What the parser told: "[name|filename]bytes;" for each part. */
static struct {
    char text[4000];
    size_t n;
} told;

static void tell(const char *bytes, size_t n)
{
    CHECK(told.n + n < sizeof told.text);
    memcpy(told.text + told.n, bytes, n);
    told.n += n;
    told.text[told.n] = '\0';
}

static enum td_code on_begin(void *ctx, const char *name, const char *filename, struct td_err *err)
{
    char text[600];
    (void)ctx;
    (void)err;
    tell(text, (size_t)snprintf(text, sizeof text, "[%s|%s]", name, filename != NULL ? filename : "-"));
    return TD_OK;
}

static enum td_code on_data(void *ctx, const char *bytes, size_t n, struct td_err *err)
{
    (void)ctx;
    (void)err;
    CHECK(n > 0);
    tell(bytes, n);
    return TD_OK;
}

static enum td_code on_end(void *ctx, struct td_err *err)
{
    (void)ctx;
    (void)err;
    tell(";", 1);
    return TD_OK;
}

static const struct td_multipart_events EVENTS = {on_begin, on_data, on_end};

/* The body in chunks of that many bytes: the error's text, "" for none. */
static const char *parse(const char *type, const char *body, size_t n, size_t chunk)
{
    static struct td_multipart m;
    static struct td_err err;
    err = (struct td_err){0};
    told.n = 0;
    told.text[0] = '\0';
    enum td_code rc = td_multipart_open(&m, type, &EVENTS, NULL, &err);
    for (size_t at = 0; rc == TD_OK && at < n; at += chunk) {
        rc = td_multipart_put(&m, body + at, n - at < chunk ? n - at : chunk, &err);
    }
    rc = rc ? rc : td_multipart_finish(&m, &err);
    return rc ? err.msg : "";
}

#define TYPE "multipart/form-data; boundary=XyZ"
#define HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n"

static const char *whole(const char *body)
{
    return parse(TYPE, body, strlen(body), 100000);
}

TEST(parts_come_out_the_same_in_chunks_of_any_size)
{
    static const char body[] =
        "preamble\r\n--XyZ\r\n" HEAD("purpose") "\r\nfine-tune\r\n--XyZ \t\r\n"
                                                "content-disposition:form-data; filename=\"a b.jsonl\"; "
                                                "name=file\r\nContent-Type: text/plain\r\n\r\n"
                                                "\r\r\n-\r\n--\r\n--Xy\r\n--XyA\0\r\n--XyZ\r\n" HEAD(
                                                    "empty") "\r\n\r\n--XyZ--epilogue\r\n--XyZ\r\n";
    static const char want[] =
        "[purpose|-]fine-tune;[file|a b.jsonl]\r\r\n-\r\n--\r\n--Xy\r\n--XyA\0;[empty|-];";
    for (size_t chunk = 1; chunk <= sizeof body; chunk++) {
        CHECK_STR(parse(TYPE, body, sizeof body - 1, chunk), "");
        CHECK_INT(told.n, sizeof want - 1);
        CHECK(memcmp(told.text, want, sizeof want) == 0);
    }
}

TEST(a_body_may_begin_with_its_boundary_and_have_no_head_lines_too_many)
{
    CHECK_STR(whole("--XyZ\r\n" HEAD("a") "\r\n1\r\n--XyZ--"), "");
    CHECK_STR(told.text, "[a|-]1;");
    CHECK_STR(whole("--XyZ--\r\n"), "");
    CHECK_STR(told.text, "");
}

TEST(boundaries_are_read_as_clients_write_them)
{
    const char *body = "--a b'()+_,-./:=?\r\n" HEAD("a") "\r\n1\r\n--a b'()+_,-./:=?--\r\n";
    const char *type = "Multipart/Form-Data; charset=\"x;boundary=no\"; Boundary=\"a b'()+_,-./:=?\"";
    CHECK_STR(parse(type, body, strlen(body), 3), "");
    CHECK_STR(told.text, "[a|-]1;");
    CHECK(strstr(parse("multipart/form-data", "", 0, 1), "no boundary") != NULL);
    CHECK(strstr(parse("multipart/form-data; boundary=\"", "", 0, 1), "no boundary") != NULL);
    CHECK(strstr(parse("application/json", "", 0, 1), "want multipart/form-data") != NULL);
    CHECK(strstr(parse(NULL, "", 0, 1), "want multipart/form-data") != NULL);
    char longer[400] = "multipart/form-data; boundary=";
    memset(longer + strlen(longer), 'x', 201);
    CHECK(strstr(parse(longer, "", 0, 1), "1 to 200 characters") != NULL);
}

TEST(names_of_files_are_read_as_clients_write_them)
{
    static const char *const names[][2] = {
        {"filename=\"a\\\"b\\\\c.jsonl\"", "a\"b\\c.jsonl"},
        {"filename=\"C:\\dir\\x.csv\"", "C:\\dir\\x.csv"},
        {"filename=plain.csv", "plain.csv"},
        {"filename=\"\"", ""},
        {"filename=\"no.csv\"; filename*=UTF-8''%c3%a9%20x.csv", "\xc3\xa9 x.csv"},
        {"filename=\"yes.csv\"; filename*=latin1'x", "yes.csv"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char body[300], want[300];
        (void)snprintf(body, sizeof body,
                       "--XyZ\r\nContent-Disposition: form-data; name=\"f\"; %s\r\n\r\n--XyZ--", names[i][0]);
        (void)snprintf(want, sizeof want, "no part");
        CHECK(strstr(whole(body), "in part 1") != NULL); /* the empty line is the boundary's as well */
        (void)snprintf(body, sizeof body,
                       "--XyZ\r\nContent-Disposition: form-data; name=\"f\"; %s\r\n\r\n\r\n--XyZ--",
                       names[i][0]);
        (void)snprintf(want, sizeof want, "[f|%s];", names[i][1]);
        CHECK_STR(whole(body), "");
        CHECK_STR(told.text, want);
    }
}

TEST(what_is_no_form_is_refused)
{
    static char long_head[9000] = "--XyZ\r\nX: ";
    memset(long_head + 10, 'x', sizeof long_head - 11);
    CHECK(strstr(whole(long_head), "longer than 8192") != NULL);
    CHECK(strstr(whole(""), "before part 1") != NULL);
    CHECK(strstr(whole("--XyZ\r\n" HEAD("a") "\r\n12"), "in part 1") != NULL);
    CHECK(strstr(whole("--XyZ\r\n" HEAD("a") "\r\n12\r\n--XyZ"), "before its closing boundary") != NULL);
    CHECK(strstr(whole("--XyZ\r\nX: y\r\n\r\n\r\n--XyZ--"), "Content-Disposition") != NULL);
    CHECK(strstr(whole("--XyZ\r\n\r\n\r\n--XyZ--"), "Content-Disposition") != NULL);
    CHECK(strstr(whole("--XyZ\r\nContent-Disposition: form-data; filename=a\r\n\r\n"), "name=") != NULL);
    CHECK(strstr(whole("--XyZabc\r\n"), "no line end follows") != NULL);
    CHECK(strstr(whole("--XyZ-x"), "no line end follows") != NULL);
    CHECK(strstr(whole("--XyZ\r\n" HEAD("a") "Content-Transfer-Encoding: base64\r\n\r\n"), "base64") != NULL);
    static char many[20000];
    size_t n = 0;
    for (int i = 0; i <= TD_MULTIPART_PARTS; i++) {
        n += (size_t)snprintf(many + n, sizeof many - n, "\r\n--XyZ\r\n" HEAD("a") "\r\n");
    }
    CHECK(strstr(whole(many), "more than 100 parts") != NULL);
}

TEST_MAIN(RUN(parts_come_out_the_same_in_chunks_of_any_size)
              RUN(a_body_may_begin_with_its_boundary_and_have_no_head_lines_too_many)
                  RUN(boundaries_are_read_as_clients_write_them)
                      RUN(names_of_files_are_read_as_clients_write_them) RUN(what_is_no_form_is_refused))
