/* server/quantize/ranges.h - between which values what is multiplied with each of a model's weights lies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_QUANTIZE_RANGES_H
#define TD_SERVER_QUANTIZE_RANGES_H

#include "core/run/precision.h"
#include "server/models/servable.h"

/* Runs all requests of the file on the version in dir, loaded for that, in floats; *out is new: int8, with
 * the ranges of all weights that were seen. INVALID_ARGUMENT: the file holds no requests, or none of them
 * meets a product with weights. */
TD_MUST enum td_code td_ranges_of(const char *dir, const struct td_servable_opts *opts, const char *requests,
                                  struct td_precision **out, struct td_err *err);

#endif
