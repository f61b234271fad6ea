/* tests/host_cuda/meeting.cc - where a block's threads meet: barriers of the block, votes and shuffles of a
 * warp, fences.
 *
 * A thread says what it brings and yields. A warp's meeting is complete when every thread of the mask that
 * has not ended waits with the same call and mask; results are then worked out for all of them at once,
 * before anybody goes on. A barrier is complete when every thread of the block waits at the same place of the
 * source. When nobody can go on and no meeting is complete, the block is ended and reported.
 *
 * What orders memory is told to ThreadSanitizer: barriers and __syncwarp do, votes and shuffles do not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/sanitizers.h"

#include <cstring>

namespace host_cuda
{
namespace
{

char fenced; /* ThreadSanitizer's name for what fences order */

/* Its names for a block's barrier and for each warp's, of this OS thread. */
thread_local char barrier_order, warp_order[MAX_THREADS / WARP];

unsigned number_of(const block_runner *r, const cuda_thread *t)
{
    return static_cast<unsigned>(t - r->threads.data());
}

/* The threads of a warp, and which of them are in a state, as a mask. */
struct warp {
    cuda_thread *first;
    unsigned n;
};

warp warp_at(block_runner *r, unsigned start)
{
    return {&r->threads[start], r->n - start < WARP ? r->n - start : WARP};
}

unsigned alive(const warp &w)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < w.n; i++) {
        mask |= w.first[i].now != state::DONE ? 1u << i : 0;
    }
    return mask;
}

/* Whether all of t's mask that live wait with the same call. */
bool complete(const warp &w, const cuda_thread &t)
{
    const unsigned wanted = t.part.mask & alive(w);
    for (unsigned i = 0; i < w.n; i++) {
        const cuda_thread &other = w.first[i];
        if ((wanted >> i & 1) != 0 &&
            (other.now != state::AT_WARP || other.kind != t.kind || other.part.mask != t.part.mask)) {
            return false;
        }
    }
    return true;
}

uint64_t ballot(const warp &w, unsigned mask)
{
    uint64_t votes = 0;
    for (unsigned i = 0; i < w.n; i++) {
        if ((mask >> i & 1) != 0) {
            votes |= w.first[i].part.value << i;
        }
    }
    return votes;
}

/* The group of threads that meet with w.first[first] goes on. */
void release_group(block_runner *r, const warp &w, unsigned first)
{
    const meet kind = w.first[first].kind;
    const unsigned group = w.first[first].part.mask & alive(w);
    const uint64_t votes = kind == meet::BALLOT ? ballot(w, group) : 0;
    for (unsigned i = 0; i < w.n; i++) {
        cuda_thread &t = w.first[i];
        if ((group >> i & 1) == 0) {
            continue;
        }
        if (kind == meet::SHUFFLE && (group >> t.part.from & 1) == 0) {
            r->wrong =
                text("%s: a shuffle at %s:%d reads from place %d of its warp, which is not in the mask "
                     "0x%08x or has ended",
                     name_thread(&t).c_str(), t.where.file, t.where.line, t.part.from, t.part.mask);
            return;
        }
        t.result = kind == meet::SHUFFLE ? w.first[t.part.from].part.value : votes;
    }
    for (unsigned i = 0; i < w.n; i++) {
        if ((group >> i & 1) != 0) {
            w.first[i].now = state::READY;
        }
    }
}

int combined(const block_runner *r, meet kind)
{
    int count = 0;
    for (unsigned i = 0; i < r->n; i++) {
        count += r->threads[i].predicate != 0;
    }
    return kind == meet::BARRIER_COUNT ? count
           : kind == meet::BARRIER_AND ? count == static_cast<int>(r->n)
                                       : count != 0;
}

const char *waits_at(const cuda_thread &t)
{
    return t.now == state::DONE ? "has ended" : t.now == state::AT_WARP ? "waits for its warp" : "waits";
}

void say_stuck(block_runner *r, const cuda_thread &a, const cuda_thread &b)
{
    const std::string place = b.now == state::DONE ? "" : text(" at %s:%d", b.where.file, b.where.line);
    r->wrong =
        text("%s %s at %s:%d, which %s does not come to: it %s%s", name_thread(&a).c_str(), waits_at(a),
             a.where.file, a.where.line, name_thread(&b).c_str(), waits_at(b), place.c_str());
}

} // namespace

std::string name_thread(const cuda_thread *t)
{
    return text("thread (%u,%u,%u)", t->index.x, t->index.y, t->index.z);
}

bool release_warps(block_runner *r)
{
    bool some = false;
    for (unsigned start = 0; start < r->n && r->wrong.empty(); start += WARP) {
        const warp w = warp_at(r, start);
        for (unsigned i = 0; i < w.n && r->wrong.empty(); i++) {
            if (w.first[i].now == state::AT_WARP && complete(w, w.first[i])) {
                release_group(r, w, i);
                some = true;
            }
        }
    }
    return some;
}

bool release_barrier(block_runner *r)
{
    const cuda_thread *waiting = nullptr;
    for (unsigned i = 0; i < r->n && (waiting == nullptr || waiting->now != state::AT_BARRIER); i++) {
        waiting = r->threads[i].now != state::DONE ? &r->threads[i] : waiting;
    }
    if (waiting == nullptr) {
        return false; /* all have ended */
    }
    if (waiting->now == state::AT_WARP) {
        r->wrong =
            text("%s waits for its warp at %s:%d with the mask 0x%08x; not all of these come to it",
                 name_thread(waiting).c_str(), waiting->where.file, waiting->where.line, waiting->part.mask);
        return false;
    }
    for (unsigned i = 0; i < r->n; i++) {
        const cuda_thread &t = r->threads[i];
        const bool same = t.now == state::AT_BARRIER && t.kind == waiting->kind &&
                          t.where.line == waiting->where.line &&
                          strcmp(t.where.file, waiting->where.file) == 0;
        if (!same) {
            say_stuck(r, *waiting, t);
            return false;
        }
    }
    const int result = combined(r, waiting->kind);
    for (unsigned i = 0; i < r->n; i++) {
        r->threads[i].result = static_cast<uint64_t>(static_cast<int64_t>(result));
        r->threads[i].now = state::READY;
    }
    return true;
}

int block_barrier(meet kind, int predicate, site at)
{
    cuda_thread *const t = running_thread("__syncthreads");
    t->kind = kind;
    t->predicate = predicate;
    t->where = at;
    t->now = state::AT_BARRIER;
    tell_release(&barrier_order);
    yield_thread(runner_of_thread());
    tell_acquire(&barrier_order);
    return static_cast<int>(t->result);
}

uint64_t warp_meet(meet kind, const warp_part &part, site at)
{
    cuda_thread *const t = running_thread("a vote or a shuffle");
    block_runner *const r = runner_of_thread();
    const unsigned number = number_of(r, t);
    t->kind = kind;
    t->part = part;
    t->where = at;
    t->now = state::AT_WARP;
    if ((part.mask >> (number % WARP) & 1) == 0) {
        fail_thread(r, text("%s is not in the mask 0x%08x that it gives at %s:%d", name_thread(t).c_str(),
                            part.mask, at.file, at.line));
    }
    if (kind == meet::WARP_SYNC) {
        tell_release(&warp_order[number / WARP]);
    }
    yield_thread(r);
    if (kind == meet::WARP_SYNC) {
        tell_acquire(&warp_order[number / WARP]);
    }
    return t->result;
}

unsigned warp_active()
{
    const cuda_thread *const t = running_thread("__activemask");
    block_runner *const r = runner_of_thread();
    return alive(warp_at(r, number_of(r, t) / WARP * WARP));
}

int warp_place()
{
    const cuda_thread *const t = running_thread("a shuffle");
    return static_cast<int>(number_of(runner_of_thread(), t) % WARP);
}

void fence()
{
#ifdef __x86_64__
    __asm__ __volatile__("mfence" ::: "memory");
#else
    __sync_synchronize();
#endif
    tell_release(&fenced);
}

void after_atomic()
{
    tell_acquire(&fenced);
}

} // namespace host_cuda
