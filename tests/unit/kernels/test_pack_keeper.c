/* tests/unit/kernels/test_pack_keeper.c - packed weights come back from their files bit for bit, and only for
 * the same weights, scale and layout.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/pack_keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/file_pages.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/dense/panel_pack.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/mapping.h"
#include "tests/unit/temp_dir.h"

enum { N = 256, BYTES = N * N * (int)sizeof(float) };

static void start(const struct temp_dir *d, uint64_t most)
{
    struct td_err err = {0};
    CHECK_OK(td_pack_keeper_start(&(struct td_pack_keeper_opts){.dir = d->path, .most_bytes = most}, &err));
}

/* Files that are there: of so many, or *path of one. */
static int files(const struct temp_dir *d, struct temp_path *path)
{
    DIR *all = opendir(temp_dir_file(d, "packed").s);
    int n = 0;
    for (const struct dirent *e = all == NULL ? NULL : readdir(all); e != NULL; e = readdir(all)) {
        if (strlen(e->d_name) == 32) {
            n++;
            if (path != NULL) {
                snprintf(path->s, sizeof path->s, "%.200s/packed/%.80s", d->path, e->d_name);
            }
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return n;
}

static void await_files(const struct temp_dir *d, int n)
{
    for (int i = 0; i < 2000 && files(d, NULL) < n; i++) {
        usleep(5000);
    }
    CHECK_INT(files(d, NULL), n);
}

static void fill(float *p, int seed)
{
    for (int i = 0; i < N * N; i++) {
        p[i] = (float)((i + seed) % 1009) / 7 - 50;
    }
}

static struct td_tensor square(int seed)
{
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 2, .dim = {N, N}}, &err));
    fill(t.data, seed);
    return t;
}

static void twice(const float *from, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows * columns; i++) {
        to[i] = 2 * from[i];
    }
}
static const struct td_dnnl_transform doubled = {"twice, of a test", twice};

/* The ways in which weights are packed. */
enum way { PANELS, TRANSPOSED, SCALED, ROUNDED, TRANSFORMED, WAYS };

static void init(struct td_dnnl_weights *w, enum way way)
{
    struct td_err err = {0};
    dnnl_dims_t dims = {N, N};
    dnnl_memory_desc_t used;
    int64_t depth;
    *w = (struct td_dnnl_weights){.levels = way == ROUNDED ? 127 : 0};
    CHECK(td_dnnl_weights_init(w));
    if (way == TRANSFORMED) {
        CHECK_OK(td_dnnl_weights_transformed(w, &doubled, N, N, N * N, &err));
    } else if (way == SCALED || way == ROUNDED) {
        CHECK(dnnl_memory_desc_init_by_tag(&w->plain, 2, dims, dnnl_f32, dnnl_ab) == dnnl_success &&
              dnnl_memory_desc_init_by_tag(&used, 2, dims, way == ROUNDED ? dnnl_s8 : dnnl_f32,
                                           dnnl_AB16b16a) == dnnl_success);
        CHECK(td_dnnl_weights_set(w, &used, N, false));
    } else {
        CHECK(td_panel_pack_set(w, N, N, way == TRANSPOSED, &depth));
    }
}

/* t packed; *mapped: it has come from a file. The bytes, and behind them the steps, are new. */
static unsigned char *pack(const struct td_tensor *t, enum way way, const float *scale, bool *mapped,
                           size_t *n)
{
    struct td_err err = {0};
    struct td_dnnl_weights w;
    struct td_dnnl_pack *p;
    const uint64_t before = td_budget_noted(TD_MEMORY_PACKED);
    init(&w, way);
    CHECK_OK(td_dnnl_weights_meet(&w, t, way == SCALED ? scale : NULL, &p, &err));
    CHECK(p != NULL);
    *mapped = td_budget_noted(TD_MEMORY_PACKED) == before;
    const size_t bytes = dnnl_memory_desc_get_size(&w.used), steps = way == ROUNDED ? N * sizeof(float) : 0;
    unsigned char *out = malloc(bytes + steps);
    memcpy(out, td_dnnl_pack_data(p), bytes);
    if (steps > 0) {
        memcpy(out + bytes, td_dnnl_pack_steps(p), steps);
    }
    *n = bytes + steps;
    td_dnnl_pack_drop(p);
    td_dnnl_weights_fini(&w);
    return out;
}

static bool comes_from_file(const struct td_tensor *t, enum way way, const float *scale)
{
    bool mapped;
    size_t n;
    free(pack(t, way, scale, &mapped, &n));
    return mapped;
}

/* Packs t, and waits until so many files are there. */
static void keep(const struct temp_dir *d, const struct td_tensor *t, enum way way, const float *scale, int n)
{
    struct td_err err = {0};
    struct td_dnnl_weights w;
    struct td_dnnl_pack *p;
    init(&w, way);
    CHECK_OK(td_dnnl_weights_meet(&w, t, way == SCALED ? scale : NULL, &p, &err));
    await_files(d, n);
    td_dnnl_pack_drop(p);
    td_dnnl_weights_fini(&w);
}

static bool is_anything_mapped(const struct temp_dir *d)
{
    char line[600];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        found = found || strstr(line, d->path) != NULL;
    }
    fclose(f);
    return found;
}

TEST(what_is_found_has_the_same_bits)
{
    struct temp_dir d = temp_dir_make();
    struct td_tensor t = square(3);
    float scale[N];
    for (int i = 0; i < N; i++) {
        scale[i] = 0.3f + (float)i / 9;
    }
    for (int way = 0; way < WAYS; way++) {
        bool mapped;
        size_t n, n_again;
        unsigned char *packed = pack(&t, way, scale, &mapped, &n); /* nothing is kept yet */
        CHECK(!mapped);
        start(&d, 1 << 30);
        const bool small = n < 128 << 10; /* rounded to bytes: not worth a file */
        keep(&d, &t, way, scale, files(&d, NULL) + !small);
        td_pack_keeper_stop();
        start(&d, 1 << 30); /* as the next process */
        unsigned char *again = pack(&t, way, scale, &mapped, &n_again);
        CHECK(mapped == !small && n == n_again && memcmp(packed, again, n) == 0);
        CHECK(!is_anything_mapped(&d));
        td_pack_keeper_stop();
        free(packed);
        free(again);
    }
    td_tensor_clear(&t);
    temp_dir_remove(&d);
}

TEST(rounded_weights_come_with_their_steps)
{
    enum { ROWS = 512 };
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_tensor t;
    dnnl_dims_t dims = {ROWS, N};
    dnnl_memory_desc_t used;
    float steps[2][N];
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 2, .dim = {ROWS, N}}, &err));
    for (int i = 0; i < ROWS * N; i++) {
        TD_DATA(&t, float)[i] = (float)(i % 1013) / 100;
    }
    for (int round = 0; round < 2; round++) {
        struct td_dnnl_weights w = {.levels = 127};
        const uint64_t before = td_budget_noted(TD_MEMORY_PACKED);
        start(&d, 1 << 30);
        CHECK(td_dnnl_weights_init(&w) &&
              dnnl_memory_desc_init_by_tag(&w.plain, 2, dims, dnnl_f32, dnnl_ab) == dnnl_success &&
              dnnl_memory_desc_init_by_tag(&used, 2, dims, dnnl_s8, dnnl_ba) == dnnl_success);
        CHECK(td_dnnl_weights_set(&w, &used, N, false));
        CHECK_OK(td_dnnl_weights_known(&w, &t, &err));
        CHECK((td_budget_noted(TD_MEMORY_PACKED) == before) == (round == 1));
        memcpy(steps[round], td_dnnl_pack_steps(w.pack), sizeof steps[0]);
        await_files(&d, 1);
        td_dnnl_weights_fini(&w);
        td_pack_keeper_stop();
    }
    CHECK(memcmp(steps[0], steps[1], sizeof steps[0]) == 0 && steps[0][1] > 0);
    td_tensor_clear(&t);
    temp_dir_remove(&d);
}

TEST(other_weights_scales_and_layouts_are_others)
{
    struct temp_dir d = temp_dir_make();
    struct td_tensor t = square(3), u = square(3), v = square(3);
    float scale[N] = {0}, other[N] = {0};
    other[N - 1] = 1;
    start(&d, 1 << 30);
    keep(&d, &t, PANELS, NULL, 1);
    keep(&d, &t, SCALED, scale, 2);
    keep(&d, &t, TRANSFORMED, NULL, 3);
    CHECK(comes_from_file(&u, PANELS, NULL)); /* of the same bytes elsewhere */
    CHECK(comes_from_file(&u, SCALED, scale) && comes_from_file(&u, TRANSFORMED, NULL));
    CHECK(!comes_from_file(&u, TRANSPOSED, NULL) && !comes_from_file(&u, SCALED, other));
    TD_DATA(&v, float)[N * N - 1] += 1;
    CHECK(!comes_from_file(&v, PANELS, NULL) && !comes_from_file(&v, SCALED, scale));
    td_pack_keeper_stop();
    td_tensor_clear(&t);
    td_tensor_clear(&u);
    td_tensor_clear(&v);
    temp_dir_remove(&d);
}

/* A checkpoint's tensor, as proto/checkpoint/bundle.c gives it out. */
static struct td_tensor mapped_square(const char *path)
{
    struct td_err err = {0};
    struct td_mapping *m;
    size_t n;
    CHECK_OK(td_mapping_open(path, &m, &err));
    const unsigned char *p = td_mapping_data(m, &n);
    struct td_tensor t = {.data = (void *)p, .dtype = TD_FLOAT, .shape = {.rank = 2, .dim = {N, N}}};
    CHECK_OK(td_buffer_wrap(p, n, td_mapping_unref, m, &t.buf, &err));
    td_file_pages_mark(t.buf, td_crc32c(0, p, n));
    return t;
}

static void write_square(const char *path, int seed, bool in_place)
{
    float *p = malloc(BYTES);
    fill(p, seed);
    if (!in_place) {
        (void)unlink(path);
    }
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, p, BYTES) == BYTES && close(fd) == 0);
    free(p);
}

TEST(a_mapped_file_is_meant_by_its_state_and_checksum)
{
    struct temp_dir d = temp_dir_make();
    struct temp_path file = temp_dir_file(&d, "variables.data");
    write_square(file.s, 5, false);
    struct td_tensor t = mapped_square(file.s);
    start(&d, 1 << 30);
    keep(&d, &t, PANELS, NULL, 1);
    td_tensor_clear(&t);
    t = mapped_square(file.s);
    CHECK(comes_from_file(&t, PANELS, NULL));
    td_tensor_clear(&t);
    usleep(20000);                 /* the file system's clock goes on */
    write_square(file.s, 5, true); /* the same bytes, but the file was written to */
    t = mapped_square(file.s);
    CHECK(!comes_from_file(&t, PANELS, NULL));
    td_tensor_clear(&t);
    write_square(file.s, 6, false);
    t = mapped_square(file.s);
    CHECK(!comes_from_file(&t, PANELS, NULL));
    td_tensor_clear(&t);
    td_pack_keeper_stop();
    temp_dir_remove(&d);
}

TEST(what_changes_before_it_is_written_is_not_kept)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path file = temp_dir_file(&d, "variables.data");
    struct td_dnnl_weights w;
    struct td_dnnl_pack *p;
    write_square(file.s, 5, false);
    struct td_tensor t = mapped_square(file.s), last = square(9);
    CHECK_OK(td_pack_keeper_start(
        &(struct td_pack_keeper_opts){.dir = d.path, .most_bytes = 1 << 30, .quiet_ms = 200}, &err));
    init(&w, PANELS);
    CHECK_OK(td_dnnl_weights_meet(&w, &t, NULL, &p, &err));
    write_square(file.s, 7, true);
    keep(&d, &last, PANELS, NULL, 1); /* written after it would have been */
    CHECK_INT(files(&d, NULL), 1);
    td_dnnl_pack_drop(p);
    td_dnnl_weights_fini(&w);
    td_tensor_clear(&t);
    td_tensor_clear(&last);
    td_pack_keeper_stop();
    temp_dir_remove(&d);
}

TEST(what_goes_before_it_is_written_is_not_written)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_tensor t = square(3), last = square(9);
    CHECK_OK(td_pack_keeper_start(
        &(struct td_pack_keeper_opts){.dir = d.path, .most_bytes = 1 << 30, .quiet_ms = 100}, &err));
    CHECK(!comes_from_file(&t, PANELS, NULL));
    CHECK(td_buffer_unique(t.buf));
    keep(&d, &last, PANELS, NULL, 1);
    CHECK(!comes_from_file(&t, PANELS, NULL));
    td_pack_keeper_stop();
    td_tensor_clear(&t);
    td_tensor_clear(&last);
    temp_dir_remove(&d);
}

TEST(a_file_that_is_cut_is_packed_anew)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct temp_path file;
    struct td_tensor t = square(3);
    struct td_dnnl_weights w;
    struct td_dnnl_pack *p;
    td_mapping_install_handler();
    start(&d, 1 << 30);
    keep(&d, &t, TRANSFORMED, NULL, 1);
    init(&w, TRANSFORMED);
    CHECK_OK(td_dnnl_weights_meet(&w, &t, NULL, &p, &err));
    CHECK_INT(files(&d, &file), 1);
    CHECK(truncate(file.s, 10) == 0);
    CHECK(((const volatile float *)td_dnnl_pack_data(p))[7] == 0 && td_mapping_damaged_of_all());
    td_dnnl_pack_drop(p);
    CHECK_OK(td_dnnl_weights_meet(&w, &t, NULL, &p, &err));
    CHECK(((const float *)td_dnnl_pack_data(p))[7] == 2 * TD_DATA(&t, float)[7] &&
          !td_mapping_damaged_of_all());
    td_dnnl_pack_drop(p);
    td_dnnl_weights_fini(&w);
    td_pack_keeper_stop();
    td_tensor_clear(&t);
    temp_dir_remove(&d);
}

TEST(no_bytes_are_no_files)
{
    struct temp_dir d = temp_dir_make();
    start(&d, 0);
    CHECK(!td_pack_keeper_is_on() && files(&d, NULL) == 0);
    td_pack_keeper_stop();
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(what_is_found_has_the_same_bits) RUN(rounded_weights_come_with_their_steps)
              RUN(other_weights_scales_and_layouts_are_others)
                  RUN(a_mapped_file_is_meant_by_its_state_and_checksum)
                      RUN(what_changes_before_it_is_written_is_not_kept)
                          RUN(what_goes_before_it_is_written_is_not_written)
                              RUN(a_file_that_is_cut_is_packed_anew) RUN(no_bytes_are_no_files))
