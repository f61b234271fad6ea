/* tests/host_cuda/order.cc - vector clocks and lists of uses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/order.h"

#include "tests/host_cuda/reports.h"

#include <algorithm>

namespace host_cuda
{

bool vector_clock::knows(const moment &m) const
{
    return static_cast<size_t>(m.stream) < known.size() && known[m.stream] >= m.place;
}

void vector_clock::learn(const moment &m)
{
    if (static_cast<size_t>(m.stream) >= known.size()) {
        known.resize(m.stream + 1);
    }
    known[m.stream] = std::max(known[m.stream], m.place);
}

void vector_clock::learn(const vector_clock &other)
{
    for (size_t i = 0; i < other.known.size(); i++) {
        learn(moment{static_cast<int>(i), other.known[i]});
    }
}

bool overlap(const use &a, const use &b)
{
    return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

std::string find_unordered(const std::vector<past_use> &past, const use &u, const moment &when,
                           const vector_clock &before)
{
    for (const auto &p : past) {
        if ((u.writes || p.u.writes) && overlap(u, p.u) && p.when.stream != when.stream &&
            !before.knows(p.when)) {
            const char *const how = !p.u.writes ? "is read by"
                                    : u.writes  ? "is written by"
                                                : "is still written by";
            return text(
                "%s %s %s on stream %d, which nothing orders before this", u.writes ? "writes" : "reads",
                text("%zu bytes at %p, which %s", u.bytes, reinterpret_cast<void *>(u.at), how).c_str(),
                p.what.c_str(), p.when.stream);
        }
    }
    return "";
}

void remember_use(std::vector<past_use> *past, const past_use &fresh, const vector_clock &host)
{
    const auto over = [&](const past_use &p) {
        return host.knows(p.when) || (p.when.stream == fresh.when.stream && p.u.at == fresh.u.at &&
                                      p.u.bytes == fresh.u.bytes && p.u.writes == fresh.u.writes);
    };
    past->erase(std::remove_if(past->begin(), past->end(), over), past->end());
    past->push_back(fresh);
}

} // namespace host_cuda
