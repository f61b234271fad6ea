/* tests/fuzz/saved_model_fuzz.c - any bytes as a serialized SavedModel, its object graph included.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "proto/model/object_graph.h"
#include "proto/model/saved_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct td_op ops[] = {
    {.name = "_Arg", .sig = "() -> (output:T) {T:type; index:int}"},
    {.name = "Const", .sig = "() -> (output:dtype) {value:tensor; dtype:type}"},
    {.name = "Placeholder", .sig = "() -> (output:dtype) {dtype:type; shape:shape}"},
    {.name = "Identity", .sig = "(input:T) -> (output:T) {T:type}"},
    {.name = "Pack", .sig = "(values:N*T) -> (output:T) {N:int; T:type; axis:int=0}"},
    {.name = "PartitionedCall",
     .sig = "(args:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); f:func; config:string=''}"},
    {.name = "NoOp", .sig = "() -> ()"},
    {.name = NULL},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_op_table *table;
    struct td_err err = {0};
    struct td_saved_model *m;
    struct td_object_graph *g;
    if (table == NULL) {
        const struct td_op *families[] = {ops, NULL};
        TD_CHECK(td_op_table_new(families, &table, &err) == TD_OK);
    }
    if (td_saved_model_parse("fuzz", data, size, NULL, table, &m, &err)) {
        TD_CHECK(err.code != TD_OK && err.code != TD_INTERNAL && err.msg[0] != 0);
        return 0;
    }
    if (td_object_graph_read(m->object_graph, (struct td_bytes){"", 0}, &g, &err) == TD_OK) {
        td_object_graph_free(g);
    }
    td_saved_model_free(m);
    return 0;
}
