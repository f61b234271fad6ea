/* core/base/timings.c - the estimators' arithmetic, and the table of times by name with its file.
 *
 * A minimum takes a shorter time, and an eighth of what a longer one is more. A line is fitted from five
 * sums by weighted least squares: each run multiplies them by KEEP and adds itself, so the last ten or so
 * decide. A run many times longer than
 * expected counts as OUTLIER times the expectation: the line moves, but not far. While all runs had one size
 * there is no line; a slope or a fixed part below zero is taken as none.
 *
 *   tensord timings 1                      the version: another one is not read
 *   Intel(R) ..; oneDNN 2.6.3              the machine, which also names the file
 *   18250 MatMul float[8,256] .. matmul.dnnl
 *   ..
 *   sum 5f2c..                             FNV-1a of all before it
 *
 * The table holds the last MOST names, in the order they came, with an open-addressed index beside it that is
 * made anew when the oldest goes. The file is somebody's who may write to the state directory: sizes and
 * counts are bounded, every line is held to the grammar, and the first that breaks it empties the table.
 *
 * Locks: mu guards the table, and is held while the file is written.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/timings.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

/* ------------------------------------------------------------------ estimators */

#define KEEP 0.9    /* of the older runs' weight, at each new run */
#define OUTLIER 8.0 /* longer than expected by more, a run (a trace, a page fault storm) counts as that */

int64_t td_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t td_timing_known(const td_timing_least *m)
{
    return atomic_load_explicit(m, memory_order_relaxed);
}

void td_timing_learn(td_timing_least *m, int64_t took_ns)
{
    const int64_t before = td_timing_known(m);
    const int64_t now = before == 0 || took_ns < before ? took_ns : before + (took_ns - before) / 8;
    atomic_store_explicit(m, now, memory_order_relaxed);
}

bool td_timing_line_is_known(const struct td_timing_line *l)
{
    return l->w > 0;
}

struct td_timing_fit td_timing_line_fit(const struct td_timing_line *l)
{
    const double mean_n = l->n / l->w, mean_t = l->t / l->w;
    const double spread = l->nn / l->w - mean_n * mean_n;
    struct td_timing_fit f = {0, mean_n > 0 ? mean_t / mean_n : mean_t, spread > 1e-3 * mean_n * mean_n};
    if (f.fits) {
        f.each = (l->nt / l->w - mean_n * mean_t) / spread;
        f.each = f.each > 0 ? f.each : 0;
        f.fixed = mean_t - f.each * mean_n;
        if (f.fixed < 0) {
            f.fixed = 0;
            f.each = mean_t / mean_n;
        }
    }
    return f;
}

int64_t td_timing_line_at(const struct td_timing_line *l, int64_t rows)
{
    if (!td_timing_line_is_known(l)) {
        return 0;
    }
    const struct td_timing_fit f = td_timing_line_fit(l);
    const double ns = f.fixed + f.each * (double)rows;
    return ns < 1e18 ? (int64_t)ns : (int64_t)1e18;
}

void td_timing_line_learn(struct td_timing_line *l, int64_t rows, int64_t took_ns)
{
    const double expected = (double)td_timing_line_at(l, rows), n = (double)rows;
    double t = (double)took_ns;
    if (expected > 0 && t > OUTLIER * expected) {
        t = OUTLIER * expected;
    }
    l->w = KEEP * l->w + 1;
    l->n = KEEP * l->n + n;
    l->t = KEEP * l->t + t;
    l->nn = KEEP * l->nn + n * n;
    l->nt = KEEP * l->nt + n * t;
}

/* ------------------------------------------------------------------ the table */

enum { MOST = 2048, SLOTS = 4096, PATH_BYTES = 4096, LINE_BYTES = TD_TIMING_NAME + 32 };
enum { MOST_BYTES = MOST * LINE_BYTES };
static const char HEAD[] = "tensord timings 1";

struct row {
    char *name; /* owned */
    int64_t ns;
};

struct td_timings {
    pthread_mutex_t mu; /* guards all below but path and machine */
    char path[PATH_BYTES], machine[TD_TIMING_NAME];
    struct row row[MOST];
    int n, oldest;     /* rows; where the next one goes when all are taken */
    short slot[SLOTS]; /* by hash of the name, open-addressed: row + 1; 0: free */
    bool changed;
};

static bool is_name(const char *s)
{
    size_t n = 0;
    for (; s[n] >= ' ' && s[n] <= '~'; n++) {
    }
    return n > 0 && n < TD_TIMING_NAME && s[n] == '\0';
}

static size_t slot_of(const struct td_timings *t, const char *name)
{
    size_t i = td_hash_bytes(name, strlen(name)) % SLOTS;
    while (t->slot[i] != 0 && strcmp(t->row[t->slot[i] - 1].name, name) != 0) {
        i = (i + 1) % SLOTS;
    }
    return i;
}

static void index_rows(struct td_timings *t)
{
    memset(t->slot, 0, sizeof t->slot);
    for (int i = 0; i < t->n; i++) {
        t->slot[slot_of(t, t->row[i].name)] = (short)(i + 1);
    }
}

/* mu is held, or t is nobody else's yet. */
static void put(struct td_timings *t, const char *name, int64_t ns)
{
    size_t slot = slot_of(t, name);
    if (t->slot[slot] != 0) {
        t->row[t->slot[slot] - 1].ns = ns;
        return;
    }
    char *copy = td_strdup(name);
    if (copy == NULL) {
        return;
    }
    if (t->n < MOST) {
        t->row[t->n++] = (struct row){copy, ns};
        t->slot[slot] = (short)t->n;
        return;
    }
    td_free(t->row[t->oldest].name);
    t->row[t->oldest] = (struct row){copy, ns};
    t->oldest = (t->oldest + 1) % MOST;
    index_rows(t);
}

static void forget_all(struct td_timings *t)
{
    for (int i = 0; i < t->n; i++) {
        td_free(t->row[i].name);
    }
    t->n = t->oldest = 0;
    index_rows(t);
}

int64_t td_timings_find(struct td_timings *t, const char *name)
{
    pthread_mutex_lock(&t->mu);
    const short at = t->slot[slot_of(t, name)];
    const int64_t ns = at == 0 ? 0 : t->row[at - 1].ns;
    pthread_mutex_unlock(&t->mu);
    return ns;
}

void td_timings_note(struct td_timings *t, const char *name, int64_t ns)
{
    if (is_name(name) && ns > 0) {
        pthread_mutex_lock(&t->mu);
        put(t, name, ns);
        t->changed = true;
        pthread_mutex_unlock(&t->mu);
    }
}

/* ------------------------------------------------------------------ the file */

static uint64_t sum_of(const char *text, size_t n)
{
    return td_hash_more(UINT64_C(0xcbf29ce484222325), text, n);
}

/* One "ns name" line, NUL-terminated. */
static bool read_row(struct td_timings *t, const char *line)
{
    char *end;
    if (line[0] < '1' || line[0] > '9') {
        return false;
    }
    const long long ns = strtoll(line, &end, 10);
    if (end - line > 15 || *end != ' ' || !is_name(end + 1) || t->n == MOST) {
        return false;
    }
    put(t, end + 1, ns);
    return true;
}

/* text: n bytes and a NUL. */
static bool read_text(struct td_timings *t, char *text, size_t n)
{
    char want[32];
    const size_t tail = sizeof "sum 0123456789abcdef\n" - 1;
    if (n < tail || strlen(text) != n) {
        return false;
    }
    snprintf(want, sizeof want, "sum %016" PRIx64 "\n", sum_of(text, n - tail));
    if (strcmp(text + n - tail, want) != 0) {
        return false;
    }
    text[n - tail] = '\0';
    char *rest = text;
    const char *head = strsep(&rest, "\n"), *machine = rest == NULL ? NULL : strsep(&rest, "\n");
    bool ok = strcmp(head, HEAD) == 0 && machine != NULL && strcmp(machine, t->machine) == 0;
    while (ok && rest != NULL && *rest != '\0') {
        ok = read_row(t, strsep(&rest, "\n"));
    }
    return ok;
}

static void read_file(struct td_timings *t)
{
    FILE *f = fopen(t->path, "re");
    char *text = f == NULL ? NULL : td_calloc(1, MOST_BYTES + 2);
    const size_t n = text == NULL ? 0 : fread(text, 1, MOST_BYTES + 1, f);
    if (n > 0 && (n > MOST_BYTES || !read_text(t, text, n))) {
        forget_all(t);
    }
    td_free(text);
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* Returns new: the file's text. mu is held. */
static char *text_of(const struct td_timings *t, size_t *n)
{
    char *text = td_calloc(1, (size_t)(t->n + 3) * LINE_BYTES);
    if (text == NULL) {
        return NULL;
    }
    *n = (size_t)snprintf(text, 2 * LINE_BYTES, "%s\n%s\n", HEAD, t->machine);
    for (int k = 0; k < t->n; k++) {
        const struct row *r = &t->row[(t->oldest + k) % t->n];
        *n += (size_t)snprintf(text + *n, LINE_BYTES, "%lld %s\n", (long long)r->ns, r->name);
    }
    *n += (size_t)snprintf(text + *n, LINE_BYTES, "sum %016" PRIx64 "\n", sum_of(text, *n));
    return text;
}

static bool write_file(const char *path, const char *text, size_t n)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t done = 0;
    ssize_t put_now = 1;
    while (file >= 0 && done < n && put_now > 0) {
        put_now = write(file, text + done, n - done);
        done += put_now > 0 ? (size_t)put_now : 0;
    }
    const bool ok = file >= 0 && done == n && fsync(file) == 0;
    return file >= 0 && close(file) == 0 && ok;
}

enum td_code td_timings_save(struct td_timings *t, struct td_err *err)
{
    char beside[PATH_BYTES + 8];
    size_t n = 0;
    pthread_mutex_lock(&t->mu);
    const bool due = t->changed && t->path[0] != '\0';
    char *text = due ? text_of(t, &n) : NULL;
    bool ok = !due;
    if (text != NULL) {
        snprintf(beside, sizeof beside, "%s.new", t->path);
        ok = write_file(beside, text, n) && rename(beside, t->path) == 0;
        t->changed = !ok;
    }
    pthread_mutex_unlock(&t->mu);
    td_free(text);
    TD_FAIL_IF(!ok, err, UNAVAILABLE, "the times of kernels could not be written to '%.200s'", t->path);
    return TD_OK;
}

enum td_code td_timings_open(const char *dir, const char *machine, struct td_timings **out,
                             struct td_err *err)
{
    TD_FAIL_IF(!is_name(machine), err, INVALID_ARGUMENT,
               "timings of machine '%.100s', want one printable line", machine);
    struct td_timings *t = td_calloc(1, sizeof *t);
    if (t == NULL) {
        return td_no_memory(err, sizeof *t, "timings");
    }
    pthread_mutex_init(&t->mu, NULL);
    snprintf(t->machine, sizeof t->machine, "%s", machine);
    const int n = dir == NULL ? 0
                              : snprintf(t->path, sizeof t->path, "%s/timings-%08x.txt", dir,
                                         (unsigned)(sum_of(machine, strlen(machine)) & 0xffffffffu));
    if (n < 0 || (size_t)n >= sizeof t->path) {
        t->path[0] = '\0';
    }
    if (t->path[0] != '\0') {
        read_file(t);
    }
    *out = t;
    return TD_OK;
}

void td_timings_close(struct td_timings *t)
{
    if (t != NULL) {
        forget_all(t);
        pthread_mutex_destroy(&t->mu);
        td_free(t);
    }
}
