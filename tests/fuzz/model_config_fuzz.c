/* tests/fuzz/model_config_fuzz.c - any text as a config.pbtxt; what is read is written as JSON, which must be
 * JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/mem.h"
#include "proto/model_config.pb-c.h"
#include "server/json_read.h"
#include "server/model_config.h"
#include "server/pb_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_model_settings m;
    struct td_err err = {0};
    struct td_sink s = {0};
    if (td_model_config_parse("/nowhere", (const char *)data, size, &m, &err) == TD_OK) {
        TD_CHECK(td_pb_json_write((const ProtobufCMessage *)m.pb, &s, &err) == TD_OK);
        TD_CHECK(td_sink_put(&s, "", 1, &err) == TD_OK);
        struct td_json j = td_json_make(s.p, s.n - 1);
        TD_CHECK(td_json_skip(&j, &err) == TD_OK && td_json_peek(&j) == '\0' && j.at == j.end);
        td_sink_fini(&s);
        td_model_settings_fini(&m);
    }
    return 0;
}
