/* tests/fuzz/train_rows_fuzz.c - any bytes as a training file: the first one says in which format and for
 * which layout, the rest is the file. What is taken is read again, shuffled, batch by batch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/train/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const JOBS[] = {
    "{\"name\":\"mse\",\"output\":\"y\"}",
    "[{\"name\":\"sparse_categorical_crossentropy\",\"output\":\"k\",\"ignore_class\":-1,\"class_weight\":"
    "{\"1\":2}},{\"name\":\"hinge\",\"output\":\"y\",\"target\":\"targets.y\"}]",
    "{\"name\":\"sparse_categorical_crossentropy\",\"output\":\"t\",\"class_weight\":{\"3\":2}}",
};
enum { N_JOBS = sizeof JOBS / sizeof JOBS[0] };

static struct td_job_spec *specs[N_JOBS];
static struct td_row_layout *layouts[N_JOBS];

static void make_layouts(void)
{
    static struct td_tensor_info in[] = {
        {.key = "ids", .tensor = "ids", .dtype = TD_INT32, .shape = {2, {-1, -1}}},
        {.key = "img", .tensor = "img", .dtype = TD_UINT8, .shape = {4, {-1, -1, -1, 3}}},
        {.key = "s", .tensor = "s", .dtype = TD_STRING, .shape = {1, {-1}}},
        {.key = "x", .tensor = "x", .dtype = TD_FLOAT, .shape = {2, {-1, 2}}}};
    static struct td_tensor_info out[] = {
        {.key = "k", .tensor = "k", .dtype = TD_FLOAT, .shape = {2, {-1, 4}}},
        {.key = "t", .tensor = "t", .dtype = TD_FLOAT, .shape = {3, {-1, -1, 4}}},
        {.key = "y", .tensor = "y", .dtype = TD_FLOAT, .shape = {1, {-1}}}};
    static const struct td_signature all = {.key = "s", .in = in, .n_in = 4, .out = out, .n_out = 3};
    static const struct td_signature one = {.key = "s", .in = in + 3, .n_in = 1, .out = out, .n_out = 3};
    for (int i = 0; i < N_JOBS; i++) {
        struct td_fault f = {.err.code = TD_OK};
        char text[600];
        (void)snprintf(
            text, sizeof text,
            "{\"model\":\"m\",\"training_file\":\"t\",\"method\":{\"supervised\":{\"hyperparameters\":"
            "{\"batch_size\":2}}},\"tensord\":{\"shuffle\":%s,\"loss\":%s%s}}",
            i == 0 ? "false" : "true", JOBS[i], i == 1 ? ",\"padding\":{\"ids\":0}" : "");
        json_t *doc = json_loads(text, 0, NULL);
        TD_CHECK(doc != NULL && td_job_spec_read(doc, &specs[i], &f) == TD_OK);
        TD_CHECK(td_row_layout_new(specs[i], i == 0 ? &one : &all, &layouts[i], &f) == TD_OK);
        json_decref(doc);
    }
}

static void read_batches(const struct td_rows *rows, bool shuffle)
{
    const struct td_epoch e = {.rows = rows, .batch_size = 2, .shuffle = shuffle, .part = 1, .n_parts = 2};
    struct td_fault f = {.err.code = TD_OK};
    struct td_batches *b;
    struct td_batch batch;
    if (td_batches_open(&e, &b, &f)) {
        return;
    }
    while (td_batches_next(b, &batch, &f) == TD_OK && batch.all_rows > 0) {
        for (int i = 0; i < batch.n; i++) {
            const struct td_shape *s = &batch.tensor[i].shape;
            TD_CHECK(s->rank > 0 && s->dim[0] == batch.rows);
        }
        td_batch_clear(&batch);
    }
    td_batches_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a.jsonl", "a.csv", "a.tfrecord"};
    static int fd = -1;
    char path[64];
    if (specs[0] == NULL) {
        make_layouts();
        fd = memfd_create("rows", 0);
    }
    if (size == 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)size - 1) {
        return 0;
    }
    const int job = data[0] / 3 % N_JOBS;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct td_rows_opts o = {.path = path,
                                   .name = names[data[0] % 3],
                                   .param = "training_file",
                                   .scratch = "/tmp",
                                   .class_weights = true,
                                   .layout = layouts[job],
                                   .spec = specs[job]};
    struct td_fault f = {.err.code = TD_OK};
    struct td_rows *rows;
    if (td_rows_open(&o, &rows, &f) == TD_OK) {
        read_batches(rows, specs[job]->shuffle);
        td_rows_close(rows);
    } else {
        TD_CHECK(f.code[0] != '\0' && f.err.msg[0] != '\0');
    }
    return 0;
}
