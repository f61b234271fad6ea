/* tests/unit/server/test_tensorboard.c - event files: what is in them, and no step twice after a job went on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/tensorboard.h"

#include <glob.h>

#include "proto/bytes/tfrecord.h"
#include "proto/pb/wire.h"
#include "tests/unit/temp_dir.h"

/* A point as it is read back: step, tag, value; of a histogram the number of values in it. */
struct point {
    long long step;
    char tag[60];
    double v;
};

/* The next field; its number is 0 at the end. */
static struct td_field next(struct td_wire *w)
{
    struct td_err err = {0};
    struct td_field f;
    CHECK_OK(td_wire_next(w, &f, &err));
    return f;
}

static void read_value(struct td_wire value, struct point *p)
{
    for (struct td_field f = next(&value); f.number != 0; f = next(&value)) {
        if (f.number == 1) {
            CHECK(f.sub.left < sizeof p->tag);
            p->tag[f.sub.left] = 0;
            td_wire_copy(f.sub, p->tag);
        } else if (f.number == 2) {
            const uint32_t bits = (uint32_t)f.value;
            float v;
            memcpy(&v, &bits, sizeof v);
            p->v = v;
        } else if (f.number == 5) {
            for (struct td_field part = next(&f.sub); part.number != 0; part = next(&f.sub)) {
                if (part.number == 3) {
                    memcpy(&p->v, &part.value, sizeof p->v);
                }
            }
        }
    }
}

static struct point read_event(const void *bytes, size_t n)
{
    const struct td_seg seg = {bytes, n};
    struct point p = {0};
    struct td_wire w;
    td_wire_init(&w, &seg, 1);
    for (struct td_field f = next(&w); f.number != 0; f = next(&w)) {
        if (f.number == 2) {
            p.step = (long long)f.value;
        } else if (f.number == 3) {
            snprintf(p.tag, sizeof p.tag, "version");
        } else if (f.number == 5) {
            read_value(next(&f.sub).sub, &p);
        }
    }
    return p;
}

static int read_side(const struct temp_dir *d, const char *side, struct point *out, int room)
{
    struct td_err err = {0};
    char pattern[300];
    glob_t found;
    struct td_tfrecord *r = NULL;
    const void *bytes;
    size_t len;
    int n = 0;
    snprintf(pattern, sizeof pattern, "%s/%s/events.out.tfevents.*", d->path, side);
    CHECK_INT(glob(pattern, 0, NULL, &found), 0);
    CHECK_INT(found.gl_pathc, 1);
    CHECK_OK(td_tfrecord_open(found.gl_pathv[0], 1 << 20, &r, &err));
    do {
        CHECK_OK(td_tfrecord_next(r, &bytes, &len, &err));
        CHECK(bytes == NULL || n < room);
        if (bytes != NULL) {
            out[n++] = read_event(bytes, len);
        }
    } while (bytes != NULL);
    td_tfrecord_close(r);
    globfree(&found);
    return n;
}

TEST(points_are_read_back)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_tensorboard *b = NULL;
    struct td_shape shape = td_shape_vector(3);
    struct td_tensor t = {0};
    struct point p[8];
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    TD_DATA(&t, float)[0] = 1;
    TD_DATA(&t, float)[1] = (float)__builtin_nan("");
    TD_DATA(&t, float)[2] = -2;
    CHECK_OK(td_tensorboard_open(d.path, NULL, &b, &err));
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_TRAIN, 7, "batch_loss", 0.5, &err));
    CHECK_OK(td_tensorboard_histogram(b, TD_BOARD_TRAIN, 1, "w/histogram", &t, &err));
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_VALIDATION, 1, "epoch_loss", 2, &err));
    td_tensorboard_close(b);
    CHECK_INT(read_side(&d, "train", p, 8), 3);
    CHECK_STR(p[0].tag, "version");
    CHECK(p[1].step == 7 && p[1].v == 0.5);
    CHECK_STR(p[1].tag, "batch_loss");
    CHECK_STR(p[2].tag, "w/histogram");
    CHECK(p[2].v == 2); /* the NaN is left out */
    CHECK_INT(read_side(&d, "validation", p, 8), 2);
    CHECK(p[1].step == 1 && p[1].v == 2);
    td_tensor_clear(&t);
    temp_dir_remove(&d);
}

static struct td_tensorboard *go_on(const struct temp_dir *d, const int64_t *at, int64_t step, double v)
{
    struct td_err err = {0};
    struct td_tensorboard *b = NULL;
    CHECK_OK(td_tensorboard_open(d->path, at, &b, &err));
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_TRAIN, step, "batch_loss", v, &err));
    return b;
}

TEST(what_came_after_the_progress_is_cut_off)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    int64_t at[TD_BOARD_SIDES];
    struct point p[8];
    struct td_tensorboard *b = go_on(&d, NULL, 1, 10);
    CHECK_OK(td_tensorboard_flush(b, at, &err));
    CHECK(at[TD_BOARD_TRAIN] > 0 && at[TD_BOARD_VALIDATION] == 0);
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_TRAIN, 2, "batch_loss", 20, &err));
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_VALIDATION, 1, "epoch_loss", 5, &err));
    td_tensorboard_close(b); /* and is killed */
    b = go_on(&d, at, 2, 21);
    CHECK_OK(td_tensorboard_scalar(b, TD_BOARD_VALIDATION, 1, "epoch_loss", 6, &err));
    td_tensorboard_close(b);
    CHECK_INT(read_side(&d, "train", p, 8), 3);
    CHECK(p[1].v == 10 && p[2].v == 21);
    CHECK_INT(read_side(&d, "validation", p, 8), 2);
    CHECK(p[1].v == 6);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(points_are_read_back) RUN(what_came_after_the_progress_is_cut_off))
