/* tests/unit/proto/test_advisory_files.c - TensorFlow's published vulnerabilities of files, replayed against
 * ours.
 *
 * A row of advisory_files.inc names the advisory, how its text becomes a file, and the code that must come
 * back from loading it and calling what it offers:
 *
 *   GRAPH, META     a GraphDef, a MetaGraphDef; the former with a signature from x to y
 *   OPS             the ops that the file describes (stripped_op_list)
 *   TENSOR          a TensorProto
 *   ENTRY, HEADER   a checkpoint's entry of "w", its header
 *   SNAPPY          the compressed block of a checkpoint's index
 *   DEEP_...        made here, as deep as the text says
 *
 * The numbers in the table's comments are those of the classes: 1-9 here, 10-30 in test_advisories.c. What is
 * left of those: LoadAndRemapMatrix while the build has no such op; temporary files, YAML and
 * eval of the Python tools (class 29) have no counterpart: tensorctl parses no code.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"
#include "kernels/ops.h"
#include "proto/checkpoint/bundle.h"
#include "proto/bytes/crc32c.h"
#include "proto/model/object_graph.h"
#include "proto/checkpoint/sstable.h"
#include "proto/checkpoint/sstable_write.h"
#include "proto/pb/tensor_pb.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"
#include "server/models/servable_run.h"
#include "tests/unit/temp_dir.h"

/* Codes, as the table names them. */
#define OK TD_OK
#define INVALID TD_INVALID_ARGUMENT
#define EXHAUSTED TD_RESOURCE_EXHAUSTED
#define UNIMPL TD_UNIMPLEMENTED
#define RANGE TD_OUT_OF_RANGE
#define PRECONDITION TD_FAILED_PRECONDITION
#define MISSING TD_NOT_FOUND
#define LOSS TD_DATA_LOSS

enum form {
    GRAPH,
    META,
    OPS,
    TENSOR,
    ENTRY,
    HEADER,
    SNAPPY,
    DEEP_ATTR,
    DEEP_VALUE,
    DEEP_GROUP,
    DEEP_CALL,
    DEEP_TEXT
};

struct advisory {
    const char *what;
    enum form form;
    const char *text;
    enum td_code code;
};

#define X "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "
#define T_FLOAT "attr { key: 'T' value { type: DT_FLOAT } } "
#define NODE_NEG(name, in) "node { name: '" name "' op: 'Neg' input: '" in "' " T_FLOAT "} "
#define NEG(name, in) "node_def { name: '" name "' op: 'Neg' input: '" in "' " T_FLOAT "} "
#define CALL(name, f, in) "node { name: '" name "' op: '" f "' input: '" in "' } "
#define BODY_CALL(name, f, in) "node_def { name: '" name "' op: '" f "' input: '" in "' } "
#define PARTITIONED(name, f, in)                                                                             \
    "node_def { name: '" name "' op: 'PartitionedCall' input: '" in                                          \
    "' attr { key: 'f' value { func { name: '" f                                                             \
    "' } } } attr { key: 'Tin' value { list { type: DT_FLOAT } } } "                                         \
    "attr { key: 'Tout' value { list { type: DT_FLOAT } } } } "
#define FUNCTION(name, body, ret)                                                                            \
    "function { signature { name: '" name "' input_arg { name: 'a' type: DT_FLOAT } "                        \
    "output_arg { name: 'r' type: DT_FLOAT } } " body " ret { key: 'r' value: '" ret "' } } "
#define D4 "dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 } "
#define D16 D4 D4 D4 D4

static const struct advisory rows[] = {
#include "tests/unit/proto/advisory_files.inc"
};

#define INFO "meta_info_def { tags: 'serve' } "
#define SIGNATURE                                                                                            \
    "signature_def { key: 'serving_default' value { method_name: 'tensorflow/serving/predict' "              \
    "inputs { key: 'x' value { name: 'x:0' dtype: DT_FLOAT } } "                                             \
    "outputs { key: 'y' value { name: '%s:0' dtype: DT_FLOAT } } } }"

static struct td_op_table *ops;

/* ------------------------------------------------------------------ bytes */

static void put(struct td_sink *s, const void *bytes, size_t n)
{
    struct td_err err = {0};
    CHECK_OK(td_sink_put(s, bytes, n, &err));
}

static void put_text(struct td_sink *s, const char *text)
{
    put(s, text, strlen(text));
}

static size_t put_varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;
    for (; v > 127; v >>= 7) {
        to[n++] = (uint8_t)(v | 128);
    }
    to[n++] = (uint8_t)v;
    return n;
}

/* A message that grows outwards: bytes[at..MOST) are it. */
struct nest {
    uint8_t *bytes;
    size_t at;
};
enum { MOST_NESTED = 2 << 20 };

static struct nest nest_make(void)
{
    struct nest m = {malloc(MOST_NESTED), MOST_NESTED};
    CHECK(m.bytes != NULL);
    return m;
}

static void before(struct nest *m, const void *bytes, size_t n)
{
    CHECK(n <= m->at);
    m->at -= n;
    memcpy(m->bytes + m->at, bytes, n);
}

/* It becomes field `number` of another one, after the text field 1 if there is one. */
static void wrap(struct nest *m, uint64_t number, const char *text)
{
    uint8_t head[24];
    size_t n = put_varint(head, number << 3 | 2);
    n += put_varint(head + n, MOST_NESTED - m->at);
    before(m, head, n);
    if (text != NULL) {
        const uint8_t field[2] = {10, (uint8_t)strlen(text)};
        before(m, text, strlen(text));
        before(m, field, sizeof field);
    }
}

static struct td_sink of_text(const ProtobufCMessageDescriptor *d, const char *text)
{
    struct td_sink s = {0};
    struct td_err err = {0};
    CHECK_OK(td_textpb_to_bytes(d, text, strlen(text), false, &s, &err));
    return s;
}

/* ------------------------------------------------------------------ models */

/* rc; an error must say what is wrong. */
static enum td_code explained(enum td_code rc, const struct td_err *err)
{
    CHECK(rc == TD_OK || err->msg[0] != '\0');
    return rc;
}

/* Calls a signature with two floats for each of its inputs. */
static enum td_code call(struct td_servable *s, const struct td_signature *sig, struct td_err *err)
{
    enum { MOST = 8 };
    struct td_named in[MOST], out[MOST];
    struct td_servable_call c = {.sig = sig, .in = in, .n_in = sig->n_in < MOST ? sig->n_in : MOST};
    const struct td_shape two = td_shape_vector(2);
    int n = 0;
    enum td_code rc = TD_OK;
    for (int i = 0; i < c.n_in; i++) {
        in[i].name = sig->in[i].key;
        CHECK(td_tensor_new(&in[i].t, TD_FLOAT, &two, err) == TD_OK);
        memset(in[i].t.data, 0, 8);
    }
    if (sig->n_out <= MOST && td_servable_callable(s, sig) != NULL) {
        rc = td_servable_run(s, &c, out, &n, err);
    } else {
        rc = td_servable_closed(s, sig, err);
    }
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&out[i].t);
    }
    for (int i = 0; i < c.n_in; i++) {
        td_tensor_clear(&in[i].t);
    }
    return rc;
}

/* Loads and calls the model that is in d, and reads its object graph: the first code that is not OK. */
static enum td_code serve(const struct temp_dir *d)
{
    struct td_servable_opts opts = {.ops = ops};
    struct td_servable *s;
    struct td_err err = {0};
    enum td_code rc = td_servable_load("m", 1, d->path, &opts, &s, &err);
    if (rc != TD_OK) {
        return explained(rc, &err);
    }
    const struct td_saved_model *m = td_servable_model(s);
    for (int i = 0; i < m->n_signatures && rc == TD_OK; i++) {
        rc = call(s, &m->signatures[i], &err);
    }
    struct td_object_graph *objects = NULL;
    rc = rc ? rc : td_object_graph_read(m->object_graph, (struct td_bytes){0}, &objects, &err);
    td_object_graph_free(objects);
    td_servable_unref(s);
    return explained(rc, &err);
}

static enum td_code serve_bytes(const char *name, struct td_sink *s)
{
    struct temp_dir d = temp_dir_make();
    temp_dir_write(&d, name, s->p, s->n);
    td_sink_fini(s);
    const enum td_code rc = serve(&d);
    temp_dir_remove(&d);
    return rc;
}

static enum td_code serve_meta(const char *head, const char *text, const char *tail)
{
    struct td_sink all = {0};
    put_text(&all, "meta_graphs { ");
    put_text(&all, head);
    put_text(&all, text);
    put_text(&all, tail);
    put(&all, " }", 3);
    struct td_sink s = of_text(&tensorflow__saved_model__descriptor, all.p);
    td_sink_fini(&all);
    return serve_bytes("saved_model.pb", &s);
}

static enum td_code serve_graph(const char *graph)
{
    char tail[400];
    snprintf(tail, sizeof tail, " } " SIGNATURE, strstr(graph, "'y'") != NULL ? "y" : "x");
    return serve_meta(INFO "graph_def { ", graph, strstr(graph, "'x'") != NULL ? tail : " }");
}

/* ------------------------------------------------------------------ depth */

/* meta is a MetaGraphDef but for its tags. */
static enum td_code serve_nest(struct nest *meta)
{
    struct td_sink info = of_text(&tensorflow__meta_graph_def__descriptor, INFO), s = {0};
    before(meta, info.p, info.n);
    wrap(meta, 2, NULL); /* SavedModel.meta_graphs */
    put(&s, meta->bytes + meta->at, MOST_NESTED - meta->at);
    td_sink_fini(&info);
    free(meta->bytes);
    return serve_bytes("saved_model.pb", &s);
}

static enum td_code deep_attr(int depth)
{
    struct nest m = nest_make();
    for (int i = 0; i < depth; i++) {
        wrap(&m, 2, "k"); /* NameAttrList.attr: key, value */
        wrap(&m, 2, NULL);
        wrap(&m, 10, NULL); /* AttrValue.func */
    }
    wrap(&m, 2, "k");
    wrap(&m, 5, "n"); /* NodeDef: name, attr */
    wrap(&m, 1, NULL);
    wrap(&m, 2, NULL); /* MetaGraphDef.graph_def */
    return serve_nest(&m);
}

static enum td_code deep_value(int depth)
{
    struct nest m = nest_make();
    for (int i = 0; i < depth; i++) {
        wrap(&m, 1, NULL);  /* ListValue.values */
        wrap(&m, 51, NULL); /* StructuredValue.list_value */
    }
    wrap(&m, 3, NULL); /* SavedConcreteFunction.canonicalized_input_signature */
    wrap(&m, 2, "f");
    wrap(&m, 2, NULL); /* SavedObjectGraph.concrete_functions */
    wrap(&m, 7, NULL); /* MetaGraphDef.object_graph_def */
    return serve_nest(&m);
}

static enum td_code deep_group(int depth)
{
    struct td_sink s = {0};
    for (int i = 0; i < depth; i++) {
        put(&s, "\xf3\x7f", 2); /* start of group 2046 */
    }
    return serve_bytes("saved_model.pb", &s);
}

static enum td_code deep_call(int depth)
{
    struct td_sink s = {0};
    char text[500];
    put_text(&s, X "node { name: 'y' op: 'f0' input: 'x' } library { ");
    for (int i = 0; i < depth; i++) {
        snprintf(text, sizeof text,
                 "function { signature { name: 'f%d' input_arg { name: 'a' type: DT_FLOAT } output_arg { "
                 "name: 'r' "
                 "type: DT_FLOAT } } node_def { name: 'n' op: 'f%d' input: 'a' } ret { key: 'r' value: "
                 "'n:r:0' } } ",
                 i, i + 1);
        put_text(&s, text);
    }
    snprintf(text, sizeof text, FUNCTION("f%d", NEG("n", "a"), "n:y:0") "}", depth);
    put(&s, text, strlen(text) + 1);
    const enum td_code rc = serve_graph(s.p);
    td_sink_fini(&s);
    return rc;
}

static enum td_code deep_text(int depth)
{
    struct td_sink s = {0};
    put_text(&s, "meta_graphs { graph_def { node { attr { key: 'a' value { ");
    for (int i = 0; i < depth; i++) {
        put_text(&s, "func { attr { value { ");
    }
    return serve_bytes("saved_model.pbtxt", &s);
}

/* ------------------------------------------------------------------ tensors and checkpoints */

static enum td_code read_tensor(const char *text)
{
    struct td_sink s = of_text(&tensorflow__tensor_proto__descriptor, text);
    struct td_err err = {0};
    struct td_tensor t = {0};
    enum td_code rc = td_tensor_from_bytes(s.p, s.n, (size_t)1 << 30, &t, &err);
    td_tensor_clear(&t);
    td_sink_fini(&s);
    return explained(rc, &err);
}

/* A checkpoint of the index in d with 64 bytes of data: opened, listed, "w" read. */
static enum td_code read_checkpoint(const struct temp_dir *d)
{
    const char zeros[64] = {0};
    struct temp_path prefix = temp_dir_file(d, "c");
    struct td_bundle *b;
    struct td_err err = {0};
    struct td_tensor t = {0};
    temp_dir_write(d, "c.data-00000-of-00001", zeros, sizeof zeros);
    enum td_code rc = td_bundle_open(prefix.s, &b, &err);
    if (rc == TD_OK) {
        const char *name;
        enum td_dtype dtype;
        struct td_shape shape;
        uint64_t bytes;
        for (int i = 0; td_bundle_entry(b, i, &name, &dtype, &shape, &bytes); i++) {
            CHECK(name != NULL);
        }
        rc = td_bundle_read(b, "w", "", &t, &err);
        td_tensor_clear(&t);
        td_bundle_close(b);
    }
    temp_dir_remove(d);
    return explained(rc, &err);
}

static enum td_code read_index(const char *header, const char *entry)
{
    struct td_sstable_writer w = {0};
    struct td_err err = {0};
    struct td_sink h = of_text(&tensorflow__bundle_header_proto__descriptor, header);
    struct td_sink e = of_text(&tensorflow__bundle_entry_proto__descriptor, entry);
    struct temp_dir d = temp_dir_make();
    CHECK_OK(td_sstable_add(&w, "", 0, h.p, h.n, &err));
    CHECK_OK(td_sstable_add(&w, "w", 1, e.p, e.n, &err));
    CHECK_OK(td_sstable_finish(&w, &err));
    temp_dir_write(&d, "c.index", w.file.p, w.file.n);
    td_sstable_writer_fini(&w);
    td_sink_fini(&h);
    td_sink_fini(&e);
    return read_checkpoint(&d);
}

static void put_block(struct td_sink *s, const void *bytes, size_t n, char type)
{
    put(s, bytes, n);
    put(s, &type, 1);
    const uint32_t crc = td_crc32c_mask(td_crc32c(td_crc32c(0, bytes, n), &type, 1));
    put(s, &crc, sizeof crc);
}

/* A table whose only data block is `text`, where \xNN are bytes, marked as compressed. */
static enum td_code read_snappy(const char *text)
{
    static const uint8_t empty[8] = {[4] = 1}; /* no entries, one restart point */
    uint8_t data[32], index[16] = {0, 1, 2, 'z', 0}, footer[TD_TABLE_FOOTER] = {0};
    const uint64_t magic = TD_TABLE_MAGIC;
    uint8_t n = 0;
    unsigned byte;
    for (const char *p = text; *p != '\0'; n++) {
        const bool coded = p[0] == '\\' && sscanf(p, "\\x%2x", &byte) == 1;
        data[n] = (uint8_t)(coded ? byte : (unsigned char)*p);
        p += coded ? 4 : 1;
    }
    struct td_sink s = {0};
    struct temp_dir d = temp_dir_make();
    index[5] = n; /* the block's size; then the restart point 0, of which there is 1 */
    index[10] = 1;
    put_block(&s, data, n, 1);
    footer[0] = (uint8_t)s.n; /* metaindex */
    footer[1] = sizeof empty;
    put_block(&s, empty, sizeof empty, 0);
    footer[2] = (uint8_t)s.n; /* index */
    footer[3] = 14;
    put_block(&s, index, 14, 0);
    memcpy(footer + 40, &magic, sizeof magic);
    put(&s, footer, sizeof footer);
    temp_dir_write(&d, "c.index", s.p, s.n);
    td_sink_fini(&s);
    return read_checkpoint(&d);
}

/* ------------------------------------------------------------------ the table */

static enum td_code replay(const struct advisory *row)
{
    switch (row->form) {
    case GRAPH:
        return serve_graph(row->text);
    case META:
        return serve_meta(INFO, row->text, "");
    case OPS:
        return serve_meta(
            "graph_def { node { name: 'o' op: 'Odd' } } meta_info_def { tags: 'serve' stripped_op_list { ",
            row->text, " } }");
    case TENSOR:
        return read_tensor(row->text);
    case ENTRY:
        return read_index("num_shards: 1", row->text);
    case HEADER:
        return read_index(row->text, "dtype: DT_FLOAT shape { dim { size: 4 } } size: 16");
    case SNAPPY:
        return read_snappy(row->text);
    case DEEP_ATTR:
        return deep_attr((int)strtol(row->text, NULL, 10));
    case DEEP_VALUE:
        return deep_value((int)strtol(row->text, NULL, 10));
    case DEEP_GROUP:
        return deep_group((int)strtol(row->text, NULL, 10));
    case DEEP_CALL:
        return deep_call((int)strtol(row->text, NULL, 10));
    default:
        return deep_text((int)strtol(row->text, NULL, 10));
    }
}

TEST(every_row_ends_as_it_should)
{
    struct td_err err = {0};
    int bad = 0;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    td_log_setup(TD_LOG_ERROR, false);
    td_budget_limit((uint64_t)1 << 30, "the test's limit");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        alarm(60);
        const enum td_code got = replay(&rows[i]);
        if (got != rows[i].code) {
            fprintf(stderr, "%s: want %s, got %s\n", rows[i].what, td_code_name(rows[i].code),
                    td_code_name(got));
            bad++;
        }
    }
    td_op_table_free(ops);
    CHECK_INT(bad, 0);
}

TEST_MAIN(RUN(every_row_ends_as_it_should))
