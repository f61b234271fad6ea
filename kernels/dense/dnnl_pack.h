/* kernels/dense/dnnl_pack.h - weights in the layout that a primitive likes, and multiplied by a scale a
 * column.
 *
 * The packed copy is kept under the buffer it came from, to which a reference is held: a buffer with two
 * references is never written (core/base/buffer.h), so the same buffer means the same weights. The scale
 * (batch norm's, worked out anew by each run) is compared by value. Copies are shared by all primitives that
 * want the same layout and scale of the same buffer. Weights that are rounded to bytes
 * (kernels/dense/low.h) are kept with their steps, one a column; a scale goes into those: it does not matter
 * here.
 *
 * Weights meet a primitive in four ways: known when prepared (packed then), as its first (packed and kept:
 * most stay, and the first run does not take longer than the second), the same buffer for the second time
 * (packed and kept), or new in the place of others (the caller packs them into scratch for this run; they
 * are remembered). So a weight that changes at every step costs no kept copies but one; and where a
 * primitive has met others each time, it stops remembering them, so that a training step has its weights to
 * itself and may write over them.
 *
 * What another process has packed of the same weights is mapped from its file where there is one
 * (kernels/dense/pack_keeper.h), and what is packed here is kept for the next.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_PACK_H
#define TD_KERNELS_CPU_DNNL_PACK_H

#include <dnnl.h>
#include <pthread.h>

#include "core/graph/op.h"

struct td_dnnl_pack;

/* What is no layout of the weights: floats [rows,columns] made into others, whose number is known. */
struct td_dnnl_transform {
    const char *name; /* no other's; a constant */
    void (*run)(const float *from, int64_t rows, int64_t columns, float *to);
};

struct td_dnnl_weights {
    dnnl_memory_desc_t plain, used;
    const struct td_dnnl_transform *transform; /* borrowed; NULL: used is a layout, packer's */
    dnnl_primitive_t packer;                   /* NULL: both layouts are one */
    bool scales;                               /* it multiplies by the scale too */
    int64_t columns;           /* scaled or rounded: length of the scale, or of the steps; else 0 */
    int levels;                /* rounded to so many steps up and down; else 0: there is no scale then */
    bool transposed;           /* [columns, rows]: a column lies in one chunk */
    bool must_pack;            /* layouts differ, or there is a scale */
    pthread_mutex_t mu;        /* guards the rest */
    struct td_buffer *seen;    /* counted: the last weights met */
    float *seen_scale;         /* and what they were multiplied by */
    int moves;                 /* times in a row that other weights were met */
    struct td_dnnl_pack *pack; /* counted: packed copy of seen */
};

bool td_dnnl_weights_init(struct td_dnnl_weights *w);
void td_dnnl_weights_fini(struct td_dnnl_weights *w);
/* From the layout w->plain to `used`. columns: 0 without scale. False when oneDNN or memory lacks. */
bool td_dnnl_weights_set(struct td_dnnl_weights *w, const dnnl_memory_desc_t *used, int64_t columns,
                         bool transposed);
/* Floats [rows,columns] into `floats` others. */
TD_MUST enum td_code td_dnnl_weights_transformed(struct td_dnnl_weights *w,
                                                 const struct td_dnnl_transform *transform, int64_t rows,
                                                 int64_t columns, int64_t floats, struct td_err *err);
/* Packs weights that are known beforehand, unless their scale is still to come. */
TD_MUST enum td_code td_dnnl_weights_known(struct td_dnnl_weights *w, const struct td_tensor *t,
                                           struct td_err *err);
/* Remembers t; *out is its packed copy (to be dropped) when it is the first that w meets or has been met
 * before, else NULL. */
TD_MUST enum td_code td_dnnl_weights_meet(struct td_dnnl_weights *w, const struct td_tensor *t,
                                          const float *scale, struct td_dnnl_pack **out, struct td_err *err);
const void *td_dnnl_pack_data(const struct td_dnnl_pack *p);
/* Of rounded weights: what one is worth, by column. */
const float *td_dnnl_pack_steps(const struct td_dnnl_pack *p);
void td_dnnl_pack_drop(struct td_dnnl_pack *p); /* accepts NULL */
/* Packs into scratch of this call. scale: to multiply by; of rounded weights NULL, and their steps lie in the
 * scratch too. */
struct td_dnnl_packed {
    void *data;
    const float *steps;
};
TD_MUST enum td_code td_dnnl_weights_scratch(const struct td_dnnl_weights *w, struct td_call *c,
                                             const void *data, const float *scale, struct td_dnnl_packed *out,
                                             struct td_err *err);
/* Meets t; *out is its copy where it has one, else t packed into scratch. *pack: to be dropped behind the
 * run; NULL. */
TD_MUST static inline enum td_code td_dnnl_weights_meet_packed(struct td_dnnl_weights *w, struct td_call *c,
                                                               const struct td_tensor *t, const float *scale,
                                                               struct td_dnnl_pack **pack, const void **out,
                                                               struct td_err *err)
{
    struct td_dnnl_packed now;
    TD_TRY(td_dnnl_weights_meet(w, t, scale, pack, err));
    if (*pack != NULL) {
        *out = td_dnnl_pack_data(*pack);
        return TD_OK;
    }
    TD_TRY(td_dnnl_weights_scratch(w, c, t->data, scale, &now, err));
    *out = now.data;
    return TD_OK;
}

#endif
