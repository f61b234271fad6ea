/* tests/unit/server/test_rest.c - routing and documents of the HTTP API, without a listener and with models
 * that never load.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rest.h"

#include <jansson.h>

#include "core/base/mem.h"
#include "server/base/rest_json.h"
#include "server/http/http_impl.h"
#include "tests/test.h"

static struct td_rest rest;
static struct td_http listener; /* that does not listen */
static struct exchange e;
#define x e.x

static void setup(void)
{
    struct td_err err = {0};
    const struct td_registry_opts opts = {.poll_wait_s = 0, .load_threads = 1};
    CHECK_OK(td_registry_start(&opts, &rest.registry, &err));
    const struct td_model_config c = {
        .name = (char *)"a/b:c", .base_path = (char *)"/no/such/place", .n_latest = 1};
    CHECK_OK(td_registry_configure(rest.registry, &c, 1, false, &err));
}

static int ask(const char *method, const char *target, const char *body)
{
    struct td_err err = {0};
    const bool local = x.local;
    td_sink_fini(&x.out);
    e = (struct exchange){.h = &listener, .here = true};
    x.method = method;
    x.target = target;
    x.body = body;
    x.body_len = strlen(body);
    x.status = 200;
    x.local = local;
    td_request_init(&x.r);
    (void)td_rest_route(&rest, &x);
    td_rest_handle(&rest, &x);
    CHECK_OK(td_sink_put(&x.out, "", 1, &err));
    return x.status;
}

static void says(const char *words)
{
    if (strstr(x.out.p, words) == NULL) {
        CHECK_STR(x.out.p, words);
    }
}

TEST(unknown_targets_are_refused_as_tf_serving_does)
{
    setup();
    CHECK_INT(ask("GET", "/v1/nothing/here", ""), 400);
    CHECK_STR(x.out.p, "{\n    \"error\": \"Malformed request: GET /v1/nothing/here\"\n}");
    CHECK_INT(ask("PUT", "/v1/models/m", ""), 400);
    CHECK_INT(ask("POST", "/v1/models/m/versions/x:predict", "{}"), 400);
    CHECK_INT(ask("POST", "/v1/models/m:predict?a=1", "{}"), 400);
    CHECK_INT(ask("GET", "/v1", ""), 404);
    CHECK_INT(ask("GET", "/", ""), 404);
    CHECK_INT(ask("POST", "/v1/models/m/versions/99999999999999999999:predict", "{}"), 400);
    td_registry_stop(rest.registry);
}

TEST(names_are_decoded_after_matching)
{
    setup();
    CHECK_INT(ask("GET", "/v1/models/a%2Fb%3ac", ""), 404);
    says("Could not find any versions of model a/b:c");
    CHECK_INT(ask("POST", "/V1/MODELS/a%2Fb%3Ac/versions/7:Predict", "{\"instances\":[1]}"), 404);
    says("Servable not found for request: Specific(a/b:c, 7)");
    CHECK_INT(ask("POST", "/v1/models/m/labels/l%20m:predict", "{\"instances\":[1]}"), 400);
    says("Unrecognized servable version label: l m");
    CHECK_INT(ask("GET", "/v1/models/m/versions/3", ""), 404);
    says("Could not find version 3 of model m");
    CHECK_INT(ask("GET", "/v1/models/m/metadata", ""), 404);
    says("Latest(m)");
    td_registry_stop(rest.registry);
}

TEST(bytes_that_are_no_utf8_never_reach_an_answer)
{
    setup();
    CHECK_INT(ask("GET", "/v1/models/%FF%FE", ""), 400);
    json_t *doc = json_loads(x.out.p, 0, NULL);
    CHECK(doc != NULL);
    json_decref(doc);
    td_registry_stop(rest.registry);
}

TEST(bad_bodies_are_told_before_models_are_sought)
{
    setup();
    CHECK_INT(ask("POST", "/v1/models/m:predict", "{\"instances\":[1"), 400);
    says("JSON Parse error");
    CHECK_INT(ask("POST", "/v1/models/m:classify", ""), 400);
    says("The document is empty");
    td_registry_stop(rest.registry);
}

TEST(health_and_readiness_differ)
{
    setup();
    CHECK_INT(ask("GET", "/healthz", ""), 200);
    CHECK_INT(ask("GET", "/readyz", ""), 503);
    says("a/b:c");
    struct td_err err = {0};
    CHECK_OK(td_registry_configure(rest.registry, NULL, 0, true, &err));
    CHECK_INT(ask("GET", "/readyz", ""), 200);
    atomic_store(&rest.draining, true);
    CHECK_INT(ask("GET", "/readyz", ""), 503);
    td_registry_stop(rest.registry);
}

TEST(the_list_names_models_that_do_not_serve)
{
    setup();
    CHECK_INT(ask("GET", "/v1/models?x=1", ""), 200);
    json_t *doc = json_loads(x.out.p, 0, NULL);
    CHECK(doc != NULL);
    CHECK_STR(json_string_value(json_object_get(doc, "object")), "list");
    const json_t *model = json_array_get(json_object_get(doc, "models"), 0);
    CHECK_STR(json_string_value(json_object_get(model, "name")), "a/b:c");
    CHECK_INT(json_array_size(json_object_get(model, "versions")), 0);
    json_decref(doc);
    td_registry_stop(rest.registry);
}

TEST(management_is_for_this_host)
{
    setup();
    x.local = false;
    CHECK_INT(ask("POST", "/v1/models/m:reload", ""), 403);
    x.local = true;
    CHECK_INT(ask("POST", "/v1/models/m:reload", ""), 404);
    CHECK_INT(ask("POST", "/v1/models/a%2Fb%3Ac:reload", ""), 503);
    says("/no/such/place");
    rest.open_management = true;
    x.local = false;
    CHECK_INT(ask("POST", "/v1/models/m:reload", ""), 404);
    CHECK(td_rest_route(&rest, &x));
    td_registry_stop(rest.registry);
}

TEST(openai_paths_have_openai_errors)
{
    setup();
    x.local = true;
    CHECK_INT(ask("GET", "/v1/files/file-1", ""), 503); /* there are no jobs here */
    says("\"type\": \"server_error\", \"param\": null, \"code\": null}}");
    CHECK_INT(ask("PUT", "/v1/files?x=1", ""), 405);
    says("\"type\": \"invalid_request_error\", \"param\": null, \"code\": \"method_not_allowed\"");
    CHECK_STR(x.allow, "GET, HEAD, POST");
    CHECK_INT(ask("GET", "/v1/fine_tuning/jobs/a/b/c", ""), 404);
    says("\"code\": \"not_found\"");
    CHECK_INT(ask("GET", "/v1/filesystem", ""), 400);
    CHECK_STR(x.out.p, "{\n    \"error\": \"Malformed request: GET /v1/filesystem\"\n}");
    x.local = false;
    rest.open_management = false;
    CHECK_INT(ask("GET", "/v1/fine_tuning/jobs", ""), 403);
    says("this host only");
    td_registry_stop(rest.registry);
}

TEST(numbers_of_exact_documents_read_back_the_same)
{
    static const double numbers[] = {0.1,  1.0 / 3,           1e-300, 5e-324, 1.7976931348623157e308,
                                     -0.0, 0.0001234567890123};
    struct td_err err = {0};
    struct td_sink s = {0};
    json_t *doc = json_pack("{s:[], s:{s:s, s:n, s:b, s:b}, s:I}", "reals", "o", "t\"\n\xc3\xa9", "a\tb", "n",
                            "y", 1, "f", 0, "i", (json_int_t)INT64_MIN);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_array_append_new(json_object_get(doc, "reals"), json_real(numbers[i]));
    }
    CHECK_OK(td_rest_put_exact(&s, doc, &err));
    CHECK(memchr(s.p, '\n', s.n) == NULL);
    json_t *again = json_loadb(s.p, s.n, 0, NULL);
    CHECK(json_equal(doc, again));
    json_decref(again);
    json_decref(doc);
    td_sink_fini(&s);
    CHECK_INT(td_rest_put_exact(&s, NULL, &err), TD_RESOURCE_EXHAUSTED);
}

TEST_MAIN(RUN(unknown_targets_are_refused_as_tf_serving_does) RUN(names_are_decoded_after_matching)
              RUN(bytes_that_are_no_utf8_never_reach_an_answer)
                  RUN(bad_bodies_are_told_before_models_are_sought) RUN(health_and_readiness_differ)
                      RUN(the_list_names_models_that_do_not_serve) RUN(management_is_for_this_host)
                          RUN(openai_paths_have_openai_errors)
                              RUN(numbers_of_exact_documents_read_back_the_same))
