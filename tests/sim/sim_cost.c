/* tests/sim/sim_cost.c - floating point operations and bytes, from a launch's shapes.
 *
 * Products and convolutions count two operations for each of their sums' terms, all else one an output and
 * input. A kernel has a block for each 1,024 outputs or 32 KiB that it reads and writes, whichever are more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim_cost.h"

#include <math.h>
#include <string.h>

#include "core/graph/attr.h"
#include "core/graph/fused.h"

enum { BLOCK = 1024, BLOCK_BYTES = 32768 };

const struct sim_gpu_costs sim_gpu_h100 = {.flops_per_ns = 60000,
                                           .bytes_per_ns = 3350,
                                           .copy_bytes_per_ns = 50,
                                           .stage_bytes_per_ns = 10,
                                           .kernel_ns = 2000,
                                           .copy_ns = 1500,
                                           .launch_ns = 4000,
                                           .call_ns = 500,
                                           .processors = 132,
                                           .memory = UINT64_C(80) << 30,
                                           .pinned = UINT64_C(256) << 20};

static double size_of(const struct td_tensor *t)
{
    return (double)td_tensor_count(t);
}

/* The sizes of all indices of an equation, multiplied: "abc,cd->abd". */
static double indices_of(const char *equation, const struct td_tensor *a, const struct td_tensor *b)
{
    bool seen[UINT8_MAX + 1] = {false};
    const struct td_tensor *of = a;
    double product = 1;
    for (int k = 0; *equation != '\0' && *equation != '-'; equation++) {
        if (*equation == ',') {
            of = b;
            k = 0;
            continue;
        }
        product *= seen[(uint8_t)*equation] || k >= of->shape.rank ? 1 : (double)of->shape.dim[k];
        seen[(uint8_t)*equation] = true;
        k++;
    }
    return product;
}

static double flops_of(const struct td_launch *l, double outs)
{
    const struct td_node *head = l->node->fused != NULL ? l->node->fused->parts[0].node : l->node;
    const char *op = head->op_name;
    if (l->n_in < 2) {
        return outs;
    }
    const struct td_tensor *a = &l->in[0], *b = &l->in[1];
    if (strstr(op, "Conv") != NULL && b->shape.rank == 4 && b->shape.dim[3] > 0) {
        return 2 * outs * size_of(b) / (double)b->shape.dim[3];
    }
    if (strstr(op, "MatMul") != NULL) { /* the root of (m k)(k n)(m n), of each of a batch's products */
        double batch = 1;
        for (int i = 0; i + 2 < b->shape.rank; i++) {
            batch *= (double)b->shape.dim[i];
        }
        return batch > 0 ? 2 * sqrt(size_of(a) * size_of(b) * outs / batch) : 0;
    }
    if (strcmp(op, "Einsum") == 0) {
        return 2 * indices_of(td_attr_str(head, "equation"), a, b);
    }
    return outs * l->n_in;
}

struct sim_kernel_cost sim_kernel_cost(const struct sim_gpu_costs *c, const struct td_launch *l)
{
    double outs = 0, bytes = 0;
    for (int i = 0; i < l->n_out; i++) {
        outs += size_of(&l->out[i]);
        bytes += (double)td_tensor_bytes(&l->out[i]);
    }
    for (int i = 0; i < l->n_in; i++) {
        bytes += (double)td_tensor_bytes(&l->in[i]);
    }
    const double blocks = fmax(outs / BLOCK, bytes / BLOCK_BYTES), all = c->processors;
    const double share = fmin(1, fmax(1 / all, ceil(blocks) / all));
    const double whole = fmax(flops_of(l, outs) / c->flops_per_ns, bytes / c->bytes_per_ns);
    return (struct sim_kernel_cost){.ns = (double)c->kernel_ns + whole / share, .share = share};
}
