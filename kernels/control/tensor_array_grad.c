/* kernels/control/tensor_array_grad.c - gradients of TensorArray ops: what was read is written to an array of
 * gradients, what was written is read from it, in the other order.
 *
 *   forward    write --flow--> write --flow--> gather
 *   backward   read  <--flow-- read  <--flow-- scatter          on the array TensorArrayGradV3 makes
 *
 * The gradient of a flow is a flow: 0, there for the order. A read's gradient asks for the array with the
 * read's own flow, by which all of the forward writes have been done, and its elements' shapes and number are
 * known; a write's gradient with the flow that arrived, by which all gradients have been written.
 *
 * There is one such array for each differentiation of a program (td_grad_context.order): gradients of
 * gradients have their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/tensor_array_grad.h"

#include <stdio.h>

#include "core/grad/backward.h"
#include "kernels/formula/formula.h"

/* The array of gradients: port 0; port 1 is its flow. */
static struct td_value grad_array(struct td_grad *g, struct td_value flow)
{
    char source[32];
    snprintf(source, sizeof source, "gradients_%d", td_grad_context_of(g)->order);
    return td_emit(g->e, "TensorArrayGradV3", TD_IN(td_grad_in(g, 0), flow),
                   TD_ATTRS(TD_ATTR_OF_TEXT("source", source)));
}

static struct td_value read_as(struct td_grad *g, const char *op, const struct td_value *in, int n_in,
                               struct td_value like)
{
    return td_emit(g->e, op, in, n_in, TD_ATTRS(TD_ATTR_OF_TYPE("dtype", td_dtype_of(like))));
}

/* Of Read and Gather: value = read(handle, at, flow). */
static void put_back(struct td_grad *g, const char *op)
{
    const struct td_value a = grad_array(g, td_grad_in(g, 2));
    td_grad_give(
        g, 2, td_emit(g->e, op, TD_IN(a, td_grad_in(g, 1), td_grad_at(g, 0), td_f_port(a, 1)), TD_NO_ATTRS));
}

/* Of Write and Scatter: flow = write(handle, at, value, flow). */
static void get_back(struct td_grad *g, const char *op)
{
    if (td_grad_wants(g, 2)) {
        const struct td_value a = grad_array(g, td_grad_at(g, 0));
        td_grad_give(g, 2, read_as(g, op, TD_IN(a, td_grad_in(g, 1), td_f_port(a, 1)), td_grad_in(g, 2)));
    }
    td_grad_pass_on(g, 0, 3);
}

void td_array_read_grad(struct td_grad *g)
{
    put_back(g, "TensorArrayWriteV3");
}

void td_array_gather_grad(struct td_grad *g)
{
    put_back(g, "TensorArrayScatterV3");
}

void td_array_write_grad(struct td_grad *g)
{
    get_back(g, "TensorArrayReadV3");
}

void td_array_scatter_grad(struct td_grad *g)
{
    get_back(g, "TensorArrayGatherV3");
}

void td_array_concat_grad(struct td_grad *g)
{
    const struct td_value a = grad_array(g, td_grad_in(g, 1));
    td_grad_give(g, 1,
                 td_emit(g->e, "TensorArraySplitV3",
                         TD_IN(a, td_grad_at(g, 0), td_grad_out(g, 1), td_f_port(a, 1)), TD_NO_ATTRS));
}

void td_array_split_grad(struct td_grad *g)
{
    if (td_grad_wants(g, 1)) {
        const struct td_value a = grad_array(g, td_grad_at(g, 0));
        td_grad_give(g, 1, read_as(g, "TensorArrayConcatV3", TD_IN(a, td_f_port(a, 1)), td_grad_in(g, 1)));
    }
    td_grad_pass_on(g, 0, 3);
}
