/* proto/stablehlo/mlir_file.c - divides an MLIR bytecode file into its entries.
 *
 *   'M' 'L' 0xEF 'R', version, producer NUL, sections in any order, each once
 *
 *   strings     n, the sizes last string first (NULs counted), the bytes first string first
 *   dialects    n names (from version 1: with the section of a version); [n of the next;] groups of names of
 *               operations
 *   offsets     n attributes, n types, groups of sizes: entries lie one behind the other in their section
 *   properties  n, then each behind its size
 *
 * A group is a dialect, a count, and as many. Resources are not read: no attribute of VHLO refers to one. A
 * table's entries take at least a byte each where they are counted, so that what is made for them is bounded
 * by the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/mlir_file.h"

#include <limits.h>
#include <string.h>

enum td_code td_mlir_alloc(const struct td_mlir_file *f, size_t n, size_t size, void *out, struct td_err *err)
{
    void *p = td_arena_alloc(f->a, n == 0 ? 1 : n, size);
    TD_FAIL_IF(p == NULL, err, RESOURCE_EXHAUSTED,
               "StableHLO module: no memory for %zu elements of %zu bytes", n, size);
    memcpy(out, &p, sizeof p);
    return TD_OK;
}

enum td_code td_mlir_name(const struct td_mlir_file *f, const struct td_mlir_bytes *b, uint64_t index,
                          const char **out, struct td_err *err)
{
    int i;
    TD_TRY(td_mlir_index_is(b, "string", index, f->n_strings, &i, err));
    TD_FAIL_IF(strlen(f->strings[i].p) != f->strings[i].len, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: the name '%s' goes on behind a NUL", td_mlir_at(b),
               f->strings[i].p);
    *out = f->strings[i].p;
    return TD_OK;
}

static enum td_code read_head(struct td_mlir_file *f, struct td_mlir_bytes *b, struct td_err *err)
{
    static const uint8_t magic[] = {'M', 'L', 0xEF, 'R'};
    TD_FAIL_IF(td_mlir_left(b) < sizeof magic || memcmp(b->p, magic, sizeof magic) != 0, err,
               INVALID_ARGUMENT,
               "StableHLO module: does not begin with MLIR bytecode's magic number 4D 4C EF 52");
    b->p += sizeof magic;
    uint64_t version;
    TD_TRY(td_mlir_varint(b, &version, err));
    TD_FAIL_IF(version > TD_MLIR_NEWEST, err, UNIMPLEMENTED,
               "StableHLO module: bytecode of version %llu, versions up to %d can be read",
               (unsigned long long)version, TD_MLIR_NEWEST);
    f->version = (int)version;
    const uint8_t *nul = memchr(b->p, 0, td_mlir_left(b));
    TD_FAIL_IF(nul == NULL, err, DATA_LOSS, "StableHLO module, byte %zu: the producer's name has no end",
               td_mlir_at(b));
    f->producer = td_arena_strndup(f->a, (const char *)b->p, (size_t)(nul - b->p));
    TD_FAIL_IF(f->producer == NULL, err, RESOURCE_EXHAUSTED,
               "StableHLO module: no memory for the producer's name");
    b->p = nul + 1;
    return TD_OK;
}

static enum td_code read_strings(struct td_mlir_file *f, struct td_mlir_bytes b, struct td_err *err)
{
    TD_TRY(td_mlir_count(&b, "strings", &f->n_strings, err));
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_strings, sizeof *f->strings, &f->strings, err));
    const uint8_t *end = b.end;
    for (int i = f->n_strings - 1; i >= 0; i--) {
        uint64_t size;
        TD_TRY(td_mlir_varint(&b, &size, err));
        TD_FAIL_IF(size == 0 || size > (uint64_t)(end - b.p) || end[-1] != 0, err, DATA_LOSS,
                   "StableHLO module, byte %zu: string %d of %llu bytes, %zu are left, the last one 0",
                   td_mlir_at(&b), i, (unsigned long long)size, (size_t)(end - b.p));
        end -= size;
        f->strings[i].len = (size_t)size - 1;
        f->strings[i].p = td_arena_strndup(f->a, (const char *)end, (size_t)size - 1);
        TD_FAIL_IF(f->strings[i].p == NULL, err, RESOURCE_EXHAUSTED,
                   "StableHLO module: no memory for string %d", i);
    }
    TD_FAIL_IF(end != b.p, err, INVALID_ARGUMENT, "StableHLO module, byte %zu: %zu bytes belong to no string",
               td_mlir_at(&b), (size_t)(end - b.p));
    return TD_OK;
}

/* StableHLO itself, not as its artifact: it has no version that stays. */
static enum td_code check_dialect(const char *name, struct td_err *err)
{
    static const char *const unstable[] = {"stablehlo", "mhlo", "func"};
    for (size_t i = 0; i < sizeof unstable / sizeof *unstable; i++) {
        TD_FAIL_IF(strcmp(name, unstable[i]) == 0, err, UNIMPLEMENTED,
                   "StableHLO module: in dialect %s, want a portable artifact, which is in vhlo", name);
    }
    return TD_OK;
}

static enum td_code read_dialect(struct td_mlir_file *f, struct td_mlir_bytes *b,
                                 struct td_mlir_dialect_entry *d, struct td_err *err)
{
    uint64_t name;
    bool has_version = false;
    if (f->version >= TD_MLIR_DIALECT_VERSIONS) {
        TD_TRY(td_mlir_flagged(b, &name, &has_version, err));
    } else {
        TD_TRY(td_mlir_varint(b, &name, err));
    }
    TD_TRY(td_mlir_name(f, b, name, &d->name, err));
    TD_TRY(check_dialect(d->name, err));
    d->kind = strcmp(d->name, "vhlo") == 0      ? TD_MLIR_VHLO
              : strcmp(d->name, "builtin") == 0 ? TD_MLIR_BUILTIN
                                                : TD_MLIR_FOREIGN;
    if (has_version) {
        int id;
        struct td_mlir_bytes version;
        TD_TRY(td_mlir_section(b, &id, &version, err));
        TD_FAIL_IF(id != TD_MLIR_DIALECT_VERSION, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: section %d where the version of dialect %s is wanted",
                   td_mlir_at(b), id, d->name);
    }
    return TD_OK;
}

/* The head of a group: its dialect and how many entries it has. */
static enum td_code read_group(const struct td_mlir_file *f, struct td_mlir_bytes *b, int *dialect, int *n,
                               struct td_err *err)
{
    TD_TRY(td_mlir_index(b, "dialect", f->n_dialects, dialect, err));
    return td_mlir_count(b, "entries of a dialect", n, err);
}

static enum td_code read_op_name(struct td_mlir_file *f, struct td_mlir_bytes *b, int dialect,
                                 struct td_err *err)
{
    uint64_t name;
    bool registered;
    if (f->version >= TD_MLIR_PROPERTIES) {
        TD_TRY(td_mlir_flagged(b, &name, &registered, err));
    } else {
        TD_TRY(td_mlir_varint(b, &name, err));
    }
    struct td_mlir_op_name *op = &f->op_names[f->n_op_names++];
    op->dialect = dialect;
    return td_mlir_name(f, b, name, &op->name, err);
}

static enum td_code read_dialects(struct td_mlir_file *f, struct td_mlir_bytes b, struct td_err *err)
{
    TD_TRY(td_mlir_count(&b, "dialects", &f->n_dialects, err));
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_dialects, sizeof *f->dialects, &f->dialects, err));
    for (int i = 0; i < f->n_dialects; i++) {
        TD_TRY(read_dialect(f, &b, &f->dialects[i], err));
    }
    if (f->version >= TD_MLIR_SHORT_ARGUMENTS) { /* a hint */
        uint64_t n_ops;
        TD_TRY(td_mlir_varint(&b, &n_ops, err));
    }
    TD_TRY(td_mlir_alloc(f, td_mlir_left(&b), sizeof *f->op_names, &f->op_names,
                         err)); /* a byte each, or more */
    while (td_mlir_left(&b) > 0) {
        int dialect, n;
        TD_TRY(read_group(f, &b, &dialect, &n, err));
        for (int i = 0; i < n; i++) {
            TD_TRY(read_op_name(f, &b, dialect, err));
        }
    }
    return TD_OK;
}

/* n entries, which lie in *data one behind the other. */
static enum td_code read_entries(const struct td_mlir_file *f, struct td_mlir_bytes *b,
                                 struct td_mlir_bytes *data, struct td_mlir_entry *entries, int n,
                                 struct td_err *err)
{
    int i = 0;
    while (i < n) {
        int dialect, n_here;
        TD_TRY(read_group(f, b, &dialect, &n_here, err));
        TD_FAIL_IF(n_here > n - i, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: %d entries, %d are left", td_mlir_at(b), n_here, n - i);
        for (int end = i + n_here; i < end; i++) {
            uint64_t size;
            entries[i].dialect = dialect;
            TD_TRY(td_mlir_flagged(b, &size, &entries[i].coded, err));
            TD_TRY(td_mlir_take(data, "an attribute or a type", size, &entries[i].data, err));
        }
    }
    return TD_OK;
}

static enum td_code read_offsets(struct td_mlir_file *f, struct td_mlir_bytes b, struct td_mlir_bytes data,
                                 struct td_err *err)
{
    TD_TRY(td_mlir_count(&b, "attributes", &f->n_attrs, err));
    TD_TRY(td_mlir_count(&b, "types", &f->n_types, err));
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_attrs, sizeof *f->attrs, &f->attrs, err));
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_types, sizeof *f->types, &f->types, err));
    TD_TRY(read_entries(f, &b, &data, f->attrs, f->n_attrs, err));
    TD_TRY(read_entries(f, &b, &data, f->types, f->n_types, err));
    return td_mlir_end(&b, "the table of attributes and types", err);
}

static enum td_code read_properties(struct td_mlir_file *f, struct td_mlir_bytes b, struct td_err *err)
{
    TD_TRY(td_mlir_count(&b, "sets of properties", &f->n_properties, err));
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_properties, sizeof *f->properties, &f->properties, err));
    for (int i = 0; i < f->n_properties; i++) {
        TD_TRY(td_mlir_blob(&b, "properties", &f->properties[i], err));
    }
    return td_mlir_end(&b, "the table of properties", err);
}

static enum td_code find_sections(struct td_mlir_bytes *b, struct td_mlir_bytes *sections, struct td_err *err)
{
    while (td_mlir_left(b) > 0) {
        int id;
        struct td_mlir_bytes section;
        TD_TRY(td_mlir_section(b, &id, &section, err));
        TD_FAIL_IF(id >= TD_MLIR_N_SECTIONS, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: section %d of %d", td_mlir_at(&section), id,
                   TD_MLIR_N_SECTIONS);
        TD_FAIL_IF(sections[id].p != NULL, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: section %d once more", td_mlir_at(&section), id);
        sections[id] = section;
    }
    for (int id = TD_MLIR_STRINGS; id <= TD_MLIR_IR; id++) {
        TD_FAIL_IF(sections[id].p == NULL, err, DATA_LOSS,
                   "StableHLO module, byte %zu: ends without section %d", td_mlir_at(b), id);
    }
    return TD_OK;
}

enum td_code td_mlir_file_read(struct td_arena *a, struct td_bytes bytes, struct td_mlir_file *f,
                               struct td_err *err)
{
    TD_FAIL_IF(bytes.len > INT_MAX, err, UNIMPLEMENTED, "StableHLO module of %zu bytes, want at most %d",
               bytes.len, INT_MAX);
    *f = (struct td_mlir_file){.a = a};
    const uint8_t *start = (const uint8_t *)bytes.p;
    struct td_mlir_bytes b = {start, start, start + bytes.len};
    TD_TRY(read_head(f, &b, err));
    struct td_mlir_bytes sections[TD_MLIR_N_SECTIONS] = {{0}};
    TD_TRY(find_sections(&b, sections, err));
    TD_TRY(read_strings(f, sections[TD_MLIR_STRINGS], err));
    TD_TRY(read_dialects(f, sections[TD_MLIR_DIALECTS], err));
    TD_TRY(read_offsets(f, sections[TD_MLIR_OFFSETS], sections[TD_MLIR_ATTRS_TYPES], err));
    if (sections[TD_MLIR_PROPERTY_SETS].p != NULL) {
        TD_TRY(read_properties(f, sections[TD_MLIR_PROPERTY_SETS], err));
    }
    f->ir = sections[TD_MLIR_IR];
    return TD_OK;
}
