/* kernels/text/string_hash.h - the string hashes that models depend on: their values are part of TensorFlow's
 * op definitions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_STRING_HASH_H
#define TD_KERNELS_TEXT_STRING_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FarmHash's Fingerprint64. */
uint64_t td_hash_fingerprint64(const void *bytes, size_t n);
/* The hash of StringToHashBucket: MurmurHash64A with a fixed seed. */
uint64_t td_hash_legacy64(const void *bytes, size_t n);
/* SipHash-2-4 under the key (k0, k1). */
uint64_t td_hash_siphash(uint64_t k0, uint64_t k1, const void *bytes, size_t n);
/* Combines two fingerprints; not commutative. */
uint64_t td_hash_cat64(uint64_t a, uint64_t b);

#endif
