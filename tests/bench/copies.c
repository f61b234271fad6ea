/* tests/bench/copies.c - how often bytes are copied on their way through a process: preloaded into it, counts
 * what memcpy and memmove move.
 *
 *   COPIES=FILE LD_PRELOAD=copies.so PROGRAM      FILE then begins with the sum of bytes, 8 of them,
 *                                                 little-endian
 *
 * Calls for less than LEAST bytes are left out: heads and names. What loops of a program's own move (values
 * out of JSON, say), what the kernel copies to and from sockets, and pages that realloc remaps are not seen.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST 512

typedef void *copy_fn(void *to, const void *from, size_t n);
static copy_fn *real_memcpy, *real_memmove;
static uint64_t unseen;
static _Atomic(uint64_t) *sum = (_Atomic(uint64_t) *)&unseen;

__attribute__((constructor)) static void start(void)
{
    real_memcpy = (copy_fn *)dlsym(RTLD_NEXT, "memcpy");
    real_memmove = (copy_fn *)dlsym(RTLD_NEXT, "memmove");
    const char *path = getenv("COPIES");
    const int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && ftruncate(fd, 4096) == 0) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        sum = page != MAP_FAILED ? page : sum;
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Before dlsym has answered: byte by byte, in the order that overlaps allow. */
static void *slow(void *to, const void *from, size_t n)
{
    volatile char *t = to;
    const char *f = from;
    for (size_t i = 0; i < n; i++) {
        const size_t k = (uintptr_t)to < (uintptr_t)from ? i : n - 1 - i;
        t[k] = f[k];
    }
    return to;
}

static void *counted(copy_fn *real, void *to, const void *from, size_t n)
{
    if (n >= LEAST) {
        atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
    }
    return real != NULL ? real(to, from, n) : slow(to, from, n);
}

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);
void *__memmove_chk(void *to, const void *from, size_t n, size_t room);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    return counted(real_memcpy, to, from, n);
}

void *memmove(void *to, const void *from, size_t n)
{
    return counted(real_memmove, to, from, n);
}

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
    (void)room;
    return counted(real_memcpy, to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room)
{
    (void)room;
    return counted(real_memmove, to, from, n);
}
