/* kernels/text/unicode.c - UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode,
 * UnicodeScript: ICU's C API.
 *
 * A converter is opened a call (it has state and is not for two threads) and keeps its state from one string
 * to the next, as TensorFlow's does: a byte order mark counts for all that follow it. Decoding counts code
 * points in a first pass and stores them in a second. Malformed input reaches the converter's callback, which
 * notes it and lets ICU substitute; errors= then decides.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "kernels/text/unicode.h"
#include "core/batchable/batchable_rule.h"
#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"

#include <string.h>
#include <unicode/uclean.h>
#include <unicode/ucnv.h>
#include <unicode/uscript.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

/* ------------------------------------------------------------ memory; case mapping, for StringLower and
 * StringUpper */

static void *icu_alloc(const void *unused, size_t bytes)
{
    (void)unused;
    return td_foreign_keep(bytes);
}

static void *icu_realloc(const void *unused, void *p, size_t bytes)
{
    (void)unused;
    return td_foreign_realloc(p, bytes);
}

static void icu_free(const void *unused, void *p)
{
    (void)unused;
    td_foreign_free(p);
}

void td_kernels_charge(void)
{
    UErrorCode status = U_ZERO_ERROR;
    u_setMemoryFunctions(NULL, icu_alloc, icu_realloc, icu_free, &status);
}

static enum td_code icu_failed(UErrorCode status, struct td_err *err)
{
    TD_FAIL_IF(status == U_MEMORY_ALLOCATION_ERROR, err, RESOURCE_EXHAUSTED, "ICU: no memory");
    TD_FAIL(err, INTERNAL, "ICU: %s", u_errorName(status));
}

/* u16 has room for n units, mapped for 3 n: no character grows more in case mapping; utf8 for 3 bytes a unit.
 */
static enum td_code map_case(const char *s, int32_t n, bool upper, UChar *u16, UChar *mapped,
                             struct td_strbuf *out, struct td_err *err)
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t len = 0, bytes = 0;
    u_strFromUTF8WithSub(u16, n, &len, s, n, 0xFFFD, NULL, &status);
    len = upper ? u_strToUpper(mapped, 3 * n, u16, len, "", &status)
                : u_strToLower(mapped, 3 * n, u16, len, "", &status);
    if (U_FAILURE(status)) {
        return icu_failed(status, err);
    }
    TD_TRY(td_strbuf_reserve(out, (size_t)len * 3 + 1, err));
    status = U_ZERO_ERROR;
    u_strToUTF8WithSub(out->p + out->n, len * 3 + 1, &bytes, mapped, len, 0xFFFD, NULL, &status);
    if (U_FAILURE(status)) {
        return icu_failed(status, err);
    }
    out->n += (size_t)bytes;
    return TD_OK;
}

/* TensorFlow hands ICU a C string: the text ends at its first NUL. */
enum td_code td_unicode_case(const char *s, size_t n, bool upper, struct td_strbuf *out, struct td_err *err)
{
    n = n ? strnlen(s, n) : 0;
    if (n == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(n > INT32_MAX / 16, err, RESOURCE_EXHAUSTED, "changing the case of %zu bytes, want at most %d",
               n, INT32_MAX / 16);
    UChar *u16 = td_calloc(4 * n, sizeof(UChar));
    if (!u16) {
        return td_no_memory(err, 4 * n * sizeof(UChar), "UTF-16 text");
    }
    enum td_code rc = map_case(s, (int32_t)n, upper, u16, u16 + n, out, err);
    td_free(u16);
    return rc;
}

/* ------------------------------------------------------------------ options of the ops */

enum on_error { STRICT, REPLACE, IGNORE };

struct policy {
    enum on_error on_error;
    UChar32 replacement;
    bool controls_fail; /* .. and then fail a call under errors=strict */
    bool controls;      /* C0 control characters count as errors */
};

static enum td_code read_policy(const struct td_node *n, bool has_controls, struct policy *p,
                                struct td_err *err)
{
    const char *e = td_attr_str(n, "errors");
    int64_t r = td_attr_int(n, "replacement_char");
    p->on_error = strcmp(e, "strict") == 0 ? STRICT : strcmp(e, "ignore") == 0 ? IGNORE : REPLACE;
    p->controls = has_controls && td_attr_bool(n, "replace_control_characters");
    TD_FAIL_IF(r < 0 || r > 0x10FFFF, err, INVALID_ARGUMENT,
               "%s: replacement_char out of unicode codepoint range: %lld", TD_NODE_STR(n), (long long)r);
    p->replacement = (UChar32)r;
    return TD_OK;
}

/* ------------------------------------------------------------------ decoding */

struct decoder {
    UConverter *conv;
    struct policy policy;
    bool bad; /* set by the callback: the character just read was malformed */
};

static void note_bad(const void *ctx, UConverterToUnicodeArgs *args, const char *units, int32_t n,
                     UConverterCallbackReason reason, UErrorCode *status)
{
    if (reason == UCNV_UNASSIGNED || reason == UCNV_ILLEGAL || reason == UCNV_IRREGULAR) {
        bool *bad;
        memcpy(&bad, &ctx, sizeof(bad));
        *bad = true;
    }
    UCNV_TO_U_CALLBACK_SUBSTITUTE(NULL, args, units, n, reason, status);
}

static enum td_code decoder_open(const struct td_node *n, struct decoder *d, struct td_err *err)
{
    const char *name = td_attr_str(n, "input_encoding");
    UErrorCode status = U_ZERO_ERROR;
    *d = (struct decoder){0};
    TD_TRY(read_policy(n, true, &d->policy, err));
    d->conv = name[0] ? ucnv_open(name, &status) : NULL;
    if (status == U_MEMORY_ALLOCATION_ERROR) {
        return icu_failed(status, err);
    }
    TD_FAIL_IF(!d->conv || U_FAILURE(status), err, INVALID_ARGUMENT,
               "%s: Could not create converter for input encoding: %.100s", TD_NODE_STR(n), name);
    ucnv_setToUCallBack(d->conv, note_bad, &d->bad, NULL, NULL, &status);
    return TD_OK;
}

/* Next code point that the policy lets through, from *at; *from is the byte it starts at. 1, 0 at the end, -1
 * for a malformed character under errors=strict. */
static int decode_next(struct decoder *d, const char *s, size_t n, const char **at, UChar32 *ch, size_t *from)
{
    while (*at < s + n) {
        UErrorCode status = U_ZERO_ERROR;
        *from = (size_t)(*at - s);
        d->bad = false;
        *ch = ucnv_getNextUChar(d->conv, at, s + n, &status);
        if (U_FAILURE(status)) {
            *at = s + n;
        }
        bool control = d->policy.controls && *ch <= 0x1F;
        if ((d->bad || (control && d->policy.controls_fail)) && d->policy.on_error == STRICT) {
            return -1;
        }
        if (d->bad || control) {
            if (d->policy.on_error == IGNORE) {
                continue;
            }
            *ch = d->policy.replacement;
        }
        return 1;
    }
    return 0;
}

static enum td_code bad_string(const struct td_call *c, int64_t i, struct td_err *err)
{
    TD_FAIL(err, INVALID_ARGUMENT, "%s: Invalid formatting on input string %lld: it is not %s",
            TD_NODE_STR(c->node), (long long)i, td_attr_str(c->node, "input_encoding"));
}

static enum td_code decode_infer(struct td_infer *c, struct td_err *err)
{
    struct policy p;
    TD_TRY(read_policy(c->node, true, &p, err));
    int64_t n = td_shape_count(&c->in[0]);
    c->out[0] = td_shape_vector(n < 0 ? -1 : n + 1);
    for (int i = 1; i < c->n_out; i++) {
        c->out[i] = td_shape_vector(-1);
    }
    return TD_OK;
}

/* Counts the characters of every string into the splits; *total of all. */
static enum td_code decode_count(struct td_call *c, struct decoder *d, struct td_tensor *splits,
                                 int64_t *total, struct td_err *err)
{
    int64_t n = td_tensor_count(c->in[0]);
    *total = 0;
    td_tensor_set_int(splits, 0, 0);
    for (int64_t i = 0; i < n && !td_work_spent(64); i++) {
        size_t len, from;
        const char *s = td_tensor_str(c->in[0], i, &len), *at = s;
        UChar32 ch;
        int got;
        while ((got = decode_next(d, s, len, &at, &ch, &from)) > 0) {
            (*total)++;
        }
        if (got < 0) {
            return bad_string(c, i, err);
        }
        TD_FAIL_IF(splits->dtype == TD_INT32 && *total > INT32_MAX, err, INVALID_ARGUMENT,
                   "%s: %lld characters, more than splits of type int32 can count", TD_NODE_STR(c->node),
                   (long long)*total);
        td_tensor_set_int(splits, i + 1, *total);
    }
    return TD_OK;
}

static enum td_code decode_fill(struct td_call *c, struct decoder *d, struct td_err *err)
{
    struct td_tensor *splits, *chars, *starts = NULL;
    int64_t total, at_out = 0;
    TD_TRY(td_out(c, 0, NULL, &splits, err));
    TD_TRY(decode_count(c, d, splits, &total, err));
    struct td_shape shape = td_shape_vector(total);
    TD_TRY(td_out(c, 1, &shape, &chars, err));
    if (c->n_out > 2) {
        TD_TRY(td_out(c, 2, &shape, &starts, err));
    }
    ucnv_reset(d->conv);
    for (int64_t i = 0, n = td_tensor_count(c->in[0]); i < n && !td_work_spent(64); i++) {
        size_t len, from;
        const char *s = td_tensor_str(c->in[0], i, &len), *at = s;
        UChar32 ch;
        for (; decode_next(d, s, len, &at, &ch, &from) > 0 && at_out < total; at_out++) {
            TD_DATA(chars, int32_t)[at_out] = ch;
            if (starts) {
                TD_DATA(starts, int64_t)[at_out] = (int64_t)from;
            }
        }
    }
    return TD_OK;
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    struct decoder d;
    enum td_code rc = decoder_open(c->node, &d, err);
    if (!rc) {
        rc = decode_fill(c, &d, err);
    }
    if (d.conv) {
        ucnv_close(d.conv);
    }
    return rc;
}

/* ------------------------------------------------------------------ encoding */

enum encoding { UTF8, UTF16BE, UTF32BE };

static enum encoding output_encoding(const struct td_node *n)
{
    const char *e = td_attr_str(n, "output_encoding");
    return strcmp(e, "UTF-8") == 0 ? UTF8 : strcmp(e, "UTF-16-BE") == 0 ? UTF16BE : UTF32BE;
}

static enum td_code put_char(struct td_strbuf *b, UChar32 ch, enum encoding e, struct td_err *err)
{
    uint8_t bytes[4];
    int n = 0;
    if (e == UTF8) {
        ch = U_IS_SURROGATE(ch) ? 0xFFFD : ch;
        U8_APPEND_UNSAFE(bytes, n, ch);
    } else if (e == UTF16BE && ch <= 0xFFFF) {
        bytes[n++] = (uint8_t)(ch >> 8);
        bytes[n++] = (uint8_t)ch;
    } else if (e == UTF16BE) {
        bytes[n++] = (uint8_t)(U16_LEAD(ch) >> 8);
        bytes[n++] = (uint8_t)U16_LEAD(ch);
        bytes[n++] = (uint8_t)(U16_TRAIL(ch) >> 8);
        bytes[n++] = (uint8_t)U16_TRAIL(ch);
    } else {
        for (; n < 4; n++) {
            bytes[n] = (uint8_t)(ch >> (24 - 8 * n));
        }
    }
    return td_strbuf_put(b, bytes, (size_t)n, err);
}

/* input_values [n], input_splits [rows + 1] -> [rows] */
static enum td_code encode_infer(struct td_infer *c, struct td_err *err)
{
    struct policy p;
    TD_TRY(read_policy(c->node, false, &p, err));
    TD_FAIL_IF((c->in[0].rank >= 0 && c->in[0].rank != 1) || (c->in[1].rank >= 0 && c->in[1].rank != 1), err,
               INVALID_ARGUMENT, "%s: Both the input_tensor and input_splits should be of rank 1: %s, %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&c->in[0]), TD_SHAPE_STR(&c->in[1]));
    int64_t n = c->in[1].rank < 0 ? -1 : c->in[1].dim[0];
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s: Input_splits should contain elements, but has 0 elements",
               TD_NODE_STR(c->node));
    c->out[0] = td_shape_vector(n < 0 ? -1 : n - 1);
    return TD_OK;
}

static enum td_code check_splits(const struct td_call *c, struct td_err *err)
{
    int64_t n = td_tensor_count(c->in[1]), last = 0, size = td_tensor_count(c->in[0]);
    TD_FAIL_IF(td_tensor_int(c->in[1], 0) != 0, err, INVALID_ARGUMENT,
               "%s: First value in input_splits must be zero, got %lld", TD_NODE_STR(c->node),
               (long long)td_tensor_int(c->in[1], 0));
    for (int64_t i = 1; i < n; i++) {
        int64_t v = td_tensor_int(c->in[1], i);
        TD_FAIL_IF(v < last, err, INVALID_ARGUMENT,
                   "%s: Values in input_splits must be equal or in ascending order: %lld after %lld",
                   TD_NODE_STR(c->node), (long long)v, (long long)last);
        last = v;
    }
    TD_FAIL_IF(last != size, err, INVALID_ARGUMENT,
               "%s: Last value in input_splits must be equal to length of input_tensor: %lld, want %lld",
               TD_NODE_STR(c->node), (long long)last, (long long)size);
    return TD_OK;
}

static enum td_code encode_row(const struct td_call *c, const struct policy *p, enum encoding e, int64_t row,
                               struct td_strbuf *b, struct td_err *err)
{
    int64_t from = td_tensor_int(c->in[1], row), to = td_tensor_int(c->in[1], row + 1);
    for (int64_t i = from; i < to; i++) {
        UChar32 ch = TD_DATA(c->in[0], int32_t)[i];
        if (ch < 0 || ch > 0x10FFFF || U_IS_SURROGATE(ch)) {
            TD_FAIL_IF(p->on_error == STRICT, err, INVALID_ARGUMENT,
                       "%s: Code point is out of range for Unicode, or is a surrogate: %d at %lld",
                       TD_NODE_STR(c->node), ch, (long long)i);
            if (p->on_error == IGNORE) {
                continue;
            }
            ch = p->replacement;
        }
        TD_TRY(put_char(b, ch, e, err));
    }
    return TD_OK;
}

static enum td_code encode_run(struct td_call *c, struct td_err *err)
{
    struct policy p;
    struct td_tensor *y;
    TD_TRY(read_policy(c->node, false, &p, err));
    TD_TRY(check_splits(c, err));
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = TD_OK;
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !rc; i++) {
        b.n = 0;
        rc = encode_row(c, &p, output_encoding(c->node), i, &b, err);
        if (!rc) {
            rc = td_tensor_set_str(y, i, b.n ? b.p : "", b.n, err);
        }
    }
    td_strbuf_fini(&b);
    return rc;
}

/* ------------------------------------------------------------------ transcoding */

static enum td_code transcode_infer(struct td_infer *c, struct td_err *err)
{
    struct policy p;
    TD_TRY(read_policy(c->node, true, &p, err));
    return td_infer_same(c, err);
}

static enum td_code transcode_fill(struct td_call *c, struct decoder *d, struct td_strbuf *b,
                                   struct td_err *err)
{
    struct td_tensor *y;
    enum encoding e = output_encoding(c->node);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(64); i++) {
        size_t len, from;
        const char *s = td_tensor_str(c->in[0], i, &len), *at = s;
        UChar32 ch;
        int got;
        b->n = 0;
        while ((got = decode_next(d, s, len, &at, &ch, &from)) > 0) {
            TD_TRY(put_char(b, ch, e, err));
        }
        if (got < 0) {
            return bad_string(c, i, err);
        }
        TD_TRY(td_tensor_set_str(y, i, b->n ? b->p : "", b->n, err));
    }
    return TD_OK;
}

static enum td_code transcode_run(struct td_call *c, struct td_err *err)
{
    struct decoder d;
    struct td_strbuf b = {0};
    enum td_code rc = decoder_open(c->node, &d, err);
    d.policy.controls_fail = true;
    if (!rc) {
        rc = transcode_fill(c, &d, &b, err);
    }
    if (d.conv) {
        ucnv_close(d.conv);
    }
    td_strbuf_fini(&b);
    return rc;
}

static enum td_code script_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    for (int64_t i = 0, n = td_tensor_count(y); i < n && !td_work_spent(16); i++) {
        UErrorCode status = U_ZERO_ERROR;
        UScriptCode script = uscript_getScript(TD_DATA(c->in[0], int32_t)[i], &status);
        TD_DATA(y, int32_t)[i] = U_SUCCESS(status) ? (int32_t)script : USCRIPT_INVALID_CODE;
    }
    return TD_OK;
}

const struct td_op td_ops_unicode[] = {
    {.name = "UnicodeDecode",
     .sig = "(input:string) -> (row_splits:Tsplits, char_values:int32) {input_encoding:string; "
            "errors:string='replace' in ['strict','replace','ignore']; replacement_char:int=65533; "
            "replace_control_characters:bool=false; Tsplits:type=int64}",
     .infer = decode_infer,
     .kernels = TD_KERNEL("unicode.cpu", decode_run, {"Tsplits", TD_SET_INDEX})},
    {.name = "UnicodeDecodeWithOffsets",
     .sig = "(input:string) -> (row_splits:Tsplits, char_values:int32, char_to_byte_starts:int64) "
            "{input_encoding:string; errors:string='replace' in ['strict','replace','ignore']; "
            "replacement_char:int=65533; replace_control_characters:bool=false; Tsplits:type=int64}",
     .infer = decode_infer,
     .kernels = TD_KERNEL("unicode.cpu", decode_run, {"Tsplits", TD_SET_INDEX})},
    {.name = "UnicodeEncode",
     .sig = "(input_values:int32, input_splits:Tsplits) -> (output:string) {errors:string='replace' in "
            "['ignore','replace','strict']; output_encoding:string in ['UTF-8','UTF-16-BE','UTF-32-BE']; "
            "replacement_char:int=65533; Tsplits:type=int64}",
     .infer = encode_infer,
     .kernels = TD_KERNEL("unicode.cpu", encode_run, {"Tsplits", TD_SET_INDEX})},
    {.name = "UnicodeTranscode",
     .sig = "(input:string) -> (output:string) {input_encoding:string; output_encoding:string in "
            "['UTF-8','UTF-16-BE','UTF-32-BE']; errors:string='replace' in ['strict','replace','ignore']; "
            "replacement_char:int=65533; replace_control_characters:bool=false}",
     .infer = transcode_infer,
     .kernels = TD_KERNEL("unicode.cpu", transcode_run, {0})},
    {.name = "UnicodeScript",
     .sig = "(input:int32) -> (output:int32) {}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("unicode.cpu", script_run, {0})},
    {.name = NULL},
};
