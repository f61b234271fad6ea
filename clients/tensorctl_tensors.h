/* clients/tensorctl_tensors.h - tensors of the C API as the wire's, and back: verbs that run a SavedModel in
 * this process print and parse as those that ask a server do. Names and data are borrowed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TDC_TENSORCTL_TENSORS_H
#define TDC_TENSORCTL_TENSORS_H

#include "clients/tensord_client.h"
#include "server/tensord.h"

/* An unknown rank is shown as 0. */
void tdc_to_wire(const tensord_tensor *t, struct tdc_tensor *out);
/* Dims past TENSORD_MAX_RANK are left out: the run refuses such a rank. */
void tdc_from_wire(const struct tdc_tensor *t, tensord_tensor *out);

#endif
