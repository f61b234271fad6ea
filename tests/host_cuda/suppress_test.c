/* tests/host_cuda/suppress_test.c - NonMaxSuppression and CombinedNonMaxSuppression on the host-run device:
 * the same boxes as on the host, whatever equals, NaN and empty boxes there are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/same_bits.h"

/* ------------------------------------------------------------------ NonMaxSuppression */

/* n boxes whose corners come in any order, some of them empty. */
static struct td_tensor boxes(int64_t n, int levels)
{
    struct td_tensor x = whole(td_shape_matrix(n, 4), 0, levels);
    for (int64_t i = 0; i < 4 * n; i++) {
        TD_DATA(&x, float)[i] *= 0.37F;
    }
    return x;
}

/* Of few levels: many are equal. */
static struct td_tensor scores(int64_t n, int levels)
{
    struct td_tensor x = whole(td_shape_vector(n), -1, levels);
    for (int64_t i = 0; i < n; i++) {
        TD_DATA(&x, float)[i] = i % 97 == 5 ? NAN : TD_DATA(&x, float)[i] / (float)levels;
    }
    return x;
}

#define BOXES XY NEGATED("b", "x") NEGATED("s", "y")
#define HALVES XY MADE("b", "x") MADE("s", "y")
#define FEW "int32[] 20, "
#define ALL "int32[] 100000, "
#define V3(most, iou, least, t)                                                                              \
    "r = NonMaxSuppressionV3 {T:type=" t "; T_threshold:type=float} (b, s, " most "float[] " iou             \
    ", float[] " least ")"

TEST(the_best_boxes_are_the_hosts)
{
    static const char *const cases[] = {
        BOXES V3(FEW, "0.4", "-0.6", "float"),
        BOXES V3(ALL, "0.4", "-0.6", "float"),
        BOXES V3(ALL, "0", "-10", "float"),
        BOXES V3(ALL, "1", "-10", "float"),
        BOXES V3(ALL, "0.5", "10", "float"),
        BOXES "r = NonMaxSuppression {iou_threshold:float=0.3} (b, s, " FEW ")",
        BOXES "r = NonMaxSuppressionV2 {T:type=float; T_threshold:type=half} (b, s, " FEW "half[] 0.5)",
        BOXES "n = NonMaxSuppressionV4 {T:type=float; T_threshold:type=float} (b, s, " FEW
              "float[] 0.5, float[] -1)\nr = Identity {T:type=int32} (n:1)",
        BOXES "n = NonMaxSuppressionV5 {T:type=float} (b, s, " FEW "float[] 0.5, float[] -1, float[] 0)\n"
              "r = Identity {T:type=float} (n:1)",
    };
    static const int64_t sizes[] = {1, 60, 700, 3000};
    setup();
    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < 4; k++) {
            same_of_two(cases[i], boxes(sizes[k], 40), scores(sizes[k], k % 2 == 0 ? 5 : 100000),
                        2 * MAKES + SIZED);
        }
    }
    same_of_two(graph(HALVES V3(FEW, "0.4", "-0.6", "half"), TD_HALF), boxes(700, 40), scores(700, 300),
                2 * makes(TD_HALF) + SIZED);
}

/* Nothing is waited for. */
TEST(padded_boxes_are_of_one_part)
{
    static const char *const cases[] = {
        BOXES "r = NonMaxSuppressionV4 {T:type=float; T_threshold:type=float; "
              "pad_to_max_output_size:bool=true} (b, "
              "s, " FEW "float[] 0.1, float[] -1)",
        BOXES "n = NonMaxSuppressionV4 {T:type=float; T_threshold:type=float; "
              "pad_to_max_output_size:bool=true} (b, "
              "s, " FEW "float[] 0.1, float[] -1)\nr = Identity {T:type=int32} (n:1)",
        BOXES "n = NonMaxSuppressionV5 {T:type=float; pad_to_max_output_size:bool=true} (b, s, " FEW
              "float[] 0.1, float[] -1, float[] 0)\nr = Identity {T:type=float} (n:1)",
    };
    setup();
    for (int i = 0; i < 3; i++) {
        same_of_two(cases[i], boxes(300, 7), scores(300, 50), 3 * MAKES);
        same_of_two(cases[i], boxes(7, 7), scores(7, 50), 3 * MAKES);
    }
}

TEST(overlaps_may_be_given)
{
    setup();
    same_of_two(BOXES "r = NonMaxSuppressionWithOverlaps {} (b, s, " FEW "float[] -0.3, float[] -1)",
                random_of(TD_FLOAT, td_shape_matrix(500, 500)), scores(500, 100), 2 * MAKES + SIZED);
}

/* Thresholds come from the device: the kernel that was chosen is there yet when they have. */
TEST(a_threshold_may_be_made_there)
{
    setup();
    same_of_two(BOXES "m = Max {T:type=float; Tidx:type=int32; keep_dims:bool=false} (b, int32[2] 0 1)\n"
                      "q = Tanh {T:type=float} (m)\na = Abs {T:type=float} (q)\n"
                      "r = NonMaxSuppressionV3 {T:type=float; T_threshold:type=float} (b, s, " FEW
                      "a, float[] -0.6)",
                boxes(60, 40), scores(60, 50), 4 * MAKES + SIZED);
}

TEST(shares_that_are_none_are_refused)
{
    setup();
    refused(BOXES V3(FEW, "1.5", "0", "float"), boxes(60, 9), scores(60, 9));
    refused(BOXES V3(FEW, "nan", "0", "float"), boxes(60, 9), scores(60, 9));
}

/* ------------------------------------------------------------------ CombinedNonMaxSuppression */

/* Boxes [images, n, each, 4], scores [images, n, classes]. */
struct images {
    int64_t images, n, each, classes;
};

static void of_images(const char *text, struct images s, int levels, int launched)
{
    struct td_tensor x = whole(shape_of(4, (int64_t[]){s.images, s.n, s.each, 4}), -3, 12);
    struct td_tensor y = whole(shape_of(3, (int64_t[]){s.images, s.n, s.classes}), -2, levels);
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        TD_DATA(&x, float)[i] *= 0.13F;
    }
    for (int64_t i = 0; i < td_tensor_count(&y); i++) {
        TD_DATA(&y, float)[i] = i % 89 == 7 ? NAN : TD_DATA(&y, float)[i] / (float)levels;
    }
    same_of_two(text, x, y, launched);
}

#define COMBINED(most, total, attrs, port, t)                                                                \
    BOXES "n = CombinedNonMaxSuppression {" attrs "} (b, s, int32[] " most ", int32[] " total                \
          ", float[] 0.2, float[] -0.7)\n"                                                                   \
          "r = Identity {T:type=" t "} (n" port ")"

TEST(the_best_of_all_classes_are_the_hosts)
{
    static const char *const cases[] = {
        COMBINED("5", "20", "", "", "float"),
        COMBINED("5", "20", "", ":1", "float"),
        COMBINED("5", "20", "", ":2", "float"),
        COMBINED("5", "20", "", ":3", "int32"),
        COMBINED("100000", "50", "clip_boxes:bool=false", "", "float"),
        COMBINED("3", "100", "pad_per_class:bool=true", ":1", "float"),
        COMBINED("700", "2000", "", ":2", "float"),
    };
    static const struct images of[] = {{1, 1, 1, 1}, {2, 60, 1, 3}, {3, 300, 4, 4}, {1, 1500, 1, 2}};
    setup();
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 4; k++) {
            of_images(cases[i], of[k], k % 2 == 0 ? 50 : 4, 3 * MAKES);
        }
    }
}

/* Scores that are weakened are the host's. */
TEST(weakened_scores_stay_on_the_host)
{
    setup();
    same_of_two(BOXES "n = NonMaxSuppressionV5 {T:type=float} (b, s, " FEW
                      "float[] 0.5, float[] -1, float[] 0.5)\nr = Identity {T:type=float} (n:1)",
                boxes(60, 9), scores(60, 100), 2 * MAKES);
}

TEST_MAIN(RUN(the_best_boxes_are_the_hosts) RUN(padded_boxes_are_of_one_part) RUN(overlaps_may_be_given)
              RUN(a_threshold_may_be_made_there) RUN(shares_that_are_none_are_refused)
                  RUN(weakened_scores_stay_on_the_host) RUN(the_best_of_all_classes_are_the_hosts))
