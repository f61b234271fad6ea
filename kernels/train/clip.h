/* kernels/train/clip.h - what is done with gradients before an update, and around it: clipping, decay,
 * penalties, averages. Formulas: Keras 3.15, keras/src/optimizers/base_optimizer.py.
 *
 * Gradients of half and bfloat16 come out as float32.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TRAIN_CLIP_H
#define TD_KERNELS_TRAIN_CLIP_H

#include "kernels/formula/formula.h"

enum td_clip_kind { TD_NO_CLIP, TD_CLIP_NORM, TD_CLIP_GLOBAL_NORM, TD_CLIP_VALUE };
/* g[n] clipped in place: norm and value each by itself, global_norm all together. at > 0. */
void td_clip(struct td_emitter *e, struct td_value *g, int n, enum td_clip_kind kind, double at);
/* sqrt of the sum of the squares of all: float32 scalar. */
struct td_value td_global_norm(struct td_emitter *e, const struct td_value *g, int n);
/* w - w * decay * rate; rate: float32 scalar. */
struct td_value td_decayed(struct td_emitter *e, struct td_value w, double decay, struct td_value rate);
/* l1 * sum |w| + l2 * sum w^2: float32 scalar; no node when both are 0. */
struct td_value td_penalty(struct td_emitter *e, struct td_value w, double l1, double l2);
/* The average after update t, in its own dtype: w at the first, else momentum * average + (1 - momentum) * w.
 * t: float32 scalar. */
struct td_value td_averaged(struct td_emitter *e, struct td_value average, struct td_value w,
                            struct td_value t, double momentum);
/* The dtype that w is updated in, and its slots have: double for double, else float32. */
enum td_dtype td_update_dtype(struct td_value w);

#endif
