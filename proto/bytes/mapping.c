/* proto/bytes/mapping.c - a table of mapped files that a signal handler can read, and that handler.
 *
 * The handler may only look at memory that is always valid, so the mappings that are open stand in a fixed
 * table of slots with atomic fields; struct td_mapping is the counted handle on one of them. An empty file
 * has no slot.
 *
 *   slot   base     0 free | 1 being taken or given up | address of the mapping
 *          size, damaged, of_all, hashes of the file's directory and of the one above
 *
 * A slot is taken by exchanging base 0 for 1; the other fields are set, and base is written last. Unmapping
 * sets base to 1 first and to 0 after munmap, so the handler never finds an address that is no longer ours.
 * Searches look at the slots used so far, in order; readers pay for one only once something is damaged (a
 * process-wide counter).
 *
 * On SIGBUS inside a mapping the handler maps pages of zeros over all of it and marks the slot; the read that
 * faulted is repeated and goes on. It makes system calls and touches atomics, nothing else; where a thread
 * that runs kernels has a stack for handlers (core/base/signal_stack.h) it runs there.
 *
 * Threads: any, without locks. Does not: notice files that change their bytes without shrinking, repair
 * anything, tell which run has read zeros (callers ask about an address or a directory).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/mapping.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/beneath.h"
#include "core/base/mem.h"

enum { N_SLOTS = 8192 };

struct slot {
    atomic_uintptr_t base; /* 0: free; 1: being taken */
    atomic_size_t size;
    atomic_bool damaged, of_all;
    atomic_uint_fast64_t below[2]; /* hashes of the directory that the file lies in, and of the one above */
    struct td_mapping *_Atomic of; /* for those who know that it lasts, not for the handler */
};

struct td_mapping {
    atomic_int refs;
    void *base;
    size_t size;
    struct slot *slot;
    char *path;
    struct td_file_identity file;
};

static struct slot slots[N_SLOTS];
static atomic_int n_used; /* slots [0, n_used) have been used at some time */
static atomic_ulong damages;
static struct sigaction before;

static uint64_t hash(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    return h;
}

/* The length of path without its last component and the slashes before it. */
static size_t without_last(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    while (n > 0 && path[n - 1] == '/') {
        n--;
    }
    return n;
}

static struct slot *take_slot(void)
{
    for (int i = 0; i < N_SLOTS; i++) {
        uintptr_t free_base = 0;
        if (atomic_compare_exchange_strong(&slots[i].base, &free_base, 1)) {
            int used = atomic_load(&n_used);
            while (used <= i && !atomic_compare_exchange_weak(&n_used, &used, i + 1)) {
            }
            return &slots[i];
        }
    }
    return NULL;
}

static struct slot *slot_of(uintptr_t address)
{
    int n = atomic_load(&n_used);
    for (int i = 0; i < n; i++) {
        uintptr_t base = atomic_load(&slots[i].base);
        if (base > 1 && address >= base && address - base < atomic_load(&slots[i].size)) {
            return &slots[i];
        }
    }
    return NULL;
}

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct td_file_identity identity_of(const struct stat *st)
{
    return (struct td_file_identity){.dev = (uint64_t)st->st_dev,
                                     .ino = (uint64_t)st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .modified_ns = ns_of(st->st_mtim),
                                     .changed_ns = ns_of(st->st_ctim)};
}

static enum td_code map_open(int fd, const char *path, bool of_all, struct td_mapping *m, struct td_err *err)
{
    struct stat st;
    TD_FAIL_IF(fstat(fd, &st) != 0, err, DATA_LOSS, "Mapping %s: %s", path, strerror(errno));
    m->size = (size_t)st.st_size;
    if (m->size == 0) {
        return TD_OK;
    }
    m->slot = take_slot();
    TD_FAIL_IF(m->slot == NULL, err, RESOURCE_EXHAUSTED, "Mapping %s: %d files are mapped already", path,
               N_SLOTS);
    void *base = mmap(NULL, m->size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        atomic_store(&m->slot->base, 0);
        TD_FAIL(err, RESOURCE_EXHAUSTED, "Mapping %s (%zu bytes): %s", path, m->size, strerror(errno));
    }
    m->base = base;
    m->file = identity_of(&st);
    atomic_store(&m->slot->of, m);
    atomic_store(&m->slot->size, m->size);
    atomic_store(&m->slot->damaged, false);
    atomic_store(&m->slot->of_all, of_all);
    const size_t dir = without_last(path, strlen(path));
    atomic_store(&m->slot->below[0], hash(path, dir));
    atomic_store(&m->slot->below[1], hash(path, without_last(path, dir)));
    atomic_store(&m->slot->base, (uintptr_t)base);
    return TD_OK;
}

enum td_code td_mapping_open(const char *path, struct td_mapping **out, struct td_err *err)
{
    return td_mapping_open_beneath(NULL, path, out, err);
}

enum td_code td_mapping_open_beneath(const char *root, const char *path, struct td_mapping **out,
                                     struct td_err *err)
{
    int fd;
    TD_TRY(td_beneath_open(root, path, &fd, err));
    const enum td_code rc = td_mapping_of(fd, path, false, out, err);
    close(fd);
    return rc;
}

enum td_code td_mapping_of(int fd, const char *path, bool of_all, struct td_mapping **out, struct td_err *err)
{
    struct td_mapping *m = td_calloc(1, sizeof *m);
    char *copy = td_strdup(path);
    const bool room = m != NULL && copy != NULL;
    const enum td_code rc = room ? map_open(fd, path, of_all, m, err) : td_no_memory(err, sizeof *m, path);
    if (rc) {
        td_free(copy);
        td_free(m);
        return rc;
    }
    m->path = copy;
    atomic_init(&m->refs, 1);
    *out = m;
    return TD_OK;
}

struct td_mapping *td_mapping_ref(struct td_mapping *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void td_mapping_unref(void *mapping)
{
    struct td_mapping *m = mapping;
    if (m == NULL || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (m->base != NULL) {
        atomic_store(&m->slot->base, 1);
        munmap(m->base, m->size);
        atomic_store(&m->slot->base, 0);
    }
    td_free(m->path);
    td_free(m);
}

const unsigned char *td_mapping_data(const struct td_mapping *m, size_t *n)
{
    *n = m->size;
    return m->base == NULL ? (const unsigned char *)"" : m->base;
}

bool td_mapping_identity(const void *address, struct td_file_identity *out)
{
    const struct slot *s = slot_of((uintptr_t)address);
    if (s == NULL) {
        return false;
    }
    *out = atomic_load(&s->of)->file;
    out->offset = (uintptr_t)address - atomic_load(&s->base);
    return true;
}

bool td_mapping_is_current(const void *address)
{
    const struct slot *s = slot_of((uintptr_t)address);
    struct stat st;
    if (s == NULL || stat(atomic_load(&s->of)->path, &st) != 0) {
        return false;
    }
    const struct td_file_identity now = identity_of(&st), *then = &atomic_load(&s->of)->file;
    return now.dev == then->dev && now.ino == then->ino && now.size == then->size &&
           now.modified_ns == then->modified_ns && now.changed_ns == then->changed_ns;
}

bool td_mapping_damaged(const void *address)
{
    struct slot *s = td_mapping_damages() == 0 ? NULL : slot_of((uintptr_t)address);
    return s != NULL && atomic_load(&s->damaged);
}

bool td_mapping_damaged_below(const char *dir)
{
    const int n = td_mapping_damages() == 0 ? 0 : atomic_load(&n_used);
    size_t len = strlen(dir);
    while (len > 0 && dir[len - 1] == '/') {
        len--;
    }
    const uint64_t want = hash(dir, n == 0 ? 0 : len);
    for (int i = 0; i < n; i++) {
        if (atomic_load(&slots[i].base) > 1 && atomic_load(&slots[i].damaged) &&
            (atomic_load(&slots[i].below[0]) == want || atomic_load(&slots[i].below[1]) == want)) {
            return true;
        }
    }
    return false;
}

bool td_mapping_damaged_of_all(void)
{
    const int n = td_mapping_damages() == 0 ? 0 : atomic_load(&n_used);
    for (int i = 0; i < n; i++) {
        if (atomic_load(&slots[i].base) > 1 && atomic_load(&slots[i].damaged) &&
            atomic_load(&slots[i].of_all)) {
            return true;
        }
    }
    return false;
}

unsigned long td_mapping_damages(void)
{
    return atomic_load_explicit(&damages, memory_order_relaxed);
}

/* ---- the handler: system calls and atomics only */

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    struct slot *s = slot_of((uintptr_t)info->si_addr);
    if (s != NULL) {
        void *base = (void *)atomic_load(&s->base);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (mmap(base, atomic_load(&s->size), PROT_READ, flags, -1, 0) != MAP_FAILED) {
            if (!atomic_exchange(&s->damaged, true)) {
                atomic_fetch_add(&damages, 1);
            }
            errno = saved;
            return;
        }
    }
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction != NULL) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* the fault repeats when this returns, and ends the process */
    }
    errno = saved;
}

void td_mapping_install_handler(void)
{
    struct sigaction now = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    struct sigaction current;
    sigemptyset(&now.sa_mask);
    if (sigaction(SIGBUS, NULL, &current) == 0 && current.sa_sigaction != on_sigbus) {
        before = current;
        sigaction(SIGBUS, &now, NULL);
    }
}
