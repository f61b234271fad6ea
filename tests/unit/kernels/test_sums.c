/* tests/unit/kernels/test_sums.c - sums that lie on one of their inputs, and sums into lists: an element in
 * place, or a copy where somebody still reads it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/pass_make.h"

/* r, by default and with all passes off, is want[i] at every element. */
static void gives(const char *text, struct td_shape shape, const float *want, int n)
{
    const struct td_tensor x = ramp(&shape, 1, 0.25f);
    static const char *const off[] = {NULL, "all"};
    for (int k = 0; k < 2; k++) {
        struct td_tensor r = run_with(text, "r", off[k], TD_KERNELS_FAST, &x);
        CHECK_INT(td_tensor_count(&r), n);
        for (int i = 0; i < n; i++) {
            CHECK(fabsf(TD_DATA(&r, float)[i] - want[i]) < 1e-6f);
        }
        td_tensor_clear(&r);
    }
    struct td_tensor mine = x;
    td_tensor_clear(&mine);
}

TEST(a_sum_of_three_may_lie_on_any_of_them)
{
    float want[3000];
    for (int i = 0; i < 3000; i++) {
        const float x = 1 + 0.25f * (float)(i * 7 % 23);
        want[i] = 2 * x + x * x;
    }
    gives(X "a = Square {T:type=float} (x)\nr = AddN {N:int=3; T:type=float} (x, x, a)",
          td_shape_vector(3000), want, 3000);
    gives(X "a = Square {T:type=float} (x)\nr = AddN {N:int=3; T:type=float} (a, x, x)",
          td_shape_vector(3000), want, 3000);
}

#define LIST "l = TensorListFromTensor {element_dtype:type=float; shape_type:type=int32} (x, int32[1] 2)\n"
#define STACK(name, list) name " = TensorListStack {element_dtype:type=float} (" list ", int32[1] 2)\n"
#define ADD(list) "_TensorListAddItem {element_dtype:type=float} (" list ", int32[] 1, float[2] 10)\n"

/* ramp: x is [1, 2.75], [4.5, 6.25] */
TEST(adding_to_a_list_leaves_its_readers_and_the_tensor_it_was_made_of)
{
    const float sum[] = {1 + 1, 2.75f + 2.75f, 4.5f + 14.5f, 6.25f + 16.25f};
    gives(X LIST "m = " ADD("l") STACK("s", "m") STACK("t", "l") "r = AddV2 {T:type=float} (s, t)",
          td_shape_matrix(2, 2), sum, 4);
    gives(X LIST "m = " ADD("l") STACK("s", "m") "r = AddV2 {T:type=float} (s, x)", td_shape_matrix(2, 2),
          sum, 4);
}

TEST(an_element_taken_reads_as_zeros)
{
    const float rest[] = {1, 2.75f, 0, 0}, both[] = {4.5f, 6.25f};
    gives(X LIST
          "m = _TensorListTakeItem {element_dtype:type=float} (l, int32[] 1, int32[1] 2)\n" STACK("r", "m"),
          td_shape_matrix(2, 2), rest, 4);
    gives(X LIST "m = _TensorListTakeItem {element_dtype:type=float} (l, int32[] 1, int32[1] 2)\n"
                 "n = _TensorListTakeItem {element_dtype:type=float} (m, int32[] 1, int32[1] 2)\n"
                 "r = AddV2 {T:type=float} (m:1, n:1)",
          td_shape_matrix(2, 2), both, 2);
}

TEST(lists_add_up_where_elements_are_set)
{
    const float want[] = {2, 5.5f, 9, 12.5f, 0, 0};
    gives(X LIST
          "k = TensorListResize {} (l, int32[] 3)\n"
          "n = TensorListReserve {element_dtype:type=float; shape_type:type=int32} (int32[] -1, int32[] 3)\n"
          "m = AddN {N:int=3; T:type=variant} (n, k, k)\n" STACK("r", "m"),
          td_shape_matrix(2, 2), want, 6);
}

TEST_MAIN(RUN(a_sum_of_three_may_lie_on_any_of_them)
              RUN(adding_to_a_list_leaves_its_readers_and_the_tensor_it_was_made_of)
                  RUN(an_element_taken_reads_as_zeros) RUN(lists_add_up_where_elements_are_set))
