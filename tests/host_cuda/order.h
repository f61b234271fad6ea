/* tests/host_cuda/order.h - who comes before whom, and who used which memory: the debugging mode's check.
 *
 * Every piece of work has a moment: its stream's number and its place in that stream. A vector clock says up
 * to which moment of each stream something comes after it all. Two uses of one memory, one of which writes,
 * want one of them in the other's clock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_ORDER_H
#define TD_TESTS_HOST_CUDA_ORDER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace host_cuda
{

struct moment {
    int stream = 0;
    uint64_t place = 0; /* from 1 */
};

struct vector_clock {
    std::vector<uint64_t> known; /* by stream */
    bool knows(const moment &m) const;
    void learn(const moment &m);
    void learn(const vector_clock &other);
};

/* One use of device or pinned memory. */
struct use {
    uintptr_t at;
    size_t bytes;
    bool writes;
};

/* What was done to one allocation and is not known to the host yet. */
struct past_use {
    use u;
    moment when;
    std::string what;
};

/* A text when the use u at `when`, which comes after `before`, meets one in past without order; "": none. */
std::string find_unordered(const std::vector<past_use> &past, const use &u, const moment &when,
                           const vector_clock &before);
/* Adds the use; forgets those that the host knows, and an older one of the same stream and place. */
void remember_use(std::vector<past_use> *past, const past_use &fresh, const vector_clock &host);

bool overlap(const use &a, const use &b);

} // namespace host_cuda

#endif
