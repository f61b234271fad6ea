/* tests/unit/proto/test_bundle.c - checkpoints: what is written is read, what is damaged is refused, merging.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint/bundle.h"
#include "proto/checkpoint/bundle_entry.h"
#include "proto/checkpoint/slice.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/temp_dir.h"

static struct td_tensor numbers(int64_t n, float first)
{
    struct td_err err = {0};
    struct td_tensor t = {0};
    struct td_shape shape = td_shape_vector(n);
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    for (int64_t i = 0; i < n; i++) {
        TD_DATA(&t, float)[i] = first + (float)i;
    }
    return t;
}

static struct td_tensor texts(const char *a, const char *b)
{
    struct td_err err = {0};
    struct td_tensor t = {0};
    struct td_shape shape = td_shape_vector(2);
    CHECK_OK(td_tensor_new(&t, TD_STRING, &shape, &err));
    CHECK_OK(td_tensor_set_str(&t, 0, a, strlen(a), &err));
    CHECK_OK(td_tensor_set_str(&t, 1, b, strlen(b), &err));
    return t;
}

/* "w" [0..n), "text", and "z" of no elements. */
static void write_checkpoint(const char *prefix, const char *w_name, int64_t n)
{
    struct td_err err = {0};
    struct td_bundle_writer *w;
    struct td_tensor a = numbers(n, 0), s = texts("hello", ""), z = numbers(0, 0);
    CHECK_OK(td_bundle_create(prefix, &w, &err));
    CHECK_OK(td_bundle_add(w, w_name, &a, &err));
    CHECK_OK(td_bundle_add(w, w_name[0] == 'w' ? "text" : "text2", &s, &err));
    CHECK_OK(td_bundle_add(w, w_name[0] == 'w' ? "z" : "z2", &z, &err));
    CHECK_OK(td_bundle_finish(w, &err));
    td_tensor_clear(&a);
    td_tensor_clear(&s);
    td_tensor_clear(&z);
}

TEST(what_is_written_is_read)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "variables");
    struct td_bundle *b;
    struct td_tensor t = {0};
    size_t len;
    write_checkpoint(prefix.s, "w", 1000);
    CHECK_OK(td_bundle_open(prefix.s, &b, &err));
    CHECK_OK(td_bundle_read(b, "w", "", &t, &err));
    CHECK(td_tensor_count(&t) == 1000 && TD_DATA(&t, float)[999] == 999 && t.buf->read_only);
    struct td_tensor s = {0}, z = {0};
    CHECK_OK(td_bundle_read(b, "text", "", &s, &err));
    CHECK_STR(td_tensor_str(&s, 0, &len), "hello");
    CHECK_OK(td_bundle_read(b, "z", "", &z, &err));
    CHECK_INT(td_tensor_count(&z), 0);
    td_bundle_close(b);
    CHECK(TD_DATA(&t, float)[500] == 500); /* stays mapped */
    td_tensor_clear(&t);
    td_tensor_clear(&s);
    td_tensor_clear(&z);
    temp_dir_remove(&d);
}

TEST(entries_are_listed_in_key_order)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "variables");
    struct td_bundle *b;
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes;
    write_checkpoint(prefix.s, "w", 7);
    CHECK_OK(td_bundle_open(prefix.s, &b, &err));
    CHECK(td_bundle_entry(b, 1, &name, &dtype, &shape, &bytes));
    CHECK_STR(name, "w");
    CHECK(dtype == TD_FLOAT && shape.dim[0] == 7 && bytes == 28);
    CHECK(!td_bundle_entry(b, 3, &name, &dtype, &shape, &bytes) &&
          !td_bundle_entry(b, -1, &name, &dtype, &shape, &bytes));
    CHECK(td_bundle_has(b, "z") && !td_bundle_has(b, "y") && !td_bundle_has(b, ""));
    struct td_tensor t = {0};
    CHECK_INT(td_bundle_read(b, "y", "", &t, &err), TD_NOT_FOUND);
    CHECK_STR(err.msg, "Key y not found in checkpoint");
    td_bundle_close(b);
    temp_dir_remove(&d);
}

TEST(slices_are_cut_and_put_together)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "p");
    struct td_bundle_writer *w;
    struct td_bundle *b;
    struct td_tensor lower = numbers(6, 0), upper = numbers(9, 6), t = {0};
    lower.shape = td_shape_matrix(2, 3);
    upper.shape = td_shape_matrix(3, 3);
    CHECK_OK(td_bundle_create(prefix.s, &w, &err));
    CHECK_OK(td_bundle_add_slice(w, "v", "5 3 0,2:-", &lower, &err));
    CHECK_OK(td_bundle_add_slice(w, "v", "5 3 2,3:-", &upper, &err));
    CHECK_OK(td_bundle_add(w, "whole", &upper, &err));
    CHECK_OK(td_bundle_finish(w, &err));
    CHECK_OK(td_bundle_open(prefix.s, &b, &err));
    CHECK_OK(td_bundle_read(b, "v", "", &t, &err));
    CHECK(t.shape.dim[0] == 5 && TD_DATA(&t, float)[14] == 14);
    td_tensor_clear(&t);
    CHECK_OK(td_bundle_read(b, "v", "5 3 1,2:1,2", &t, &err));
    CHECK(t.shape.dim[1] == 2 && TD_DATA(&t, float)[0] == 4 && TD_DATA(&t, float)[3] == 8);
    td_tensor_clear(&t);
    CHECK_OK(td_bundle_read(b, "whole", "3 3 1,2:-", &t, &err));
    CHECK(t.buf->read_only && TD_DATA(&t, float)[0] == 9);
    td_tensor_clear(&t);
    CHECK_INT(td_bundle_read(b, "whole", "4 3 1,2:-", &t, &err), TD_INVALID_ARGUMENT);
    struct td_sink text = {0};
    err = (struct td_err){0};
    CHECK_INT(td_bundle_n_slices(b, "v"), 2);
    CHECK_INT(td_bundle_n_slices(b, "whole"), 0);
    CHECK_OK(td_bundle_slice(b, "v", 1, &text, &err));
    CHECK_STR(text.p, "5 3 2,3:-");
    CHECK_INT(td_bundle_slice(b, "v", 2, &text, &err), TD_NOT_FOUND);
    td_sink_fini(&text);
    td_bundle_close(b);
    td_tensor_clear(&lower);
    td_tensor_clear(&upper);
    temp_dir_remove(&d);
}

static enum td_code read_w(const char *prefix, struct td_err *err)
{
    struct td_bundle *b;
    struct td_tensor t = {0};
    TD_TRY(td_bundle_open(prefix, &b, err));
    enum td_code rc = td_bundle_read(b, "w", "", &t, err);
    td_tensor_clear(&t);
    td_bundle_close(b);
    return rc;
}

static long file_size(const char *path)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fseek(f, 0, SEEK_END) == 0);
    long n = ftell(f);
    fclose(f);
    return n;
}

static void flip_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    CHECK(f != NULL && fseek(f, at, SEEK_SET) == 0);
    int c = fgetc(f);
    CHECK(fseek(f, at, SEEK_SET) == 0 && fputc(c ^ 0x10, f) != EOF);
    fclose(f);
}

TEST(damage_is_found)
{
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "c"), index = temp_dir_file(&d, "c.index");
    struct temp_path data = temp_dir_file(&d, "c.data-00000-of-00001");
    write_checkpoint(prefix.s, "w", 100);
    struct td_err err = {0};
    CHECK_OK(read_w(prefix.s, &err));
    flip_byte(data.s, 100);
    CHECK_INT(read_w(prefix.s, &err), TD_DATA_LOSS);
    CHECK(strstr(err.msg, "Checksum does not match") != NULL);
    flip_byte(data.s, 100);
    for (long i = 0, n = file_size(index.s); i < n; i++) { /* any flip but in the footer's padding */
        err = (struct td_err){0};
        flip_byte(index.s, i);
        enum td_code rc = read_w(prefix.s, &err);
        CHECK(rc == TD_DATA_LOSS || (rc == TD_OK && i >= n - 48 && i < n - 8));
        flip_byte(index.s, i);
    }
    CHECK(truncate(data.s, 300) == 0);
    err = (struct td_err){0};
    CHECK_INT(read_w(prefix.s, &err), TD_DATA_LOSS);
    CHECK(strstr(err.msg, "beyond the 300 bytes of data file 0") != NULL);
    CHECK(unlink(data.s) == 0);
    err = (struct td_err){0};
    CHECK_INT(read_w(prefix.s, &err), TD_NOT_FOUND);
    temp_dir_remove(&d);
}

static int count_files(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

/* Changes a byte of the data file. */
static void damage(const char *prefix, long at)
{
    struct td_err err = {0};
    char path[TD_BUNDLE_PATH];
    CHECK_OK(td_bundle_data_path(prefix, 0, 1, path, &err));
    FILE *f = fopen(path, "r+b");
    CHECK(f != NULL && fseek(f, at, SEEK_SET) == 0);
    const int c = fgetc(f);
    CHECK(fseek(f, at, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF && fclose(f) == 0);
}

TEST(what_is_read_ahead_is_compared)
{
    static const char *const names[] = {"text", "nobody", "w", "z", "w"};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "variables");
    for (int damaged = 0; damaged < 2; damaged++) {
        struct td_err err = {0};
        struct td_bundle *b;
        struct td_tensor w = {0}, text = {0}, z = {0};
        write_checkpoint(prefix.s, "w", 3000000);
        if (damaged) {
            damage(prefix.s, 11000003);
        }
        CHECK_OK(td_bundle_open(prefix.s, &b, &err));
        td_bundle_read_ahead(b, names, 5, NULL);
        CHECK_OK(td_bundle_read(b, "text", "", &text, &err));
        CHECK_OK(td_bundle_read(b, "z", "", &z, &err));
        CHECK_INT(td_bundle_read(b, "w", "", &w, &err), damaged ? TD_DATA_LOSS : TD_OK);
        CHECK(damaged ? strstr(err.msg, "Checksum does not match") != NULL
                      : TD_DATA(&w, float)[2999999] == 2999999);
        td_bundle_close(b);
        td_tensor_clear(&w);
        td_tensor_clear(&text);
        td_tensor_clear(&z);
    }
    temp_dir_remove(&d);
}

TEST(an_abandoned_writer_leaves_nothing)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "c"), nowhere = temp_dir_file(&d, "no/such");
    struct td_bundle_writer *w;
    struct td_tensor a = numbers(10, 0);
    CHECK_OK(td_bundle_create(prefix.s, &w, &err));
    CHECK_OK(td_bundle_add(w, "w", &a, &err));
    td_bundle_abandon(w);
    CHECK_INT(count_files(d.path), 0);
    CHECK_OK(td_bundle_create(prefix.s, &w, &err));
    CHECK_OK(td_bundle_add(w, "w", &a, &err));
    CHECK_OK(td_bundle_add(w, "w", &a, &err));
    CHECK_INT(td_bundle_finish(w, &err), TD_INVALID_ARGUMENT); /* one name twice */
    CHECK_INT(count_files(d.path), 0);
    err = (struct td_err){0};
    CHECK_INT(td_bundle_create(nowhere.s, &w, &err), TD_NOT_FOUND);
    td_tensor_clear(&a);
    temp_dir_remove(&d);
}

TEST(bundles_merge_into_one)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path one = temp_dir_file(&d, "one"), two = temp_dir_file(&d, "two"),
                     all = temp_dir_file(&d, "all");
    struct td_bundle *b;
    struct td_tensor t = {0};
    write_checkpoint(one.s, "w", 10);
    write_checkpoint(two.s, "v", 20);
    const char *prefixes[] = {one.s, two.s};
    CHECK_OK(td_bundle_merge(prefixes, 2, all.s, false, &err));
    CHECK_INT(count_files(d.path), 7);
    CHECK_OK(td_bundle_merge(prefixes, 2, all.s, true, &err));
    CHECK_INT(count_files(d.path), 3);
    CHECK_OK(td_bundle_open(all.s, &b, &err));
    CHECK_OK(td_bundle_read(b, "v", "", &t, &err));
    CHECK(td_tensor_count(&t) == 20 && TD_DATA(&t, float)[19] == 19);
    td_tensor_clear(&t);
    CHECK(td_bundle_has(b, "w") && td_bundle_has(b, "text") && td_bundle_has(b, "text2"));
    td_bundle_close(b);
    temp_dir_remove(&d);
}

TEST(many_entries_make_many_blocks)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "m");
    struct td_bundle_writer *w;
    struct td_bundle *b;
    CHECK_OK(td_bundle_create(prefix.s, &w, &err));
    for (int i = 0; i < 9000; i++) {
        char name[64];
        struct td_tensor t = numbers(1, (float)i);
        snprintf(name, sizeof name, "layer/%d/kernel/.ATTRIBUTES/VARIABLE_VALUE", i * 7919 % 9000);
        CHECK_OK(td_bundle_add(w, name, &t, &err));
        td_tensor_clear(&t);
    }
    CHECK_OK(td_bundle_finish(w, &err));
    CHECK(file_size(temp_dir_file(&d, "m.index").s) > 300000);
    CHECK_OK(td_bundle_open(prefix.s, &b, &err));
    struct td_tensor t = {0};
    CHECK_OK(td_bundle_read(b, "layer/7919/kernel/.ATTRIBUTES/VARIABLE_VALUE", "", &t, &err));
    CHECK(TD_DATA(&t, float)[0] == 1);
    td_tensor_clear(&t);
    td_bundle_close(b);
    temp_dir_remove(&d);
}

static enum td_code survey(const char *prefix)
{
    struct td_err err = {0};
    struct td_bundle *b;
    CHECK_OK(td_bundle_open(prefix, &b, &err));
    const enum td_code rc = td_bundle_survey(b, &err);
    td_bundle_close(b);
    return rc;
}

TEST(data_files_are_missed_when_gone_or_short)
{
    struct temp_dir d = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&d, "variables");
    struct temp_path data = temp_dir_file(&d, "variables.data-00000-of-00001");
    write_checkpoint(prefix.s, "w", 1000);
    CHECK_INT(survey(prefix.s), TD_OK);
    struct stat st;
    CHECK_INT(stat(data.s, &st), 0);
    CHECK_INT(truncate(data.s, st.st_size - 1), 0);
    CHECK_INT(survey(prefix.s), TD_DATA_LOSS);
    CHECK_INT(unlink(data.s), 0);
    CHECK_INT(survey(prefix.s), TD_NOT_FOUND);
    temp_dir_remove(&d);
}

/* Reads "v" of a checkpoint of these slices. */
static enum td_code read_slices(const char *const *slices, int n, const char *want, struct td_err *err)
{
    struct temp_dir dir = temp_dir_make();
    struct temp_path prefix = temp_dir_file(&dir, "ckpt");
    struct td_bundle_writer *w;
    struct td_bundle *b;
    struct td_tensor t = {0};
    test_check_ok(__FILE__, __LINE__, "", td_bundle_create(prefix.s, &w, err), err);
    for (int i = 0; i < n; i++) {
        struct td_shape whole, shape;
        struct td_box box;
        struct td_tensor part;
        test_check_ok(__FILE__, __LINE__, "", td_slice_parse(slices[i], &whole, &box, err), err);
        shape = td_box_shape(&box);
        test_check_ok(__FILE__, __LINE__, "", td_tensor_new(&part, TD_FLOAT, &shape, err), err);
        for (int64_t k = 0; k < td_tensor_count(&part); k++) {
            TD_DATA(&part, float)[k] = (float)(i + 1);
        }
        test_check_ok(__FILE__, __LINE__, "", td_bundle_add_slice(w, "v", slices[i], &part, err), err);
        td_tensor_clear(&part);
    }
    test_check_ok(__FILE__, __LINE__, "", td_bundle_finish(w, err), err);
    test_check_ok(__FILE__, __LINE__, "", td_bundle_open(prefix.s, &b, err), err);
    const enum td_code rc = td_bundle_read(b, "v", want, &t, err);
    if (rc == TD_OK) { /* each element is some slice's */
        for (int64_t k = 0; k < td_tensor_count(&t); k++) {
            CHECK(TD_DATA(&t, float)[k] >= 1 && TD_DATA(&t, float)[k] <= (float)n);
        }
    }
    td_tensor_clear(&t);
    td_bundle_close(b);
    temp_dir_remove(&dir);
    return rc;
}

static void slices_read(const char *const *slices, int n, const char *want, enum td_code code,
                        const char *words)
{
    struct td_err err = {0};
    CHECK_INT(read_slices(slices, n, want, &err), code);
    CHECK(code == TD_OK || strstr(err.msg, words) != NULL);
}

TEST(each_element_is_in_one_slice)
{
    static const char *const good[] = {"4 4 0,2:0,2", "4 4 2,2:-", "4 4 0,2:2,2"};
    static const char *const twice[] = {"4 4 0,2:-", "4 4 1,2:-"}; /* as many elements as the whole has */
    static const char *const inner[] = {"4 4 0,3:-", "4 4 1,1:0,1", "4 4 3,1:0,3"};
    static const char *const gap[] = {"4 4 0,2:-", "4 4 3,1:-"};
    slices_read(good, 3, "", TD_OK, "");
    slices_read(good, 3, "4 4 1,2:1,2", TD_OK, "");
    slices_read(twice, 2, "", TD_DATA_LOSS, "overlap");
    slices_read(twice, 2, "4 4 0,1:-", TD_DATA_LOSS, "overlap");
    slices_read(inner, 3, "", TD_DATA_LOSS, "slices 0 ('4 4 0,3:-') and 1 ('4 4 1,1:0,1') overlap");
    slices_read(gap, 2, "", TD_INVALID_ARGUMENT, "12 of 16 elements");
    slices_read(gap, 2, "4 4 0,2:-", TD_OK, "");
    slices_read(gap, 2, "4 4 1,2:-", TD_INVALID_ARGUMENT, "4 of 8 elements");
}

TEST_MAIN(RUN(each_element_is_in_one_slice) RUN(data_files_are_missed_when_gone_or_short)
              RUN(what_is_written_is_read) RUN(entries_are_listed_in_key_order)
                  RUN(slices_are_cut_and_put_together) RUN(damage_is_found)
                      RUN(what_is_read_ahead_is_compared) RUN(an_abandoned_writer_leaves_nothing)
                          RUN(bundles_merge_into_one) RUN(many_entries_make_many_blocks))
