/* tests/fuzz/model_config_fuzz.c - any text as a config.pbtxt, and as the JSON of a load request. What is
 * read of a file is written as JSON, which must be JSON and read as the same again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/guard.h"
#include "proto/schema/model_config.pb-c.h"
#include "proto/json/json_pb.h"
#include "proto/json/json_read.h"
#include "server/models/model_config.h"
#include "proto/json/pb_json.h"

/* Texts that are no UTF-8 become objects in JSON; those do not come back. */
static void check_same(const ProtobufCMessage *m, const char *json, size_t n)
{
    struct td_err err = {0};
    struct td_sink again = {0};
    ProtobufCMessage *copy = NULL;
    if (strstr(json, "{\"b64\":") == NULL) {
        TD_CHECK(td_json_pb_parse(m->descriptor, json, n, false, &copy, &err) == TD_OK);
        TD_CHECK(td_pb_json_write(copy, &again, &err) == TD_OK);
        TD_CHECK(again.n == n && memcmp(again.p, json, n) == 0);
        td_sink_fini(&again);
        td_guard_free(copy);
    }
}

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
        check_same((const ProtobufCMessage *)m.pb, s.p, s.n - 1);
        td_sink_fini(&s);
        td_model_settings_fini(&m);
    }
    err = (struct td_err){0};
    char *text = td_calloc(size + 1, 1); /* a NUL must stand behind JSON */
    if (text != NULL) {
        memcpy(text, data, size);
        if (td_model_config_override("/nowhere", text, size, &m, &err) == TD_OK) {
            td_model_settings_fini(&m);
        }
        td_free(text);
    }
    return 0;
}
