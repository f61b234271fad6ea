/* tests/fuzz/textpb_fuzz.c - any bytes as protobuf text, of a configuration and of a SavedModel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/textpb.h"

#include "proto/pb/guard.h"
#include "proto/schema/serving.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t size, bool skip_unknown)
{
    struct td_err err = {0};
    ProtobufCMessage *m;
    if (td_textpb_parse(d, (const char *)data, size, skip_unknown, &m, &err) == TD_OK) {
        td_guard_free(m);
    } else {
        TD_CHECK(err.code != TD_OK && err.msg[0] != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(&tensorflow__serving__model_server_config__descriptor, data, size, false);
    parse(&tensorflow__serving__batching_parameters__descriptor, data, size, false);
    parse(&tensorflow__saved_model__descriptor, data, size, true);
    return 0;
}
