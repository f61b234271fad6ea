/* tests/host_cuda/copy.cc - copies and fills, as rows of bytes.
 *
 * Pageable host memory is read at the call; pinned memory only when the queue gets there. A copy into
 * pageable memory returns when it is done. In the debugging mode pinned memory that will be written is 0xFF
 * from the call on, or, when queued work still uses it, from when its turn comes: whoever reads too early
 * reads that. A capture reads and writes host memory at the replay alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/memory.h"
#include "tests/host_cuda/settings.h"

#include <cstring>

namespace host_cuda
{
namespace
{

struct rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
};

size_t extent(size_t pitch, const rows &r)
{
    return r.height == 0 ? 0 : (r.height - 1) * pitch + r.width;
}

void each_row_filled(const rows &r, int value)
{
    for (size_t i = 0; i < r.height; i++) {
        memset(r.to + i * r.to_pitch, value, r.width);
    }
}

void copy_rows(const rows &r)
{
    for (size_t i = 0; i < r.height; i++) {
        memmove(r.to + i * r.to_pitch, r.from + i * r.from_pitch, r.width);
    }
}

void list_rows(char *at, size_t pitch, const rows &r, bool writes, std::vector<use> *uses)
{
    if (pitch == r.width) {
        uses->push_back({reinterpret_cast<uintptr_t>(at), extent(pitch, r), writes});
        return;
    }
    for (size_t i = 0; i < r.height; i++) {
        uses->push_back({reinterpret_cast<uintptr_t>(at + i * pitch), r.width, writes});
    }
}

/* Whether the direction that the caller names is that of the two places. */
bool right_way(enum cudaMemcpyKind kind, residence to, residence from)
{
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return kind == cudaMemcpyDefault ||
           (to_device == (to == residence::DEVICE) && from_device == (from == residence::DEVICE));
}

/* The source's bytes as they are now; the rows read from there. */
std::shared_ptr<void> stage(rows *r)
{
    auto bytes = std::make_shared<std::vector<char>>(extent(r->from_pitch, *r));
    const loud own;
    copy_rows({bytes->data(), r->from, r->from_pitch, r->from_pitch, r->width, r->height});
    r->from = bytes->data();
    return bytes;
}

std::shared_ptr<op> copy_op(rows r, residence to, residence from, bool captured)
{
    auto o = std::make_shared<op>();
    o->what = "a copy";
    o->hosts = to != residence::DEVICE || from != residence::DEVICE;
    list_rows(r.to, r.to_pitch, r, true, &o->uses);
    list_rows(const_cast<char *>(r.from), r.from_pitch, r, false, &o->uses);
    std::shared_ptr<void> staged;
    if (from == residence::PAGEABLE && to == residence::DEVICE && !captured) {
        staged = stage(&r);
    }
    bool fill = config().debug && to == residence::PINNED && from == residence::DEVICE;
    if (fill && !captured && !in_use(r.to, extent(r.to_pitch, r))) {
        each_row_filled(r, 0xFF);
        fill = false;
    }
    o->run = [r, fill, staged] {
        if (fill) {
            each_row_filled(r, 0xFF);
        }
        copy_rows(r);
    };
    return o;
}

/* wait: the call returns when the copy is done, however asynchronous it could be. */
cudaError_t copy(locked &l, const rows &r, enum cudaMemcpyKind kind, cudaStream_t stream, bool wait)
{
    CUstream_st *const s = find_stream(stream);
    if (s == nullptr) {
        return cudaErrorInvalidResourceHandle;
    }
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
        return cudaErrorInvalidMemcpyDirection;
    }
    if (r.width == 0 || r.height == 0) {
        return cudaSuccess;
    }
    if (r.to_pitch < r.width || r.from_pitch < r.width || r.to == nullptr || r.from == nullptr ||
        !within_bounds(r.to, extent(r.to_pitch, r)) || !within_bounds(r.from, extent(r.from_pitch, r))) {
        return cudaErrorInvalidValue;
    }
    const residence to = where_is(r.to), from = where_is(r.from);
    if (!right_way(kind, to, from)) {
        return cudaErrorInvalidValue;
    }
    const bool captured = s->capturing != nullptr;
    if (captured && wait) {
        return spoil_capture(s);
    }
    const cudaError_t e = submit(s, copy_op(r, to, from, captured));
    const bool into_pageable = to == residence::PAGEABLE;
    if (e == cudaSuccess && !captured && (wait || into_pageable)) {
        wait_for(l, s->last);
    }
    return e;
}

cudaError_t fill(locked &, const rows &r, int value, cudaStream_t stream)
{
    CUstream_st *const s = find_stream(stream);
    if (s == nullptr) {
        return cudaErrorInvalidResourceHandle;
    }
    if (r.width == 0) {
        return cudaSuccess;
    }
    if (where_is(r.to) == residence::PAGEABLE || !within_bounds(r.to, r.width)) {
        return cudaErrorInvalidValue;
    }
    auto o = std::make_shared<op>();
    o->what = "cudaMemset";
    list_rows(r.to, r.width, r, true, &o->uses);
    o->run = [r, value] { each_row_filled(r, value); };
    return submit(s, o);
}

rows one_row(void *to, const void *from, size_t bytes)
{
    return {static_cast<char *>(to), static_cast<const char *>(from), bytes, bytes, bytes, 1};
}

} // namespace
} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return call([&](locked &l) { return copy(l, one_row(to, from, bytes), kind, stream, false); });
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return call([&](locked &l) {
        /* Between two places of the device it does not wait. */
        const bool wait = where_is(to) != residence::DEVICE || where_is(from) != residence::DEVICE;
        return copy(l, one_row(to, from, bytes), kind, nullptr, wait);
    });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return call([&](locked &l) {
        const rows r = {
            static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch, width, height};
        return copy(l, r, kind, stream, false);
    });
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    return call([&](locked &l) { return fill(l, one_row(at, nullptr, bytes), value, stream); });
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    return cudaMemsetAsync(at, value, bytes, nullptr);
}
}
