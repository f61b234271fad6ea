/* kernels/linalg/einsum_equation.c - parsed, expanded, sized: three short passes over at most two operands.
 *
 *   "...ij,jk->...ik", ranks 4 and 2:   in[0] = [..1 ..0 i j]   in[1] = [j k]   out = [..1 ..0 i k]
 *
 * A term is a list of labels. An ellipsis is replaced by as many labels as its operand has dimensions left,
 * numbered from the right, so that those of two operands meet as broadcasting wants them. Then the sizes are
 * noted by label: -2 for one that has not been seen, -1 for one that is not known yet; only labels of an
 * ellipsis may meet with 1 and something else. Both the shape function and the kernel begin here, so both
 * refuse the same equations with the same words.
 *
 * Nothing is kept or allocated. Does not: compute, or find out which labels are summed
 * (kernels/linalg/einsum.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/linalg/einsum_equation.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ parsing */

static enum td_code parse_term(const struct td_node *n, const char *s, size_t len, struct td_einsum_term *t,
                               struct td_err *err)
{
    *t = (struct td_einsum_term){.n = 0};
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '.') {
            TD_FAIL_IF(len - i < 3 || memcmp(s + i, "...", 3) != 0 || t->ellipsis, err, INVALID_ARGUMENT,
                       "%s: Invalid equation '%s': an operand may hold one ellipsis '...'", TD_NODE_STR(n),
                       td_attr_str(n, "equation"));
            t->ellipsis = true;
            t->ellipsis_at = t->n;
            i += 2;
            continue;
        }
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z');
        TD_FAIL_IF(!letter, err, INVALID_ARGUMENT, "%s: Invalid equation '%s': unexpected character '%c'",
                   TD_NODE_STR(n), td_attr_str(n, "equation"), s[i]);
        TD_FAIL_IF(t->n == TD_MAX_RANK, err, INVALID_ARGUMENT,
                   "%s: Invalid equation '%s': more than %d labels", TD_NODE_STR(n),
                   td_attr_str(n, "equation"), TD_MAX_RANK);
        t->label[t->n++] = (unsigned char)s[i];
    }
    return TD_OK;
}

static enum td_code parse(const struct td_node *n, struct td_einsum *e, struct td_err *err)
{
    const char *text = td_attr_str(n, "equation"), *arrow = strstr(text, "->");
    TD_FAIL_IF(arrow == NULL || strstr(arrow + 2, "->") != NULL || strchr(arrow, ',') != NULL, err,
               INVALID_ARGUMENT, "%s: Expecting exactly one '->' in einsum equation: %s", TD_NODE_STR(n),
               text);
    const char *comma = memchr(text, ',', (size_t)(arrow - text));
    e->n_in = comma == NULL ? 1 : 2;
    const char *end = comma == NULL ? arrow : comma;
    TD_TRY(parse_term(n, text, (size_t)(end - text), &e->in[0], err));
    if (comma != NULL) {
        TD_FAIL_IF(memchr(comma + 1, ',', (size_t)(arrow - comma - 1)) != NULL, err, INVALID_ARGUMENT,
                   "%s: Einsum equation '%s' has more than 2 operands", TD_NODE_STR(n), text);
        TD_TRY(parse_term(n, comma + 1, (size_t)(arrow - comma - 1), &e->in[1], err));
    }
    TD_FAIL_IF(e->n_in != n->n_in, err, INVALID_ARGUMENT, "%s: Expected %d operands of equation '%s', got %d",
               TD_NODE_STR(n), e->n_in, text, n->n_in);
    return parse_term(n, arrow + 2, strlen(arrow + 2), &e->out, err);
}

/* Replaces a term's ellipsis by `dims` labels. */
static enum td_code expand(const struct td_node *n, struct td_einsum_term *t, int dims, struct td_err *err)
{
    if (!t->ellipsis) {
        return TD_OK;
    }
    TD_FAIL_IF(dims < 0 || t->n + dims > TD_MAX_RANK, err, INVALID_ARGUMENT,
               "%s: ellipsis of equation '%s' stands for %d dimensions", TD_NODE_STR(n),
               td_attr_str(n, "equation"), dims);
    memmove(t->label + t->ellipsis_at + dims, t->label + t->ellipsis_at,
            (size_t)(t->n - t->ellipsis_at) * sizeof t->label[0]);
    for (int i = 0; i < dims; i++) {
        t->label[t->ellipsis_at + i] = TD_EINSUM_ELLIPSIS + dims - 1 - i;
    }
    t->n += dims;
    return TD_OK;
}

/* ------------------------------------------------------------------ sizes of the labels */

/* size[label]: -2 not seen, -1 not known yet. */
static enum td_code label_sizes(const struct td_node *n, const struct td_einsum_term *t,
                                const struct td_shape *s, int64_t *size, struct td_err *err)
{
    TD_FAIL_IF(s->rank != t->n, err, INVALID_ARGUMENT,
               "%s: Expected input to have rank %d, got shape %s for '%s'", TD_NODE_STR(n), t->n,
               TD_SHAPE_STR(s), td_attr_str(n, "equation"));
    for (int i = 0; i < t->n; i++) {
        int l = t->label[i];
        int64_t have = size[l], got = s->dim[i];
        bool broadcast = l >= TD_EINSUM_ELLIPSIS && have >= 0 && got >= 0 && (have == 1 || got == 1);
        TD_FAIL_IF(have >= 0 && got >= 0 && have != got && !broadcast, err, INVALID_ARGUMENT,
                   "%s: Expected dimension %lld at axis %d of the input shaped %s but got dimension %lld",
                   TD_NODE_STR(n), (long long)have, i, TD_SHAPE_STR(s), (long long)got);
        if (have == -2 || (have == 1 && l >= TD_EINSUM_ELLIPSIS) ||
            (have == -1 && (got > 1 || l < TD_EINSUM_ELLIPSIS))) {
            size[l] = got; /* of a broadcast pair, a 1 says nothing about the other side */
        }
    }
    return TD_OK;
}

/* Parses, expands the ellipses for these shapes and sizes all labels. *ready is false while a rank is
 * unknown. */
enum td_code td_einsum_analyse(const struct td_node *n, const struct td_shape *const *in, struct td_einsum *e,
                               int64_t size[TD_EINSUM_LABELS], bool *ready, struct td_err *err)
{
    int ellipsis = 0;
    TD_TRY(parse(n, e, err));
    *ready = true;
    for (int l = 0; l < TD_EINSUM_LABELS; l++) {
        size[l] = -2;
    }
    for (int i = 0; i < e->n_in; i++) {
        *ready = *ready && in[i]->rank >= 0;
    }
    for (int i = 0; i < e->n_in && *ready; i++) {
        struct td_einsum_term *t = &e->in[i];
        int dims = in[i]->rank - t->n;
        TD_FAIL_IF(t->ellipsis && dims < 0, err, INVALID_ARGUMENT,
                   "%s: Expected input %d to have rank at least %d, got %s", TD_NODE_STR(n), i, t->n,
                   TD_SHAPE_STR(in[i]));
        TD_TRY(expand(n, t, dims, err));
        ellipsis = t->ellipsis && dims > ellipsis ? dims : ellipsis;
        TD_TRY(label_sizes(n, t, in[i], size, err));
    }
    if (!*ready) {
        return TD_OK;
    }
    TD_FAIL_IF(ellipsis > 0 && !e->out.ellipsis, err, INVALID_ARGUMENT,
               "%s: equation '%s': the output has no ellipsis for the broadcast dimensions", TD_NODE_STR(n),
               td_attr_str(n, "equation"));
    TD_TRY(expand(n, &e->out, ellipsis, err));
    for (int i = 0; i < e->out.n; i++) {
        TD_FAIL_IF(size[e->out.label[i]] == -2, err, INVALID_ARGUMENT,
                   "%s: equation '%s': output label '%c' is in no operand", TD_NODE_STR(n),
                   td_attr_str(n, "equation"), e->out.label[i] < TD_EINSUM_ELLIPSIS ? e->out.label[i] : '.');
    }
    return TD_OK;
}
