/* tests/unit/server/test_result.c - a tuned version's directory: the served one with other values, whole or
 * not there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/result.h"

#include <sys/stat.h>

#include "kernels/ops.h"
#include "proto/bytes/file.h"
#include "proto/bytes/file_tree.h"
#include "proto/checkpoint/bundle.h"
#include "tests/unit/temp_dir.h"

#define TAIL "/.ATTRIBUTES/VARIABLE_VALUE"

static struct td_op_table *ops;

/* A version of our own: what is served must not be the repository's, since a test writes beside it. */
/* linked: what is below lies elsewhere, and a link leads there. */
static struct td_servable *load(const struct temp_dir *d, const char *below, bool linked)
{
    struct td_err err = {0};
    struct td_servable *s = NULL;
    const struct temp_path home = temp_dir_file(d, "1");
    char model[400];
    snprintf(model, sizeof model, "%s%s", home.s, below);
    if (ops == NULL) {
        CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    }
    CHECK_OK(td_tree_make(home.s, 0755, &err));
    if (below[0] == 0) {
        CHECK_OK(td_tree_remove(home.s, &err));
    }
    const struct temp_path elsewhere = temp_dir_file(d, "elsewhere");
    CHECK_OK(td_tree_copy(NULL, DIGITS_DIR, linked ? elsewhere.s : model, NULL, NULL, &err));
    CHECK(!linked || symlink(elsewhere.s, model) == 0);
    const struct temp_path note = temp_dir_file(d, "1/note.txt");
    CHECK_OK(td_file_write(note.s, "as it was", 9, &err));
    CHECK_OK(td_servable_load("digits", 1, home.s, &(struct td_servable_opts){.ops = ops}, &s, &err));
    return s;
}

static void unload(struct td_servable *s)
{
    td_servable_unref(s);
    td_op_table_free(ops);
    ops = NULL;
}

static struct td_bundle *checkpoint(const char *model)
{
    struct td_err err = {0};
    struct td_bundle *b = NULL;
    char prefix[500];
    snprintf(prefix, sizeof prefix, "%s/variables/variables", model);
    CHECK_OK(td_bundle_open(prefix, &b, &err));
    return b;
}

/* The first float variable of the checkpoint, by its key. */
static void first_float(const struct td_bundle *b, char key[300], struct td_shape *shape)
{
    const char *name;
    enum td_dtype dtype = TD_DTYPE_NONE;
    uint64_t bytes;
    for (int i = 0; dtype != TD_FLOAT; i++) {
        CHECK(td_bundle_entry(b, i, &name, &dtype, shape, &bytes));
    }
    snprintf(key, 300, "%s", name);
}

static struct td_tensor filled(const struct td_shape *shape, float v)
{
    struct td_err err = {0};
    struct td_tensor t = {0};
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, shape, &err));
    for (int64_t i = 0; i < td_tensor_count(&t); i++) {
        TD_DATA(&t, float)[i] = v + (float)i;
    }
    return t;
}

/* All keys of a are in b, under the same bytes but for `changed`, which holds t. */
static void check_entries(struct td_bundle *a, struct td_bundle *b, const char *changed,
                          const struct td_tensor *t)
{
    struct td_err err = {0};
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes;
    int n = 0;
    for (; td_bundle_entry(a, n, &name, &dtype, &shape, &bytes); n++) {
        struct td_tensor x = {0}, y = {0};
        CHECK_OK(td_bundle_read(a, name, "", &x, &err));
        CHECK_OK(td_bundle_read(b, name, "", &y, &err));
        if (strcmp(name, changed) == 0) {
            CHECK(td_tensor_same(&y, t) && !td_tensor_same(&x, t));
        } else if (dtype == TD_STRING) {
            size_t p, q;
            const char *u = td_tensor_str(&x, 0, &p), *v = td_tensor_str(&y, 0, &q);
            CHECK(p == q && memcmp(u, v, p) == 0);
        } else {
            CHECK(td_tensor_same(&x, &y));
        }
        td_tensor_clear(&x);
        td_tensor_clear(&y);
    }
    CHECK(n > 2 && !td_bundle_entry(b, n, &name, &dtype, &shape, &bytes));
}

static void check_round(const char *below, bool with_tail, bool linked)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_servable *s = load(&d, below, linked), *tuned = NULL;
    const struct temp_path stage = temp_dir_file(&d, ".stage"), note = temp_dir_file(&d, ".stage/note.txt");
    struct td_bundle *old = checkpoint(td_servable_dir(s));
    struct td_result *r = NULL;
    struct td_shape shape;
    char key[300], stem[300], model[500], *text = NULL;
    size_t n;
    first_float(old, key, &shape);
    snprintf(stem, sizeof stem, "%s", key);
    char *tail = strstr(stem, TAIL);
    if (tail != NULL && !with_tail) {
        *tail = 0;
    }
    struct td_tensor t = filled(&shape, 0.5f);
    CHECK_OK(td_tree_make(stage.s, 0755, &err)); /* left by an attempt that was killed */
    CHECK_OK(td_result_begin(s, stage.s, &r, &err));
    CHECK_OK(td_result_put(r, stem, &t, &err));
    CHECK_OK(td_result_finish(r, &err));
    CHECK_OK(td_file_read(note.s, 100, &text, &n, &err));
    CHECK_STR(text, "as it was");
    snprintf(model, sizeof model, "%s%s", stage.s, below);
    struct td_bundle *new = checkpoint(model);
    check_entries(old, new, key, &t);
    CHECK_OK(td_servable_load("digits", 2, stage.s, &(struct td_servable_opts){.ops = ops}, &tuned, &err));
    td_servable_unref(tuned);
    td_bundle_close(old);
    td_bundle_close(new);
    td_tensor_clear(&t);
    td_free(text);
    unload(s);
    temp_dir_remove(&d);
}

TEST(all_is_there_again_but_the_tuned_value)
{
    check_round("", true, false);
}

TEST(keys_are_known_without_their_tail)
{
    check_round("", false, false);
}

TEST(tritons_layout_is_kept)
{
    check_round("/model.savedmodel", true, false);
}

TEST(what_tritons_layout_links_to_is_copied)
{
    check_round("/model.savedmodel", true, true);
}

TEST(what_is_edited_later_does_not_show)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_servable *s = load(&d, "", false);
    const struct temp_path stage = temp_dir_file(&d, ".stage"), note = temp_dir_file(&d, "1/note.txt"),
                           copy = temp_dir_file(&d, ".stage/note.txt");
    struct td_result *r = NULL;
    char *text = NULL;
    size_t n;
    CHECK_OK(td_result_begin(s, stage.s, &r, &err));
    CHECK_OK(td_result_finish(r, &err));
    FILE *f = fopen(note.s, "r+");
    CHECK(f != NULL && fputs("XX", f) >= 0 && fclose(f) == 0);
    CHECK_OK(td_file_read(copy.s, 100, &text, &n, &err));
    CHECK_STR(text, "as it was");
    td_free(text);
    unload(s);
    temp_dir_remove(&d);
}

/* A value that the checkpoint has no place for is an error, and nothing stays. */
static void check_refused(const char *key, const struct td_shape *shape, const char *says)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_servable *s = load(&d, "", false);
    const struct temp_path stage = temp_dir_file(&d, ".stage");
    struct td_bundle *old = checkpoint(td_servable_dir(s));
    struct td_result *r = NULL;
    struct td_shape its;
    struct stat st;
    char first[300];
    first_float(old, first, &its);
    struct td_tensor t = filled(shape, 1);
    CHECK_OK(td_result_begin(s, stage.s, &r, &err));
    CHECK_OK(td_result_put(r, key != NULL ? key : first, &t, &err));
    CHECK_INT(td_result_finish(r, &err), TD_INTERNAL);
    CHECK(strstr(err.msg, says) != NULL);
    CHECK(lstat(stage.s, &st) != 0);
    td_bundle_close(old);
    td_tensor_clear(&t);
    unload(s);
    temp_dir_remove(&d);
}

TEST(values_without_a_place_are_refused)
{
    const struct td_shape odd = td_shape_vector(3);
    check_refused("no/such/key", &odd, "no key 'no/such/key'");
    check_refused(NULL, &odd, "the checkpoint's is");
}

TEST(an_abandoned_result_leaves_nothing)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_servable *s = load(&d, "", false);
    const struct temp_path stage = temp_dir_file(&d, ".stage");
    struct td_result *r = NULL;
    struct stat st;
    CHECK_OK(td_result_begin(s, stage.s, &r, &err));
    td_result_abandon(r);
    CHECK(lstat(stage.s, &st) != 0);
    unload(s);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(all_is_there_again_but_the_tuned_value) RUN(keys_are_known_without_their_tail)
              RUN(tritons_layout_is_kept) RUN(what_tritons_layout_links_to_is_copied)
                  RUN(what_is_edited_later_does_not_show) RUN(values_without_a_place_are_refused)
                      RUN(an_abandoned_result_leaves_nothing))
