/* proto/thin.h - hides from the parser what a loader would unpack for nothing.
 *
 * Beside every node TensorFlow writes the shapes of its outputs (attribute "_output_shapes"): a fifth of a
 * file, and half a dozen messages a node, that nothing here reads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_THIN_H
#define TD_PROTO_THIN_H

#include <stddef.h>

/* Overwrites a serialized SavedModel in place: the values of those attributes become a field that the
 * messages do not know, of the same length, so that nothing else moves. Malformed bytes stay, for the parser
 * to refuse. */
void td_thin_saved_model(void *bytes, size_t n);

#endif
