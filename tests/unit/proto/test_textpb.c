/* tests/unit/proto/test_textpb.c - protobuf's text format: what is accepted, and where errors point.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/textpb.h"

#include "proto/pb/guard.h"
#include "proto/schema/serving.pb-c.h"
#include "tests/test.h"

typedef Tensorflow__Serving__ModelServerConfig server_config;
typedef Tensorflow__Serving__ModelConfig model_config;

static server_config *parse_config(const char *text, struct td_err *err)
{
    ProtobufCMessage *m = NULL;
    if (td_textpb_parse(&tensorflow__serving__model_server_config__descriptor, text, strlen(text), false, &m,
                        err)) {
        return NULL;
    }
    return (server_config *)m;
}

static void refuses(const char *text, const char *message)
{
    struct td_err err = {0};
    CHECK(parse_config(text, &err) == NULL);
    CHECK_INT(err.code, TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, message);
}

TEST(reads_a_model_config)
{
    struct td_err err = {0};
    server_config *c =
        parse_config("# models\n"
                     "model_config_list: {\n"
                     "  config { name: 'a' base_path: \"/m/\" 'a', model_platform: \"tensorflow\"\n"
                     "    model_type: TENSORFLOW;\n"
                     "    model_version_policy { specific { versions: [1, 0x10] versions: 3 } }\n"
                     "    version_labels { key: \"stable\" value: -1 }\n"
                     "  }\n"
                     "  config < name: \"b\" >\n"
                     "}\n",
                     &err);
    CHECK_STR(err.msg, "");
    CHECK_INT(c->model_config_list->n_config, 2);
    const model_config *a = c->model_config_list->config[0];
    CHECK_STR(a->base_path, "/m/a");
    CHECK_INT(a->model_type, 1);
    CHECK_INT(a->model_version_policy->specific->n_versions, 3);
    CHECK_INT(a->model_version_policy->specific->versions[1], 16);
    CHECK_STR(a->version_labels[0]->key, "stable");
    CHECK_INT(a->version_labels[0]->value, -1);
    CHECK_STR(c->model_config_list->config[1]->name, "b");
    td_guard_free(&c->base);
}

TEST(empty_text_is_an_empty_message)
{
    struct td_err err = {0};
    server_config *c = parse_config(" # nothing\n", &err);
    CHECK(c != NULL);
    CHECK_INT(c->config_case, 0);
    td_guard_free(&c->base);
}

TEST(errors_name_line_and_column)
{
#define PREFIX "Error parsing text-format tensorflow.serving.ModelServerConfig: "
    refuses("model_config_list {\n  config { nam: 'x' } }",
            PREFIX "2:12: Message type \"tensorflow.serving.ModelConfig\" has no field named \"nam\".");
    refuses("model_config_list {", PREFIX "1:20: Expected identifier, got end of text");
    refuses("model_config_list { config { name: 3 } }", PREFIX "1:36: Expected string");
    refuses("model_config_list { config { name: 'a' name: 'b' } }",
            PREFIX "1:44: Non-repeated field \"name\" is specified multiple times");
    refuses("model_config_list { config { name 'a' } }", PREFIX "1:35: Expected \":\"");
    refuses(
        "model_config_list { } custom_model_config { }", PREFIX
        "1:42: Field \"custom_model_config\" is specified along with field \"model_config_list\", another of "
        "its oneof");
    refuses("model_config_list { config { model_type: NONE } }",
            PREFIX "1:46: Unknown enumeration value of \"NONE\" for field \"model_type\"");
    refuses("custom_model_config { [type.googleapis.com/foo.Bar] { } }",
            PREFIX "1:24: Any and extension fields ([name] { }) are not expanded here");
    refuses("hello", PREFIX
            "1:1: Message type \"tensorflow.serving.ModelServerConfig\" has no field named \"hello\".");
}

TEST(numbers_are_checked_against_their_range)
{
    refuses("model_config_list { config { model_version_policy { latest { num_versions: -1 } } } }",
            PREFIX "1:76: Expected an unsigned integer in range");
    refuses("model_config_list { config { model_version_policy { latest { num_versions: 4294967296 } } } }",
            PREFIX "1:76: Expected an unsigned integer in range");
    refuses("model_config_list { config { version_labels { value: 9223372036854775808 } } }",
            PREFIX "1:54: Expected an integer in range");
}

TEST(strings_are_unescaped)
{
    struct td_err err = {0};
    server_config *c = parse_config(
        "model_config_list{config{name:'\\x41\\102\\n\\t\\'\\\"\\u00e9\\U0001F600\\ud83d\\ude00'}}", &err);
    CHECK_STR(err.msg, "");
    CHECK_STR(c->model_config_list->config[0]->name, "AB\n\t'\"\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    td_guard_free(&c->base);
    refuses("model_config_list{config{name:'a\nb'}}",
            PREFIX "1:33: String literals cannot cross line boundaries");
    refuses("model_config_list{config{name:'a", PREFIX "1:33: Unexpected end of string");
    refuses("model_config_list{config{name:'\\777'}}",
            PREFIX "1:36: Invalid escape sequence in string literal");
}

TEST(floats_bools_and_wrappers)
{
    struct td_err err = {0};
    ProtobufCMessage *m;
    const char text[] = "max_batch_size { value: 128 } enable_large_batch_splitting { value: true } "
                        "allowed_batch_sizes: 1 allowed_batch_sizes: 128 thread_pool_name { value: 'p' }";
    CHECK_OK(td_textpb_parse(&tensorflow__serving__batching_parameters__descriptor, text, strlen(text), false,
                             &m, &err));
    Tensorflow__Serving__BatchingParameters *b = (Tensorflow__Serving__BatchingParameters *)m;
    CHECK_INT(b->max_batch_size->value, 128);
    CHECK_INT(b->enable_large_batch_splitting->value, 1);
    CHECK_INT(b->n_allowed_batch_sizes, 2);
    td_guard_free(m);
    const char sampling[] = "sampling_rate: 1.5e-1f attributes: 0x7";
    CHECK_OK(td_textpb_parse(&tensorflow__serving__sampling_config__descriptor, sampling, strlen(sampling),
                             false, &m, &err));
    CHECK(((Tensorflow__Serving__SamplingConfig *)m)->sampling_rate == 0.15);
    td_guard_free(m);
}

TEST(unknown_fields_are_skipped_when_asked)
{
    struct td_err err = {0};
    ProtobufCMessage *m;
    const char text[] =
        "a: 1 b { c: [1, 2, {d: 'x'}] [t.com/x.Y] { z: -inf } } e <f: 'g' 'h'> name: 'n' h: [] i: -1.5";
    CHECK_OK(
        td_textpb_parse(&tensorflow__serving__model_spec__descriptor, text, strlen(text), true, &m, &err));
    CHECK_STR(((Tensorflow__Serving__ModelSpec *)m)->name, "n");
    td_guard_free(m);
}

TEST(nesting_is_bounded)
{
    struct td_err err = {0};
    ProtobufCMessage *m;
    char text[40000];
    memset(text, 0, sizeof text);
    for (int i = 0; i < 10000; i++) {
        memcpy(text + 3 * i, "a{ ", 3);
    }
    CHECK_INT(
        td_textpb_parse(&tensorflow__serving__model_spec__descriptor, text, strlen(text), true, &m, &err),
        TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "nest too deep") != NULL);
}

TEST_MAIN(RUN(reads_a_model_config) RUN(empty_text_is_an_empty_message) RUN(errors_name_line_and_column)
              RUN(numbers_are_checked_against_their_range) RUN(strings_are_unescaped)
                  RUN(floats_bools_and_wrappers) RUN(unknown_fields_are_skipped_when_asked)
                      RUN(nesting_is_bounded))
