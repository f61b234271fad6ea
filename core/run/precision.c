/* core/run/precision.c - a sorted list of weights and the ranges of what they are multiplied with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/precision.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_precision_range *)a)->weights,
                  ((const struct td_precision_range *)b)->weights);
}

static bool copy(struct td_precision *p, const struct td_precision_range *range, int n)
{
    for (int i = 0; i < n; i++) {
        p->range[i] = range[i];
        p->range[i].weights = td_strdup(range[i].weights);
        p->n = i + 1;
        if (p->range[i].weights == NULL) {
            return false;
        }
    }
    return true;
}

enum td_code td_precision_new(enum td_precision_kind kind, const struct td_precision_range *range, int n,
                              struct td_precision **out, struct td_err *err)
{
    struct td_precision *p = td_calloc(1, sizeof *p);
    if (p != NULL) {
        atomic_init(&p->refs, 1);
        p->kind = kind;
        p->range = td_calloc((size_t)n + 1, sizeof *p->range);
    }
    if (p == NULL || p->range == NULL || !copy(p, range, n)) {
        td_precision_unref(p);
        return td_no_memory(err, (size_t)n, "a model's precision");
    }
    qsort(p->range, (size_t)p->n, sizeof *p->range, by_name);
    *out = p;
    return TD_OK;
}

struct td_precision *td_precision_ref(const struct td_precision *p)
{
    struct td_precision *mine = (struct td_precision *)p; /* immutable but for the count */
    if (mine != NULL) {
        atomic_fetch_add(&mine->refs, 1);
    }
    return mine;
}

void td_precision_unref(struct td_precision *p)
{
    if (p == NULL || atomic_fetch_sub(&p->refs, 1) > 1) {
        return;
    }
    for (int i = 0; i < p->n; i++) {
        td_free(p->range[i].weights);
    }
    td_free(p->range);
    td_free(p);
}

const struct td_precision_range *td_precision_find(const struct td_precision *p, const char *weights)
{
    const struct td_precision_range key = {.weights = (char *)weights};
    return p->n == 0 ? NULL : bsearch(&key, p->range, (size_t)p->n, sizeof *p->range, by_name);
}
