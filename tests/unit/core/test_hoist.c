/* tests/unit/core/test_hoist.c - core/compile/pass_hoist.c: products that leave a loop, and those that stay.
 *
 * A loop over the slices of s [4, 2, 3], made of x; y is a matrix [3, 5] that the loop is given.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

#define T "{T:type=float}"
#define MATMUL "MatMul {T:type=float} "
#define ARGS "(i:int32, l:variant, w:float, h:float) -> "
#define GO "@go " ARGS "(r:bool) = [ c = Less {T:type=int32} (i, int32[] %d) ] (c:z:0)\n"
#define BODY                                                                                                 \
    "@body " ARGS "(j:int32, m:variant, v:float, g:float) = [ k = AddV2 {T:type=int32} (i, int32[] 1)\n"
#define ITEM "e = TensorListGetItem {element_dtype:type=float; Tshape:type=int32} (l, i, int32[2] -1 3)\n"
#define LOOP                                                                                                 \
    X "y = " PLACEHOLDER "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] 4 2 3)\n"               \
      "l = TensorListFromTensor {element_dtype:type=float; shape_type:type=int32} (s, int32[2] -1 3)\n"      \
      "n = While {T:list(type)=[int32,variant,float,float]; cond:string='@go'; body:string='@body'} "        \
      "(int32[] 0, l, y, float[2,5] 0.5)\n"                                                                  \
      "r = Neg " T " (n:3)\n"

struct left {
    int loops, products; /* that the pass made: loops of its own, products before them */
};

/* The loop, four rounds long, whose body goes on as `body` says; the result is what it was. */
static struct left left(const char *body)
{
    static char text[4096];
    struct passed t;
    (void)snprintf(text, sizeof text, GO BODY "%s" LOOP, 4, body);
    passed(&t, text, "r", "hoist,identity");
    struct left n = {count(&t, "_Loop"), count(&t, "BatchMatMulV2")};
    passed_close(&t);
    same_results(text, "r", td_shape_vector(24), (struct td_shape){.rank = 2, .dim = {3, 5}});
    return n;
}

static void leaves(const char *body)
{
    const struct left n = left(body);
    CHECK_INT(n.loops, 1);
    CHECK_INT(n.products, 1);
}

static void stays(const char *body)
{
    const struct left n = left(body);
    CHECK_INT(n.loops, 0);
    CHECK_INT(n.products, 0);
}

TEST(a_product_of_each_slice_leaves_the_loop)
{
    leaves(ITEM "p = " MATMUL "(e:item:0, w)\na = AddV2 " T " (p:product:0, h)\n"
                "t = Tanh " T " (a:z:0) ] (k:z:0, l, w, t:y:0)\n");
    leaves(ITEM "p = MatMul {T:type=float; transpose_b:bool=true} (e:item:0, float[5,3] 1 2 3 -1 0.5)\n"
                "a = AddV2 " T " (p:product:0, h) ] (k:z:0, l, w, a:z:0)\n");
    leaves(ITEM "d = Identity " T " (e:item:0)\nv = Identity " T " (w)\np = " MATMUL
                "(d:output:0, v:output:0)\n"
                "a = AddV2 " T " (p:product:0, h) ] (k:z:0, l, v:output:0, a:z:0)\n");
    /* each of two readers, and as the result */
    leaves(ITEM "p = " MATMUL "(e:item:0, w)\na = AddV2 " T " (p:product:0, h)\nb = Mul " T
                " (p:product:0, a:z:0) ] (k:z:0, l, w, b:z:0)\n");
    leaves(ITEM "p = " MATMUL "(e:item:0, w) ] (k:z:0, l, w, p:product:0)\n");
    /* a slice of another round: backwards */
    leaves("b = Sub {T:type=int32} (int32[] 3, i)\ne = TensorListGetItem {element_dtype:type=float; "
           "Tshape:type=int32} (l, b:z:0, int32[] -1)\np = " MATMUL "(e:item:0, w)\na = AddV2 " T
           " (p:product:0, h) ] (k:z:0, l, w, a:z:0)\n");
}

TEST(so_does_the_bias_behind_it)
{
    const char *body = ITEM "p = " MATMUL "(e:item:0, w)\nc = BiasAdd " T " (p:product:0, float[5] 1 2 3)\n"
                            "a = AddV2 " T " (c:output:0, h) ] (k:z:0, l, w, a:z:0)\n";
    leaves(body);
    /* one that is made anew in every round */
    leaves(ITEM "p = " MATMUL "(e:item:0, w)\nu = Unpack {num:int=2; T:type=float} (float[2,5] 1 2 3)\n"
                "b = Mul " T " (u:output:1, float[] 0.5)\nc = BiasAdd " T
                " (p:product:0, b:z:0)\na = AddV2 " T " (c:output:0, h) ] (k:z:0, l, w, a:z:0)\n");
    /* the product itself is read, too: two lists */
    leaves(ITEM "p = " MATMUL "(e:item:0, w)\nc = BiasAdd " T " (p:product:0, float[5] 1 2 3)\n"
                "a = AddV2 " T " (c:output:0, p:product:0) ] (k:z:0, l, w, a:z:0)\n");
}

TEST(so_does_what_is_the_same_in_every_round)
{
    static char text[4096];
    struct passed t;
    (void)snprintf(text, sizeof text, GO BODY "%s" LOOP, 4,
                   ITEM "p = " MATMUL "(e:item:0, w)\nu = Unpack {num:int=3; T:type=float} (w)\nb = Mul " T
                        " (u:output:1, u:output:2)\na = AddV2 " T " (p:product:0, h)\nc = BiasAdd " T
                        " (a:z:0, u:output:1)\nd = BiasAdd " T
                        " (c:output:0, b:z:0) ] (k:z:0, l, w, d:output:0)\n");
    passed(&t, text, "r", "hoist,identity");
    CHECK_INT(count(&t, "_Loop"), 1);
    CHECK_INT(count(&t, "Unpack"), 1);
    CHECK_INT(count(&t, "Mul"), 1);
    for (int k = 0; k < t.ir.n_nodes; k++) { /* variables, the list of products, u:1, b */
        CHECK_INT(strcmp(t.ir.nodes[k]->op_name, "_Loop") == 0 ? t.ir.nodes[k]->n_in : 7, 7);
    }
    passed_close(&t);
    same_results(text, "r", td_shape_vector(24), (struct td_shape){.rank = 2, .dim = {3, 5}});
}

TEST(what_differs_by_round_stays)
{
    /* the matrix */
    stays(ITEM "p = " MATMUL "(e:item:0, w)\na = AddV2 " T " (p:product:0, h)\nv = Mul " T
               " (w, float[] 0.5) ] (k:z:0, l, v:z:0, a:z:0)\n");
    /* the list */
    stays(ITEM "p = " MATMUL "(e:item:0, w)\na = AddV2 " T " (p:product:0, h)\nd = Neg " T " (e:item:0)\n"
               "m = TensorListSetItem {element_dtype:type=float} (l, int32[] 3, d:y:0) ] "
               "(k:z:0, m:output_handle:0, w, a:z:0)\n");
    /* what is multiplied is no slice, but what was made of one */
    stays(ITEM "d = Mul " T " (e:item:0, float[] 2)\np = " MATMUL "(d:z:0, w)\na = AddV2 " T
               " (p:product:0, h) ] (k:z:0, l, w, a:z:0)\n");
    stays(ITEM "p = MatMul {T:type=float; transpose_a:bool=true} (e:item:0, h)\nq = " MATMUL
               "(e:item:0, p:product:0) ] (k:z:0, l, w, q:product:0)\n");
    /* no product: a bias alone is not worth a list */
    stays(ITEM "c = BiasAdd " T " (e:item:0, float[3] 1 2 3)\np = " MATMUL "(c:output:0, w)\na = AddV2 " T
               " (p:product:0, h) ] (k:z:0, l, w, a:z:0)\n");
}

/* A loop that does not run, whose body goes on as `body` says: with all passes, its result is what it was
 * given. */
static void runs_no_round(const char *body)
{
    static char text[4096];
    (void)snprintf(text, sizeof text, GO BODY "%s" LOOP, 0, body);
    same_results(text, "r", td_shape_vector(24), (struct td_shape){.rank = 2, .dim = {3, 5}});
}

TEST(what_may_refuse_its_values_stays)
{
    /* an index that is not there; a division by zero; a size below zero; a place that is not there */
    static const char *const bias[] = {
        "b = GatherV2 {Tparams:type=float; Tindices:type=int32; Taxis:type=int32} (w, int32[] 7, int32[] "
        "0)\n",
        "s = Shape " T " (w)\nz = Sub {T:type=int32} (s:output:0, s:output:0)\nd = FloorDiv {T:type=int32} "
        "(s:output:0, z:z:0)\nf = Cast {SrcT:type=int32; DstT:type=float} (d:z:0)\nm = Sum {T:type=float; "
        "Tidx:type=int32} (f:y:0, int32[] 0)\nb = Mul " T " (float[5] 1 2 3, m:output:0)\n",
        "s = Shape " T " (w)\nn = Neg {T:type=int32} (s:output:0)\nf = Fill {T:type=float; "
        "index_type:type=int32} (n:y:0, float[] 1)\nm = Sum {T:type=float; Tidx:type=int32} (f:output:0, "
        "int32[2] 0 1)\nb = Mul " T " (float[5] 1 2 3, m:output:0)\n",
        "v = Reshape {T:type=float; Tshape:type=int32} (w, int32[1] -1)\nb = GatherNd {Tparams:type=float; "
        "Tindices:type=int32} (v:output:0, int32[5,1] 1 2 99 3 4)\n"};
    static const char *const read[] = {"b:output:0", "b:z:0", "b:z:0", "b:output:0"};
    static char body[2048];
    for (size_t i = 0; i < sizeof bias / sizeof *bias; i++) {
        (void)snprintf(body, sizeof body,
                       ITEM "p = " MATMUL "(e:item:0, w)\n%sc = BiasAdd " T " (p:product:0, %s)\na = AddV2 " T
                            " (c:output:0, h) ] (k:z:0, l, w, a:z:0)\n",
                       bias[i], read[i]);
        runs_no_round(body);
    }
}

TEST(a_loop_that_writes_reads_its_variables_itself)
{
    static const char text[] =
        "@go (i:int32, l:variant, w:resource, h:float) -> (r:bool) = [ c = Less {T:type=int32} (i, int32[] "
        "4) ] "
        "(c:z:0)\n"
        "@body (i:int32, l:variant, w:resource, h:float) -> (j:int32, m:variant, v:resource, g:float) = [ k "
        "= "
        "AddV2 {T:type=int32} (i, int32[] 1)\n" ITEM "v = ReadVariableOp {dtype:type=float} (w)\np = " MATMUL
        "(e:item:0, v:value:0)\na = AddV2 " T " (p:product:0, h)\n%s ] (k:z:0, l, w, %s)\n" X
        "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] 4 2 3)\n"
        "l = TensorListFromTensor {element_dtype:type=float; shape_type:type=int32} (s, int32[2] -1 3)\n"
        "b = VarHandleOp {dtype:type=float; shape:shape=[3,5]; shared_name:string='b'} ()\n"
        "d = AssignVariableOp {dtype:type=float} (b, float[3,5] 1 2 3)\n"
        "n = While {T:list(type)=[int32,variant,resource,float]; cond:string='@go'; body:string='@body'} "
        "(int32[] 0, l, b, float[2,5] 0.5, ^d)\n"
        "r = Neg " T " (n:3)\n";
    static char reads[4096], writes[4096];
    (void)snprintf(reads, sizeof reads, text, "", "a:z:0");
    (void)snprintf(writes, sizeof writes, text,
                   "o = AssignAddVariableOp {dtype:type=float} (w, v:value:0, ^p)\n"
                   "q = Identity " T " (a:z:0, ^o)\n",
                   "q:output:0");
    struct passed t;
    passed(&t, reads, "r", "hoist,identity,handles");
    CHECK_INT(count(&t, "_Loop"), 1);
    CHECK_INT(count(&t, "ReadVariableOp"), 1);
    passed_close(&t);
    same_results(reads, "r", td_shape_vector(24), td_shape_scalar());
    passed(&t, writes, "r", "hoist,identity,handles");
    CHECK_INT(count(&t, "_Loop"), 0);
    passed_close(&t);
    same_results(writes, "r", td_shape_vector(24), td_shape_scalar());
}

TEST_MAIN(RUN(a_product_of_each_slice_leaves_the_loop) RUN(so_does_the_bias_behind_it)
              RUN(so_does_what_is_the_same_in_every_round) RUN(what_differs_by_round_stays)
                  RUN(what_may_refuse_its_values_stays) RUN(a_loop_that_writes_reads_its_variables_itself))
