/* proto/pb/guard.c - checks serialized protobuf without recursion, then lets protobuf-c unpack it into an
 * arena.
 *
 * The check keeps one frame a nesting level on a stack of fixed size: the message's descriptor and where it
 * is read. Every field is charged what protobuf-c will allocate for it, so the sum bounds the unpacked size
 * before anything is allocated. A singular message field may repeat on the wire and protobuf-c then merges
 * the copies, each time copying what it has so far; a few are let through, many are refused.
 *
 *   arena   [ struct unpacked | message ] [block] [block] ...
 *
 * A message is thousands of small blocks that are freed together, so its allocator is an arena of its own. A
 * header with the arena's address lies in front of the message, the first block that protobuf-c asks for;
 * that is all that td_guard_free needs.
 *
 * Does not: check enum values, texts of files, or what the fields mean.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/guard.h"

#include "core/base/arena.h"
#include "core/base/utf8.h"
#include "core/base/mem.h"
#include "proto/pb/scan.h"

enum { BLOCK_BYTES = 32, UNKNOWN_BYTES = 64, SCAN_BYTES = 40, MERGES_ALLOWED = 8 };

struct frame {
    const ProtobufCMessageDescriptor *d;
    struct td_scan w;
    unsigned singular; /* singular message fields met */
};

struct guard {
    const ProtobufCMessageDescriptor *top;
    struct frame frames[TD_GUARD_DEPTH];
    int depth;
    uint64_t bytes, max_bytes;
    bool sent; /* by a client: texts are checked */
};

static enum td_code malformed(const struct guard *g, const struct frame *f, const char *why,
                              struct td_err *err)
{
    TD_FAIL(err, INVALID_ARGUMENT, "Parsing %s: %s in %s", g->top->name, why, f->d->name);
}

static inline enum td_code charge(struct guard *g, uint64_t bytes, struct td_err *err)
{
    g->bytes += bytes;
    TD_FAIL_IF(g->bytes > g->max_bytes, err, RESOURCE_EXHAUSTED,
               "Parsing %s: it would take more than %llu bytes of memory", g->top->name,
               (unsigned long long)g->max_bytes);
    return TD_OK;
}

static enum td_code push(struct guard *g, const ProtobufCMessageDescriptor *d, const void *p, size_t n,
                         struct td_err *err)
{
    TD_FAIL_IF(g->depth == TD_GUARD_DEPTH, err, INVALID_ARGUMENT, "Parsing %s: messages nest deeper than %d",
               g->top->name, TD_GUARD_DEPTH);
    struct frame *fr = &g->frames[g->depth++];
    fr->d = d;
    fr->w = td_scan_make(p, n);
    fr->singular = 0;
    return charge(g, d->sizeof_message + BLOCK_BYTES, err);
}

/* Bytes an element takes in the array of a repeated field. */
static size_t element_bytes(ProtobufCType t)
{
    switch (t) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return 16;
    default:
        return 4;
    }
}

static enum td_code check_message(struct guard *g, struct frame *fr, const ProtobufCFieldDescriptor *fd,
                                  const struct td_scan_field *f, struct td_err *err)
{
    if (fd->label != PROTOBUF_C_LABEL_REPEATED && ++fr->singular > fr->d->n_fields + MERGES_ALLOWED) {
        return malformed(g, fr, "a singular field given many times", err);
    }
    return push(g, fd->descriptor, f->p, f->len, err);
}

/* A length-delimited field that the message knows. */
static enum td_code check_bytes(struct guard *g, struct frame *fr, const ProtobufCFieldDescriptor *fd,
                                const struct td_scan_field *f, struct td_err *err)
{
    size_t size = element_bytes(fd->type);
    switch (fd->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return check_message(g, fr, fd, f, err);
    case PROTOBUF_C_TYPE_STRING:
        if (g->sent && !td_utf8((const char *)f->p, f->len)) {
            return malformed(g, fr, "a text that is no UTF-8", err);
        }
        return charge(g, f->len + BLOCK_BYTES, err);
    case PROTOBUF_C_TYPE_BYTES:
        return charge(g, f->len + BLOCK_BYTES, err);
    default: /* packed scalars; a varint takes at least one byte on the wire */
        return charge(g, f->len * size + BLOCK_BYTES, err);
    }
}

/* The field of that number. Most messages number theirs in one run. */
static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *d, uint32_t number)
{
    if (d->n_field_ranges != 1) {
        return protobuf_c_message_descriptor_get_field(d, number);
    }
    const uint32_t at = number - (uint32_t)d->field_ranges[0].start_value;
    return at < d->n_fields ? &d->fields[at] : NULL;
}

static enum td_code check_field(struct guard *g, struct frame *fr, const struct td_scan_field *f,
                                struct td_err *err)
{
    const ProtobufCFieldDescriptor *fd = field_of(fr->d, f->number);
    TD_TRY(charge(g, SCAN_BYTES, err));
    if (fd == NULL) {
        return charge(g, UNKNOWN_BYTES + f->len, err);
    }
    if (fd->label == PROTOBUF_C_LABEL_REPEATED) {
        TD_TRY(charge(g, element_bytes(fd->type), err));
    }
    return f->type == TD_WIRE_BYTES ? check_bytes(g, fr, fd, f, err) : TD_OK;
}

static enum td_code check(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                          uint64_t max_bytes, bool sent, struct td_err *err)
{
    struct guard g = {.top = d, .max_bytes = max_bytes, .sent = sent};
    TD_TRY(push(&g, d, bytes, n, err));
    while (g.depth > 0) {
        struct frame *fr = &g.frames[g.depth - 1];
        struct td_scan_field f;
        if (td_scan_next(&fr->w, &f)) {
            TD_TRY(check_field(&g, fr, &f, err));
        } else if (fr->w.bad) {
            return malformed(&g, fr, "cut or malformed bytes", err);
        } else {
            g.depth--;
        }
    }
    return TD_OK;
}

/* ---- unpacking into an arena of its own: a message is thousands of small blocks, freed together. The arena
 * stands in front of the message, which is the first block that protobuf-c asks for. */

struct unpacked {
    struct td_arena *arena;
    void *unused; /* keeps the message 16-byte aligned */
};

static void *guard_alloc(void *arena, size_t n)
{
    return td_arena_alloc(arena, n, 1);
}

static void guard_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

struct first_block {
    struct td_arena *arena;
    struct unpacked *head; /* NULL until the first block is asked for */
};

static void *first_alloc(void *data, size_t n)
{
    struct first_block *f = data;
    if (f->head != NULL) {
        return guard_alloc(f->arena, n);
    }
    f->head = td_arena_alloc(f->arena, sizeof *f->head + n, 1);
    if (f->head == NULL) {
        return NULL;
    }
    f->head->arena = f->arena;
    return f->head + 1;
}

/* What is checked. */
static enum td_code unpack(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                           uint64_t max_bytes, ProtobufCMessage **out, struct td_err *err)
{
    struct first_block f = {.arena =
                                td_arena_new((size_t)max_bytes * 2 + n)}; /* twice: blocks are rounded up */
    ProtobufCAllocator allocator = {.alloc = first_alloc, .free = guard_free, .allocator_data = &f};
    if (f.arena == NULL) {
        return td_no_memory(err, n, d->name);
    }
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, n, n ? bytes : (const uint8_t *)"");
    if (m == NULL) {
        td_arena_free(f.arena);
        TD_FAIL(err, INVALID_ARGUMENT, "Parsing %s: %zu bytes are not such a message", d->name, n);
    }
    TD_CHECK((void *)m == (void *)(f.head + 1));
    *out = m;
    return TD_OK;
}

enum td_code td_guard_unpack(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                             uint64_t max_bytes, ProtobufCMessage **out, struct td_err *err)
{
    TD_TRY(check(d, bytes, n, max_bytes, false, err));
    return unpack(d, bytes, n, max_bytes, out, err);
}

enum td_code td_guard_unpack_sent(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                                  uint64_t max_bytes, ProtobufCMessage **out, struct td_err *err)
{
    TD_TRY(check(d, bytes, n, max_bytes, true, err));
    return unpack(d, bytes, n, max_bytes, out, err);
}

void td_guard_free(ProtobufCMessage *m)
{
    if (m != NULL) {
        td_arena_free(((struct unpacked *)(void *)m - 1)->arena);
    }
}
