/* kernels/text/string_base64.c - EncodeBase64 and DecodeBase64: the URL-safe alphabet (- and _), padding
 * optional.
 *
 * Encoding takes three bytes at a time and writes as many characters as the last ones need, or = up to four.
 * Decoding checks the length first, takes padding off, and writes a byte with each character but the first of
 * four. Each element goes through one buffer (td_strbuf_map).
 *
 * Does not: accept the alphabet with + and /, white space, or lengths of 1 modulo 4.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/ops.h"
#include "kernels/text/strbuf.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static enum td_code encode_one(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                               struct td_err *err)
{
    bool pad = *(const bool *)ctx;
    for (size_t i = 0; i < n; i += 3) {
        size_t k = n - i < 3 ? n - i : 3;
        uint32_t v = 0;
        for (size_t j = 0; j < 3; j++) {
            v = v << 8 | (j < k ? (unsigned char)s[i + j] : 0);
        }
        char quad[4];
        for (int j = 0; j < 4; j++) {
            quad[j] = (size_t)j <= k ? alphabet[v >> (18 - 6 * j) & 63] : '=';
        }
        TD_TRY(td_strbuf_put(out, quad, pad ? 4 : k + 1, err));
    }
    return TD_OK;
}

static int value_of(char ch)
{
    const char *hit = ch ? strchr(alphabet, ch) : NULL;
    return hit ? (int)(hit - alphabet) : -1;
}

static enum td_code decode_one(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                               struct td_err *err)
{
    const struct td_node *node = ctx;
    TD_FAIL_IF(n % 4 == 1, err, INVALID_ARGUMENT, "%s: Base64 string length cannot be 1 modulo 4, got %zu",
               TD_NODE_STR(node), n);
    for (int pads = n % 4 == 0 ? 2 : 0; pads > 0 && n > 0 && s[n - 1] == '='; pads--) {
        n--;
    }
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        int six = value_of(s[i]);
        TD_FAIL_IF(six < 0, err, INVALID_ARGUMENT,
                   "%s: Invalid character found in base64: byte 0x%02x at %zu", TD_NODE_STR(node),
                   (unsigned char)s[i], i);
        v = v << 6 | (uint32_t)six;
        if (i % 4) {
            TD_TRY(td_strbuf_putc(out, (char)(v >> (6 - 2 * (i % 4))), err));
        }
    }
    return TD_OK;
}

static enum td_code encode_run(struct td_call *c, struct td_err *err)
{
    bool pad = td_attr_bool(c->node, "pad");
    return td_strbuf_map(c, encode_one, &pad, err);
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    return td_strbuf_map(c, decode_one, c->node, err);
}

const struct td_op td_ops_string_base64[] = {
    {.name = "EncodeBase64",
     .sig = "(input:string) -> (output:string) {pad:bool=false}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("string_base64.cpu", encode_run, {0}),
     .grad = td_not_differentiable},
    {.name = "DecodeBase64",
     .sig = "(input:string) -> (output:string) {}",
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE(td_batchable_map),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("string_base64.cpu", decode_run, {0}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
