/* server/http/multipart.c - finds delimiters in a stream of bytes, and reads what heads the parts.
 *
 *   preamble CRLF--B CRLF head CRLF CRLF data CRLF--B CRLF head CRLF CRLF data CRLF--B-- epilogue
 *
 * CR is a delimiter's first byte and none of its others, so a match that breaks off cannot have begun another
 * one: the bytes matched so far are data, and the byte that broke it off is looked at afresh. A body may
 * begin with a delimiter; the CRLF before it is then taken as seen. Bytes between two CRs go on together.
 *
 * Invariant (td_multipart_check): between two calls n_matched < n_delimiter, and is 0 outside preamble and
 * data; a head that is kept fits.
 *
 * Does not: decode transfer encodings, which RFC 7578 does away with (one that would change bytes is
 * refused), nor know which fields there are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/multipart.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "core/base/check.h"

/* ------------------------------------------------------------------ header values: TOKEN; NAME=VALUE; .. */

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \t");
}

/* A value at *p, quoted or not, moved to out; false when it does not fit, or is not closed. In quotes a
 * backslash stands before a quote or another one; elsewhere it is itself, as in a path. */
static bool read_value(const char **p, char *out, size_t room)
{
    const bool quoted = **p == '"';
    const char *q = quoted ? *p + 1 : *p;
    size_t n = 0;
    while (*q != '\0' && (quoted ? *q != '"' : strchr("; \t", *q) == NULL)) {
        q += quoted && *q == '\\' && (q[1] == '"' || q[1] == '\\') ? 1 : 0;
        if (n + 1 >= room) {
            return false;
        }
        out[n++] = *q++;
    }
    out[n] = '\0';
    *p = quoted && *q == '"' ? q + 1 : q;
    return !quoted || *q == '"';
}

/* The parameter of that name behind the first ';' of a header's value. */
static bool find_parameter(const char *value, const char *name, char *out, size_t room)
{
    const size_t n = strlen(name);
    for (const char *p = strchr(value, ';'); p != NULL && *p == ';'; p = skip_space(p)) {
        p = skip_space(p + 1);
        const bool wanted = strncasecmp(p, name, n) == 0 && p[n] == '=';
        p += strcspn(p, "=;");
        if (*p != '=') {
            continue;
        }
        char other[TD_MULTIPART_HEAD + 1];
        p++;
        if (!read_value(&p, wanted ? out : other, wanted ? room : sizeof other)) {
            return false;
        }
        if (wanted) {
            return true;
        }
    }
    return false;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* UTF-8''percent%20encoded (RFC 5987), in place; false when it is something else. */
static bool decode_extended(char *text)
{
    if (strncasecmp(text, "UTF-8'", 6) != 0 || strchr(text + 6, '\'') == NULL) {
        return false;
    }
    char *to = text;
    for (const char *p = strchr(text + 6, '\'') + 1; *p != '\0'; p++) {
        const int high = *p == '%' ? hex(p[1]) : -1, low = high >= 0 ? hex(p[2]) : -1;
        const bool encoded = low >= 0 && high + low > 0;
        *to++ = encoded ? (char)(high * 16 + low) : *p;
        p += encoded ? 2 : 0;
    }
    *to = '\0';
    return true;
}

/* ------------------------------------------------------------------ a part's head */

/* The value of a header among lines that end in NULs, the last one empty; NULL: not there. */
static const char *find_header(const char *head, const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = head; *line != '\0'; line += strlen(line) + 1) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            return skip_space(line + n + 1);
        }
    }
    return NULL;
}

/* Lines of m->head become texts of their own. */
static void split_lines(struct td_multipart *m)
{
    char *to = m->head;
    for (const char *p = m->head, *end = m->head + m->n_head; p < end; p++) {
        const bool line_ends = *p == '\r' && p + 1 < end && p[1] == '\n';
        *to++ = line_ends ? '\0' : *p == '\0' ? '?' : *p;
        p += line_ends ? 1 : 0;
    }
    *to = '\0';
}

/* The head is whole, with the empty line that closes it. */
static enum td_code begin_part(struct td_multipart *m, struct td_err *err)
{
    char name[256], filename[1024];
    split_lines(m);
    const char *says = find_header(m->head, "Content-Disposition");
    const char *encoding = find_header(m->head, "Content-Transfer-Encoding");
    m->n_parts++;
    TD_FAIL_IF(m->n_parts > TD_MULTIPART_PARTS, err, INVALID_ARGUMENT,
               "the multipart body has more than %d parts", TD_MULTIPART_PARTS);
    TD_FAIL_IF(says == NULL || strncasecmp(says, "form-data", 9) != 0 ||
                   !find_parameter(says, "name", name, sizeof name),
               err, INVALID_ARGUMENT,
               "part %d of the multipart body has no Content-Disposition: form-data; name=\"..\"",
               m->n_parts);
    TD_FAIL_IF(
        encoding != NULL &&
            (strncasecmp(encoding, "base64", 6) == 0 || strncasecmp(encoding, "quoted-printable", 16) == 0),
        err, INVALID_ARGUMENT,
        "part '%.60s' of the multipart body: Content-Transfer-Encoding %.40s is not read, send the bytes "
        "as they are",
        name, encoding);
    const bool extended =
        find_parameter(says, "filename*", filename, sizeof filename) && decode_extended(filename);
    const bool named = extended || find_parameter(says, "filename", filename, sizeof filename);
    m->state = TD_MP_DATA;
    return m->events->begin(m->ctx, name, named ? filename : NULL, err);
}

/* One byte behind a delimiter: spaces and CRLF, or two dashes. */
static enum td_code put_behind(struct td_multipart *m, char c, struct td_err *err)
{
    const size_t n = m->n_head;
    const char last = n > 0 ? m->head[n - 1] : '\0';
    if (last == '\r' && c == '\n') {
        m->n_head = 0;
        m->state = TD_MP_HEAD;
        return TD_OK;
    }
    if (n == 1 && last == '-' && c == '-') {
        m->state = TD_MP_EPILOGUE;
        return TD_OK;
    }
    const bool expected =
        (c == '-' && n == 0) || ((c == ' ' || c == '\t' || c == '\r') && last != '-' && last != '\r');
    TD_FAIL_IF(!expected || n >= TD_MULTIPART_HEAD, err, INVALID_ARGUMENT,
               "the multipart body: a boundary after part %d that no line end follows", m->n_parts);
    m->head[m->n_head++] = c;
    return TD_OK;
}

static enum td_code put_head(struct td_multipart *m, char c, struct td_err *err)
{
    TD_FAIL_IF(m->n_head >= TD_MULTIPART_HEAD, err, INVALID_ARGUMENT,
               "the head of part %d of the multipart body is longer than %d bytes", m->n_parts + 1,
               TD_MULTIPART_HEAD);
    m->head[m->n_head++] = c;
    const size_t n = m->n_head;
    const bool empty = n == 2 && memcmp(m->head, "\r\n", 2) == 0;
    return empty || (n >= 4 && memcmp(m->head + n - 4, "\r\n\r\n", 4) == 0) ? begin_part(m, err) : TD_OK;
}

/* ------------------------------------------------------------------ data */

static enum td_code hand_on(struct td_multipart *m, const char *bytes, size_t n, struct td_err *err)
{
    return m->state == TD_MP_DATA && n > 0 ? m->events->data(m->ctx, bytes, n, err) : TD_OK;
}

/* A delimiter is whole. */
static enum td_code end_part(struct td_multipart *m, struct td_err *err)
{
    const bool data = m->state == TD_MP_DATA;
    m->n_matched = m->n_head = 0;
    m->state = TD_MP_BEHIND;
    return data ? m->events->end(m->ctx, err) : TD_OK;
}

/* Preamble or data from *p on, up to a delimiter's end or end. */
static enum td_code put_data(struct td_multipart *m, const char **p, const char *end, struct td_err *err)
{
    while (*p < end) {
        if (m->n_matched > 0 && **p == m->delimiter[m->n_matched]) {
            (*p)++;
            if (++m->n_matched == m->n_delimiter) {
                return end_part(m, err);
            }
            continue;
        }
        const size_t broken = m->n_matched;
        m->n_matched = 0;
        TD_TRY(hand_on(m, m->delimiter, broken, err));
        const char *cr = memchr(*p, '\r', (size_t)(end - *p)), *stop = cr != NULL ? cr : end;
        TD_TRY(hand_on(m, *p, (size_t)(stop - *p), err));
        m->n_matched = cr != NULL;
        *p = cr != NULL ? cr + 1 : end;
    }
    return TD_OK;
}

enum td_code td_multipart_check(const struct td_multipart *m, struct td_err *err)
{
    const bool matching = m->state == TD_MP_PREAMBLE || m->state == TD_MP_DATA;
    TD_WANT(m->n_matched < m->n_delimiter && (matching || m->n_matched == 0), err,
            "more of the delimiter is matched than can be");
    TD_WANT(m->n_head <= TD_MULTIPART_HEAD, err, "a part's head is longer than its room");
    return TD_OK;
}

enum td_code td_multipart_put(struct td_multipart *m, const char *bytes, size_t n, struct td_err *err)
{
    const char *p = bytes, *end = bytes + n;
    while (p < end && m->state != TD_MP_EPILOGUE) {
        TD_TRY(m->state == TD_MP_BEHIND ? put_behind(m, *p++, err)
               : m->state == TD_MP_HEAD ? put_head(m, *p++, err)
                                        : put_data(m, &p, end, err));
    }
    TD_HOLDS(td_multipart_check, m);
    return TD_OK;
}

/* ------------------------------------------------------------------ begin and end */

enum td_code td_multipart_open(struct td_multipart *m, const char *content_type,
                               const struct td_multipart_events *events, void *ctx, struct td_err *err)
{
    char boundary[TD_MULTIPART_BOUNDARY + 1];
    static const char type[] = "multipart/form-data";
    TD_FAIL_IF(content_type == NULL || strncasecmp(content_type, type, sizeof type - 1) != 0, err,
               INVALID_ARGUMENT, "Content-Type is '%.80s', want multipart/form-data",
               content_type != NULL ? content_type : "");
    TD_FAIL_IF(!find_parameter(content_type, "boundary", boundary, sizeof boundary) || boundary[0] == '\0' ||
                   strpbrk(boundary, "\r\n") != NULL,
               err, INVALID_ARGUMENT, "Content-Type '%.80s' has no boundary of 1 to %d characters",
               content_type, TD_MULTIPART_BOUNDARY);
    *m = (struct td_multipart){.events = events, .ctx = ctx, .n_matched = 2};
    memcpy(m->delimiter, "\r\n--", 4);
    m->n_delimiter = 4 + strlen(boundary);
    memcpy(m->delimiter + 4, boundary, strlen(boundary) + 1);
    return TD_OK;
}

enum td_code td_multipart_finish(const struct td_multipart *m, struct td_err *err)
{
    TD_FAIL_IF(m->state != TD_MP_EPILOGUE, err, INVALID_ARGUMENT,
               "the multipart body ends before its closing boundary, %s part %d",
               m->state == TD_MP_PREAMBLE ? "before" : "in", m->n_parts + (m->state == TD_MP_PREAMBLE));
    return TD_OK;
}
