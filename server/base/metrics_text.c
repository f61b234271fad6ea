/* server/base/metrics_text.c - lines are put together in the sink itself: with 500 models a scrape is some
 * 100,000 of them.
 *
 * What is counted is a whole number, nearly always: it is written digit by digit, and only what is not takes
 * printf's way. Does not: know which metrics there are (server/base/metrics.c), or take a lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/metrics_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"

/* ------------------------------------------------------------------ labels */

/* Bytes of a value that are written: all, or up to the character that crosses the limit. */
static size_t kept_bytes(const char *value, size_t n)
{
    if (n <= TD_LABEL_VALUE) {
        return n;
    }
    n = TD_LABEL_VALUE;
    while (n > 0 && ((unsigned char)value[n] & 0xc0) == 0x80) {
        n--;
    }
    return n;
}

void td_labels_add(struct td_labels *l, const char *name, const char *value)
{
    const size_t whole = strlen(value), n = kept_bytes(value, whole), n_name = strlen(name);
    if (n_name > TD_LABEL_NAME || l->count++ >= TD_LABELS_MOST) {
        return;
    }
    const bool utf8 = td_utf8(value, n);
    char *to = l->text + l->n;
    if (l->n > 0) {
        *to++ = ',';
    }
    memcpy(to, name, n_name);
    to += n_name;
    *to++ = '=';
    *to++ = '"';
    for (size_t i = 0; i < n; i++) {
        const char c = value[i];
        if (c == '"' || c == '\\' || c == '\n') {
            *to++ = '\\';
        }
        *to++ = c == '\n' ? 'n' : (unsigned char)c >= 0x80 && !utf8 ? '?' : c;
    }
    *to++ = '"';
    *to = '\0';
    l->n = (size_t)(to - l->text);
}

void td_labels_set(struct td_labels *l, const char *const *pairs)
{
    l->count = 0;
    l->n = 0;
    l->text[0] = '\0';
    for (; pairs != NULL && *pairs != NULL; pairs += 2) {
        td_labels_add(l, pairs[0], pairs[1]);
    }
}

/* ------------------------------------------------------------------ bounds */

int td_bounds_bucket(const struct td_bounds *b, int64_t value)
{
    double bound = b->first;
    int i = 0;
    for (; i < b->n && (double)value > bound; i++) {
        bound *= b->growth;
    }
    return i;
}

/* ------------------------------------------------------------------ lines */

/* The digits of n, which are rereversed; text has room for 24. */
static size_t digits(uint64_t n, char *text)
{
    char reversed[24];
    size_t k = 0;
    do {
        reversed[k++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    for (size_t i = 0; i < k; i++) {
        text[i] = reversed[k - 1 - i];
    }
    return k;
}

static char *append(char *to, const char *text, size_t n)
{
    memcpy(to, text, n);
    return to + n;
}

/* What stands in front of a number: NAME SUFFIX {LABELS[,]MORE} */
struct series {
    const char *name, *suffix, *labels, *more;
};

static enum td_code put_line(struct td_sink *out, const struct series *s, const char *number, size_t n_number,
                             struct td_err *err)
{
    const size_t n_name = strlen(s->name), n_suffix = strlen(s->suffix), n_labels = strlen(s->labels),
                 n_more = strlen(s->more);
    const bool both = n_labels > 0 && n_more > 0;
    char *to;
    TD_TRY(td_sink_grow(out, n_name + n_suffix + n_labels + both + n_more + n_number + 4, &to, err));
    to = append(to, s->name, n_name);
    to = append(to, s->suffix, n_suffix);
    *to++ = '{';
    to = append(to, s->labels, n_labels);
    if (both) {
        *to++ = ',';
    }
    to = append(to, s->more, n_more);
    *to++ = '}';
    *to++ = ' ';
    to = append(to, number, n_number);
    *to = '\n';
    return TD_OK;
}

static enum td_code put_count(struct td_sink *out, const struct series *s, uint64_t n, struct td_err *err)
{
    char text[24];
    return put_line(out, s, text, digits(n, text), err);
}

enum td_code td_metrics_put_head(struct td_sink *out, const char *name, const char *type, const char *help,
                                 struct td_err *err)
{
    char text[600];
    const int n = snprintf(text, sizeof text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    return td_sink_put(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, err);
}

enum td_code td_metrics_put_sample(struct td_sink *out, const char *name, const char *labels, double value,
                                   struct td_err *err)
{
    const struct series s = {name, "", labels, ""};
    if (value >= 0 && value < 9e15 && (double)(uint64_t)value == value) {
        return put_count(out, &s, (uint64_t)value, err);
    }
    char text[40];
    const int n = snprintf(text, sizeof text, "%.17g", value);
    return put_line(out, &s, text, (size_t)n, err);
}

enum td_code td_metrics_put(struct td_sink *out, const char *name, const char *const *labels, double value,
                            struct td_err *err)
{
    struct td_labels l;
    td_labels_set(&l, labels);
    return td_metrics_put_sample(out, name, l.text, value, err);
}

enum td_code td_metrics_put_histogram(struct td_sink *out, const char *name, const char *labels,
                                      const struct td_bounds *b, const uint64_t *buckets, uint64_t sum,
                                      struct td_err *err)
{
    double bound = b->first;
    uint64_t n = 0;
    for (int i = 0; i <= b->n; i++, bound *= b->growth) {
        char le[40] = "le=\"+Inf\"";
        if (i < b->n) {
            (void)snprintf(le, sizeof le, "le=\"%g\"", bound);
        }
        n += buckets[i];
        TD_TRY(put_count(out, &(struct series){name, "_bucket", labels, le}, n, err));
    }
    TD_TRY(put_count(out, &(struct series){name, "_sum", labels, ""}, sum, err));
    return put_count(out, &(struct series){name, "_count", labels, ""}, n, err);
}
