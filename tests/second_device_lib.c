/* tests/second_device_lib.c - makes the C API run its models on the tests' second device, so that any suite
 * that knows libtensord can be run there:  python tests/golden.py SUITE --lib
 * build/tests/libtensord_second_device.so
 *
 * The environment's SECOND_DEVICE=eager chooses the pace. second_device_launches tells how many kernels ran
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "server/embed.h"
#include "tests/second_device.h"
#include "tests/second_device_kernel.h"

static struct td_device *device;

__attribute__((constructor)) static void start(void)
{
    const char *speed = getenv("SECOND_DEVICE");
    bool eager = speed != NULL && strcmp(speed, "eager") == 0;
    struct td_err err = {0};
    TD_CHECK(td_second_device_new(eager ? SECOND_DEVICE_EAGER : SECOND_DEVICE_LAZY, &device, &err) == TD_OK);
    td_embed_device = device;
    td_embed_module = td_second_device_add_kernels;
}

__attribute__((visibility("default"))) long second_device_launches(void);

long second_device_launches(void)
{
    return td_second_device_counts(device).launches;
}
