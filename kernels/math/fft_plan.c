/* kernels/math/fft_plan.c - factors, roots and chirps, computed in double, and the few plans that are kept.
 *
 * Roots are exact at the multiples of a quarter turn and else from one cosine and sine of a reduced angle, so
 * errors do not add up along a table. A pass's table holds the factors that its butterflies multiply with, in
 * their order. Bluestein's chirp takes j^2 modulo 2n before it becomes an angle, and its filter is
 * transformed once, here, by the inner plan.
 *
 * Kept plans are counted by their users under `mu`; a new one takes the place of the one unused for longest,
 * if any has no users, else it is freed by its last user. Plans are made without the lock: two threads may
 * make the same one.
 * Does not: transform (kernels/math/fft.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/math/fft_plan.h"

#include <math.h>
#include <pthread.h>

#include "core/base/mem.h"
#include "core/base/work.h"

enum { KEPT = 16, LONGEST_KEPT = 1 << 16, LARGEST_PRIME = 31 };

void td_fft_root(int64_t k, int64_t n, double *re, double *im)
{
    static const double axis[5] = {1, 0, -1, 0, 1};
    k %= n;
    if (k % n * 4 % n == 0) {
        int64_t quarter = k * 4 / n;
        *re = axis[quarter];
        *im = -axis[quarter == 0 ? 3 : quarter - 1];
        return;
    }
    double angle = 2 * M_PI * ((double)k / (double)n);
    *re = cos(angle);
    *im = -sin(angle);
}

static void plan_free(struct td_fft *f)
{
    if (f == NULL) {
        return;
    }
    for (int i = 0; i < TD_FFT_FACTORS; i++) {
        td_free(f->pass[i].re.f);
        td_free(f->pass[i].re.d);
        td_free(f->pass[i].im.f);
        td_free(f->pass[i].im.d);
    }
    td_free(f->half_re.f);
    td_free(f->half_re.d);
    td_free(f->half_im.f);
    td_free(f->half_im.d);
    plan_free(f->inner); /* one deep: the inner plan is a power of two */
    td_free(f->chirp_re);
    td_free(f->chirp_im);
    td_free(f->filter_re);
    td_free(f->filter_im);
    td_free(f);
}

static bool table_new(struct td_fft_table *t, bool wide, int64_t n)
{
    if (wide) {
        t->d = td_calloc((size_t)n, sizeof(double));
    } else {
        t->f = td_calloc((size_t)n, sizeof(float));
    }
    return t->d != NULL || t->f != NULL;
}

static void table_set(struct td_fft_table *re, struct td_fft_table *im, int64_t i, int64_t k, int64_t n)
{
    double r, m;
    td_fft_root(k, n, &r, &m);
    if (re->d != NULL) {
        re->d[i] = r;
        im->d[i] = m;
    } else {
        re->f[i] = (float)r;
        im->f[i] = (float)m;
    }
}

/* The factors of n in the order of the passes. False when a prime is too large to be a pass. */
static bool factors(struct td_fft *f, int64_t n)
{
    static const int8_t small[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, LARGEST_PRIME};
    f->n_passes = 0;
    for (size_t i = 0; i < sizeof small; i++) {
        for (; n % small[i] == 0; n /= small[i]) {
            f->pass[f->n_passes++].radix = small[i];
        }
    }
    return n == 1;
}

static bool make_passes(struct td_fft *f)
{
    int64_t left = f->points;
    for (int i = 0; i < f->n_passes; i++) {
        struct td_fft_pass *p = &f->pass[i];
        int64_t whole = left;
        left /= p->radix;
        p->points = left;
        if (!table_new(&p->re, f->wide, (p->radix - 1) * left) ||
            !table_new(&p->im, f->wide, (p->radix - 1) * left)) {
            return false;
        }
        for (int64_t j = 1; j < p->radix; j++) {
            for (int64_t k = 0; k < left && !td_work_spent(8); k++) {
                table_set(&p->re, &p->im, (j - 1) * left + k, j * k, whole);
            }
        }
    }
    return !td_work_cut;
}

static struct td_fft *plan_new(int64_t n, bool real, bool wide);

static bool make_chirp(struct td_fft *f)
{
    int64_t n = f->points, size = 1;
    while (size < 2 * n - 1) {
        size *= 2;
    }
    f->wide = true;
    f->n_passes = 0;
    f->inner = plan_new(size, false, true);
    f->chirp_re = td_calloc((size_t)n, sizeof(double));
    f->chirp_im = td_calloc((size_t)n, sizeof(double));
    f->filter_re = td_calloc((size_t)size, sizeof(double));
    f->filter_im = td_calloc((size_t)size, sizeof(double));
    if (f->inner == NULL || f->chirp_re == NULL || f->chirp_im == NULL || f->filter_re == NULL ||
        f->filter_im == NULL) {
        return false;
    }
    for (int64_t j = 0; j < n && !td_work_spent(16);
         j++) { /* j^2 modulo 2n keeps the angle small and exact */
        int64_t square = (int64_t)((unsigned __int128)j * (uint64_t)j % (uint64_t)(2 * n));
        td_fft_root(square, 2 * n, &f->chirp_re[j], &f->chirp_im[j]);
        f->filter_re[j] = f->chirp_re[j] / (double)size;
        f->filter_im[j] = -f->chirp_im[j] / (double)size;
        if (j > 0) {
            f->filter_re[size - j] = f->filter_re[j];
            f->filter_im[size - j] = f->filter_im[j];
        }
    }
    return !td_work_cut && td_fft_planes(f->inner, f->filter_re, f->filter_im) && !td_work_cut;
}

/* NULL when memory is short, or the work at hand over. */
static struct td_fft *plan_new(int64_t n, bool real, bool wide)
{
    struct td_fft *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    bool half = real && n % 2 == 0;
    *f = (struct td_fft){.n = n, .points = half ? n / 2 : n, .real = real, .wide = wide};
    bool made = factors(f, f->points) ? make_passes(f) : make_chirp(f);
    if (made && half) {
        made =
            table_new(&f->half_re, f->wide, f->points + 1) && table_new(&f->half_im, f->wide, f->points + 1);
        for (int64_t k = 0; made && k <= f->points; k++) {
            table_set(&f->half_re, &f->half_im, k, k, n);
        }
    }
    if (!made) {
        plan_free(f);
        return NULL;
    }
    return f;
}

/* ------------------------------------------------------------------ plans that are kept */

static struct {
    pthread_mutex_t mu;
    struct td_fft *plan[KEPT];
    uint64_t clock;
} cache = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* A plan that is there, with a user more; or NULL. Under the lock. */
static struct td_fft *find(int64_t n, bool real, bool wide)
{
    for (int i = 0; i < KEPT; i++) {
        struct td_fft *f = cache.plan[i];
        if (f != NULL && f->n == n && f->real == real && (f->wide == wide || (f->inner != NULL && !wide))) {
            f->users++;
            f->used = ++cache.clock;
            return f;
        }
    }
    return NULL;
}

/* Keeps f in the place of the plan that was not used for the longest time, if one has no users. Under the
 * lock. */
static void keep(struct td_fft *f)
{
    int place = -1;
    for (int i = 0; i < KEPT; i++) {
        if (cache.plan[i] == NULL) {
            place = i;
            break;
        }
        if (cache.plan[i]->users == 0 && (place < 0 || cache.plan[i]->used < cache.plan[place]->used)) {
            place = i;
        }
    }
    if (place >= 0) {
        plan_free(cache.plan[place]);
        cache.plan[place] = f;
        f->cached = true;
        f->used = ++cache.clock;
    }
}

enum td_code td_fft_get(int64_t n, bool real, bool wide, const struct td_fft **out, struct td_err *err)
{
    *out = NULL;
    TD_FAIL_IF(n > INT64_C(1) << 40, err, INVALID_ARGUMENT, "transform of %lld points is too long",
               (long long)n);
    pthread_mutex_lock(&cache.mu);
    struct td_fft *f = find(n, real, wide);
    pthread_mutex_unlock(&cache.mu);
    if (f == NULL) {
        f = plan_new(n, real, wide);
        if (f == NULL && td_work_cut) {
            return td_work_error(td_work_over(), err);
        }
        if (f == NULL) {
            return td_no_memory(err, (size_t)n * 2 * sizeof(float), "tables of a Fourier transform");
        }
        f->users = 1;
        if (n <= LONGEST_KEPT) { /* two threads may both make it: either copy serves */
            pthread_mutex_lock(&cache.mu);
            keep(f);
            pthread_mutex_unlock(&cache.mu);
        }
    }
    *out = f;
    return TD_OK;
}

void td_fft_put(const struct td_fft *plan)
{
    struct td_fft *f = (struct td_fft *)plan;
    if (f == NULL) {
        return;
    }
    pthread_mutex_lock(&cache.mu);
    f->users--;
    bool cached = f->cached;
    pthread_mutex_unlock(&cache.mu);
    if (!cached) {
        plan_free(f);
    }
}
