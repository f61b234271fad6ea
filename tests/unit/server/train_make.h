/* tests/unit/server/train_make.h - signatures, specs and training files for the tests of server/train.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_TRAIN_MAKE_H
#define TD_TESTS_TRAIN_MAKE_H

#include "core/base/mem.h"
#include "server/train/rows.h"
#include "tests/test.h"

/* Text with ' for " as JSON. */
static inline json_t *make_json(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; *p; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    json_error_t why;
    json_t *doc = json_loads(copy, 0, &why);
    if (doc == NULL) {
        fprintf(stderr, "%s\n  %s\n", why.text, copy);
        exit(1);
    }
    free(copy);
    return doc;
}

/* A job's body around the inside of `tensord` and (may be empty) further members before it. */
static inline struct td_job_spec *make_spec(const char *members, const char *tensord)
{
    char text[4096];
    struct td_fault f = {.err.code = TD_OK};
    struct td_job_spec *s = NULL;
    snprintf(text, sizeof text, "{'model':'m','training_file':'t',%s'tensord':{%s}}", members, tensord);
    json_t *doc = make_json(text);
    if (td_job_spec_read(doc, &s, &f)) {
        fprintf(stderr, "%s\n  %s\n", text, f.err.msg);
        exit(1);
    }
    json_decref(doc);
    return s;
}

/* {name, dtype, rank, dims}: ended by a NULL name. */
struct make_info {
    const char *name;
    enum td_dtype dtype;
    int rank;
    int64_t dim[4];
};

static inline struct td_tensor_info make_info(const struct make_info *m)
{
    struct td_tensor_info info = {
        .key = m->name, .tensor = m->name, .dtype = m->dtype, .shape.rank = m->rank};
    for (int i = 0; i < m->rank; i++) {
        info.shape.dim[i] = m->dim[i];
    }
    return info;
}

/* in and out: ended by a NULL name. Lives as long as the test. */
static inline const struct td_signature *make_signature(const struct make_info *in,
                                                        const struct make_info *out)
{
    static struct td_tensor_info infos[2][8];
    static struct td_signature sig;
    sig = (struct td_signature){.key = "serving_default", .in = infos[0], .out = infos[1]};
    for (; in[sig.n_in].name != NULL; sig.n_in++) {
        sig.in[sig.n_in] = make_info(&in[sig.n_in]);
    }
    for (; out[sig.n_out].name != NULL; sig.n_out++) {
        sig.out[sig.n_out] = make_info(&out[sig.n_out]);
    }
    return &sig;
}

#endif
