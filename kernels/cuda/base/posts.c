/* kernels/cuda/base/posts.c - the engine's epilogues as kernels here know them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/posts.h"

#include <stdbool.h>

#include "core/base/mem.h"

static bool is_known(const struct td_post *p, struct td_cuda_post *out)
{
    static const struct {
        bool known;
        enum td_cuda_post_kind kind;
    } kinds[] = {
        [TD_POST_RELU] = {true, TD_CUDA_POST_RELU},       [TD_POST_RELU6] = {true, TD_CUDA_POST_RELU6},
        [TD_POST_LEAKY] = {true, TD_CUDA_POST_LEAKY},     [TD_POST_ELU] = {true, TD_CUDA_POST_ELU},
        [TD_POST_SIGMOID] = {true, TD_CUDA_POST_SIGMOID}, [TD_POST_TANH] = {true, TD_CUDA_POST_TANH},
        [TD_POST_SWISH] = {true, TD_CUDA_POST_SWISH},     [TD_POST_ADD] = {true, TD_CUDA_POST_ADD},
        [TD_POST_SUB] = {true, TD_CUDA_POST_SUB},         [TD_POST_MUL] = {true, TD_CUDA_POST_MUL}};
    if ((size_t)p->kind >= sizeof kinds / sizeof *kinds || !kinds[p->kind].known) {
        return false;
    }
    *out = (struct td_cuda_post){.kind = kinds[p->kind].kind,
                                 .operand = p->operand == TD_POST_SCALAR    ? TD_CUDA_POST_SCALAR
                                            : p->operand == TD_POST_CHANNEL ? TD_CUDA_POST_CHANNEL
                                                                            : TD_CUDA_POST_ELEMENT,
                                 .alpha = p->alpha};
    return true;
}

struct td_cuda_posts td_cuda_posts_wanted(const struct td_kernel_query *q)
{
    struct td_cuda_posts posts = {0};
    while (posts.n < q->n_post && posts.n < TD_CUDA_POSTS &&
           is_known(&q->post[posts.n], &posts.post[posts.n])) {
        posts.n++;
    }
    return posts;
}

enum td_code td_cuda_posts_take(const struct td_kernel_query *q, struct td_kernel_offer *o,
                                struct td_err *err)
{
    const struct td_cuda_posts posts = td_cuda_posts_wanted(q);
    if (posts.n == 0) {
        return TD_OK;
    }
    struct td_cuda_posts *state = td_calloc(1, sizeof *state);
    if (state == NULL) {
        return td_no_memory(err, sizeof *state, "a kernel's epilogues");
    }
    *state = posts;
    o->state = state;
    o->state_bytes = sizeof *state;
    o->n_posts = posts.n;
    return TD_OK;
}

struct td_cuda_posts td_cuda_posts_with(const struct td_cuda_posts *posts, const struct td_call *c)
{
    struct td_cuda_posts with = *posts;
    for (int i = 0; i < with.n; i++) {
        with.post[i].at = c->post_in[i];
    }
    return with;
}

struct td_cuda_posts td_cuda_posts_of(const struct td_call *c)
{
    static const struct td_cuda_posts none = {0};
    return td_cuda_posts_with(c->state != NULL ? c->state : &none, c);
}

void td_cuda_posts_release(void *state)
{
    td_free(state);
}
