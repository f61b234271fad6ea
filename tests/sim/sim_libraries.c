/* tests/sim/sim_libraries.c - NVIDIA's libraries and makers of kernels, which a simulated GPU has none of: it
 * runs kernels of the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/libraries.h"
#include "kernels/cuda/base/loop.h"
#include "kernels/cuda/base/made.h"

void td_cuda_libraries_open(int device, bool tf32, uint64_t limit, struct td_cuda_libraries *out)
{
    (void)device;
    (void)tf32;
    (void)limit;
    *out = (struct td_cuda_libraries){.said = {"simulated", "simulated"}};
}

void td_cuda_libraries_close(struct td_cuda_libraries *l)
{
    (void)l;
}

bool td_cuda_libraries_tell(const struct td_cuda_libraries *l, int i, char *text, size_t room)
{
    (void)l;
    (void)i;
    if (room > 0) {
        text[0] = '\0';
    }
    return false;
}

struct td_cuda_makers *td_cuda_makers_new(int device, int capability, const char *dir)
{
    (void)device;
    (void)capability;
    (void)dir;
    return NULL;
}

void td_cuda_makers_free(struct td_cuda_makers *m)
{
    (void)m;
}

/* Graphs: the device is opened without them. */
int td_cuda_capture_begin(int device, struct td_cuda_stream *stream)
{
    (void)stream;
    return device + 1;
}

int td_cuda_capture_end(int device, struct td_cuda_stream *stream, struct td_cuda_graph **out)
{
    (void)stream;
    *out = NULL;
    return device + 1;
}

unsigned td_cuda_nodes(int device)
{
    (void)device;
    return 0;
}

int td_cuda_condition(int device, struct td_cuda_stream *stream, uint64_t *condition)
{
    (void)stream;
    *condition = 0;
    return device + 1;
}

int td_cuda_node_open(int device, struct td_cuda_stream *stream, enum td_cuda_node type, uint64_t condition,
                      int n, struct td_cuda_stream *const *bodies)
{
    (void)stream;
    (void)type;
    (void)condition;
    (void)n;
    (void)bodies;
    return device + 1;
}

int td_cuda_body_close(int device, struct td_cuda_stream *body)
{
    (void)body;
    return device + 1;
}

int td_cuda_loop_test(uint64_t condition, const struct td_device_loop *l, struct td_cuda_stream *stream)
{
    (void)condition;
    (void)l;
    (void)stream;
    return 1;
}

int td_cuda_loop_carry(const struct td_device_loop *l, void *to, const void *from, size_t bytes,
                       struct td_cuda_stream *stream)
{
    (void)l;
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return 1;
}

int td_cuda_branch_choose(const uint64_t *conditions, bool is_switch, const struct td_device_branch *b,
                          struct td_cuda_stream *stream)
{
    (void)conditions;
    (void)is_switch;
    (void)b;
    (void)stream;
    return 1;
}

int td_cuda_pass_test(uint64_t condition, const struct td_device_pass *p, struct td_cuda_stream *stream)
{
    (void)condition;
    (void)p;
    (void)stream;
    return 1;
}

int td_cuda_pass_copy(const uint32_t *fresh, void *to, const void *from, size_t bytes,
                      struct td_cuda_stream *stream)
{
    (void)fresh;
    (void)to;
    (void)from;
    (void)bytes;
    (void)stream;
    return 1;
}

int td_cuda_graph_launch(int device, struct td_cuda_graph *graph, struct td_cuda_stream *stream)
{
    (void)graph;
    (void)stream;
    return device + 1;
}

int td_cuda_graph_free(int device, struct td_cuda_graph *graph)
{
    (void)graph;
    return device;
}
