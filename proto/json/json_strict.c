/* proto/json/json_strict.c - one pass over the text with a stack of open brackets; no recursion.
 *
 * Keys of the objects that are open lie in one stack, as places in the text with a hash of what they say
 * (escapes resolved byte by byte while hashing); an object's are dropped when it closes. A new key is looked
 * for among its object's by going through them: hashes are compared first, so an object of k keys costs k^2/2
 * comparisons of integers. Objects of more keys than MANY_KEYS are refused.
 *
 * Does not: convert numbers (1e999 is JSON), keep any value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_strict.h"

#include <stdint.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "core/base/mem.h"
#include "proto/json/json_read.h"

enum { MANY_KEYS = 16384 };

struct td_json_strict_key {
    uint64_t hash;
    struct td_json_str text;
};

struct reader {
    const unsigned char *text, *at, *end;
    struct td_err *err;
    struct td_json_strict *s;
    int depth;
    char open[TD_JSON_STRICT_DEPTH];        /* '[' or '{' */
    size_t first_key[TD_JSON_STRICT_DEPTH]; /* of the object at that depth */
};

static enum td_code wrong(const struct reader *r, const char *what)
{
    TD_FAIL(r->err, INVALID_ARGUMENT, "%s at column %zu", what, (size_t)(r->at - r->text) + 1);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && td_json_is_space((char)*r->at)) {
        r->at++;
    }
}

/* ------------------------------------------------------------------ strings */

/* Four hexadecimal digits; -1: they are none. */
static int hex4(const unsigned char *p, const unsigned char *end)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned c = p + i < end ? p[i] : 0;
        const unsigned digit = c - '0' < 10u ? c - '0' : (c | 32) - 'a' < 6u ? (c | 32) - 'a' + 10 : 16;
        if (digit > 15) {
            return -1;
        }
        v = v * 16 + (int)digit;
    }
    return v;
}

/* At the backslash. */
static enum td_code check_escape(struct reader *r)
{
    const unsigned char *p = r->at + 1;
    if (p < r->end && *p != 'u') {
        if (memchr("\"\\/bfnrt", *p, 8) == NULL) {
            return wrong(r, "an escape that JSON has not");
        }
        r->at += 2;
        return TD_OK;
    }
    const int first = p < r->end ? hex4(p + 1, r->end) : -1;
    if (first < 0) {
        return wrong(r, "an escape that JSON has not");
    }
    r->at += 6;
    if (first < 0xd800 || first > 0xdfff) {
        return TD_OK;
    }
    const int second =
        r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u' ? hex4(r->at + 2, r->end) : -1;
    if (first > 0xdbff || second < 0xdc00 || second > 0xdfff) {
        r->at -= 6;
        return wrong(r, "half a surrogate pair");
    }
    r->at += 6;
    return TD_OK;
}

/* Bytes that a string has as they are: neither quote, backslash, control character nor the beginning of a
 * longer character. */
static const unsigned char *plain_end(const unsigned char *p, const unsigned char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    for (uint64_t v; end - p >= 8; p += 8) {
        memcpy(&v, p, 8);
        const uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        if (((v - ones * 0x20) | (quote - ones) | (slash - ones) | v) & high) {
            break;
        }
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }
    return p;
}

/* At the opening quote; *out is what lies between the quotes. */
static enum td_code check_string(struct reader *r, struct td_json_str *out)
{
    r->at++;
    *out = (struct td_json_str){.p = (const char *)r->at};
    for (;;) {
        r->at = plain_end(r->at, r->end);
        if (r->at == r->end) {
            return wrong(r, "the text ends inside a string");
        }
        if (*r->at == '"') {
            out->len = (size_t)((const char *)r->at - out->p);
            r->at++;
            return TD_OK;
        }
        if (*r->at == '\\') {
            out->escaped = true;
            TD_TRY(check_escape(r));
        } else if (*r->at < 0x20) {
            return wrong(r, "a control character inside a string");
        } else {
            const size_t n = td_utf8_char((const char *)r->at, (size_t)(r->end - r->at));
            if (n == 0) {
                return wrong(r, "a byte that is not UTF-8");
            }
            r->at += n;
        }
    }
}

/* ------------------------------------------------------------------ numbers and words */

static const unsigned char *digits_end(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (unsigned char)(*p - '0') < 10) {
        p++;
    }
    return p;
}

static enum td_code check_number(struct reader *r)
{
    const unsigned char *p = r->at + (*r->at == '-'), *more;
    more = p < r->end && *p == '0' ? p + 1 : digits_end(p, r->end);
    bool good = more > p;
    if (good && more < r->end && *more == '.') {
        p = more + 1;
        more = digits_end(p, r->end);
        good = more > p;
    }
    if (good && more < r->end && (*more | 32) == 'e') {
        p = more + 1;
        p += p < r->end && (*p == '+' || *p == '-');
        more = digits_end(p, r->end);
        good = more > p;
    }
    if (!good) {
        return wrong(r, "no value that JSON has");
    }
    r->at = more;
    return TD_OK;
}

static enum td_code check_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
            r->at += n;
            return TD_OK;
        }
    }
    return wrong(r, "no value that JSON has");
}

/* ------------------------------------------------------------------ objects */

/* Of what the key says: an escaped one is resolved first, piece by piece. */
static uint64_t key_hash(const struct td_json_str *key)
{
    uint64_t h = td_hash_start;
    const char *p = key->p, *end = key->p + key->len;
    while (key->escaped && p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        h = td_hash_more(h, p, (size_t)((slash != NULL ? slash : end) - p));
        if (slash == NULL) {
            return td_hash_mix(h);
        }
        /* one escape, or the two of a surrogate pair */
        const bool pair = slash[1] == 'u' && (slash[2] | 32) == 'd' &&
                          hex4((const unsigned char *)slash + 2, (const unsigned char *)end) >= 0xd800;
        const struct td_json_str one = {.p = slash,
                                        .len = slash[1] != 'u' ? 2
                                               : pair          ? 12
                                                               : 6,
                                        .escaped = true};
        const struct td_json at = {.text = slash, .at = slash};
        struct td_err ignored = {0};
        char buf[12];
        size_t n = 0;
        if (td_json_unescape(&at, &one, buf, &n, &ignored) == TD_OK) {
            h = td_hash_more(h, buf, n);
        }
        p = slash + one.len;
    }
    return td_hash_mix(key->escaped ? h : td_hash_more(h, key->p, key->len));
}

static enum td_code put_key(struct reader *r, const struct td_json_str *key)
{
    struct td_json_strict *s = r->s;
    const size_t first = r->first_key[r->depth - 1];
    const uint64_t hash = key_hash(key);
    for (size_t i = first; i < s->n_keys; i++) {
        if (s->key[i].hash == hash) { /* of 64 bits from a random start: the same key */
            TD_FAIL(r->err, INVALID_ARGUMENT, "the key \"%.*s\" is given twice",
                    key->len > 100 ? 100 : (int)key->len, key->p);
        }
    }
    TD_FAIL_IF(s->n_keys - first >= MANY_KEYS, r->err, INVALID_ARGUMENT, "an object has more than %d keys",
               MANY_KEYS);
    if (s->n_keys == s->cap_keys) {
        const size_t cap = s->cap_keys > 0 ? 2 * s->cap_keys : 16;
        struct td_json_strict_key *more = td_realloc(s->key, cap, sizeof *more);
        if (more == NULL) {
            return td_no_memory(r->err, cap * sizeof *more, "the keys of a JSON object");
        }
        s->key = more;
        s->cap_keys = cap;
    }
    s->key[s->n_keys++] = (struct td_json_strict_key){hash, *key};
    return TD_OK;
}

static enum td_code check_key(struct reader *r)
{
    struct td_json_str key;
    skip_space(r);
    if (r->at == r->end || *r->at != '"') {
        return wrong(r, "no key in quotes");
    }
    TD_TRY(check_string(r, &key));
    TD_TRY(put_key(r, &key));
    skip_space(r);
    if (r->at == r->end || *r->at != ':') {
        return wrong(r, "no colon after a key");
    }
    r->at++;
    return TD_OK;
}

static enum td_code open_bracket(struct reader *r)
{
    if (r->depth == TD_JSON_STRICT_DEPTH) {
        return wrong(r, "lists and objects are nested more than 64 deep");
    }
    r->first_key[r->depth] = r->s->n_keys;
    r->open[r->depth++] = (char)*r->at++;
    return TD_OK;
}

static void close_bracket(struct reader *r)
{
    r->depth--;
    r->s->n_keys = r->first_key[r->depth];
    r->at++;
}

/* ------------------------------------------------------------------ values */

/* One value that holds no others, or the opening of one that does: *opened, and it is not empty. */
static enum td_code check_start(struct reader *r, bool *opened)
{
    struct td_json_str s;
    *opened = false;
    skip_space(r);
    const char c = r->at < r->end ? (char)*r->at : '\0';
    if (c == '-' || (unsigned char)(c - '0') < 10) {
        return check_number(r);
    }
    if (c == '"') {
        return check_string(r, &s);
    }
    if (c != '[' && c != '{') {
        return r->at < r->end ? check_word(r) : wrong(r, "the text ends before a value");
    }
    TD_TRY(open_bracket(r));
    skip_space(r);
    if (r->at < r->end && *r->at == (c == '[' ? ']' : '}')) {
        close_bracket(r);
        return TD_OK;
    }
    *opened = true;
    return c == '{' ? check_key(r) : TD_OK;
}

/* After a value: closes what ends here; *more when another value follows. */
static enum td_code check_after(struct reader *r, bool *more)
{
    for (*more = false; r->depth > 0; close_bracket(r)) {
        const bool object = r->open[r->depth - 1] == '{';
        skip_space(r);
        const char c = r->at < r->end ? (char)*r->at : '\0';
        if (c == ',') {
            r->at++;
            *more = true;
            return object ? check_key(r) : TD_OK;
        }
        if (c != (object ? '}' : ']')) {
            return r->at == r->end
                       ? wrong(r, "the text ends inside a list or an object")
                       : wrong(r, object ? "no comma or } after a member" : "no comma or ] after an element");
        }
    }
    return TD_OK;
}

enum td_code td_json_strict_check(struct td_json_strict *s, const char *text, size_t n, struct td_err *err)
{
    struct reader r;
    r.text = r.at = (const unsigned char *)text;
    r.end = r.text + n;
    r.err = err;
    r.s = s;
    r.depth = 0;
    s->n_keys = 0;
    bool opened, more = true;
    while (more) {
        TD_TRY(check_start(&r, &opened));
        if (!opened) {
            TD_TRY(check_after(&r, &more));
        }
    }
    skip_space(&r);
    return r.at == r.end ? TD_OK : wrong(&r, "text after the end of the value");
}

void td_json_strict_fini(struct td_json_strict *s)
{
    td_free(s->key);
    *s = (struct td_json_strict){0};
}
