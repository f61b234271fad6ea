/* tests/fuzz/bundle_fuzz.c - damaged checkpoints.
 *
 * First byte even: the rest is an index file as it is. Odd: the rest is rows (key length, key, value length,
 * value) that a sound table is built of, so that the fuzzer gets past its checksums to the entries. The data
 * file is fixed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/checkpoint/bundle.h"
#include "proto/checkpoint/sstable_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void remove_dir(void)
{
    char path[100];
    static const char *const names[] = {"c.index", "c.data-00000-of-00001"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    TD_CHECK(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void prepare(void)
{
    char zeros[256] = {0};
    if (dir[0] == 0) {
        snprintf(dir, sizeof dir, "%s/bundle-fuzz-XXXXXX", P_tmpdir);
        TD_CHECK(mkdtemp(dir) != NULL);
        atexit(remove_dir);
        write_file("c.data-00000-of-00001", zeros, sizeof zeros);
    }
}

/* Rows in their order as far as keys rise. */
static void build_table(const uint8_t *p, const uint8_t *end)
{
    struct td_sstable_writer w = {0};
    struct td_err err = {0};
    enum td_code rc = TD_OK;
    while (rc == TD_OK && end - p >= 2) {
        size_t key = p[0], value = p[1];
        p += 2;
        if ((size_t)(end - p) < key + value) {
            break;
        }
        rc = td_sstable_add(&w, (const char *)p, key, p + key, value, &err);
        p += key + value;
    }
    err = (struct td_err){0};
    TD_CHECK(td_sstable_finish(&w, &err) == TD_OK);
    write_file("c.index", w.file.p, w.file.n);
    td_sstable_writer_fini(&w);
}

static void read_all(struct td_bundle *b)
{
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes;
    for (int i = 0; td_bundle_entry(b, i, &name, &dtype, &shape, &bytes); i++) {
        struct td_err err = {0};
        struct td_tensor t = {0};
        if (td_bundle_read(b, name, "", &t, &err) == TD_OK) {
            TD_CHECK(t.dtype == dtype && td_shape_equal(&t.shape, &shape));
            td_tensor_clear(&t);
        }
        err = (struct td_err){0};
        if (td_bundle_read(b, name, "4 5 1,2:-", &t, &err) == TD_OK) {
            td_tensor_clear(&t);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char prefix[100];
    struct td_err err = {0};
    struct td_bundle *b;
    prepare();
    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        write_file("c.index", data + 1, size - 1);
    } else {
        build_table(data + 1, data + size);
    }
    td_budget_limit((uint64_t)64 << 20, "the limit");
    snprintf(prefix, sizeof prefix, "%s/c", dir);
    if (td_bundle_open(prefix, &b, &err) == TD_OK) {
        read_all(b);
        td_bundle_close(b);
    }
    return 0;
}
