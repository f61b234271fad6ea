/* proto/thin.c - see thin.h. One walk down to the attributes:
 *
 *   SavedModel.meta_graphs . MetaGraphDef.graph_def . GraphDef.node . NodeDef.attr . AttrEntry.value
 *                                                   . GraphDef.library . function . node_def . attr . value
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/thin.h"

#include <string.h>

#include "proto/scan.h"

enum {
    META_GRAPHS = 2,
    GRAPH_DEF = 2,
    NODE = 1,
    LIBRARY = 2,
    FUNCTION = 1,
    NODE_DEF = 3,
    ATTR = 5,
    KEY = 1,
    VALUE = 2
};
enum { VALUE_TAG = VALUE << 3 | TD_WIRE_BYTES, UNKNOWN_TAG = 15 << 3 | TD_WIRE_BYTES };

typedef void visit_fn(const struct td_scan_field *message);

/* Calls visit for each message in the field of that number. */
static void each(const struct td_scan_field *in, uint32_t number, visit_fn *visit)
{
    struct td_scan s = td_scan_make(in->p, in->len);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == number && f.type == TD_WIRE_BYTES) {
            visit(&f);
        }
    }
}

static void thin_attr(const struct td_scan_field *entry)
{
    static const char name[] = "_output_shapes";
    struct td_scan s = td_scan_make(entry->p, entry->len);
    struct td_scan_field f;
    bool named = false;
    for (const uint8_t *tag = s.p; td_scan_next(&s, &f); tag = s.p) {
        if (f.number == KEY) {
            named = f.len == sizeof name - 1 && memcmp(f.p, name, f.len) == 0;
        }
        if (named && *tag == VALUE_TAG) {
            *(uint8_t *)tag = UNKNOWN_TAG; /* the bytes are the caller's, to write on */
        }
    }
}

static void thin_node(const struct td_scan_field *node)
{
    each(node, ATTR, thin_attr);
}

static void thin_function(const struct td_scan_field *function)
{
    each(function, NODE_DEF, thin_node);
}

static void thin_library(const struct td_scan_field *library)
{
    each(library, FUNCTION, thin_function);
}

static void thin_graph(const struct td_scan_field *graph)
{
    each(graph, NODE, thin_node);
    each(graph, LIBRARY, thin_library);
}

static void thin_meta_graph(const struct td_scan_field *meta)
{
    each(meta, GRAPH_DEF, thin_graph);
}

void td_thin_saved_model(void *bytes, size_t n)
{
    const struct td_scan_field whole = {.p = bytes, .len = n};
    each(&whole, META_GRAPHS, thin_meta_graph);
}
