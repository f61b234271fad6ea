/* server/base/connections.c - a count in all, and a chained hash table of counts by address.
 *
 * An address has an entry while it has a connection. The hash is keyed with random bytes, so nobody can
 * choose addresses that share a chain; there are as many chains as an eighth of the connections that may be.
 * An entry is allocated before the lock is taken.
 *
 * Of the limit on open files a quarter, at least 16 and at most 1,024, is kept for files: models, logs, jobs.
 * So accept finds none only when files took more than that; the connection then waits in the listener's
 * queue, which the kernel bounds, until it is tried again.
 *
 * Invariant (connections_check): the sum of all entries is at most `open`, and no entry is 0.
 *
 * Does not: listen (listen.c), close anything, notice that a connection has ended.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/base/listen.h"
#include "server/base/peer_address.h"

#define DEFAULT_MAX 16384
#define FILES_LEAST 16
#define FILES_MOST 1024
#define RETRY_MS 50
#define SAY_NS 1000000000

struct entry {
    struct td_peer_address at;
    int64_t n;
    struct entry *next;
};

struct td_connections {
    pthread_mutex_t mu; /* guards what follows it; taken last */
    struct td_connections_counts counts;
    struct entry **chains;
    int64_t said_ns, unsaid; /* when a refusal was last logged, and how many were not since */
    size_t n_chains;         /* these are constant: a power of two */
    uint64_t key;
    pthread_mutex_t sweeping; /* guards what follows; held while sweep runs, so taken before mu */
    void (*sweep)(void *owner);
    void *owner;
};

static struct entry **chain_of(const struct td_connections *c, const struct td_peer_address *at)
{
    return &c->chains[td_peer_hash(at, c->key) & (c->n_chains - 1)];
}

/* The link that points at the entry, or the end of its chain. Under mu. */
static struct entry **find(const struct td_connections *c, const struct td_peer_address *at)
{
    struct entry **p = chain_of(c, at);
    while (*p != NULL && ((*p)->at.hi != at->hi || (*p)->at.lo != at->lo)) {
        p = &(*p)->next;
    }
    return p;
}

/* Under mu. */
TD_CHECK_FN enum td_code connections_check(const struct td_connections *c, struct td_err *err)
{
    int64_t sum = 0;
    for (size_t i = 0; i < c->n_chains; i++) {
        for (const struct entry *e = c->chains[i]; e != NULL; e = e->next) {
            TD_WANT(e->n > 0, err, "an address with %lld connections", (long long)e->n);
            sum += e->n;
        }
    }
    TD_WANT(sum <= c->counts.open, err, "%lld connections by address, %lld in all", (long long)sum,
            (long long)c->counts.open);
    return TD_OK;
}

void td_connections_raise_files(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* What the limit on open files leaves. */
static int64_t most_by_files(int64_t *files)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > INT32_MAX) {
        *files = INT32_MAX;
        return INT32_MAX;
    }
    *files = (int64_t)r.rlim_cur;
    const int64_t quarter = *files / 4;
    const int64_t kept = quarter < FILES_LEAST ? FILES_LEAST : quarter > FILES_MOST ? FILES_MOST : quarter;
    return *files > kept ? *files - kept : 1;
}

static void choose_caps(struct td_connections_counts *n, int64_t max, int64_t per_address)
{
    int64_t files, most = most_by_files(&files);
    n->max = max > 0 ? max : DEFAULT_MAX;
    if (n->max > most) {
        td_log(max > 0 ? TD_LOG_WARNING : TD_LOG_INFO, NULL,
               "%lld connections at most instead of %lld (--max_connections): %lld files may be open "
               "(ulimit -n), and some are kept for models",
               (long long)most, (long long)n->max, (long long)files);
        n->max = most;
    }
    n->max_per_address = per_address > 0 ? per_address : (n->max + 3) / 4;
    n->max_per_address = n->max_per_address < n->max ? n->max_per_address : n->max;
}

enum td_code td_connections_new(int64_t max, int64_t max_per_address, struct td_connections **out,
                                struct td_err *err)
{
    struct td_connections *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return td_no_memory(err, sizeof *c, "counting connections");
    }
    choose_caps(&c->counts, max, max_per_address);
    for (c->n_chains = 64; c->n_chains < (size_t)c->counts.max / 8 && c->n_chains < 65536;) {
        c->n_chains *= 2;
    }
    c->chains = td_calloc(c->n_chains, sizeof *c->chains);
    if (c->chains == NULL) {
        const size_t n = c->n_chains * sizeof *c->chains;
        td_free(c);
        return td_no_memory(err, n, "counting connections");
    }
    c->key = td_peer_key();
    pthread_mutex_init(&c->mu, NULL);
    pthread_mutex_init(&c->sweeping, NULL);
    *out = c;
    return TD_OK;
}

void td_connections_free(struct td_connections *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->n_chains; i++) {
        for (struct entry *e = c->chains[i], *next; e != NULL; e = next) {
            next = e->next;
            td_free(e);
        }
    }
    td_free(c->chains);
    pthread_mutex_destroy(&c->sweeping);
    pthread_mutex_destroy(&c->mu);
    td_free(c);
}

/* Under mu; takes *fresh when it becomes the entry of an address. last: a refusal is one. */
static enum td_code count_in(struct td_connections *c, const struct td_peer_address *at, struct entry **fresh,
                             bool last, struct td_err *err)
{
    struct td_connections_counts *n = &c->counts;
    if (n->open >= n->max) {
        n->refused_all += last;
        return td_fail(err, TD_RESOURCE_EXHAUSTED,
                       "%lld connections are open: as many as may be (--max_connections)",
                       (long long)n->open);
    }
    struct entry **p = at != NULL ? find(c, at) : NULL;
    if (p != NULL && *p != NULL && (*p)->n >= n->max_per_address) {
        n->refused_address += last;
        return td_fail(
            err, TD_RESOURCE_EXHAUSTED,
            "%lld connections are open from its address: as many as may be (--max_connections_per_address)",
            (long long)(*p)->n);
    }
    if (p != NULL && *p == NULL) {
        (*fresh)->at = *at;
        *p = *fresh;
        *fresh = NULL;
    }
    if (p != NULL) {
        (*p)->n++;
    }
    n->open++;
    n->accepted++;
    return TD_OK;
}

static void say_refused(struct td_connections *c, const struct sockaddr *peer, const struct td_err *err)
{
    char who[TD_LISTEN_NAME];
    const int64_t now_ns = td_clock_ns();
    pthread_mutex_lock(&c->mu);
    const bool say = c->said_ns == 0 || now_ns - c->said_ns > SAY_NS;
    const int64_t unsaid = c->unsaid;
    c->unsaid = say ? 0 : unsaid + 1;
    c->said_ns = say ? now_ns : c->said_ns;
    pthread_mutex_unlock(&c->mu);
    if (say) {
        td_listen_name(peer, who);
        td_log(TD_LOG_WARNING, NULL, "connection from %s refused: %s; %lld more refused since the last line",
               *who != '\0' ? who : "this host", err->msg, (long long)unsaid);
    }
}

void td_connections_set_sweep(struct td_connections *c, void (*sweep)(void *owner), void *owner)
{
    pthread_mutex_lock(&c->sweeping);
    c->sweep = sweep;
    c->owner = owner;
    pthread_mutex_unlock(&c->sweeping);
}

static void sweep_ended(struct td_connections *c)
{
    pthread_mutex_lock(&c->sweeping);
    if (c->sweep != NULL) {
        c->sweep(c->owner);
    }
    pthread_mutex_unlock(&c->sweeping);
}

enum td_code td_connections_enter(struct td_connections *c, enum td_connection_wire wire,
                                  const struct sockaddr *peer, struct td_err *err)
{
    struct td_peer_address at;
    const bool by_address = td_peer_address(peer, &at);
    struct entry *fresh = by_address ? td_calloc(1, sizeof *fresh) : NULL;
    if (by_address && fresh == NULL) {
        return td_no_memory(err, sizeof *fresh, "a connection");
    }
    const struct td_peer_address *key = by_address ? &at : NULL;
    pthread_mutex_lock(&c->mu);
    enum td_code rc = count_in(c, key, &fresh, false, err);
    c->counts.by_wire[wire] += rc == TD_OK;
    pthread_mutex_unlock(&c->mu);
    if (rc) {
        sweep_ended(c);
        pthread_mutex_lock(&c->mu);
        rc = count_in(c, key, &fresh, true, err);
        c->counts.by_wire[wire] += rc == TD_OK;
        pthread_mutex_unlock(&c->mu);
    }
    td_free(fresh);
    if (rc) {
        say_refused(c, peer, err);
    }
    return rc;
}

void td_connections_leave(struct td_connections *c, enum td_connection_wire wire, const struct sockaddr *peer)
{
    struct td_peer_address at;
    struct entry *gone = NULL;
    const bool by_address = td_peer_address(peer, &at);
    pthread_mutex_lock(&c->mu);
    struct entry **p = by_address ? find(c, &at) : NULL;
    if (p != NULL && *p != NULL && --(*p)->n == 0) {
        gone = *p;
        *p = gone->next;
    }
    c->counts.open--;
    c->counts.by_wire[wire]--;
    TD_HOLDS(connections_check, c);
    pthread_mutex_unlock(&c->mu);
    td_free(gone);
}

static void count_short(struct td_connections *c)
{
    if (c != NULL) {
        pthread_mutex_lock(&c->mu);
        c->counts.short_of_files++;
        pthread_mutex_unlock(&c->mu);
    }
}

/* accept4. ThreadSanitizer must not see it: the libraries that the descriptor is given to close it unseen,
 * and whoever gets its number next would race with this thread. */
static int accept_one(int listener, struct sockaddr *peer, socklen_t *size)
{
    return (int)syscall(SYS_accept4, listener, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int td_connections_accept(struct td_connections *c, int listener, struct sockaddr_storage *peer,
                          int *retry_ms)
{
    *retry_ms = 0;
    for (;;) {
        socklen_t size = sizeof *peer;
        memset(peer, 0, sizeof *peer);
        const int fd = accept_one(listener, (struct sockaddr *)peer, &size);
        if (fd >= 0) {
            return fd;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EBADF || errno == EINVAL) {
            return -1;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            count_short(c);
            *retry_ms = RETRY_MS;
            return -1;
        } /* else that one connection is already gone: the next */
    }
}

void td_connections_count(struct td_connections *c, struct td_connections_counts *out)
{
    pthread_mutex_lock(&c->mu);
    *out = c->counts;
    pthread_mutex_unlock(&c->mu);
}
