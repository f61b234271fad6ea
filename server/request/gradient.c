/* server/request/gradient.c - finds the gradient of a request's signature, and takes its answer apart again.
 *
 * The inputs of the signature are decoded first, while r->sig is its own; then the list grows by what the
 * gradient takes besides, under the names that its signature has for them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/gradient.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"

static enum td_code make_room(struct td_request *r, int further, struct td_err *err)
{
    const int n = r->n_in + further;
    struct td_named *in = td_arena_alloc(r->arena, (size_t)n + 1, sizeof *in);
    if (in == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *in, "a request");
    }
    if (r->n_in > 0) {
        memcpy(in, r->in, (size_t)r->n_in * sizeof *in);
    }
    r->in = in;
    return TD_OK;
}

bool td_request_gradient_known(struct td_request *r, const struct td_gradient_ask *ask)
{
    if (r->gradient == NULL) {
        r->gradient = td_gradient_known(r->servable, r->sig, ask);
    }
    return r->gradient != NULL;
}

enum td_code td_request_gradient_find(struct td_request *r, const struct td_gradient_ask *ask,
                                      void (*making)(void), struct td_err *err)
{
    if (!td_request_gradient_known(r, ask)) {
        if (making != NULL) {
            making();
        }
        TD_TRY(td_gradient_get(r->servable, r->sig, ask, &r->run, &r->gradient, err));
    }
    return make_room(r, ask->n_seeded + ask->n_vectors, err);
}

void td_request_gradient_add(struct td_request *r, int input, struct td_tensor *takes)
{
    r->in[r->n_in++] = (struct td_named){td_gradient_signature(r->gradient)->in[input].key, *takes};
    *takes = (struct td_tensor){0};
}

static const bool ZEROS = true, NONE = false;

void td_request_gradient_ready(struct td_request *r, bool zeros)
{
    r->sig = td_gradient_signature(r->gradient);
    r->detail = (void *)(zeros ? &ZEROS : &NONE);
}

enum td_code td_request_gradients(struct td_request *r, struct td_named **results, int *n, int *n_outputs,
                                  struct td_err *err)
{
    const bool zeros = r->detail == &ZEROS;
    *n = td_gradient_n_sources(r->gradient);
    *n_outputs = td_gradient_n_outputs(r->gradient);
    *results = td_arena_alloc(r->arena, (size_t)*n + 1, sizeof **results);
    if (*results == NULL) {
        return td_no_memory(err, (size_t)*n * sizeof **results, "the answer of a request");
    }
    return td_gradient_results(r->gradient, r->servable, r->bound, r->out, zeros, *results, err);
}

void td_request_gradients_clear(struct td_named *results, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&results[i].t);
    }
}
