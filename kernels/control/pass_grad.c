/* kernels/control/pass_grad.c - what arrived goes on, checked or wrapped as the value was.
 *
 * The gradient of what an Optional holds is an Optional of as many components. Those of a dtype that has no
 * gradient are there too, as zeros, so that components keep their places.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/pass_grad.h"

#include <stdio.h>

#include "kernels/formula/formula.h"

static void *room(struct td_grad *g, int n, size_t size)
{
    void *p = td_arena_alloc(g->e->arena, (size_t)n + 1, size);
    if (p == NULL && g->e->rc == TD_OK) {
        g->e->rc = td_no_memory(g->e->err, (size_t)n * size, "a gradient");
    }
    return p;
}

/* A gradient that is not finite is an error, too. */
void td_check_numerics_grad(struct td_grad *g)
{
    static const char say[] = "Not a number (NaN) or infinity (Inf) values detected in gradient. %s";
    const char *message = td_attr_str(g->node, "message");
    const size_t bytes = sizeof say + strlen(message);
    char *text = room(g, (int)bytes, 1);
    if (text == NULL) {
        return;
    }
    snprintf(text, bytes, say, message);
    td_grad_give(g, 0,
                 td_emit(g->e, g->node->op->name, TD_IN(td_grad_at(g, 0)),
                         TD_ATTRS(TD_ATTR_OF_TEXT("message", text))));
}

void td_print_grad(struct td_grad *g)
{
    td_grad_pass_on(g, 0, 0);
}

void td_optional_from_value_grad(struct td_grad *g)
{
    const int n = g->node->n_in;
    struct td_shape *shapes = room(g, n, sizeof *shapes);
    enum td_dtype *types = room(g, n, sizeof *types);
    if (shapes == NULL || types == NULL) {
        return;
    }
    for (int i = 0; i < n; i++) {
        shapes[i] = td_shape_unknown();
        types[i] = td_dtype_of(td_grad_in(g, i));
    }
    const struct td_attr attrs[] = {
        {.name = "output_types", .kind = TD_ATTR_TYPE, .is_list = true, .n = n, .type = types},
        {.name = "output_shapes", .kind = TD_ATTR_SHAPE, .is_list = true, .n = n, .shape = shapes}};
    const struct td_value parts = td_emit(g->e, "OptionalGetValue", TD_IN(td_grad_at(g, 0)), attrs, 2);
    for (int i = 0; i < n; i++) {
        td_grad_give(g, i, td_f_port(parts, i));
    }
}

void td_optional_get_value_grad(struct td_grad *g)
{
    const int n = g->node->n_out;
    struct td_value *parts = room(g, n, sizeof *parts);
    for (int i = 0; parts != NULL && i < n; i++) {
        parts[i] = td_grad_at(g, i);
    }
    if (parts != NULL) {
        td_grad_give(g, 0, td_emit(g->e, "OptionalFromValue", parts, n, TD_NO_ATTRS));
    }
}
