/* kernels/cuda/base/shared_object.h - a library of NVIDIA's, looked for when the device is opened: none is
 * linked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_SHARED_OBJECT_H
#define TD_KERNELS_CUDA_BASE_SHARED_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

struct td_shared_object {
    const char *const *names;   /* files, the preferred first; NULL at the end */
    const char *const *symbols; /* functions that are wanted; NULL at the end */
};

/* Loads the first that is there, for as long as the process lives: its own threads and handlers would outlive
 * an unloading. functions[i] = symbol i; *found: the file's name. False: text says what is missing. */
bool td_shared_object_open(const struct td_shared_object *o, void *functions, const char **found, char *text,
                           size_t room);

#endif
