/* kernels/dense/pack_keeper.c - the process's folder, a queue of what shall be written, and the thread that
 * does.
 *
 *   wish -> WAITING (in the queue, quiet_ms) -> WRITING -> DONE (its file is held, if there is one)
 *                |                                |         |
 *              drop: out of the queue, freed      |       drop: freed
 *                                                 drop: LEFT, and the writer frees it
 *
 * While a wish waits, whoever made it holds what it points to; for writing the thread takes references of
 * its own. The build's id is that of the object which holds this code (the linker's note,
 * NT_GNU_BUILD_ID): another one, and packing may give other bytes.
 *
 * Lock: keeper.mu guards queue and states; nothing is taken under it but a file's folder (packs_mu above it,
 * kernels/dense/dnnl_pack.c).
 *
 * Does not: decide what is worth keeping, read or write files itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/pack_keeper.h"

#include <dnnl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/disk.h"
#include "core/base/file_pages.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/timings.h"
#include "kernels/cpu/vecmath.h"
#include "kernels/ops.h"
#include "proto/bytes/crc32c.h"
#include "proto/bytes/mapping.h"

enum { NICEST = 19, BUILD_ID = 64 };

struct td_pack_kept {
    struct td_pack_kept *next;
    enum { WAITING, WRITING, LEFT, DONE } state;
    int64_t due_ns;
    struct td_pack_wish w;       /* key and tail: its own, behind it */
    struct td_packed_file *file; /* DONE: held; NULL: it was not written */
};

static struct {
    bool on;
    struct td_packed_folder *folder;
    struct td_content_hash origin;
    int64_t quiet_ns;
    pthread_t writer;
    pthread_mutex_t mu;         /* guards what follows, and all states */
    pthread_cond_t more;        /* of the queue, or stop */
    struct td_pack_kept *first; /* of those that wait, soonest due first */
    bool stop, told;            /* told: a failure has been logged */
} keeper = {.mu = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* ------------------------------------------------------------------ where packed bytes come from */

struct build {
    unsigned char id[BUILD_ID];
    size_t n;
};

static bool holds_this(const struct dl_phdr_info *o)
{
    const uintptr_t here = (uintptr_t)&td_pack_keeper_start;
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && here - (o->dlpi_addr + h->p_vaddr) < h->p_memsz) {
            return true;
        }
    }
    return false;
}

/* Notes: {bytes of the name, of the rest, type}, each padded to four. */
static void read_notes(const char *at, size_t n, struct build *b)
{
    ElfW(Nhdr) h;
    while (n >= sizeof h) {
        memcpy(&h, at, sizeof h);
        const size_t name = ((size_t)h.n_namesz + 3) & ~(size_t)3,
                     rest = ((size_t)h.n_descsz + 3) & ~(size_t)3;
        if (name + rest > n - sizeof h) {
            return;
        }
        if (h.n_type == NT_GNU_BUILD_ID && h.n_descsz <= sizeof b->id && h.n_namesz == 4 &&
            memcmp(at + sizeof h, "GNU", 4) == 0) {
            memcpy(b->id, at + sizeof h + name, h.n_descsz);
            b->n = h.n_descsz;
        }
        at += sizeof h + name + rest;
        n -= sizeof h + name + rest;
    }
}

static int look_at_object(struct dl_phdr_info *o, size_t size, void *build)
{
    (void)size;
    if (!holds_this(o)) {
        return 0;
    }
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        if (h->p_type == PT_NOTE) {
            read_notes((const char *)(o->dlpi_addr + h->p_vaddr), h->p_memsz, build);
        }
    }
    return 1;
}

static enum td_code find_origin(struct td_err *err)
{
    struct {
        struct build build;
        char machine[TD_TIMING_NAME], library[64];
        int sets; /* of instructions that our own code asks for */
    } from;
    memset(&from, 0, sizeof from);
    (void)dl_iterate_phdr(look_at_object, &from.build);
    TD_FAIL_IF(from.build.n == 0, err, FAILED_PRECONDITION, "this build has no id (the linker's --build-id)");
    td_kernels_machine(from.machine, sizeof from.machine);
    (void)snprintf(from.library, sizeof from.library, "%s", dnnl_version()->hash);
#ifdef TD_HAS_CLONES
    from.sets = (__builtin_cpu_supports("x86-64-v3") ? 1 : 0) | (__builtin_cpu_supports("x86-64-v4") ? 2 : 0);
#endif
    keeper.origin = td_packed_folder_hash(keeper.folder, &from, sizeof from);
    return TD_OK;
}

/* ------------------------------------------------------------------ what is packed */

struct td_content_hash td_pack_keeper_plain(const struct td_buffer *b, const void *at, size_t n)
{
    struct {
        struct td_file_identity file; /* with the offset of what is packed */
        uint64_t n, whole;            /* bytes of it, and of what the checksum is of */
        uint32_t crc, unused;
    } of;
    memset(&of, 0, sizeof of);
    if (!td_file_pages_crc(b, &of.crc) || !td_mapping_identity(at, &of.file)) {
        return td_packed_folder_hash(keeper.folder, at, n);
    }
    of.n = n;
    of.whole = b->bytes;
    struct td_content_hash h = td_packed_folder_hash(keeper.folder, &of, sizeof of);
    h.bytes = ~(uint64_t)n; /* no hash of bytes is of so many */
    return h;
}

static bool is_as_it_was(const struct td_pack_wish *w)
{
    uint32_t crc;
    if (td_file_pages_crc(w->source, &crc)) {
        const bool same = td_crc32c(0, w->source->data, w->source->bytes) == crc;
        td_file_pages_drop_of(w->source);
        return same && td_mapping_is_current(w->plain);
    }
    const struct td_content_hash now = td_pack_keeper_plain(w->source, w->plain, w->n_plain);
    return td_content_hash_equal(&now, &w->hash);
}

/* ------------------------------------------------------------------ writing */

static void kept_free(struct td_pack_kept *k)
{
    td_packed_file_drop(k->file);
    td_free(k);
}

/* NULL: it could not be, or the plain weights are others by now. */
static struct td_packed_file *write_down(const struct td_pack_wish *w)
{
    struct td_err err = {0};
    struct td_packed_file *file = NULL;
    if (!is_as_it_was(w)) {
        return NULL;
    }
    const struct td_packed_part part[2] = {{w->packed->data, w->packed->bytes}, {w->tail, w->n_tail}};
    if (td_packed_folder_write(keeper.folder, w->key, w->n_key, part, 2, &file, &err)) {
        if (!keeper.told) {
            td_log(TD_LOG_WARNING, NULL, "packed weights are not all kept for the next start: %s", err.msg);
        }
        keeper.told = true;
        return NULL;
    }
    return file;
}

/* Caller holds mu, which is let go meanwhile. */
static void write_first(void)
{
    struct td_pack_kept *k = keeper.first;
    keeper.first = k->next;
    k->state = WRITING;
    struct td_pack_wish w = k->w;
    (void)td_buffer_ref(w.source);
    (void)td_buffer_ref(w.packed);
    (void)pthread_mutex_unlock(&keeper.mu);
    struct td_packed_file *file = write_down(&w);
    td_buffer_unref(w.source);
    td_buffer_unref(w.packed);
    (void)pthread_mutex_lock(&keeper.mu);
    k->file = file;
    if (k->state == LEFT) {
        kept_free(k);
    } else {
        k->state = DONE;
    }
}

static void *writer_main(void *unused)
{
    (void)unused;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICEST);
    (void)td_disk_enter(td_disk_state());
    (void)pthread_mutex_lock(&keeper.mu);
    while (!keeper.stop) {
        if (keeper.first == NULL) {
            (void)pthread_cond_wait(&keeper.more, &keeper.mu);
        } else if (keeper.first->due_ns > td_now_ns()) {
            const int64_t due = keeper.first->due_ns;
            const struct timespec at = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
            (void)pthread_cond_clockwait(&keeper.more, &keeper.mu, CLOCK_MONOTONIC, &at);
        } else {
            write_first();
        }
    }
    (void)pthread_mutex_unlock(&keeper.mu);
    return NULL;
}

struct td_pack_kept *td_pack_keeper_wish(const struct td_pack_wish *w)
{
    struct td_pack_kept *k = keeper.on ? td_calloc(1, sizeof *k + w->n_key + w->n_tail) : NULL;
    if (k == NULL) {
        return NULL;
    }
    char *own = (char *)(k + 1);
    memcpy(own, w->key, w->n_key);
    if (w->n_tail > 0) {
        memcpy(own + w->n_key, w->tail, w->n_tail);
    }
    k->w = *w;
    k->w.key = own;
    k->w.tail = own + w->n_key;
    k->due_ns = td_now_ns() + keeper.quiet_ns;
    (void)pthread_mutex_lock(&keeper.mu);
    struct td_pack_kept **at = &keeper.first;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = k;
    (void)pthread_cond_signal(&keeper.more);
    (void)pthread_mutex_unlock(&keeper.mu);
    return k;
}

void td_pack_wish_drop(struct td_pack_kept *k)
{
    if (k == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&keeper.mu);
    struct td_pack_kept **at = &keeper.first;
    while (*at != NULL && *at != k) {
        at = &(*at)->next;
    }
    if (*at == k) {
        *at = k->next;
    }
    const bool busy = k->state == WRITING;
    k->state = busy ? LEFT : k->state;
    (void)pthread_mutex_unlock(&keeper.mu);
    if (!busy) {
        kept_free(k);
    }
}

/* ------------------------------------------------------------------ on and off */

enum td_code td_pack_keeper_start(const struct td_pack_keeper_opts *o, struct td_err *err)
{
    if (o->most_bytes == 0) {
        return TD_OK;
    }
    TD_TRY(td_packed_folder_open(o->dir, o->most_bytes, &keeper.folder, err));
    enum td_code rc = find_origin(err);
    keeper.quiet_ns = (int64_t)o->quiet_ms * 1000000;
    keeper.stop = keeper.told = false;
    if (rc == TD_OK && pthread_create(&keeper.writer, NULL, writer_main, NULL) != 0) {
        rc = td_fail(err, TD_RESOURCE_EXHAUSTED, "no thread for what writes packed weights");
    }
    keeper.on = rc == TD_OK;
    if (!keeper.on) {
        td_packed_folder_close(keeper.folder);
    }
    return rc;
}

void td_pack_keeper_stop(void)
{
    if (!keeper.on) {
        return;
    }
    (void)pthread_mutex_lock(&keeper.mu);
    keeper.stop = true;
    (void)pthread_cond_signal(&keeper.more);
    (void)pthread_mutex_unlock(&keeper.mu);
    (void)pthread_join(keeper.writer, NULL);
    keeper.on = false;
    td_packed_folder_close(keeper.folder);
}

bool td_pack_keeper_is_on(void)
{
    return keeper.on;
}

struct td_content_hash td_pack_keeper_origin(void)
{
    return keeper.origin;
}

struct td_content_hash td_pack_keeper_hash(const void *bytes, size_t n)
{
    return td_packed_folder_hash(keeper.folder, bytes, n);
}

struct td_packed_file *td_pack_keeper_find(const void *key, size_t n_key, size_t n)
{
    return td_packed_folder_find(keeper.folder, key, n_key, n);
}

enum td_code td_kernels_keep_packed(const char *dir, uint64_t most_bytes, struct td_err *err)
{
    return td_pack_keeper_start(
        &(struct td_pack_keeper_opts){.dir = dir, .most_bytes = most_bytes, .quiet_ms = TD_PACK_QUIET_MS},
        err);
}

void td_kernels_keep_packed_no_more(void)
{
    td_pack_keeper_stop();
}
