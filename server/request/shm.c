/* server/request/shm.c - a list of counted regions under one lock, which is not held while bytes are copied.
 *
 *   register   opened and measured without the lock, then put on the list if name and room are free
 *   transfer   counted under the lock -> pread, pwrite or the driver's copy -> given back under the lock
 *   remove     off the list; freed (closed) by whoever lets go last, under the lock
 *
 * Bytes go through the file descriptor, never a mapping, so an object that shrinks makes a short read and no
 * SIGBUS; before writing its size is asked again, because writing behind the end would make it grow. Offsets
 * are added with overflow checked, and must lie in the size that was registered. There is one list for both
 * kinds of memory, searched by name.
 *
 * Does not: know tensors (server/request/infer_run.c), create objects, trust what lies in them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "proto/json/json_write.h"
#include "server/request/cuda_ipc.h"

struct region {
    enum td_shm_kind kind;
    struct td_cuda_block block; /* of a GPU's memory */
    char *name, *key, *owner;
    uint64_t offset, byte_size;
    int fd;
    int refs; /* guarded by td_shm.mu */
    struct region *next;
};

struct td_shm {
    uint64_t max_bytes;
    pthread_mutex_t mu; /* guards what follows */
    struct region *first;
    int n;
};

static void region_free(struct region *r)
{
    if (r->fd >= 0) {
        close(r->fd);
    }
    td_cuda_close(&r->block);
    td_free(r->name);
    td_free(r->key);
    td_free(r->owner);
    td_free(r);
}

/* Caller holds mu. */
static void region_unref(struct region *r)
{
    if (--r->refs == 0) {
        region_free(r);
    }
}

enum td_code td_shm_new(uint64_t max_bytes, struct td_shm **out, struct td_err *err)
{
    struct td_shm *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "shared memory");
    }
    s->max_bytes = max_bytes;
    pthread_mutex_init(&s->mu, NULL);
    *out = s;
    return TD_OK;
}

uint64_t td_shm_limit(const struct td_shm *s)
{
    return s->max_bytes;
}

void td_shm_free(struct td_shm *s)
{
    if (s != NULL) {
        for (struct region *r = s->first, *next; r != NULL; r = next) {
            next = r->next;
            region_unref(r);
        }
        pthread_mutex_destroy(&s->mu);
        td_free(s);
    }
}

/* ------------------------------------------------------------------ the list */

/* The link to the region of that name, or to the list's end. Caller holds mu. */
static struct region **find(struct td_shm *s, const char *owner, const char *name)
{
    struct region **at = &s->first;
    while (*at != NULL && (strcmp((*at)->name, name) != 0 || strcmp((*at)->owner, owner) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static enum td_code open_object(struct region *r, struct td_err *err)
{
    struct stat st;
    uint64_t end;
    const char *key = r->key + strspn(r->key, "/");
    TD_FAIL_IF(*key == '\0' || strchr(key, '/') != NULL || strlen(key) > NAME_MAX - 1, err, INVALID_ARGUMENT,
               "Unable to open shared memory region: '%.300s': a key is a name without further slashes",
               r->key);
    r->fd = shm_open(r->key, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    TD_FAIL_IF(r->fd < 0, err, INVALID_ARGUMENT, "Unable to open shared memory region: '%.300s': %s", r->key,
               strerror(errno));
    const bool known = fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode);
    const bool fits = !__builtin_add_overflow(r->offset, r->byte_size, &end) && r->byte_size > 0 && known &&
                      end <= (uint64_t)st.st_size;
    TD_FAIL_IF(
        !fits, err, INVALID_ARGUMENT,
        "failed to register shared memory region '%.100s': invalid args: offset %llu and byte_size %llu do "
        "not lie in the %lld bytes of '%.300s'",
        r->name, (unsigned long long)r->offset, (unsigned long long)r->byte_size,
        known ? (long long)st.st_size : 0LL, r->key);
    return TD_OK;
}

/* As like, with texts of its own; not open yet. */
static enum td_code make_region(const struct region *like, struct region **out, struct td_err *err)
{
    TD_FAIL_IF(*like->name == '\0', err, INVALID_ARGUMENT, "a shared memory region needs a name");
    TD_FAIL_IF(!td_utf8(like->name, strlen(like->name)) || !td_utf8(like->key, strlen(like->key)), err,
               INVALID_ARGUMENT, "a shared memory region's name and key must be UTF-8");
    struct region *r = td_calloc(1, sizeof *r);
    if (r == NULL) {
        return td_no_memory(err, sizeof *r, "a shared memory region");
    }
    *r = *like;
    r->name = td_strdup(like->name);
    r->key = td_strdup(like->key);
    r->owner = td_strdup(like->owner);
    r->fd = -1;
    r->refs = 1;
    if (r->name == NULL || r->key == NULL || r->owner == NULL) {
        region_free(r);
        return td_no_memory(err, strlen(like->key), "a region's key");
    }
    *out = r;
    return TD_OK;
}

/* Puts an open region on the list; takes it. */
static enum td_code put_region(struct td_shm *s, struct region *r, struct td_err *err)
{
    pthread_mutex_lock(&s->mu);
    struct region **at = find(s, r->owner, r->name);
    const bool taken = *at != NULL, full = s->n >= TD_SHM_MAX_REGIONS;
    if (!taken && !full) {
        *at = r;
        s->n++;
    }
    pthread_mutex_unlock(&s->mu);
    if (!taken && !full) {
        return TD_OK;
    }
    const enum td_code rc =
        taken ? td_fail(err, TD_ALREADY_EXISTS, "shared memory region '%s' already in manager", r->name)
              : td_fail(err, TD_RESOURCE_EXHAUSTED,
                        "shared memory region '%s': %d regions are registered already", r->name,
                        TD_SHM_MAX_REGIONS);
    region_free(r);
    return rc;
}

enum td_code td_shm_register(struct td_shm *s, const char *owner, const char *name, const char *key,
                             uint64_t offset, uint64_t byte_size, struct td_err *err)
{
    struct region *r = NULL;
    const struct region like = {.kind = TD_SHM_SYSTEM,
                                .owner = (char *)(uintptr_t)owner,
                                .name = (char *)(uintptr_t)name,
                                .key = (char *)(uintptr_t)key,
                                .offset = offset,
                                .byte_size = byte_size};
    TD_TRY(make_region(&like, &r, err));
    if (open_object(r, err)) {
        region_free(r);
        return err->code;
    }
    return put_region(s, r, err);
}

enum td_code td_shm_register_cuda(struct td_shm *s, const char *owner, const char *name,
                                  const struct td_shm_handle *handle, uint64_t byte_size, struct td_err *err)
{
    struct region *r = NULL;
    struct td_err why = {0};
    const struct region like = {.kind = TD_SHM_CUDA,
                                .owner = (char *)(uintptr_t)owner,
                                .name = (char *)(uintptr_t)name,
                                .key = "",
                                .byte_size = byte_size};
    TD_TRY(make_region(&like, &r, err));
    if (td_cuda_open(handle->bytes, handle->n, handle->device, byte_size, &r->block, &why)) {
        region_free(r);
        return td_fail(err, why.code, "failed to register CUDA shared memory region: '%s', %s", name,
                       why.msg);
    }
    return put_region(s, r, err);
}

/* Under mu. */
static void take_out(struct td_shm *s, struct region **at)
{
    struct region *r = *at;
    *at = r->next;
    s->n--;
    region_unref(r);
}

int td_shm_forget_device(struct td_shm *s, int device)
{
    int n = 0;
    pthread_mutex_lock(&s->mu);
    for (struct region **at = &s->first; *at != NULL;) {
        if ((*at)->kind == TD_SHM_CUDA && (*at)->block.device == device) {
            take_out(s, at);
            n++;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&s->mu);
    td_cuda_forget(device);
    return n;
}

void td_shm_unregister(struct td_shm *s, const char *owner, enum td_shm_kind kind, const char *name)
{
    pthread_mutex_lock(&s->mu);
    for (struct region **at = &s->first; *at != NULL;) {
        struct region *r = *at;
        if (r->kind != kind || strcmp(r->owner, owner) != 0 ||
            (*name != '\0' && strcmp(r->name, name) != 0)) {
            at = &r->next;
            continue;
        }
        take_out(s, at);
    }
    pthread_mutex_unlock(&s->mu);
}

enum td_code td_shm_each(struct td_shm *s, const char *owner, enum td_shm_kind kind, const char *name,
                         td_shm_row_fn *fn, void *ctx, struct td_err *err)
{
    enum td_code rc = TD_OK;
    bool any = *name == '\0';
    pthread_mutex_lock(&s->mu);
    for (const struct region *r = s->first; r != NULL && rc == TD_OK; r = r->next) {
        if (r->kind == kind && strcmp(r->owner, owner) == 0 &&
            (*name == '\0' || strcmp(r->name, name) == 0)) {
            const struct td_shm_row row = {r->name, r->key, r->offset, r->byte_size, r->block.device};
            rc = fn(ctx, &row, err);
            any = true;
        }
    }
    pthread_mutex_unlock(&s->mu);
    TD_FAIL_IF(!any, err, NOT_FOUND, "Unable to find %s shared memory region: '%s'",
               kind == TD_SHM_CUDA ? "cuda" : "system", name);
    return rc;
}

/* ------------------------------------------------------------------ bytes */

/* The region, counted, when it has n bytes from offset on; give_back it. */
static enum td_code take(struct td_shm *s, const char *owner, const char *name, uint64_t offset, uint64_t n,
                         struct region **out, struct td_err *err)
{
    uint64_t end;
    pthread_mutex_lock(&s->mu);
    struct region *r = *find(s, owner, name);
    const bool fits = r != NULL && !__builtin_add_overflow(offset, n, &end) && end <= r->byte_size;
    const uint64_t size = r != NULL ? r->byte_size : 0;
    if (fits) {
        r->refs++;
    }
    pthread_mutex_unlock(&s->mu);
    TD_FAIL_IF(r == NULL, err, NOT_FOUND, "Unable to find shared memory region: '%s'", name);
    TD_FAIL_IF(!fits, err, INVALID_ARGUMENT,
               "Invalid offset + byte size for shared memory region: '%s': %llu + %llu exceed its %llu bytes",
               name, (unsigned long long)offset, (unsigned long long)n, (unsigned long long)size);
    *out = r;
    return TD_OK;
}

static void give_back(struct td_shm *s, struct region *r)
{
    pthread_mutex_lock(&s->mu);
    region_unref(r);
    pthread_mutex_unlock(&s->mu);
}

/* All n bytes, or false: the object has shrunk. */
static bool copy(const struct region *r, uint64_t at, char *to, const char *from, uint64_t n)
{
    struct stat st;
    at += r->offset;
    if (from != NULL &&
        (fstat(r->fd, &st) != 0 || at + n > (uint64_t)st.st_size)) { /* writing would make it grow */
        return false;
    }
    while (n > 0) {
        const ssize_t done = to != NULL ? pread(r->fd, to, n, (off_t)at) : pwrite(r->fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        to = to != NULL ? to + done : NULL;
        from = from != NULL ? from + done : NULL;
        at += (uint64_t)done;
        n -= (uint64_t)done;
    }
    return true;
}

/* Where bytes go, or come from; the other is NULL. */
struct bytes {
    void *to;
    const void *from;
    uint64_t n;
};

static enum td_code transfer(struct td_shm *s, const char *owner, const char *name, uint64_t offset,
                             struct bytes b, struct td_err *err)
{
    struct region *r = NULL;
    TD_TRY(take(s, owner, name, offset, b.n, &r, err));
    const bool cuda = r->kind == TD_SHM_CUDA;
    const bool whole = !cuda          ? copy(r, offset, b.to, b.from, b.n)
                       : b.to != NULL ? td_cuda_read(&r->block, offset, b.to, b.n)
                                      : td_cuda_write(&r->block, offset, b.from, b.n);
    give_back(s, r);
    TD_FAIL_IF(!whole && cuda, err, UNAVAILABLE,
               "shared memory region '%s': copying from or to the GPU failed", name);
    TD_FAIL_IF(!whole, err, INVALID_ARGUMENT,
               "shared memory region '%s': its object has become smaller than it was when registered", name);
    return TD_OK;
}

enum td_code td_shm_read(struct td_shm *s, const char *owner, const char *name, uint64_t offset, void *to,
                         uint64_t n, struct td_err *err)
{
    return transfer(s, owner, name, offset, (struct bytes){to, NULL, n}, err);
}

enum td_code td_shm_write(struct td_shm *s, const char *owner, const char *name, uint64_t offset,
                          const void *from, uint64_t n, struct td_err *err)
{
    return n > 0 ? transfer(s, owner, name, offset, (struct bytes){NULL, from, n}, err)
                 : td_shm_check(s, owner, name, offset, 0, err);
}

enum td_code td_shm_check(struct td_shm *s, const char *owner, const char *name, uint64_t offset, uint64_t n,
                          struct td_err *err)
{
    struct region *r = NULL;
    TD_FAIL_IF(n > s->max_bytes, err, INVALID_ARGUMENT,
               "shared memory region '%s': a tensor of %llu bytes is larger than max_request_bytes (%llu)",
               name, (unsigned long long)n, (unsigned long long)s->max_bytes);
    TD_TRY(take(s, owner, name, offset, n, &r, err));
    give_back(s, r);
    return TD_OK;
}
