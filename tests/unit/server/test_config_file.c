/* tests/unit/server/test_config_file.c - configuration files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/config_file.h"

#include "tests/test.h"

static struct td_err err;

static const char *file(const char *text)
{
    static char path[100];
    (void)snprintf(path, sizeof path, "/tmp/td_test_config.XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    err = (struct td_err){0};
    return path;
}

TEST(models_are_read)
{
    struct td_model_config *m = NULL;
    int n = 0;
    const char *path = file("model_config_list { # two\n"
                            "  config { name: \"a\" base_path: \"/m/a\" model_platform: \"tensorflow\"\n"
                            "    model_version_policy { specific { versions: 3 versions: 5 } }\n"
                            "    version_labels { key: \"stable\" value: 3 } }\n"
                            "  config: < name: 'b' base_path: '/m/' 'b' model_platform: 'tensorflow'\n"
                            "    model_version_policy: { latest { num_versions: 2 } } >\n}\n");
    CHECK_OK(td_config_file_models(path, &m, &n, &err));
    unlink(path);
    CHECK_INT(n, 2);
    CHECK_STR(m[0].name, "a");
    CHECK_INT(m[0].policy, TD_POLICY_SPECIFIC);
    CHECK_INT(m[0].n_versions, 2);
    CHECK_INT(m[0].versions[1], 5);
    CHECK_STR(m[0].labels[0].name, "stable");
    CHECK_INT(m[0].labels[0].version, 3);
    CHECK_STR(m[1].base_path, "/m/b");
    CHECK_INT(m[1].n_latest, 2);
    td_model_configs_free(m, n);
}

TEST(an_empty_file_is_no_models)
{
    struct td_model_config *m = NULL;
    int n = -1;
    const char *path = file("");
    CHECK_OK(td_config_file_models(path, &m, &n, &err));
    unlink(path);
    CHECK_INT(n, 0);
    td_model_configs_free(m, n);
}

TEST(bad_text_is_told_as_tf_serving_tells_it)
{
    struct td_model_config *m = NULL;
    int n = 0;
    const char *path = file("this is not { a config");
    CHECK_INT(td_config_file_models(path, &m, &n, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "Error parsing text-format tensorflow.serving.ModelServerConfig") == err.msg);
    CHECK(strstr(err.msg, path) != NULL);
    unlink(path);
    err = (struct td_err){0};
    CHECK_INT(td_config_file_models("/no/such/file", &m, &n, &err), TD_NOT_FOUND);
}

TEST(batching_parameters_have_defaults_and_rules)
{
    struct td_batching b;
    const char *path = file("max_batch_size { value: 128 } allowed_batch_sizes: 8 allowed_batch_sizes: 128");
    CHECK_OK(td_config_file_batching(path, &b, &err));
    unlink(path);
    CHECK_INT(b.max_batch_size, 128);
    CHECK_INT(b.max_enqueued_batches, 10);
    CHECK_INT(b.n_allowed, 2);
    path = file("max_batch_size { value: 128 } allowed_batch_sizes: 64");
    CHECK_INT(td_config_file_batching(path, &b, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "Last entry in allowed_batch_sizes must match max_batch_size") != NULL);
    unlink(path);
    path = file("max_batch_size { value: 0 }");
    CHECK_INT(td_config_file_batching(path, &b, &err), TD_INVALID_ARGUMENT);
    unlink(path);
}

TEST(monitoring_has_a_default_path)
{
    struct td_monitoring m;
    const char *path = file("prometheus_config { enable: true }");
    CHECK_OK(td_config_file_monitoring(path, &m, &err));
    unlink(path);
    CHECK(m.enable);
    CHECK_STR(m.path, "/monitoring/prometheus/metrics");
}

TEST(tls_needs_key_and_certificate)
{
    struct td_tls_config c;
    const char *path = file("server_key: 'KEY' server_cert: 'CERT' client_verify: false");
    CHECK_OK(td_config_file_tls(path, &c, &err));
    unlink(path);
    CHECK_STR(c.key, "KEY");
    CHECK(c.ca == NULL);
    td_tls_config_fini(&c);
    path = file("server_key: 'KEY'");
    CHECK_INT(td_config_file_tls(path, &c, &err), TD_INVALID_ARGUMENT);
    unlink(path);
    path = file("server_key: 'K' server_cert: 'C' client_verify: true");
    CHECK_INT(td_config_file_tls(path, &c, &err), TD_INVALID_ARGUMENT);
    unlink(path);
}

TEST_MAIN(RUN(models_are_read) RUN(an_empty_file_is_no_models) RUN(bad_text_is_told_as_tf_serving_tells_it)
              RUN(batching_parameters_have_defaults_and_rules) RUN(monitoring_has_a_default_path)
                  RUN(tls_needs_key_and_certificate))
