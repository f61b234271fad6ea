/* tests/host_cuda/ctc_loss_test.c - CTCLossV2 on the host-run device beside the host: losses, gradients,
 * and what is refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/both_sides.h"

struct task {
    int64_t steps, batch, classes;
    int longest; /* labels of a sequence, at most */
    const char *attrs;
};

/* y: the sequences' lengths, then n labels, then their indices, all of them drawn. */
static struct td_tensor labels(const struct task *k, int64_t least, int *n)
{
    struct td_err err = {0};
    const int64_t most = k->batch * k->longest;
    const struct td_shape room = td_shape_vector(k->batch + 3 * most);
    struct td_tensor y, all = random_of(TD_FLOAT, room);
    float *const v = all.data, *const at = v + k->batch + most;
    *n = 0;
    for (int64_t b = 0; b < k->batch; b++) {
        const int here = 1 + (int)((number() + 1) / 2 * k->longest);
        v[b] = (float)least + floorf((v[b] + 1) / 2 * (float)(k->steps - least + 1));
        for (int i = 0; i < here && i < k->longest; i++, (*n)++) {
            at[2 * *n] = (float)b;
            at[2 * *n + 1] = (float)i;
        }
    }
    for (int i = 0; i < *n; i++) {
        v[k->batch + i] = 1 + floorf((v[k->batch + i] + 1) / 2 * (float)(k->classes - 1));
    }
    memmove(v + k->batch + *n, at, 2 * (size_t)*n * sizeof *v);
    const struct td_shape shape = td_shape_vector(k->batch + 3 * *n);
    CHECK_OK(td_tensor_new(&y, TD_FLOAT, &shape, &err));
    memcpy(y.data, v, td_tensor_bytes(&y));
    td_tensor_clear(&all);
    return y;
}

/* The graph of `port` of the loss, of n labels. */
static const char *text_of(const struct task *k, int n, const char *port)
{
    static char text[TEXT];
    const int batch = (int)k->batch;
    CHECK(snprintf(text, sizeof text,
                   XY "i = Cast {SrcT:type=float; DstT:type=int32} (y)\n"
                      "n = Slice {T:type=int32; Index:type=int32} (i, int32[1] 0, int32[1] %d)\n"
                      "v = Slice {T:type=int32; Index:type=int32} (i, int32[1] %d, int32[1] %d)\n"
                      "a = Slice {T:type=int32; Index:type=int32} (i, int32[1] %d, int32[1] %d)\n"
                      "w = Cast {SrcT:type=int32; DstT:type=int64} (a)\n"
                      "at = Reshape {T:type=int64} (w, int32[2] %d 2)\n"
                      "c = CTCLossV2 {%s} (x, at, v, n)\n"
                      "r = Identity {T:type=float} (c%s)",
                   batch, batch, n, batch + n, 2 * n, n, k->attrs, port) < (int)sizeof text);
    return text;
}

/* Logits of some weight. */
static struct td_tensor logits(const struct task *k)
{
    struct td_tensor x = random_of(TD_FLOAT, matrices(k->steps, k->batch, k->classes));
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        TD_DATA(&x, float)[i] *= 5;
    }
    return x;
}

/* least: of the lengths. */
static void losses(struct task k, int64_t least)
{
    static const char *const ports[] = {"", ":1"};
    for (int i = 0; i < 2; i++) {
        int n;
        struct td_tensor in[2] = {logits(&k), labels(&k, least, &n)};
        compare(text_of(&k, n, ports[i]), in, 1e-6);
        td_tensor_clear(&in[0]);
        td_tensor_clear(&in[1]);
    }
}

TEST(losses_and_gradients_are_the_hosts)
{
    setup();
    losses((struct task){1, 1, 2, 1, ""}, 1);
    losses((struct task){40, 5, 7, 12, ""}, 24);
    losses((struct task){40, 5, 3, 15, ""}, 40);
    losses((struct task){60, 3, 70, 50, ""}, 50);
    losses((struct task){30, 4, 4, 12, "preprocess_collapse_repeated:bool=true"}, 12);
    losses((struct task){30, 4, 4, 12, "ctc_merge_repeated:bool=false"}, 12);
    losses((struct task){15, 10, 4, 14, "ignore_longer_outputs_than_inputs:bool=true"}, 0);
}

/* More places in l' than a block has threads. */
TEST(long_labels_are_the_hosts)
{
    setup();
    losses((struct task){190, 1, 5, 180, ""}, 185);
}

/* y: both lengths. */
static void refused(const char *given, int length)
{
    const struct task k = {.steps = 6, .batch = 2, .classes = 4};
    char text[TEXT];
    struct td_err err = {0};
    const struct td_shape two = td_shape_vector(2);
    struct td_tensor in[2] = {logits(&k)};
    CHECK_OK(td_tensor_new(&in[1], TD_FLOAT, &two, &err));
    TD_DATA(&in[1], float)[0] = TD_DATA(&in[1], float)[1] = (float)length;
    snprintf(text, sizeof text,
             XY "n = Cast {SrcT:type=float; DstT:type=int32} (y)\nr = CTCLossV2 {} (x, %s, n)", given);
    compare_refusals(text, in);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

TEST(what_does_not_fit_is_refused_in_the_hosts_words)
{
    setup();
    refused("int64[2,2] 0 0 1 0, int32[2] 1 2", 7);
    refused("int64[2,2] 0 0 1 0, int32[2] 1 2", -1);
    refused("int64[2,2] 0 0 1 0, int32[2] 1 -2", 6);
    refused("int64[2,2] 0 0 0 1, int32[2] 1 2", 6);
    refused("int64[2,2] 1 0 0 0, int32[2] 1 2", 6);
    refused("int64[2,2] 0 0 2 0, int32[2] 1 2", 6);
    refused("int64[3,2] 0 0 1 0 1 0, int32[3] 1 2 3", 6);
    refused("int64[4,2] 0 0 1 0 1 1 1 2, int32[4] 1 2 0 1", 6);
    refused("int64[4,2] 0 0 1 0 1 1 1 2, int32[4] 1 2 3 1", 2);
}

TEST_MAIN(RUN(losses_and_gradients_are_the_hosts) RUN(long_labels_are_the_hosts)
              RUN(what_does_not_fit_is_refused_in_the_hosts_words))
