/* tests/unit/server/train_rows.h - a training file written, opened and read, for tests of rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_TRAIN_ROWS_H
#define TD_TESTS_TRAIN_ROWS_H

#include <strings.h>

#include "tests/unit/server/train_make.h"
#include "tests/unit/temp_dir.h"

static struct td_fault f;
static struct td_job_spec *spec;
static struct td_row_layout *layout;
static struct td_rows *rows;
static struct td_batch batch;
static char path[512];
static struct temp_dir dir;

static inline void setup(const char *members, const char *tensord, const struct make_info *in,
                         const struct make_info *out)
{
    f = (struct td_fault){.err.code = TD_OK};
    if (dir.path[0] == '\0') {
        dir = temp_dir_make();
    }
    spec = make_spec(members, tensord);
    if (td_row_layout_new(spec, make_signature(in, out), &layout, &f)) {
        fprintf(stderr, "%s\n", f.err.msg);
        exit(1);
    }
}

/* ' stands for ". */
static inline enum td_code open_text(const char *name, const char *text, size_t n)
{
    f = (struct td_fault){.err.code = TD_OK};
    rows = NULL;
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    const bool binary = strcasecmp(name, "a.tfrecord") == 0;
    FILE *file = fopen(path, "wb");
    for (size_t i = 0; i < n; i++) {
        fputc(text[i] == '\'' && !binary ? '"' : text[i], file);
    }
    fclose(file);
    const struct td_rows_opts o = {.path = path,
                                   .name = name,
                                   .param = "training_file",
                                   .scratch = dir.path,
                                   .class_weights = true,
                                   .layout = layout,
                                   .spec = spec};
    return td_rows_open(&o, &rows, &f);
}

static inline void opens(const char *name, const char *text)
{
    if (open_text(name, text, strlen(text))) {
        fprintf(stderr, "%s\n  %s\n", text, f.err.msg);
        exit(1);
    }
}

static inline void refuses_bytes(const char *name, const char *text, size_t n, const char *words)
{
    if (open_text(name, text, n) == TD_OK || strstr(f.err.msg, words) == NULL ||
        strcmp(f.code, "invalid_training_file") != 0 || strcmp(f.param, "training_file") != 0) {
        fprintf(stderr, "%.300s\n  '%s' (%s, %s), want '%s'\n", text, f.err.msg, f.code, f.param, words);
        exit(1);
    }
    CHECK(rows == NULL);
}

static inline void refuses(const char *name, const char *text, const char *words)
{
    refuses_bytes(name, text, strlen(text), words);
}

/* The first batch, in the file's order. */
static inline void first_batch(int64_t size)
{
    struct td_batches *b;
    const struct td_epoch e = {.rows = rows, .batch_size = size};
    CHECK_INT(td_batches_open(&e, &b, &f), TD_OK);
    if (td_batches_next(b, &batch, &f)) {
        fprintf(stderr, "%s\n", f.err.msg);
        exit(1);
    }
    td_batches_close(b);
}

static inline void done(void)
{
    td_batch_clear(&batch);
    td_rows_close(rows);
    rows = NULL;
    td_row_layout_free(layout);
    td_job_spec_free(spec);
    temp_dir_remove(&dir);
    dir.path[0] = '\0';
}

static inline void is_floats(int field, const char *shape, const float *want)
{
    const struct td_tensor *t = &batch.tensor[field];
    CHECK_STR(TD_SHAPE_STR(&t->shape), shape);
    CHECK_INT(t->dtype, TD_FLOAT);
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        if (TD_DATA(t, float)[i] != want[i]) {
            fprintf(stderr, "[%lld] is %g, want %g\n", (long long)i, (double)TD_DATA(t, float)[i],
                    (double)want[i]);
            exit(1);
        }
    }
}

static inline void is_ints(int field, const char *shape, const int64_t *want)
{
    const struct td_tensor *t = &batch.tensor[field];
    CHECK_STR(TD_SHAPE_STR(&t->shape), shape);
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        CHECK_INT(td_tensor_int(t, i), want[i]);
    }
}

#endif
