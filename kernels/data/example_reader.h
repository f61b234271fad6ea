/* kernels/data/example_reader.h - tf.Example and tf.SequenceExample, read in place.
 *
 *   Example          { features = 1: Features }
 *   SequenceExample  { context = 1: Features, feature_lists = 2: FeatureLists }
 *   Features, FeatureLists { map = 1: { key = 1, value = 2: Feature or FeatureList } }
 *   FeatureList      { feature = 1: Feature }
 *   Feature          { one of bytes_list = 1, float_list = 2, int64_list = 3 }, lists packed or not
 *
 * Nothing is copied until values are asked for: a feature is a span of the serialized message. A later entry
 * of a map replaces an earlier one of the same key. Every length is checked against the bytes that are left.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_EXAMPLE_READER_H
#define TD_KERNELS_DATA_EXAMPLE_READER_H

#include "core/graph/attr.h"
#include "core/base/tensor.h"

struct td_example_span {
    const uint8_t *p; /* NULL: absent */
    size_t n;
};

/* The keys wanted, hashed. Storage (slots) is the caller's: td_example_slots(n) of int32_t. */
struct td_example_keys {
    const struct td_bytes *key;
    int n;
    int32_t *slot; /* index + 1, or 0 */
    int n_slots;
};
int td_example_slots(int n);
void td_example_keys_init(struct td_example_keys *k, const struct td_bytes *key, int n, int32_t *slots);

/* The map at field `field` of message [p, n): found[i] gets the value message of key i (p NULL: absent).
 * false when the bytes are no such message. */
bool td_example_map(const void *p, size_t n, uint32_t field, const struct td_example_keys *keys,
                    struct td_example_span *found);
/* Next feature of a FeatureList: list moves behind it. 1, 0 at the end, -1 malformed. */
int td_example_list_next(struct td_example_span *list, struct td_example_span *feature);

/* TD_STRING, TD_FLOAT or TD_INT64; TD_DTYPE_NONE for an absent feature or one without a list. false:
 * malformed. */
bool td_example_type(struct td_example_span feature, enum td_dtype *type);
/* Values of a feature whose type has been found; -1: malformed. */
int64_t td_example_count(struct td_example_span feature);
/* Copies its values (count has been >= 0) to elements [at, at + count) of t. */
TD_MUST enum td_code td_example_copy(struct td_example_span feature, struct td_tensor *t, int64_t at,
                                     struct td_err *err);

#endif
