/* kernels/text/string_hash.c - Fingerprint64, MurmurHash64A, SipHash-2-4, and the op Fingerprint.
 *
 * Fingerprint64 has four ways by length (0-16, 17-32, 33-64, more); the long way keeps 56 bytes of state and
 * eats 64 bytes a turn, the last turn being the string's last 64 bytes. All words are little-endian.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/string_hash.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"

#include <endian.h>
#include <string.h>

static const uint64_t K0 = 0xc3a5c85c97cb3127u, K1 = 0xb492b66fbe98f273u, K2 = 0x9ae16a3b2f90404fu;
static const uint64_t MURMUR = 0xc6a4a7935bd1e995u;

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

static uint64_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return le32toh(v);
}

static uint64_t rotr(uint64_t v, int by)
{
    return v >> by | v << (64 - by);
}

static uint64_t rotl(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static uint64_t shift_mix(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t mix16(uint64_t u, uint64_t v, uint64_t mul)
{
    uint64_t a = shift_mix((u ^ v) * mul);
    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t farm_to16(const uint8_t *s, size_t n)
{
    uint64_t mul = K2 + n * 2;
    if (n >= 8) {
        uint64_t a = load64(s) + K2, b = load64(s + n - 8);
        return mix16(rotr(b, 37) * mul + a, (rotr(a, 25) + b) * mul, mul);
    }
    if (n >= 4) {
        return mix16(n + (load32(s) << 3), load32(s + n - 4), mul);
    }
    if (n > 0) {
        uint32_t y = s[0] + ((uint32_t)s[n >> 1] << 8), z = (uint32_t)n + ((uint32_t)s[n - 1] << 2);
        return shift_mix(y * K2 ^ z * K0) * K2;
    }
    return K2;
}

static uint64_t farm_to32(const uint8_t *s, size_t n)
{
    uint64_t mul = K2 + n * 2;
    uint64_t a = load64(s) * K1, b = load64(s + 8), c = load64(s + n - 8) * mul, d = load64(s + n - 16) * K2;
    return mix16(rotr(a + b, 43) + rotr(c, 30) + d, a + rotr(b + K2, 18) + c, mul);
}

static uint64_t farm_to64(const uint8_t *s, size_t n)
{
    uint64_t mul = K2 + n * 2;
    uint64_t a = load64(s) * K2, b = load64(s + 8), c = load64(s + n - 8) * mul, d = load64(s + n - 16) * K2;
    uint64_t y = rotr(a + b, 43) + rotr(c, 30) + d;
    uint64_t z = mix16(y, a + rotr(b + K2, 18) + c, mul);
    uint64_t e = load64(s + 16) * mul, f = load64(s + 24);
    uint64_t g = (y + load64(s + n - 32)) * mul, h = (z + load64(s + n - 24)) * mul;
    return mix16(rotr(e + f, 43) + rotr(g, 30) + h, e + rotr(f + a, 18) + g, mul);
}

struct pair {
    uint64_t a, b;
};

/* 32 bytes under two seeds. */
static struct pair weak32(const uint8_t *s, uint64_t a, uint64_t b)
{
    uint64_t w = load64(s), x = load64(s + 8), y = load64(s + 16), z = load64(s + 24);
    a += w;
    b = rotr(b + a + z, 21);
    uint64_t c = a;
    a += x + y;
    b += rotr(a, 44);
    return (struct pair){a + z, b + c};
}

struct farm {
    uint64_t x, y, z;
    struct pair v, w;
};

/* One turn over 64 bytes. The last one has its own multiplier and weights v and w by 9. */
static void farm_mix(struct farm *f, const uint8_t *s, uint64_t mul, uint64_t weight)
{
    f->x = rotr(f->x + f->y + f->v.a + load64(s + 8), 37) * mul;
    f->y = rotr(f->y + f->v.b + load64(s + 48), 42) * mul;
    f->x ^= f->w.b * weight;
    f->y += f->v.a * weight + load64(s + 40);
    f->z = rotr(f->z + f->w.a, 33) * mul;
    f->v = weak32(s, f->v.b * mul, f->x + f->w.a);
    f->w = weak32(s + 32, f->z + f->w.b, f->y + load64(s + 16));
    uint64_t t = f->z;
    f->z = f->x;
    f->x = t;
}

static uint64_t farm_long(const uint8_t *s, size_t n)
{
    const uint64_t seed = 81;
    struct farm f = {.x = seed, .y = seed * K1 + 113};
    f.z = shift_mix(f.y * K2 + 113) * K2;
    f.x = f.x * K2 + load64(s);
    const uint8_t *last = s + n - 64, *end = s + (n - 1) / 64 * 64;
    for (; s < end; s += 64) {
        farm_mix(&f, s, K1, 1);
    }
    uint64_t mul = K1 + ((f.z & 0xff) << 1);
    f.w.a += (n - 1) & 63;
    f.v.a += f.w.a;
    f.w.a += f.v.a;
    farm_mix(&f, last, mul, 9);
    return mix16(mix16(f.v.a, f.w.a, mul) + shift_mix(f.y) * K0 + f.z, mix16(f.v.b, f.w.b, mul) + f.x, mul);
}

uint64_t td_hash_fingerprint64(const void *bytes, size_t n)
{
    const uint8_t *s = bytes;
    return n <= 16   ? farm_to16(s, n)
           : n <= 32 ? farm_to32(s, n)
           : n <= 64 ? farm_to64(s, n)
                     : farm_long(s, n);
}

uint64_t td_hash_legacy64(const void *bytes, size_t n)
{
    const uint8_t *s = bytes;
    uint64_t h = 0xDECAFCAFFEu ^ n * MURMUR;
    size_t left = n;
    for (; left >= 8; left -= 8, s += 8) {
        uint64_t k = load64(s) * MURMUR;
        h = (h ^ (k ^ k >> 47) * MURMUR) * MURMUR;
    }
    if (left > 0) {
        uint64_t tail = 0;
        for (size_t i = 0; i < left; i++) {
            tail |= (uint64_t)s[i] << 8 * i;
        }
        h = (h ^ tail) * MURMUR;
    }
    h = shift_mix(h) * MURMUR;
    return shift_mix(h);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t m)
{
    v[3] ^= m;
    sip_round(v);
    sip_round(v);
    v[0] ^= m;
}

uint64_t td_hash_siphash(uint64_t k0, uint64_t k1, const void *bytes, size_t n)
{
    const uint8_t *s = bytes;
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    size_t left = n;
    for (; left >= 8; left -= 8, s += 8) {
        sip_word(v, load64(s));
    }
    uint64_t tail = (uint64_t)n << 56;
    for (size_t i = 0; i < left; i++) {
        tail |= (uint64_t)s[i] << 8 * i;
    }
    sip_word(v, tail);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t td_hash_cat64(uint64_t a, uint64_t b)
{
    uint64_t h = ((a ^ MURMUR) ^ shift_mix(b * MURMUR) * MURMUR) * MURMUR;
    return shift_mix(shift_mix(h) * MURMUR);
}

/* ------------------------------------------------------------ Fingerprint: data [n, ...] -> uint8 [n, 8] */

static enum td_code fingerprint_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_min_rank(c, 0, 1, err));
    TD_TRY(td_infer_rank(c, 1, 0, err));
    c->out[0] = td_shape_matrix(c->in[0].rank < 0 ? -1 : c->in[0].dim[0], 8);
    return TD_OK;
}

/* A row of several strings is the fingerprint of its strings' fingerprints; a single string is its own. */
static uint64_t fingerprint_strings(const struct td_tensor *x, int64_t row, int64_t width, uint64_t *words)
{
    size_t n;
    for (int64_t k = 0; k < width; k++) {
        const char *s = td_tensor_str(x, row * width + k, &n);
        words[k] = htole64(td_hash_fingerprint64(s, n));
    }
    return width == 1 ? le64toh(words[0]) : td_hash_fingerprint64(words, (size_t)width * 8);
}

static enum td_code fingerprint_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    size_t n;
    const char *method = td_tensor_str(c->in[1], 0, &n);
    TD_FAIL_IF(n != 10 || memcmp(method, "farmhash64", 10) != 0, err, INVALID_ARGUMENT,
               "%s: Unsupported fingerprint method: %.64s, want farmhash64", TD_NODE_STR(c->node), method);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    int64_t rows = x->shape.dim[0], width = td_shape_range(&x->shape, 1, x->shape.rank);
    size_t bytes = (size_t)width * td_dtype_size(x->dtype);
    void *words = NULL;
    if (x->dtype == TD_STRING) {
        TD_TRY(td_scratch(c, bytes + 8, &words, err));
    }
    for (int64_t i = 0; i < rows && !td_work_spent(16 * width + 16); i++) {
        uint64_t h =
            words ? fingerprint_strings(x, i, width, words)
                  : td_hash_fingerprint64(width ? (const char *)x->data + (size_t)i * bytes : "", bytes);
        h = htole64(h);
        memcpy((char *)y->data + i * 8, &h, 8);
    }
    return TD_OK;
}

const struct td_op td_ops_hash[] = {
    {.name = "Fingerprint",
     .sig = "(data:T, method:string) -> (fingerprint:uint8) {T:type}",
     .host_in = 2,
     .infer = fingerprint_infer,
     .kernels = TD_KERNEL("hash.cpu", fingerprint_run, {"T", TD_SET_PLAIN | TD_BIT(TD_STRING)})},
    {.name = NULL},
};
