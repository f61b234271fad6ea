/* kernels/fused/fused_program.h - a fused node at concrete shapes: a list of element-wise instructions over
 * registers.
 *
 * Registers: the node's inputs, then the head's result, then one an instruction. An instruction whose result
 * has fewer elements than the node's output is small: it is computed once before the loop over the output,
 * which then reads it like an input. FusedBatchNorm becomes small instructions for its scale and shift, a
 * multiplication and an addition.
 *
 * Invariant (td_program_check): an instruction's operands have smaller register numbers than its result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_FUSED_FUSED_PROGRAM_H
#define TD_KERNELS_FUSED_FUSED_PROGRAM_H

#include "core/graph/fused.h"
#include "kernels/fused/fused_stage.h"

enum {
    TD_PROGRAM_POSTS = 16,
    TD_PROGRAM_INSTRS = TD_FUSED_PARTS + 16,
    TD_PROGRAM_REGS = TD_FUSED_INPUTS + 1 + TD_PROGRAM_INSTRS
};

struct td_instr {
    const struct td_stage *stage;
    int a, b; /* registers; b -1 of unary ones */
    float parameter;
    bool small;
    struct td_shape shape;
};

/* instr[] comes last: a program that is kept takes no more memory than its n_instr need. */
struct td_program {
    int n_in, head, n_instr, result; /* head: its register; result: that of the node's output */
    int start, from; /* the loop begins at instruction `start`; register `from` is what the head leaves in the
                        output */
    bool head_apart; /* the head's result is smaller than the output */
    struct td_shape bare, head_shape, out; /* of the head, of the head behind its Reshape, of the node */
    int n_post;
    struct td_post post[TD_PROGRAM_POSTS];
    int post_reg[TD_PROGRAM_POSTS]; /* operand of each post; -1: none, or made of several (AFFINE, BIAS) */
    int post_end[TD_PROGRAM_POSTS + 1],
        post_from[TD_PROGRAM_POSTS + 1]; /* start and from when so many posts are taken */
    struct td_instr instr[TD_PROGRAM_INSTRS];
};

/* The program of n for these input shapes (all known; values of integer inputs too). */
TD_MUST enum td_code td_program_make(const struct td_node *n, const struct td_shape *in,
                                     const struct td_tensor *const *value, struct td_program *p,
                                     struct td_err *err);
/* Instructions read registers before their own, and the result is one of them. */
TD_MUST enum td_code td_program_check(const struct td_program *p, struct td_err *err);
/* Shape of a register. */
const struct td_shape *td_program_shape(const struct td_program *p, const struct td_shape *in, int reg);
/* Fills in post[]: the longest run of instructions behind the head that a kernel may be asked to take over.
 * channels: the length of the last axis of the head's result. value: known constants among the inputs. */
void td_program_find_posts(struct td_program *p, const struct td_shape *in,
                           const struct td_tensor *const *value, int64_t channels);
/* The kernel took n of them. */
void td_program_take_posts(struct td_program *p, int n);
/* Works out what an AFFINE or BIAS post adds up to: scale (NULL for BIAS) and shift, of `channels` floats. */
void td_program_affine(const struct td_program *p, const struct td_shape *in, const float *const *reg,
                       int64_t channels, float *scale, float *shift);

/* Computes the small instructions, or the loop over y (which may be the head's result and any input of y's
 * size). reg[]: the bytes of each register known so far; small ones are added. */
TD_MUST enum td_code td_program_run_small(const struct td_program *p, struct td_call *c,
                                          const struct td_shape *in, const float **reg, struct td_err *err);
TD_MUST enum td_code td_program_run_loop(const struct td_program *p, struct td_call *c,
                                         const struct td_shape *in, const float **reg, float *y,
                                         struct td_err *err);

#endif
