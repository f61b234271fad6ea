/* tests/host_cuda/host_cuda_nccl_test.cc - the stand-in of NCCL tells every wrong call that it can see, and
 * sums what right ones ask for, over two devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/nccl_api.h"
#include "tests/host_cuda/stand_in_test.h"

#include <functional>
#include <thread>

extern "C" {
#define CALL(type, name, parameters) type name parameters;
#include "kernels/cuda/base/nccl_api.def"
}

enum { MANY = 4096 };

/* One of two ranks, each on a device of its own: its part of a communicator, and two arrays of MANY floats.
 * */
struct rank_of_two {
    int number = 0;
    void *comm = nullptr;
    cudaStream_t queue = nullptr;
    float *x = nullptr, *y = nullptr;
};

/* Both at once, each in a thread whose device is its own. */
static void on_both(rank_of_two *both, const std::function<void(rank_of_two *)> &f)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&f, both, i] {
            CHECK_CUDA(cudaSetDevice(i));
            f(&both[i]);
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
}

static void join_two(rank_of_two *both)
{
    td_nccl_id id;
    CHECK_INT(ncclGetUniqueId(&id), 0);
    both[1].number = 1;
    on_both(both, [&id](rank_of_two *r) {
        std::vector<float> x = small_numbers(MANY);
        for (float &v : x) {
            v += static_cast<float>(r->number);
        }
        CHECK_INT(ncclCommInitRank(&r->comm, 2, id, r->number), 0);
        CHECK_CUDA(cudaStreamCreateWithFlags(&r->queue, cudaStreamNonBlocking));
        r->x = new_array_of(x);
        r->y = new_array<float>(MANY);
    });
}

static int sum(rank_of_two *r, const float *from, float *to, size_t n)
{
    return ncclAllReduce(from, to, n, TD_NCCL_FLOAT, TD_NCCL_SUM, r->comm, disguised(r->queue));
}

static void leave_both(rank_of_two *both, bool abort)
{
    on_both(both, [abort](rank_of_two *r) {
        if (abort) {
            CHECK_INT(ncclCommAbort(r->comm), 0);
        }
        CHECK_CUDA(cudaStreamSynchronize(r->queue));
        if (!abort) {
            CHECK_INT(ncclCommDestroy(r->comm), 0);
        }
        CHECK_CUDA(cudaFree(r->x));
        CHECK_CUDA(cudaFree(r->y));
        CHECK_CUDA(cudaStreamDestroy(r->queue));
    });
    CHECK_CUDA(cudaSetDevice(0));
}

static void check_sum(rank_of_two *r, const float *at, size_t first, size_t n)
{
    const std::vector<float> x = small_numbers(MANY);
    CHECK_CUDA(cudaStreamSynchronize(r->queue));
    const std::vector<float> got = read_array(at, n);
    for (size_t i = 0; i < n; i++) {
        CHECK(got[i] == 2 * x[first + i] + 1);
    }
}

TEST(two_ranks_sum)
{
    const int before = host_cuda_reports();
    rank_of_two both[2];
    join_two(both);
    on_both(both, [](rank_of_two *r) {
        CHECK_INT(sum(r, r->x, r->y, MANY), 0);
        check_sum(r, r->y, 0, MANY);
        CHECK_INT(ncclGroupStart(), 0); /* elsewhere, and in place */
        CHECK_INT(sum(r, r->x, r->y, 1000), 0);
        CHECK_INT(sum(r, r->x + 1000, r->x + 1000, 50), 0);
        CHECK_INT(ncclGroupEnd(), 0);
        check_sum(r, r->y, 0, 1000);
        check_sum(r, r->x + 1000, 1000, 50);
        int later = -1;
        CHECK_INT(ncclCommGetAsyncError(r->comm, &later), 0);
        CHECK_INT(later, 0);
    });
    leave_both(both, false);
    CHECK_INT(host_cuda_reports(), before);
}

TEST(one_that_waits_for_the_other_is_ended_by_abort)
{
    rank_of_two both[2];
    join_two(both);
    const int before = host_cuda_reports();
    for (int i = 0; i < 3; i++) { /* those behind it neither meet whom the first left waiting */
        CHECK_INT(sum(&both[0], both[0].x, both[0].y, MANY), 0);
    }
    CHECK_ERROR(cudaStreamQuery(both[0].queue), cudaErrorNotReady);
    leave_both(both, true);
    CHECK_INT(host_cuda_reports(), before);
}

TEST(wrong_sums_of_ranks_are_told)
{
    typedef rank_of_two *rank;
    const struct {
        std::function<int(rank)> call;
        const char *words;
    } cases[] = {
        {[](rank r) { return ncclAllReduce(r->x, r->y, 9, 3, TD_NCCL_SUM, r->comm, disguised(r->queue)); },
         "type 3"},
        {[](rank r) { return ncclAllReduce(r->x, r->y, 9, TD_NCCL_FLOAT, 2, r->comm, disguised(r->queue)); },
         "operation 2"},
        {[](rank r) { return sum(r, r->x, r->y, 0); }, "there is nothing to sum"},
        {[](rank r) { return sum(r, nullptr, r->y, 9); }, "from is NULL"},
        {[](rank r) { return sum(r, r->x, r->y + 1, MANY); },
         "to wants 16384 bytes, and its allocation has 16380 from there on"},
        {[](rank r) { return sum(r, r->x, r->x + 4, 9); }, "share bytes"},
        {[](rank r) { return ncclAllReduce(r->x, r->y, 9, TD_NCCL_FLOAT, TD_NCCL_SUM, r->comm, nullptr); },
         "it is no stream of one's own"},
        {[](rank r) {
             return ncclAllReduce(r->x, r->y, 9, TD_NCCL_FLOAT, TD_NCCL_SUM, r, disguised(r->queue));
         },
         "no such communicator"},
        {[](rank r) {
             CHECK_CUDA(cudaSetDevice(1));
             const int result = sum(r, r->x, r->y, 9);
             host_cuda_reset();
             CHECK_CUDA(cudaSetDevice(0));
             return result;
         },
         "the communicator is of device 0, and the thread's is 1"},
        {[](rank) { return ncclGroupEnd(); }, "no group was started"},
        {[](rank r) {
             (void)ncclGroupStart();
             (void)sum(r, r->x, r->y, 9);
             (void)sum(r, r->x + 9, r->y + 8, 9);
             return ncclGroupEnd();
         },
         "to and to share bytes"},
    };
    rank_of_two both[2];
    join_two(both);
    for (const auto &c : cases) {
        const int before = host_cuda_reports();
        CHECK(c.call(&both[0]) != 0);
        check_report(before, c.words);
    }
    leave_both(both, false);
}

TEST(ranks_that_ask_for_other_sums_are_told)
{
    const int before = host_cuda_reports();
    rank_of_two both[2];
    join_two(both);
    on_both(both, [](rank_of_two *r) {
        CHECK_INT(sum(r, r->x, r->y, r->number == 0 ? 9 : 10), 0);
        (void)cudaStreamSynchronize(r->queue);
        host_cuda_reset();
    });
    CHECK_INT(host_cuda_reports() - before, 2);
    CHECK(strstr(host_cuda_last_report(), "elements of type 7, sum 1 of rank") != nullptr);
    leave_both(both, true);
}

TEST(ranks_of_one_device_are_refused)
{
    td_nccl_id id;
    int results[2];
    std::vector<std::thread> threads;
    CHECK_INT(ncclGetUniqueId(&id), 0);
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&id, &results, i] {
            void *comm;
            results[i] = ncclCommInitRank(&comm, 2, id, i);
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
    CHECK_INT(results[0], TD_NCCL_INVALID_USAGE);
    CHECK_INT(results[1], TD_NCCL_INVALID_USAGE);
}

TEST_MAIN(RUN(two_ranks_sum) RUN(one_that_waits_for_the_other_is_ended_by_abort)
              RUN(wrong_sums_of_ranks_are_told) RUN(ranks_that_ask_for_other_sums_are_told)
                  RUN(ranks_of_one_device_are_refused))
