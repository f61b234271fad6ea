/* tests/unit/server/test_model_config.c - config.pbtxt, and messages as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/model_config.h"

#include "core/base/mem.h"
#include "proto/schema/model_config.pb-c.h"
#include "proto/json/pb_json.h"
#include "tests/test.h"

static struct td_err err;
static struct td_model_settings m;

static enum td_code parse(const char *text)
{
    td_model_settings_fini(&m);
    err = (struct td_err){0};
    return td_model_config_parse("/models/m", text, strlen(text), &m, &err);
}

static void refuses(const char *text, enum td_code want, const char *words)
{
    CHECK_INT(parse(text), want);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
    CHECK(strncmp(err.msg, "/models/m/config.pbtxt: ", 24) == 0);
    CHECK(m.pb == NULL && m.dir == NULL);
}

TEST(batching_and_instances_are_read)
{
    CHECK_OK(parse(
        "max_batch_size: 8 instance_group { count: 2 } instance_group [ { kind: KIND_CPU } ]\n"
        "dynamic_batching { preferred_batch_size: [ 2, 8 ] max_queue_delay_microseconds: 5 priority_levels: "
        "3\n"
        "  default_priority_level: 2 preserve_ordering: true\n"
        "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 7 max_queue_size: 9 }\n"
        "  priority_queue_policy { key: 1 value { allow_timeout_override: true } } }"));
    CHECK(m.given && m.dynamic_batching && m.preserve_ordering);
    CHECK_INT(m.max_batch_size, 8);
    CHECK_INT(m.instances, 3);
    CHECK_INT(m.n_preferred_batch_size, 2);
    CHECK_INT(m.preferred_batch_size[1], 8);
    CHECK_INT(m.max_queue_delay_us, 5);
    CHECK_INT(m.priority_levels * 10 + m.default_priority_level, 32);
    CHECK(m.queue_policy.delay && m.queue_policy.default_timeout_us == 7 &&
          m.queue_policy.max_queue_size == 9);
    CHECK_INT(m.n_priority_policies, 1);
    CHECK(m.priority_policies[0].level == 1 && m.priority_policies[0].policy.allow_timeout_override);
    td_model_settings_fini(&m);
}

TEST(what_is_not_served_is_refused)
{
    refuses("max_batch_size: x", TD_INVALID_ARGUMENT,
            "Error parsing text-format inference.ModelConfig: 1:17");
    refuses("max_batch_size: -1", TD_INVALID_ARGUMENT, "max_batch_size -1 must be 0 or more");
    refuses("dynamic_batching {}", TD_INVALID_ARGUMENT, "max_batch_size must be 1 or more");
    refuses("max_batch_size: 2 dynamic_batching { preferred_batch_size: 3 }", TD_INVALID_ARGUMENT,
            "preferred size 3");
    refuses("max_batch_size: 2 dynamic_batching { priority_levels: 3 }", TD_INVALID_ARGUMENT,
            "default_priority_level 0");
    refuses("max_batch_size: 2 dynamic_batching { priority_levels: 3 default_priority_level: 1 "
            "priority_queue_policy { key: 4 value {} } }",
            TD_INVALID_ARGUMENT, "priority_queue_policy: level 4 must be in 1 .. priority_levels (3)");
    refuses("instance_group { count: 5000 }", TD_INVALID_ARGUMENT, "count 5000 must be in");
    refuses("platform: \"onnxruntime_onnx\"", TD_UNIMPLEMENTED, "platform 'onnxruntime_onnx'");
    refuses("backend: \"python\"", TD_UNIMPLEMENTED, "backend 'python'");
    refuses("batch_input { kind: BATCH_ELEMENT_COUNT target_name: \"n\" }", TD_UNIMPLEMENTED, "batch_input:");
    refuses("ensemble_scheduling {}", TD_UNIMPLEMENTED, "ensemble_scheduling");
    refuses("sequence_batching { direct {} }", TD_UNIMPLEMENTED, "sequence_batching");
    refuses("input { name: \"x\" reshape { shape: [ 1 ] } }", TD_UNIMPLEMENTED, "input 'x': reshape");
    refuses("output { name: \"y\" label_filename: \"../../etc/passwd\" }", TD_INVALID_ARGUMENT,
            "must lie beside");
    refuses("output { name: \"y\" label_filename: \"none.txt\" }", TD_NOT_FOUND, "none.txt");
}

static struct td_signature signature(struct td_tensor_info *in, struct td_tensor_info *out)
{
    *in = (struct td_tensor_info){.key = "x", .dtype = TD_FLOAT, .shape = td_shape_matrix(-1, 4)};
    *out = (struct td_tensor_info){.key = "y", .dtype = TD_STRING, .shape = td_shape_vector(-1)};
    return (struct td_signature){.key = "s", .in = in, .out = out, .n_in = 1, .n_out = 1};
}

TEST(inputs_and_outputs_must_be_the_models)
{
    struct td_tensor_info in, out;
    struct td_signature sig = signature(&in, &out);
    CHECK_OK(parse("max_batch_size: 2 input { name: \"x\" data_type: TYPE_FP32 dims: 4 } output { name: "
                   "\"y\" data_type: TYPE_STRING }"));
    CHECK_OK(td_model_config_check(&m, &sig, &err));
    CHECK_OK(parse("input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 4 ] }"));
    CHECK_OK(td_model_config_check(&m, &sig, &err));
    static const char *const wrong[][2] = {
        {"input { name: \"q\" }", "unexpected inference input 'q'"},
        {"input { name: \"x\" data_type: TYPE_FP64 }", "input 'x' has type float in the model, double"},
        {"input { name: \"x\" dims: [ 4 ] }", "input 'x' has shape [?,4] in the model, [4]"},
        {"max_batch_size: 2 input { name: \"x\" dims: [ 5 ] }",
         "input 'x' has shape [?,4] in the model, [?,5]"},
        {"output { name: \"y\" data_type: TYPE_BF16 }", "output 'y' has type string in the model, bfloat16"},
        {"input { name: \"x\" dims: [ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 ] }", "more than 12 dims"},
        {"input { name: \"x\" dims: [ -7 ] }", "-7"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_OK(parse(wrong[i][0]));
        CHECK_INT(td_model_config_check(&m, &sig, &err), TD_INVALID_ARGUMENT);
        CHECK(strstr(err.msg, wrong[i][1]) != NULL);
    }
    in.shape.dim[0] = 3;
    CHECK_OK(parse("max_batch_size: 2"));
    CHECK_INT(td_model_config_check(&m, &sig, &err), TD_INVALID_ARGUMENT);
    CHECK(!td_model_config_has_rows(&sig) && !td_model_config_has_rows(NULL));
    td_model_settings_fini(&m);
}

/* As Triton does: a setting that is misspelt would otherwise be one that was never made. */
TEST(fields_that_triton_does_not_know_are_refused)
{
    refuses("max_batchsize: 8", TD_INVALID_ARGUMENT,
            "Message type \"inference.ModelConfig\" has no field named \"max_batchsize\".");
    refuses("max_batch_size: 8\ndynamic_batching { max_delay: 1 }", TD_INVALID_ARGUMENT,
            "2:20: Message type \"inference.ModelDynamicBatching\" has no field named \"max_delay\".");
    CHECK_OK(parse(
        "optimization { graph { level: 1 } cuda { graph_spec { input { key: \"x\" value { dim: 3 } } } }\n"
        "  execution_accelerators { cpu_execution_accelerator { name: \"a\" parameters { key: \"k\" "
        "value: \"v\" } } } }\n"
        "metric_tags { key: \"team\" value: \"a\" } model_operations { op_library_filename: \"x.so\" }\n"
        "instance_group { rate_limiter { resources { name: \"r\" count: 1 } priority: 2 } }"));
    CHECK_INT(m.pb->optimization->graph->level, 1);
    td_model_settings_fini(&m);
}

TEST(json_has_every_scalar_and_what_is_set)
{
    struct td_sink s = {0};
    CHECK_OK(parse("name: \"a\\\"b\" version_policy { specific { versions: [ 1, 9223372036854775807 ] } } "
                   "max_batch_size: 3\n"
                   "parameters { key: \"k\" value { string_value: \"v\" } } instance_group { kind: KIND_GPU "
                   "gpus: [ 0, 1 ] }"));
    CHECK_OK(td_pb_json_write((const ProtobufCMessage *)m.pb, &s, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    CHECK_STR(
        s.p,
        "{\"name\":\"a\\\"b\",\"platform\":\"\",\"version_policy\":{\"specific\":{\"versions\":[1,"
        "9223372036854775807]}},"
        "\"max_batch_size\":3,\"input\":[],\"output\":[],\"instance_group\":[{\"name\":\"\","
        "\"count\":0,\"gpus\":[0,1],"
        "\"kind\":\"KIND_GPU\",\"profile\":[],\"passive\":false,\"secondary_devices\":[],\"host_policy\":"
        "\"\"}],\"default_model_filename\":\"\",\"cc_model_filenames\":{},\"metric_tags\":{},"
        "\"parameters\":{\"k\":{\"string_value\":\"v\"}},\"model_warmup\":[],\"backend\":\"\",\"batch_"
        "input\":[],\"batch_output\":[],\"runtime\":\"\"}");
    td_sink_fini(&s);
    td_model_settings_fini(&m);
}

TEST(a_map_of_numbers_has_quoted_keys)
{
    struct td_sink s = {0};
    CHECK_OK(parse("max_batch_size: 1 dynamic_batching { priority_queue_policy { key: 7 value { "
                   "max_queue_size: 2 } } }"));
    CHECK_OK(td_pb_json_write((const ProtobufCMessage *)m.pb->dynamic_batching, &s, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    CHECK(strstr(s.p, "\"priority_queue_policy\":{\"7\":{\"timeout_action\":\"REJECT\",\"default_timeout_"
                      "microseconds\":0,"
                      "\"allow_timeout_override\":false,\"max_queue_size\":2}}") != NULL);
    td_sink_fini(&s);
    td_model_settings_fini(&m);
}

static enum td_code override(const char *json)
{
    td_model_settings_fini(&m);
    err = (struct td_err){0};
    return td_model_config_override("/models/m/3", json, strlen(json), &m, &err);
}

TEST(json_stands_in_for_the_file)
{
    CHECK_OK(override(
        "{\"maxBatchSize\": 8.0, \"version_policy\": {\"specific\": {\"versions\": [\"1\", 7]}},"
        " \"optimization\": {\"eagerBatching\": true}, \"model_metrics\": {\"metric_control\": "
        "[{\"histogram_options\":"
        " {\"buckets\": [0.5, 2]}}]},"
        " \"instance_group\": [{\"count\": \"2\", \"kind\": 2, \"passive\": true}], \"backend\": null}"));
    CHECK_INT(m.max_batch_size, 8);
    CHECK_INT(m.instances, 2);
    CHECK_STR(m.dir, "/models/m");
    CHECK_INT(m.pb->version_policy->specific->versions[1], 7);
    CHECK(m.pb->optimization->eager_batching);
    CHECK(m.pb->model_metrics->metric_control[0]->histogram_options->buckets[0] == 0.5);
    CHECK(m.pb->instance_group[0]->passive && m.pb->instance_group[0]->kind == 2);
    const char *const wrong[][2] = {
        {"[]", "an object is wanted"},
        {"{\"max_batch_size\": 1.5}", "field 'max_batch_size': a whole number in range"},
        {"{\"max_batch_size\": \"1x\"}", "field 'max_batch_size': a number is wanted"},
        {"{\"model_warmup\": [{\"count\": -1}]}", "field 'count': a whole number in range"},
        {"{\"parameters\": []}", "field 'parameters': an object is wanted"},
        {"{\"parameters\": {\"k\": 1}}", "field 'value': an object is wanted"},
        {"{\"model_transaction_policy\": {\"decoupled\": 1}}", "field 'decoupled': true or false"},
        {"{\"max_batchsize\": 4}", "\"inference.ModelConfig\" has no field named \"max_batchsize\""},
        {"{\"dynamic_batching\": {\"delay\": 4}, \"max_batch_size\": 1}",
         "\"inference.ModelDynamicBatching\" has no field named \"delay\""},
        {"{\"name\": \"a\"} x", "text behind the object"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_INT(override(wrong[i][0]), TD_INVALID_ARGUMENT);
        if (strstr(err.msg, wrong[i][1]) == NULL) {
            CHECK_STR(err.msg, wrong[i][1]);
        }
    }
    CHECK_INT(override("{\"max_batch_size\": -1}"), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "config: max_batch_size -1 must be 0 or more");
}

TEST_MAIN(RUN(batching_and_instances_are_read) RUN(what_is_not_served_is_refused)
              RUN(inputs_and_outputs_must_be_the_models) RUN(fields_that_triton_does_not_know_are_refused)
                  RUN(json_has_every_scalar_and_what_is_set) RUN(a_map_of_numbers_has_quoted_keys)
                      RUN(json_stands_in_for_the_file))
