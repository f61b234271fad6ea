/* tests/unit/proto/test_saved_model.c - SavedModel directories, written as text here and read as text and as
 * bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/saved_model.h"

#include "core/base/mem.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"
#include "proto/pb/wire.h"
#include "tests/unit/temp_dir.h"

static const struct td_op ops[] = {
    {.name = "_Arg", .sig = "() -> (output:T) {T:type; index:int}"},
    {.name = "Const", .sig = "() -> (output:dtype) {value:tensor; dtype:type}"},
    {.name = "Placeholder", .sig = "() -> (output:dtype) {dtype:type; shape:shape}"},
    {.name = "Identity", .sig = "(input:T) -> (output:T) {T:type}"},
    {.name = "NoOp", .sig = "() -> ()"},
    {.name = NULL},
};

#define HALF "{ dtype: DT_FLOAT tensor_shape { } float_val: 0.5 }"
#define INFO "meta_info_def { tags: 'serve' tensorflow_version: '2.0' } "
#define CONST(name, value)                                                                                   \
    "node { name: '" name                                                                                    \
    "' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor " value \
    " } } } "
#define PLACEHOLDER "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "

static const char good[] = "saved_model_schema_version: 1 meta_graphs { " INFO
                           "graph_def { versions { producer: 1000 } " CONST("c", HALF) PLACEHOLDER
    "node { name: 'y' op: 'double' input: 'x' } node { name: 'init' op: 'NoOp' input: '^c' }"
    " library { function { signature { name: 'double' input_arg { name: 'a' type: DT_FLOAT }"
    "   output_arg { name: 'r' type: DT_FLOAT } control_output: 'k' }"
    "   node_def { name: 'id' op: 'Identity' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }"
    "   ret { key: 'r' value: 'id:output:0' } control_ret { key: 'k' value: 'id' } } } }"
    " saver_def { restore_op_name: 'init' filename_tensor_name: 'c:0' }"
    " collection_def { key: 'legacy_init_op' value { node_list { value: 'init' } } }"
    " collection_def { key: 'saved_model_assets' value { any_list { value {"
    "   [type.googleapis.com/tensorflow.AssetFileDef] { tensor_info { name: 'c:0' } filename: 'vocab.txt' } "
    "} } } }"
    " signature_def { key: 'serving_default' value { method_name: 'tensorflow/serving/predict'"
    "   inputs { key: 'x' value { name: 'x:0' dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } }"
    "   inputs { key: 'b' value { name: 'c:0' dtype: DT_FLOAT_REF tensor_shape { unknown_rank: true } } }"
    "   outputs { key: 'y' value { coo_sparse { values_tensor_name: 'v' indices_tensor_name: 'i' "
    "dense_shape_tensor_name: 'd' } } }"
    "   defaults { key: 'b' value " HALF " } } }"
    " object_graph_def { nodes { } } unknown_field { x: 1 } }"
    " meta_graphs { meta_info_def { tags: 'train' tags: 'serve' } }";

/* Reads the text as a .pbtxt model, or as the same in bytes. */
static enum td_code read_model(const char *text, bool as_text, const char *tags, struct td_saved_model **out,
                               struct td_err *err)
{
    struct temp_dir d = temp_dir_make();
    struct td_op_table *table;
    const struct td_op *families[] = {ops, NULL};
    struct td_sink s = {0};
    struct td_err own = {0};
    CHECK_INT(td_op_table_new(families, &table, &own), TD_OK);
    if (as_text) {
        temp_dir_write(&d, "saved_model.pbtxt", text, strlen(text));
    } else {
        CHECK_INT(
            td_textpb_to_bytes(&tensorflow__saved_model__descriptor, text, strlen(text), true, &s, &own),
            TD_OK);
        temp_dir_write(&d, "saved_model.pb", s.p, s.n);
        td_sink_fini(&s);
    }
    enum td_code rc = td_saved_model_read(d.path, tags, table, out, err);
    td_op_table_free(table);
    temp_dir_remove(&d);
    return rc;
}

static void check_good(const struct td_saved_model *m)
{
    CHECK(m->graph->n_nodes == 4 && m->lib->n_functions == 1);
    const struct td_function *f = m->lib->functions[0];
    CHECK_STR(f->name, "double");
    CHECK(f->n_args == 1 && f->n_rets == 1 && f->n_control_rets == 1);
    CHECK_STR(f->args[0]->op_name, "_Arg");
    CHECK(f->rets[0].node == f->control_rets[0] && f->rets[0].node->in[0].node == f->args[0]);
    CHECK_STR(m->init_op, "init");
    CHECK_STR(m->restore_op, "init");
    CHECK_STR(m->filename_tensor, "c:0");
    CHECK(m->save_tensor == NULL && m->n_assets == 1 && m->n_tags == 1 && m->object_graph.len == 2);
    CHECK_STR(m->assets[0].filename, "vocab.txt");
    CHECK_STR(m->tf_version, "2.0");
}

static void check_signature(const struct td_saved_model *m)
{
    CHECK_INT(m->n_signatures, 1);
    const struct td_signature *s = &m->signatures[0];
    CHECK(s->n_in == 2 && s->n_out == 1);
    CHECK_STR(s->in[0].key, "b");
    CHECK(s->in[0].is_ref && s->in[0].dtype == TD_FLOAT && s->in[0].shape.rank == -1);
    CHECK(s->defaults[0].dtype == TD_FLOAT && s->defaults[1].dtype == TD_DTYPE_NONE);
    CHECK(s->in[1].shape.rank == 1 && s->in[1].shape.dim[0] == -1);
    CHECK(s->out[0].n_parts == 3 && s->out[0].tensor[0] == 0);
    CHECK_STR(s->out[0].parts[1], "i");
}

TEST(text_and_bytes_read_alike)
{
    for (int as_text = 0; as_text < 2; as_text++) {
        struct td_err err = {0};
        struct td_saved_model *m;
        CHECK_OK(read_model(good, as_text != 0, NULL, &m, &err));
        check_good(m);
        check_signature(m);
        td_saved_model_free(m);
    }
}

TEST(tags_must_match_exactly)
{
    struct td_err err = {0};
    struct td_saved_model *m;
    CHECK_OK(read_model(good, false, "serve,train", &m, &err));
    CHECK_INT(m->n_tags, 2);
    td_saved_model_free(m);
    CHECK_INT(read_model(good, false, "train", &m, &err), TD_NOT_FOUND);
    CHECK(strstr(err.msg, "{ serve }, { train serve }") != NULL);
    err = (struct td_err){0};
    CHECK_INT(read_model(good, false, "", &m, &err), TD_NOT_FOUND);
    err = (struct td_err){0};
    CHECK_OK(read_model("meta_graphs { meta_info_def { tags: 'other' } }", false, NULL, &m,
                        &err)); /* the only one */
    td_saved_model_free(m);
}

static void refuses(const char *graph, enum td_code code, const char *part)
{
    char text[2000];
    struct td_err err = {0};
    struct td_saved_model *m;
    snprintf(text, sizeof text, "meta_graphs { " INFO "%s }", graph);
    CHECK_INT(read_model(text, false, NULL, &m, &err), code);
    if (strstr(err.msg, part) == NULL) {
        CHECK_STR(err.msg, part);
    }
}

TEST(constants_are_checked)
{
    refuses("graph_def { node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } } }",
            TD_FAILED_PRECONDITION,
            "Saved model contains node \"c\" which is a constant tensor but no value has been provided");
    refuses(
        "graph_def { " CONST("c", "{ dtype: DT_FLOAT tensor_shape { dim { size: -5 } } }") " }",
        TD_FAILED_PRECONDITION,
        "Saved model contains node \"c\" (op \"Const\") which initializes from a tensor with -1 elements");
    refuses("graph_def { " CONST("c", "{ dtype: DT_INT32 }") " }", TD_INVALID_ARGUMENT,
            "attribute dtype is not");
    refuses(
        "graph_def { library { function { signature { name: 'f' } node_def { name: 'c' op: 'Const' } } } }",
        TD_FAILED_PRECONDITION, "function 'f': Saved model contains node \"c\"");
    refuses("graph_def { " CONST("c", "{ dtype: DT_FLOAT tensor_shape { dim { size: 300000000 } } }")
                CONST("d", "{ dtype: DT_FLOAT tensor_shape { dim { size: 300000000 } } }") " }",
            TD_INVALID_ARGUMENT, "bytes allowed");
}

TEST(graphs_are_checked)
{
    refuses("graph_def { node { name: 'n' op: 'NoOp' attr { key: 'a' value { i: 1 } } attr { key: 'a' value "
            "{ i: 2 } } } }",
            TD_INVALID_ARGUMENT, "node 'n' (NoOp): attribute 'a' is given twice");
    refuses("graph_def { node { name: 'n' op: 'NoOp' attr { key: 'a' value { type: 77 } } } }",
            TD_INVALID_ARGUMENT, "77 is not a DataType");
    refuses("graph_def { node { op: 'NoOp' } }", TD_INVALID_ARGUMENT, "no name");
    refuses("graph_def { node { name: 'n' op: 'Identity' input: 'gone' attr { key: 'T' value { type: "
            "DT_FLOAT } } } }",
            TD_INVALID_ARGUMENT, "gone");
    refuses("graph_def { versions { producer: 1 min_consumer: 100000 } }", TD_INVALID_ARGUMENT,
            "min consumer");
    refuses("graph_def { versions { producer: 1 bad_consumers: 2474 } }", TD_INVALID_ARGUMENT, "disallows");
    refuses("graph_def { library { function { signature { name: 'f' output_arg { name: 'r' type: DT_FLOAT } "
            "} } } }",
            TD_INVALID_ARGUMENT, "function 'f': no value is given for its result 'r'");
    refuses("signature_def { key: 's' value { inputs { key: 'x' value { dtype: 99 } } } }",
            TD_INVALID_ARGUMENT, "signature 's': tensor 'x': 99 is not a DataType");
    refuses("asset_file_def { tensor_info { name: 'c:0' } filename: '../../etc/passwd' }",
            TD_INVALID_ARGUMENT, "leaves the assets directory");
    refuses("collection_def { key: 'legacy_init_op' value { node_list { value: ['a', 'b'] } } }",
            TD_FAILED_PRECONDITION, "Expected exactly one main op");
}

static void file_is_refused(const char *name, const char *bytes, size_t n, enum td_code code,
                            const char *part)
{
    struct td_err err = {0};
    struct td_saved_model *m;
    struct temp_dir d = temp_dir_make();
    temp_dir_write(&d, name, bytes, n);
    CHECK_INT(td_saved_model_read(d.path, NULL, NULL, &m, &err), code);
    if (strstr(err.msg, part) == NULL) {
        CHECK_STR(err.msg, part);
    }
    temp_dir_remove(&d);
}

TEST(files_that_are_no_model)
{
    file_is_refused("saved_model.pb", "", 0, TD_DATA_LOSS, "the file is empty");
    file_is_refused("saved_model.pb", "version https://git-lfs.github.com/spec/v1\n", 43,
                    TD_FAILED_PRECONDITION, "git-LFS pointer");
    file_is_refused("saved_model.pb", "hello", 5, TD_DATA_LOSS, "malformed");
    file_is_refused("saved_model.pb", "\x08\x01", 2, TD_DATA_LOSS, "no meta graph");
    file_is_refused("saved_model.pb", "\x08\x05", 2, TD_UNIMPLEMENTED, "schema version 5");
    file_is_refused("saved_model.cpb", "x", 1, TD_UNIMPLEMENTED, "chunked models (.cpb)");
    file_is_refused("saved_model.pbtxt", "meta_graphs {", 13, TD_INVALID_ARGUMENT,
                    "tensorflow.SavedModel: 1:14:");
    file_is_refused("other", "x", 1, TD_NOT_FOUND, "Could not find SavedModel .pb or .pbtxt");
}

TEST(an_op_that_only_the_file_knows_stays)
{
    struct td_err err = {0};
    struct td_saved_model *m;
    CHECK_OK(read_model("meta_graphs { meta_info_def { tags: 'serve' stripped_op_list { op { name: 'Odd'"
                        "  output_arg { name: 'out' type_attr: 'T' } attr { name: 'T' type: 'type' "
                        "default_value { type: DT_INT32 } }"
                        "  attr { name: 'mode' type: 'string' default_value { s: 'a' } allowed_values { list "
                        "{ s: ['a', 'b'] } } } } } }"
                        " graph_def { node { name: 'n' op: 'Odd' } node { name: 'i' op: 'Identity' input: 'n'"
                        "   attr { key: 'T' value { type: DT_INT32_REF } } } } }",
                        true, NULL, &m, &err));
    const struct td_node *n = td_graph_find(m->graph, "n", 1);
    CHECK(n->op == NULL && n->def != NULL && n->n_out == 1 && n->out_type[0] == TD_INT32);
    CHECK_INT(m->lib->file_ops[0].attrs[1].n_allowed, 2);
    td_saved_model_free(m);
}

TEST(attributes_of_every_kind)
{
    struct td_err err = {0};
    struct td_saved_model *m;
    CHECK_OK(read_model(
        "meta_graphs { " INFO
        "graph_def { node { name: 'n' op: 'NoOp' attr { key: 's' value { s: 'a\\000b' } }"
        " attr { key: 'i' value { list { i: [1, -2] } } } attr { key: 'f' value { f: 1.5 } }"
        " attr { key: 'b' value { list { b: [true, false, true] } } } attr { key: 'e' value { list { } } }"
        " attr { key: 't' value { list { type: [DT_HALF, DT_STRING_REF] } } }"
        " attr { key: 'sh' value { shape { dim { size: -1 } dim { size: 3 } } } }"
        " attr { key: 'fn' value { func { name: 'g' attr { key: 'k' value { i: 7 } } } } }"
        " attr { key: '_output_shapes' value { list { shape { } } } }"
        " attr { key: 'p' value { placeholder: 'T' } } } } }",
        true, NULL, &m, &err));
    const struct td_node *n = td_graph_find(m->graph, "n", 1);
    int count;
    CHECK_INT(td_attr_bytes(n, "s").len, 3);
    CHECK_INT(td_attr_ints(n, "i", &count)[1], -2);
    CHECK(td_attr_float(n, "f") == 1.5 && td_attr_len(n, "b") == 3 && td_attr_len(n, "e") == 0);
    CHECK(td_attr_types(n, "t", &count)[1] == TD_STRING && td_attr_shape(n, "sh")->dim[1] == 3);
    CHECK_INT(td_attr_func(n, "fn", 0)->attrs[0].i[0], 7);
    CHECK(td_attr_find(n->attrs, n->n_attrs, "_output_shapes") == NULL);
    CHECK_INT(td_attr_find(n->attrs, n->n_attrs, "p")->kind, TD_ATTR_PLACEHOLDER);
    td_saved_model_free(m);
}

/* Cut anywhere: read or refused, and nothing behind the end is touched (each copy is a block of its own). */
TEST(cut_bytes_stay_within_their_end)
{
    struct td_op_table *table;
    const struct td_op *families[] = {ops, NULL};
    struct td_sink s = {0};
    struct td_err own = {0};
    int read = 0;
    CHECK_INT(td_op_table_new(families, &table, &own), TD_OK);
    CHECK_INT(td_textpb_to_bytes(&tensorflow__saved_model__descriptor, good, strlen(good), true, &s, &own),
              TD_OK);
    for (size_t n = 0; n <= s.n; n++) {
        struct td_err err = {0};
        struct td_saved_model *m;
        char *cut = td_calloc(n, 1);
        memcpy(cut, s.p, n);
        if (td_saved_model_parse("cut", cut, n, NULL, table, &m, &err) == TD_OK) {
            td_saved_model_free(m);
            read++;
        } else {
            CHECK(err.msg[0] != 0);
        }
        td_free(cut);
    }
    CHECK_INT(read, 2); /* whole, and without its second meta graph */
    td_sink_fini(&s);
    td_op_table_free(table);
}

/* A graph in two parts is one graph, as protobuf merges them; and one word is kept once. */
TEST(parts_of_a_graph_are_one_graph)
{
    struct td_err err = {0};
    struct td_saved_model *m;
    struct td_op_table *table;
    const struct td_op *families[] = {ops, NULL};
    struct td_sink s = {0}, graphs[2] = {{0}, {0}};
    static const char *const nodes[] = {"node { name: 'a' op: 'NoOp' }",
                                        "node { name: 'b' op: 'NoOp' input: '^a' } "
                                        "node { name: 'c' op: 'NoOp' }"};
    CHECK_INT(td_op_table_new(families, &table, &err), TD_OK);
    const size_t meta = td_put_mark(&s);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(td_textpb_to_bytes(&tensorflow__graph_def__descriptor, nodes[i], strlen(nodes[i]), true,
                                    &graphs[i], &err));
        CHECK_OK(td_put_bytes(&s, 2, graphs[i].p, graphs[i].n, &err));
        td_sink_fini(&graphs[i]);
    }
    CHECK_OK(td_put_end(&s, 2, meta, &err));
    CHECK_OK(td_saved_model_parse("parts", s.p, s.n, NULL, table, &m, &err));
    CHECK_INT(m->graph->n_nodes, 3);
    const struct td_node *b = td_graph_find(m->graph, "b", 1), *c = td_graph_find(m->graph, "c", 1);
    CHECK(b->n_control == 1 && b->op_name == c->op_name);
    td_saved_model_free(m);
    td_sink_fini(&s);
    td_op_table_free(table);
}

TEST_MAIN(RUN(text_and_bytes_read_alike) RUN(tags_must_match_exactly) RUN(constants_are_checked)
              RUN(graphs_are_checked) RUN(files_that_are_no_model) RUN(an_op_that_only_the_file_knows_stays)
                  RUN(attributes_of_every_kind) RUN(cut_bytes_stay_within_their_end)
                      RUN(parts_of_a_graph_are_one_graph))
