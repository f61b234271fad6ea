/* tests/unit/server/test_latency.c - requests by version and signature: nothing is lost over loads and
 * unloads, and what is gone takes no memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/latency.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "tests/test.h"

static const char NAME[] = "latency";

/* Whether the samples of a model hold this line; put: one of the three ways to tell them. */
static bool tells(struct td_latency_model *m,
                  enum td_code (*put)(struct td_latency_model *, struct td_sink *, const char *,
                                      struct td_err *),
                  const char *line)
{
    struct td_sink s = {.limit = 0};
    struct td_err err = {0};
    CHECK_OK(put(m, &s, NAME, &err));
    CHECK_OK(td_sink_put(&s, "", 1, &err));
    const bool yes = strstr(s.p, line) != NULL;
    td_sink_fini(&s);
    return yes;
}

static void ask(struct td_latency_row *r, enum td_code code)
{
    td_latency_count(r, TD_API_PREDICT, TD_ENTRY_GRPC, code, 15);
}

TEST(a_request_is_told_by_version_signature_wire_and_code)
{
    static struct td_latency_model m = {.name = "m"}; /* as a model's: for good */
    struct td_latency_version *v = td_latency_open(&m, 3);
    ask(td_latency_row(v, "f"), TD_OK);
    td_latency_count(td_latency_row(v, "f"), TD_API_INFER, TD_ENTRY_REST, TD_DEADLINE_EXCEEDED, 11);
    ask(td_latency_row(v, ""), TD_FAILED_PRECONDITION);
    ask(&m.none, TD_NOT_FOUND);
    td_latency_count(&m.none, TD_API_OTHER, TD_ENTRY_REST, TD_OK, 1);
#define OF(version, signature, api, protocol, code)                                                          \
    "latency_count{model_name=\"m\",version=\"" version "\",signature=\"" signature "\",API=\"" api          \
    "\",protocol=\"" protocol "\",code=\"" code "\"} 1\n"
    CHECK(tells(&m, td_latency_put, OF("3", "f", "Predict", "grpc", "OK")));
    CHECK(tells(&m, td_latency_put, OF("3", "f", "ModelInfer", "rest", "DEADLINE_EXCEEDED")));
    CHECK(tells(&m, td_latency_put, OF("3", "", "Predict", "grpc", "FAILED_PRECONDITION")));
    CHECK(tells(&m, td_latency_put, OF("", "", "Predict", "grpc", "NOT_FOUND")));
    CHECK(!tells(&m, td_latency_put, "API=\"\""));
    CHECK(tells(&m, td_latency_put_counts, "{model_name=\"m\",status=\"OK\"} 2\n"));
    CHECK(tells(&m, td_latency_put_apis, "_sum{model_name=\"m\",API=\"Predict\",entrypoint=\"GRPC\"} 15\n"));
    CHECK(!tells(&m, td_latency_put_apis, "infer"));
    td_latency_close(v);
}

TEST(the_series_of_a_version_go_with_it_and_the_sums_stay)
{
    static struct td_latency_model m = {.name = "m"}; /* as a model's: for good */
    for (int i = 1; i <= 1000; i++) {
        struct td_latency_version *v = td_latency_open(&m, i);
        ask(td_latency_row(v, "f"), TD_OK);
        td_latency_close(v);
    }
    CHECK(m.versions == NULL);
    CHECK(!tells(&m, td_latency_put, "latency"));
    CHECK(tells(&m, td_latency_put_counts, "{model_name=\"m\",status=\"OK\"} 1000\n"));
    CHECK(tells(&m, td_latency_put_apis,
                "_count{model_name=\"m\",API=\"Predict\",entrypoint=\"GRPC\"} 1000\n"));
    CHECK_INT((int64_t)td_latency_total(&m), 1000);
}

TEST(a_version_that_is_loaded_again_goes_on_counting)
{
    static struct td_latency_model m = {.name = "m"}; /* as a model's: for good */
    struct td_latency_version *old = td_latency_open(&m, 1), *again = td_latency_open(&m, 1);
    ask(td_latency_row(old, "f"), TD_OK);
    td_latency_close(old);
    ask(td_latency_row(again, "f"), TD_OK);
    CHECK(tells(&m, td_latency_put, "signature=\"f\",API=\"Predict\",protocol=\"grpc\",code=\"OK\"} 2\n"));
    td_latency_close(again);
}

TEST(signatures_beyond_the_limit_count_under_none)
{
    static struct td_latency_model m = {.name = "m"}; /* as a model's: for good */
    struct td_latency_version *v = td_latency_open(&m, 1);
    struct td_latency_row *none = td_latency_row(v, "");
    int own = 0;
    for (int i = 0; i < 200; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "f%d", i);
        own += td_latency_row(v, name) != none;
        CHECK(td_latency_row(v, name) == td_latency_row(v, name));
    }
    CHECK_INT(own, TD_LATENCY_SIGNATURES);
    td_latency_close(v);
}

static struct td_latency_model shared = {.name = "shared"};

static void *load_ask_unload(void *arg)
{
    for (int i = 0; i < 500; i++) {
        struct td_latency_version *v = td_latency_open(&shared, i % 3);
        struct td_latency_row *r = td_latency_row(v, "f");
        for (int k = 0; k < 4; k++) {
            ask(r, k == 3 ? TD_INTERNAL : TD_OK);
        }
        if (i % 50 == 0) {
            CHECK(!tells(&shared, td_latency_put, "no such line"));
        }
        td_latency_close(v);
    }
    return arg;
}

TEST(nothing_is_lost_while_versions_come_and_go)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&t[i], NULL, load_ask_unload, NULL) == 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT((int64_t)td_latency_total(&shared), 8000);
    CHECK(tells(&shared, td_latency_put_counts, "{model_name=\"shared\",status=\"INTERNAL\"} 2000\n"));
}

TEST_MAIN(RUN(a_request_is_told_by_version_signature_wire_and_code)
              RUN(the_series_of_a_version_go_with_it_and_the_sums_stay)
                  RUN(a_version_that_is_loaded_again_goes_on_counting)
                      RUN(signatures_beyond_the_limit_count_under_none)
                          RUN(nothing_is_lost_while_versions_come_and_go))
