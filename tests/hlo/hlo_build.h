/* tests/hlo/hlo_build.h - writes artifacts that no writer of StableHLO would: MLIR bytecode of version 6,
 * part by part.
 *
 *   struct hlo_parts p = hlo_parts_new();
 *   int type = hlo_type(&p, HLO_VHLO, (uint8_t[]){...}, n);          entries of the tables, by their numbers
 *   hlo_op(&p.body, ...), p.n_ops++, p.n_values++                   the body of main, of a tensor<2xf32>
 *   struct hlo_out bytes = hlo_bytes(&p);                             free(bytes.p)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HLO_HLO_BUILD_H
#define TD_TESTS_HLO_HLO_BUILD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct hlo_out {
    uint8_t *p;
    size_t n, room;
};

static inline void hlo_put(struct hlo_out *o, const void *p, size_t n)
{
    if (o->n + n > o->room) {
        o->room = 2 * (o->n + n);
        o->p = realloc(o->p, o->room);
        if (o->p == NULL) {
            exit(1);
        }
    }
    if (n > 0) {
        memcpy(o->p + o->n, p, n);
    }
    o->n += n;
}

static inline void hlo_byte(struct hlo_out *o, unsigned v)
{
    uint8_t byte = (uint8_t)v;
    hlo_put(o, &byte, 1);
}

/* The shortest form of up to 8 bytes, or nine. */
static inline void hlo_varint(struct hlo_out *o, uint64_t v)
{
    unsigned more = 0;
    while (more < 7 && v >> (7 * (more + 1)) != 0) {
        more++;
    }
    if (more == 7 && v >> 56 != 0) {
        hlo_byte(o, 0);
        hlo_put(o, &v, 8);
        return;
    }
    uint64_t bits = v << (more + 1) | (uint64_t)1 << more;
    hlo_put(o, &bits, more + 1);
}

static inline void hlo_signed(struct hlo_out *o, int64_t v)
{
    hlo_varint(o, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static inline void hlo_append(struct hlo_out *o, const struct hlo_out *other)
{
    hlo_put(o, other->p, other->n);
}

/* Frees the body. */
static inline void hlo_section(struct hlo_out *o, unsigned id, struct hlo_out *body)
{
    hlo_byte(o, id);
    hlo_varint(o, body->n);
    hlo_append(o, body);
    free(body->p);
    *body = (struct hlo_out){0};
}

enum { HLO_BUILTIN, HLO_VHLO, HLO_SDY };
enum {
    HLO_MODULE,
    HLO_CAST,
    HLO_FUNC,
    HLO_RETURN,
    HLO_ADD,
    HLO_CONSTANT,
    HLO_WHILE,
    HLO_NEWER,
    HLO_CONVERT,
    HLO_MESH
};
enum { HLO_STRINGS, HLO_DIALECTS, HLO_TABLE, HLO_OFFSETS, HLO_IR, HLO_PROPERTIES = 8 };
enum { HLO_S_MAIN = 11, HLO_S_EMPTY, HLO_S_X };                                    /* strings */
enum { HLO_A_LOCATION, HLO_A_MAIN, HLO_A_EMPTY, HLO_A_TYPE, HLO_A_NONE, HLO_A_X }; /* attributes */
enum { HLO_T_F32, HLO_T_TENSOR, HLO_T_FUNCTION };                                  /* types */
enum { HLO_ATTRS = 1, HLO_RESULTS = 2, HLO_OPERANDS = 4, HLO_REGIONS = 16, HLO_ORDERS = 32, HLO_PROPS = 64 };

struct hlo_parts {
    struct hlo_out attrs, types, attr_sizes, type_sizes, properties, body,
        beside; /* beside main: other operations */
    int n_attrs, n_types, n_properties;
    int n_ops, n_values; /* of body; the argument counts */
    int n_beside;
    int argument_orders; /* 1: main's argument has use orders */
    int n_outside;       /* values of `beside` */
    int is_open;         /* 1: main's region is not isolated, and so no section */
};

static inline int hlo_entry(struct hlo_out *data, struct hlo_out *sizes, int *n, int dialect, int coded,
                            const struct hlo_out *bytes)
{
    hlo_append(data, bytes);
    hlo_varint(sizes, (uint64_t)dialect); /* a group of one */
    hlo_varint(sizes, 1);
    hlo_varint(sizes, (uint64_t)bytes->n << 1 | (unsigned)coded);
    return (*n)++;
}

static inline int hlo_attr(struct hlo_parts *p, int dialect, const uint8_t *bytes, size_t n)
{
    struct hlo_out o = {.n = 0};
    hlo_put(&o, bytes, n);
    int i = hlo_entry(&p->attrs, &p->attr_sizes, &p->n_attrs, dialect, 1, &o);
    free(o.p);
    return i;
}

/* Numbers, each a varint: a code and what belongs to it. */
static inline struct hlo_out hlo_numbers(int n, const uint64_t *v)
{
    struct hlo_out o = {.n = 0};
    for (int i = 0; i < n; i++) {
        hlo_varint(&o, v[i]);
    }
    return o;
}
#define HLO_NUMBERS(...)                                                                                     \
    hlo_numbers((int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[]){__VA_ARGS__})

/* Frees the bytes. */
static inline int hlo_attr_of(struct hlo_parts *p, int dialect, struct hlo_out o)
{
    int i = hlo_entry(&p->attrs, &p->attr_sizes, &p->n_attrs, dialect, 1, &o);
    free(o.p);
    return i;
}
static inline int hlo_type_of(struct hlo_parts *p, int dialect, struct hlo_out o)
{
    int i = hlo_entry(&p->types, &p->type_sizes, &p->n_types, dialect, 1, &o);
    free(o.p);
    return i;
}
static inline int hlo_properties_of(struct hlo_parts *p, struct hlo_out o)
{
    hlo_varint(&p->properties, o.n);
    hlo_append(&p->properties, &o);
    free(o.p);
    return p->n_properties++;
}

static inline struct hlo_parts hlo_parts_new(void)
{
    struct hlo_parts p = {.n_values = 1};
    hlo_attr_of(&p, HLO_BUILTIN, HLO_NUMBERS(15));
    hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(14, HLO_S_MAIN));
    hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(14, HLO_S_EMPTY));
    hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(17, HLO_T_FUNCTION));
    hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(1, 0));
    hlo_attr_of(&p, HLO_VHLO, HLO_NUMBERS(14, HLO_S_X));
    hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(4));
    hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(20, 1, 4, HLO_T_F32)); /* zigzag: 2 */
    hlo_type_of(&p, HLO_VHLO, HLO_NUMBERS(8, 1, HLO_T_TENSOR, 1, HLO_T_TENSOR));
    hlo_properties_of(&p, HLO_NUMBERS(HLO_A_NONE, HLO_A_TYPE, HLO_A_NONE, HLO_A_MAIN, HLO_A_EMPTY));
    return p;
}

/* Name, mask, location. */
static inline void hlo_op(struct hlo_out *o, int name, unsigned mask)
{
    hlo_varint(o, (uint64_t)name);
    hlo_byte(o, mask);
    hlo_varint(o, HLO_A_LOCATION);
}

static inline struct hlo_out hlo_string_section(void)
{
    static const char *const strings[] = {"builtin",
                                          "vhlo",
                                          "sdy",
                                          "module",
                                          "func_v1",
                                          "return_v1",
                                          "add_v1",
                                          "constant_v1",
                                          "while_v1",
                                          "frobnicate_v9",
                                          "mesh",
                                          "main",
                                          "",
                                          "x",
                                          "unrealized_conversion_cast",
                                          "convert_v1"};
    enum { N = sizeof strings / sizeof *strings };
    struct hlo_out o = {.n = 0};
    hlo_varint(&o, N);
    for (int i = N - 1; i >= 0; i--) {
        hlo_varint(&o, strlen(strings[i]) + 1);
    }
    for (int i = 0; i < N; i++) {
        hlo_put(&o, strings[i], strlen(strings[i]) + 1);
    }
    return o;
}

static inline struct hlo_out hlo_dialect_section(void)
{
    struct hlo_out o = HLO_NUMBERS(3, 0 << 1, 1 << 1, 2 << 1, 9);
    struct hlo_out names = HLO_NUMBERS(HLO_BUILTIN, 2, 3 << 1, 14 << 1, HLO_VHLO, 7, 4 << 1, 5 << 1, 6 << 1,
                                       7 << 1, 8 << 1, 9 << 1, 15 << 1, HLO_SDY, 1, 10 << 1);
    hlo_append(&o, &names);
    free(names.p);
    return o;
}

/* main's operation: its region is a section. */
static inline void hlo_main(struct hlo_out *o, const struct hlo_parts *p)
{
    hlo_op(o, HLO_FUNC, HLO_PROPS | HLO_REGIONS);
    hlo_varint(o, 0);
    hlo_varint(o, 1 << 1 | !p->is_open);
    struct hlo_out region =
        HLO_NUMBERS(1, (uint64_t)p->n_values, (uint64_t)p->n_ops << 1 | 1, 1, HLO_T_TENSOR << 1);
    hlo_byte(&region, (unsigned)p->argument_orders);
    if (p->argument_orders) {
        struct hlo_out orders = HLO_NUMBERS(3 << 1, 2, 0, 1);
        hlo_append(&region, &orders);
        free(orders.p);
    }
    hlo_append(&region, &p->body);
    if (p->is_open) {
        hlo_append(o, &region);
        free(region.p);
        return;
    }
    hlo_section(o, HLO_IR, &region);
}

static inline struct hlo_out hlo_ir_section(const struct hlo_parts *p)
{
    struct hlo_out o = HLO_NUMBERS(1 << 1);
    hlo_op(&o, HLO_MODULE, HLO_REGIONS);
    hlo_varint(&o, 1 << 1 | 1);
    struct hlo_out region = HLO_NUMBERS(1, (uint64_t)p->n_outside, (uint64_t)(1 + p->n_beside) << 1);
    hlo_append(&region, &p->beside);
    hlo_main(&region, p);
    hlo_section(&o, HLO_IR, &region);
    return o;
}

/* The artifact; frees the parts. */
static inline struct hlo_out hlo_bytes(struct hlo_parts *p)
{
    struct hlo_out o = {.n = 0}, strings = hlo_string_section(), dialects = hlo_dialect_section(),
                   ir = hlo_ir_section(p);
    static const char head[] = "ML\xefR\x0dStableHLO_v1.2.3"; /* with its NUL */
    hlo_put(&o, head, sizeof head);
    hlo_section(&o, HLO_STRINGS, &strings);
    hlo_section(&o, HLO_DIALECTS, &dialects);
    struct hlo_out offsets = HLO_NUMBERS((uint64_t)p->n_attrs, (uint64_t)p->n_types);
    hlo_append(&offsets, &p->attr_sizes);
    hlo_append(&offsets, &p->type_sizes);
    hlo_append(&p->attrs, &p->types);
    hlo_section(&o, HLO_TABLE, &p->attrs);
    hlo_section(&o, HLO_OFFSETS, &offsets);
    hlo_section(&o, HLO_IR, &ir);
    struct hlo_out properties = HLO_NUMBERS((uint64_t)p->n_properties);
    hlo_append(&properties, &p->properties);
    hlo_section(&o, HLO_PROPERTIES, &properties);
    free(p->types.p);
    free(p->attr_sizes.p);
    free(p->type_sizes.p);
    free(p->properties.p);
    free(p->body.p);
    free(p->beside.p);
    return o;
}

/* Appends to main's body: what returns value. */
static inline void hlo_return(struct hlo_parts *p, int value)
{
    hlo_op(&p->body, HLO_RETURN, HLO_OPERANDS);
    hlo_varint(&p->body, 1);
    hlo_varint(&p->body, (uint64_t)value);
    p->n_ops++;
}

/* A constant whose value is an attribute. */
static inline void hlo_constant(struct hlo_parts *p, int attr)
{
    int properties = hlo_properties_of(p, HLO_NUMBERS((uint64_t)attr));
    hlo_op(&p->body, HLO_CONSTANT, HLO_PROPS | HLO_RESULTS);
    hlo_varint(&p->body, (uint64_t)properties);
    hlo_varint(&p->body, 1);
    hlo_varint(&p->body, HLO_T_TENSOR);
    p->n_ops++;
    p->n_values++;
}

#endif
