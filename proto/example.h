/* proto/example.h - tf.Example and tf.SequenceExample, read in place and written, without unpacking messages.
 *
 *   struct td_features it = td_features_of(bytes, n);          of an Example, or of a SequenceExample's context
 *   struct td_feature f;
 *   while (td_features_next(&it, &f)) { ... f.name, f.kind, f.count; td_feature_floats(&f, dst, f.count) ... }
 *   if (it.bad) the bytes are no Example
 *
 * Everything borrows from the bytes. A name may come twice: the later one counts (also what merging a context with
 * an example by joining their bytes relies on). Values may be packed or not. Nothing is allocated, nothing recurses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_EXAMPLE_H
#define TD_PROTO_EXAMPLE_H

#include "core/attr.h"
#include "proto/scan.h"

enum td_feature_kind { TD_FEATURE_NONE, TD_FEATURE_BYTES, TD_FEATURE_FLOAT, TD_FEATURE_INT64 }; /* Feature's oneof */

struct td_feature {
    const char *name; /* no NUL behind it; "" for the features of a list */
    size_t name_len;
    enum td_feature_kind kind; /* NONE: a feature without any list (missing) */
    int64_t count;             /* values */
    const uint8_t *list;       /* the serialized BytesList, FloatList or Int64List */
    size_t list_len;
};

struct td_features {
    struct td_scan outer, inner;
    bool bad;
};

struct td_features td_features_of(const void *bytes, size_t n);
bool td_features_next(struct td_features *it, struct td_feature *f);

/* Copies the first n values (n <= count). Only for a feature of that kind. */
void td_feature_floats(const struct td_feature *f, float *dst, int64_t n);
void td_feature_ints(const struct td_feature *f, int64_t *dst, int64_t n);
/* The values of a BYTES feature one after another:  struct td_scan s = td_feature_values(&f);  while (td_feature_bytes_next(&s, &p, &len)) */
struct td_scan td_feature_values(const struct td_feature *f);
bool td_feature_bytes_next(struct td_scan *s, const char **p, size_t *len);

/* ---- the feature lists of a SequenceExample: each a name and a sequence of features */

struct td_feature_list {
    const char *name;
    size_t name_len;
    int64_t count; /* features in it */
    struct td_scan features;
};
struct td_feature_lists {
    struct td_scan outer, inner;
    bool bad;
};
struct td_feature_lists td_feature_lists_of(const void *bytes, size_t n);
bool td_feature_lists_next(struct td_feature_lists *it, struct td_feature_list *list);
/* Features of a list in order; list->features.bad tells of malformed ones. */
bool td_feature_list_next(struct td_feature_list *list, struct td_feature *f);

/* ---- writing an Example */

struct td_example_writer {
    struct td_sink *out;
    size_t features; /* where the Features message began */
};
struct td_example_writer td_example_begin(struct td_sink *out);
TD_MUST enum td_code td_example_floats(struct td_example_writer *w, const char *name, const float *v, size_t n,
                                       struct td_err *err);
TD_MUST enum td_code td_example_ints(struct td_example_writer *w, const char *name, const int64_t *v, size_t n,
                                     struct td_err *err);
TD_MUST enum td_code td_example_bytes(struct td_example_writer *w, const char *name, const struct td_bytes *v, size_t n,
                                      struct td_err *err);
/* The serialized Example is then complete at the end of out. */
TD_MUST enum td_code td_example_end(struct td_example_writer *w, struct td_err *err);

#endif
