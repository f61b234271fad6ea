/* kernels/cuda/base/made.c - a list of sources, and what became of each.
 *
 *   MAKING --> READY     its kernels are there
 *          --> FAILED    they cannot be
 *
 * A source is looked for by its hash, then compared whole. An entry that nobody uses is dropped when a new
 * one wants its room: the one that was asked for the longest ago.
 *
 * Threads: mu guards the list and what entries say; whoever makes an entry does so without it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/made.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "kernels/cuda/base/made_files.h"
#include "kernels/cuda/base/nvrtc.h"

enum state { MAKING, READY, FAILED };

struct entry {
    struct td_cuda_made made; /* first: users hold it */
    struct td_cuda_makers *owner;
    struct entry *next;
    char *source;
    struct td_cuda_code *code;
    uint64_t hash, used;
    enum state state;
    int users;
};

struct td_cuda_makers {
    int device, capability;
    char *dir;
    pthread_mutex_t mu;
    pthread_cond_t made;
    struct entry *all;
    int n;
    uint64_t asked; /* how often */
    struct td_cuda_made_counts counts;
};

static char *copy_of(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = td_calloc(1, n);
    return copy != NULL ? memcpy(copy, text, n) : NULL;
}

struct td_cuda_makers *td_cuda_makers_new(int device, int capability, const char *dir)
{
    struct td_cuda_makers *m = td_calloc(1, sizeof *m);
    if (m == NULL) {
        return NULL;
    }
    m->device = device;
    m->capability = capability;
    m->dir = dir != NULL ? copy_of(dir) : NULL;
    (void)pthread_mutex_init(&m->mu, NULL);
    (void)pthread_cond_init(&m->made, NULL);
    return m;
}

static void entry_free(struct entry *e)
{
    if (e->code != NULL) {
        (void)td_cuda_code_unload(e->owner->device, e->code);
    }
    td_free(e->source);
    td_free(e);
}

void td_cuda_makers_free(struct td_cuda_makers *m)
{
    if (m == NULL) {
        return;
    }
    while (m->all != NULL) {
        struct entry *e = m->all;
        m->all = e->next;
        entry_free(e);
    }
    (void)pthread_mutex_destroy(&m->mu);
    (void)pthread_cond_destroy(&m->made);
    td_free(m->dir);
    td_free(m);
}

void td_cuda_makers_retry(struct td_cuda_makers *m)
{
    if (m == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&m->mu);
    for (struct entry **at = &m->all; *at != NULL;) {
        struct entry *e = *at;
        if (e->state != FAILED || e->users > 0) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        m->n--;
        entry_free(e);
    }
    (void)pthread_mutex_unlock(&m->mu);
}

/* ------------------------------------------------------------------ making one */

/* Returns new: what code depends on. */
static char *key_of(const struct td_cuda_makers *m, const char *source)
{
    const char *version = td_cuda_nvrtc_version();
    const size_t room = strlen(source) + 100;
    char *key = version != NULL ? td_calloc(1, room) : NULL;
    if (key != NULL) {
        (void)snprintf(key, room, "%s, sm_%d\n%s", version, m->capability, source);
    }
    return key;
}

static bool load(struct entry *e, const char *code)
{
    const int device = e->owner->device;
    if (td_cuda_code_load(device, code, &e->code) != 0) {
        e->code = NULL;
        return false;
    }
    const bool ok = td_cuda_code_find(device, e->code, TD_CUDA_MADE_ONE, &e->made.one) == 0 &&
                    td_cuda_code_find(device, e->code, TD_CUDA_MADE_MANY, &e->made.many) == 0;
    if (!ok) {
        (void)td_cuda_code_unload(device, e->code);
        e->code = NULL;
    }
    return ok;
}

/* From a file, or compiled. A file whose code does not load is written anew. */
static bool make(struct entry *e, struct td_cuda_made_counts *did)
{
    struct td_cuda_makers *m = e->owner;
    struct td_err ignored = {0};
    size_t bytes;
    char *code, *key = key_of(m, e->source);
    if (key == NULL) {
        return false;
    }
    bool ok = false;
    if (td_cuda_made_read(m->dir, key, &code, &bytes)) {
        ok = load(e, code);
        did->read += ok;
        td_free(code);
    }
    if (!ok && td_cuda_nvrtc_compile(e->source, m->capability, &code, &bytes, &ignored) == TD_OK) {
        ok = load(e, code);
        did->compiled += ok;
        if (ok) {
            td_cuda_made_write(m->dir, key, code, bytes);
        }
        td_free(code);
    }
    td_free(key);
    return ok;
}

/* ------------------------------------------------------------------ the list; mu is held */

static struct entry *find(struct td_cuda_makers *m, uint64_t hash, const char *source)
{
    struct entry *e = m->all;
    while (e != NULL && (e->hash != hash || strcmp(e->source, source) != 0)) {
        e = e->next;
    }
    return e;
}

static void drop_oldest(struct td_cuda_makers *m)
{
    struct entry **oldest = NULL;
    for (struct entry **e = &m->all; *e != NULL; e = &(*e)->next) {
        if ((*e)->users == 0 && (*e)->state != MAKING && (oldest == NULL || (*e)->used < (*oldest)->used)) {
            oldest = e;
        }
    }
    if (oldest != NULL) {
        struct entry *e = *oldest;
        *oldest = e->next;
        m->n--;
        entry_free(e);
    }
}

static struct entry *add(struct td_cuda_makers *m, uint64_t hash, const char *source)
{
    if (m->n >= TD_CUDA_MADE_MOST) {
        drop_oldest(m);
    }
    struct entry *e = td_calloc(1, sizeof *e);
    char *copy = e != NULL ? copy_of(source) : NULL;
    if (copy == NULL) {
        td_free(e);
        return NULL;
    }
    *e = (struct entry){.owner = m, .next = m->all, .source = copy, .hash = hash, .state = MAKING};
    m->all = e;
    m->n++;
    return e;
}

static void make_unlocked(struct td_cuda_makers *m, struct entry *e)
{
    struct td_cuda_made_counts did = {0};
    (void)pthread_mutex_unlock(&m->mu);
    const bool ok = make(e, &did);
    (void)pthread_mutex_lock(&m->mu);
    e->state = ok ? READY : FAILED;
    m->counts.compiled += did.compiled;
    m->counts.read += did.read;
    (void)pthread_cond_broadcast(&m->made);
}

/* ------------------------------------------------------------------ asking */

const struct td_cuda_made *td_cuda_made_get(struct td_cuda_makers *m, const char *source, const char **why)
{
    *why = td_cuda_nvrtc_version() == NULL ? "there is no NVRTC" : "its kernel could not be made";
    if (m == NULL || td_cuda_nvrtc_version() == NULL) {
        return NULL;
    }
    const uint64_t hash = td_hash_more(UINT64_C(0xcbf29ce484222325), source, strlen(source));
    (void)pthread_mutex_lock(&m->mu);
    struct entry *e = find(m, hash, source);
    const bool fresh = e == NULL;
    e = fresh ? add(m, hash, source) : e;
    if (e != NULL) {
        e->users++;
        e->used = ++m->asked;
    }
    if (e != NULL && fresh) {
        make_unlocked(m, e);
    }
    while (e != NULL && e->state == MAKING) {
        (void)pthread_cond_wait(&m->made, &m->mu);
    }
    const bool ready = e != NULL && e->state == READY;
    if (e != NULL && !ready) {
        e->users--;
    }
    (void)pthread_mutex_unlock(&m->mu);
    return ready ? &e->made : NULL;
}

void td_cuda_made_put(const struct td_cuda_made *made)
{
    if (made == NULL) {
        return;
    }
    struct entry *e = (struct entry *)((uintptr_t)made - offsetof(struct entry, made));
    (void)pthread_mutex_lock(&e->owner->mu);
    e->users--;
    (void)pthread_mutex_unlock(&e->owner->mu);
}

struct td_cuda_made_counts td_cuda_made_count(struct td_cuda_makers *m)
{
    (void)pthread_mutex_lock(&m->mu);
    const struct td_cuda_made_counts counts = m->counts;
    (void)pthread_mutex_unlock(&m->mu);
    return counts;
}
