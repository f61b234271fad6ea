/* tests/unit/server/test_access.c - bearer tokens: the file, scopes, patterns of models, rereading while
 * others ask.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/access.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/temp_dir.h"

static struct temp_dir dir;

static void write_tokens(const char *content)
{
    temp_dir_write(&dir, "tokens", content, strlen(content));
}

static struct td_access *open_tokens(const char *content)
{
    struct td_access *a = NULL;
    struct td_err err = {0};
    dir = temp_dir_make();
    write_tokens(content);
    CHECK_OK(td_access_open(temp_dir_file(&dir, "tokens").s, &a, &err));
    return a;
}

static void done(struct td_access *a)
{
    td_access_close(a);
    temp_dir_remove(&dir);
}

static int ask(struct td_access *a, const char *header, enum td_scope scope, const char *model)
{
    struct td_err err = {0};
    return td_access_check(a, header, header != NULL ? strlen(header) : 0, scope, model, &err);
}

TEST(without_a_file_all_is_allowed)
{
    CHECK_INT(ask(NULL, NULL, TD_SCOPE_MANAGE, TD_ACCESS_ALL), TD_OK);
}

TEST(gradients_have_a_scope_and_those_by_inputs_two)
{
    struct td_access *a = open_tokens("i infer\ng gradient digits\nb infer,gradient\nd debug\n");
    static const struct {
        const char *token;
        enum td_code infer, either, gradient;
    } rows[] = {{"Bearer i", TD_OK, TD_OK, TD_PERMISSION_DENIED},
                {"Bearer g", TD_PERMISSION_DENIED, TD_OK, TD_OK},
                {"Bearer b", TD_OK, TD_OK, TD_OK},
                {"Bearer d", TD_PERMISSION_DENIED, TD_PERMISSION_DENIED, TD_PERMISSION_DENIED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_INT(ask(a, rows[i].token, TD_SCOPE_INFER, "digits"), rows[i].infer);
        CHECK_INT(ask(a, rows[i].token, TD_SCOPE_INFER_OR_GRADIENT, "digits"), rows[i].either);
        CHECK_INT(ask(a, rows[i].token, TD_SCOPE_GRADIENT, "digits"), rows[i].gradient);
    }
    CHECK_INT(ask(a, "Bearer g", TD_SCOPE_GRADIENT, "other"), TD_PERMISSION_DENIED);
    done(a);
}

TEST(a_token_must_be_known_whole)
{
    struct td_access *a = open_tokens("# comment\n\n  secret\tinfer # and more\r\n");
    const char *const wrong[] = {NULL,
                                 "",
                                 "Bearer",
                                 "Bearer ",
                                 "Bearer secre",
                                 "Bearer secrets",
                                 "Bearer  secret",
                                 "Basic secret",
                                 "secret",
                                 "Bearer SECRET",
                                 "Bearer #"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_INT(ask(a, wrong[i], TD_SCOPE_INFER, NULL), TD_UNAUTHENTICATED);
    }
    CHECK_INT(ask(a, "Bearer secret", TD_SCOPE_INFER, NULL), TD_OK);
    CHECK_INT(ask(a, "bearer secret", TD_SCOPE_ANY, NULL), TD_OK);
    CHECK_INT(ask(a, NULL, TD_SCOPE_OPEN, NULL), TD_OK);
    struct td_err err = {0}; /* a NUL in the header is part of the token */
    CHECK_INT(td_access_check(a, "Bearer secret\0x", 15, TD_SCOPE_INFER, NULL, &err), TD_UNAUTHENTICATED);
    done(a);
}

TEST(scopes_and_patterns_of_all_lines_count)
{
    struct td_access *a = open_tokens("t infer a*\nt manage b\nu debug,train\n");
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "abc"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "abc:signature"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "b"), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, ""), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, NULL), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_ANY, "b"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_ANY, "c"), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_MANAGE, "b"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_MANAGE, TD_ACCESS_ALL), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_DEBUG, NULL), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer u", TD_SCOPE_TRAIN, TD_ACCESS_ALL), TD_OK);
    done(a);
}

static bool is_odd(void *ctx, const char *name)
{
    return strcmp(name, ctx) == 0;
}

TEST(a_pattern_judges_the_model_and_not_the_signature)
{
    struct td_access *a = open_tokens("t infer A\nu infer *public\nv infer A:*\n");
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "A:B"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "B:A"), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "A:B:C"), TD_PERMISSION_DENIED); /* the model A:B */
    CHECK_INT(ask(a, "Bearer u", TD_SCOPE_INFER, "secret:public"), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer u", TD_SCOPE_INFER, "public:secret"), TD_OK);
    CHECK_INT(ask(a, "Bearer v", TD_SCOPE_INFER, "A:B"), TD_PERMISSION_DENIED);
    td_access_models(a, is_odd, (char[]){"A:B"}); /* now a model of that name is there */
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "A:B"), TD_PERMISSION_DENIED);
    CHECK_INT(ask(a, "Bearer v", TD_SCOPE_INFER, "A:B"), TD_OK);
    CHECK_INT(ask(a, "Bearer v", TD_SCOPE_INFER, "A:B:C"), TD_OK);
    CHECK_INT(ask(a, "Bearer t", TD_SCOPE_INFER, "A:C"), TD_OK);
    done(a);
}

TEST(wrong_lines_are_named_without_their_token)
{
    const char *const wrong[] = {"ok infer\nsecret\n", "ok infer\nsecret infer m x\n",
                                 "ok infer\nsecret infer,all\n"};
    for (int i = 0; i < 3; i++) {
        struct td_access *a = open_tokens("ok infer\n");
        struct td_err err = {0};
        write_tokens(wrong[i]);
        CHECK_INT(td_access_reread(a, &err), TD_INVALID_ARGUMENT);
        CHECK(strstr(err.msg, "line 2") != NULL);
        CHECK(strstr(err.msg, "secret") == NULL);
        CHECK_INT(ask(a, "Bearer ok", TD_SCOPE_INFER, NULL), TD_OK); /* the old ones stay */
        done(a);
    }
}

static atomic_bool stop_asking;

static void *keep_asking(void *a)
{
    while (!atomic_load(&stop_asking)) {
        CHECK_INT(ask(a, "Bearer kept", TD_SCOPE_INFER, "m"), TD_OK);
        (void)ask(a, "Bearer gone", TD_SCOPE_INFER, "m");
    }
    return NULL;
}

TEST(rereading_disturbs_nobody)
{
    struct td_access *a = open_tokens("gone infer m\nkept infer m\n");
    pthread_t t[3];
    struct td_err err = {0};
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&t[i], NULL, keep_asking, a) == 0);
    }
    for (int i = 0; i < 100; i++) {
        write_tokens(i % 2 ? "gone infer m\nkept infer m\n" : "kept infer *\n");
        CHECK_OK(td_access_reread(a, &err));
    }
    atomic_store(&stop_asking, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
    done(a);
}

TEST(an_owner_is_a_digest_of_the_token)
{
    char a[33], b[33], none[33] = "x";
    td_access_owner("Bearer abc", 10, a);
    td_access_owner("bearer abc", 10, b);
    CHECK_STR(a, "ba7816bf8f01cfea414140de5dae2223"); /* SHA-256 of "abc", FIPS 180-2 B.1 */
    CHECK_STR(b, a);
    td_access_owner("Bearer abd", 10, b);
    CHECK(strcmp(a, b) != 0);
    td_access_owner(NULL, 0, none);
    CHECK_STR(none, "");
    td_access_owner("Basic abc", 9, none);
    CHECK_STR(none, "");
}

TEST_MAIN(RUN(without_a_file_all_is_allowed) RUN(a_token_must_be_known_whole)
              RUN(gradients_have_a_scope_and_those_by_inputs_two) RUN(scopes_and_patterns_of_all_lines_count)
                  RUN(a_pattern_judges_the_model_and_not_the_signature)
                      RUN(wrong_lines_are_named_without_their_token) RUN(rereading_disturbs_nobody)
                          RUN(an_owner_is_a_digest_of_the_token))
