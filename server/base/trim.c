/* server/base/trim.c - madvise over the read-only segments of all loaded objects.
 *
 * The dynamic linker reads the symbol and relocation tables of some seventy libraries once; they and the code
 * of their initialisers would stay resident for the life of the process.
 *
 * Invariant (segment_check): a page that was ever written to is not dropped. So segments with write
 * permission are left alone, as are objects with relocations in their text, and everything when a debugger,
 * whose breakpoints are writes, is there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/trim.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/base/buffer.h"
#include "core/base/budget.h"
#include "core/base/check.h"
#include "core/run/bound_plan.h"
#include "server/base/clock.h"
#include "server/base/statm.h"

enum {
    LOOK_S = 2,
    MOST_S = 64,
    REST_SHARE = 50,        /* of a processor: who uses less than one part in so many is at rest */
    SLACK_BYTES = 64 << 20, /* what may be resident beyond what is held */
    SPARE_SHARE = 64,       /* of the limit is made free with what was asked for */
};
enum {
    TRIM_MS = 100,  /* at most every so long: it walks all that is free */
    PLANS_MS = 100, /* at most waited for plans to go, and between two times when that was of no use */
};

static bool traced(void)
{
    bool yes = true; /* when it cannot be told */
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "TracerPid:", 10) == 0) {
            yes = strtol(line + 10, NULL, 10) != 0;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return yes;
}

static bool has_text_relocations(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type != PT_DYNAMIC) {
            continue;
        }
        for (const ElfW(Dyn) *d = (const void *)(object->dlpi_addr + p->p_vaddr); d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_TEXTREL || (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL) != 0)) {
                return true;
            }
        }
    }
    return false;
}

TD_CHECK_FN enum td_code segment_check(const struct dl_phdr_info *object, const ElfW(Phdr) * p,
                                       struct td_err *err)
{
    TD_WANT((p->p_flags & PF_W) == 0 && !has_text_relocations(object) && !traced(), err,
            "pages of %s that may have been written to would be dropped", object->dlpi_name);
    return TD_OK;
}

static int drop(struct dl_phdr_info *object, size_t size, void *page_size)
{
    (void)size;
    const uintptr_t page = *(const uintptr_t *)page_size;
    if (strncmp(object->dlpi_name, "linux-vdso", 10) == 0 || has_text_relocations(object)) {
        return 0;
    }
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) == 0) {
            TD_HOLDS(segment_check, object, p);
            const uintptr_t from = (object->dlpi_addr + p->p_vaddr) & ~(page - 1);
            (void)madvise((void *)from, object->dlpi_addr + p->p_vaddr + p->p_memsz - from, MADV_DONTNEED);
        }
    }
    return 0;
}

/* What the allocator holds unused. */
static void give_back(void)
{
#ifndef TD_NO_BUFFER_CACHE /* sanitizers bring an allocator of their own */
    (void)malloc_trim(0);
#endif
}

void td_trim(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    give_back();
    if (!traced()) {
        (void)dl_iterate_phdr(drop, &page);
    }
}

/* The thread that trims. */
static struct {
    pthread_mutex_t mu; /* guards all but thread */
    pthread_cond_t wake, trimmed;
    bool stop, runs;
    td_trim_plans *plans;
    size_t wanted;        /* bytes that plans shall make room for; 0: none */
    unsigned asked, done; /* times that this was asked for, and looked after */
    int64_t in_vain_ns;   /* when it was of no use last */
    pthread_t thread;
} trimmer = {
    .mu = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .trimmed = PTHREAD_COND_INITIALIZER};

/* Bound plans go by that thread, which holds no lock: what their kernels let go of has locks of its own. Who
 * waits may hold one of these, so it waits for so long and no longer. */
static void await_plans(size_t bytes)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += PLANS_MS * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&trimmer.mu);
    if (trimmer.runs && !trimmer.stop && td_clock_ns() - trimmer.in_vain_ns > PLANS_MS * 1000000LL) {
        const unsigned asked = ++trimmer.asked;
        trimmer.wanted = bytes;
        pthread_cond_signal(&trimmer.wake);
        while ((int)(trimmer.done - asked) < 0 &&
               pthread_cond_clockwait(&trimmer.trimmed, &trimmer.mu, CLOCK_MONOTONIC, &at) == 0) {
        }
    }
    pthread_mutex_unlock(&trimmer.mu);
}

static bool is_enough(void *wanted)
{
    return td_budget_fits(*(const size_t *)wanted);
}

/* By a thread that may hold any lock but the allocator's. Other threads empty their caches when they next use
 * them. */
static void shrink(void *unused, size_t bytes)
{
    static int64_t trimmed_ns; /* one call at a time */
    (void)unused;
    td_frames_trim();
    td_buffer_trim();
    if (bytes > 0 && !td_budget_fits(bytes)) {
        await_plans(bytes);
    }
    if (td_clock_ns() - trimmed_ns >= TRIM_MS * 1000000LL) {
        give_back();
        trimmed_ns = td_clock_ns();
    }
}

void td_trim_on_shortage(void)
{
    td_budget_on_shortage(shrink, NULL);
}

/* ------------------------------------------------------------------ at rest, and after a burst */

/* Resident bytes that are of no file. */
static uint64_t resident(void)
{
    const struct td_statm s = td_statm();
    return s.resident > s.of_files ? s.resident - s.of_files : 0;
}

struct looks {
    int64_t at_ns, cpu_ns; /* of the last one: when, and the processor time used until then */
    int pause_s;           /* to the next */
    bool rested;           /* nothing was asked since memory was given back at rest */
};

static int64_t cpu_ns(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Since the last look. */
static bool is_at_rest(struct looks *l)
{
    const int64_t at = td_clock_ns(), cpu = cpu_ns();
    const bool yes = (cpu - l->cpu_ns) * REST_SHARE < at - l->at_ns;
    l->at_ns = at;
    l->cpu_ns = cpu;
    return yes;
}

/* Gives all back once when nothing is asked any more, and what is much under load: the next look is soon
 * then, or later each time that nothing came of it. */
static void look(struct looks *l)
{
    const bool rests = is_at_rest(l);
    const uint64_t before = resident();
    if (rests && !l->rested) {
        give_back();
        l->pause_s = LOOK_S;
    } else if (before < td_budget_held() + SLACK_BYTES) {
        l->pause_s = LOOK_S;
    } else {
        give_back();
        const bool helped = resident() + SLACK_BYTES / 4 < before;
        l->pause_s = helped ? LOOK_S : l->pause_s < MOST_S ? l->pause_s * 2 : MOST_S;
    }
    l->rested = rests;
}

/* Caller holds trimmer.mu, which is let go of meanwhile. */
static void trim_plans(void)
{
    size_t wanted = trimmer.wanted;
    const unsigned asked = trimmer.asked;
    trimmer.wanted = 0;
    pthread_mutex_unlock(&trimmer.mu);
    wanted += td_budget_allowed() / SPARE_SHARE; /* so that the next one who is short need not ask */
    trimmer.plans(is_enough, &wanted);
    const bool in_vain = !is_enough(&wanted);
    pthread_mutex_lock(&trimmer.mu);
    trimmer.in_vain_ns = in_vain ? td_clock_ns() : trimmer.in_vain_ns;
    trimmer.done = asked;
    pthread_cond_broadcast(&trimmer.trimmed);
}

static void *trim_main(void *unused)
{
    (void)unused;
    struct looks looks = {.at_ns = td_clock_ns(), .cpu_ns = cpu_ns(), .pause_s = LOOK_S};
    int64_t look_ns = looks.at_ns + looks.pause_s * INT64_C(1000000000);
    pthread_mutex_lock(&trimmer.mu);
    while (!trimmer.stop) {
        const struct timespec at = {.tv_sec = look_ns / 1000000000, .tv_nsec = look_ns % 1000000000};
        if (trimmer.wanted > 0) {
            trim_plans();
        } else if (pthread_cond_clockwait(&trimmer.wake, &trimmer.mu, CLOCK_MONOTONIC, &at) == ETIMEDOUT) {
            pthread_mutex_unlock(&trimmer.mu);
            look(&looks);
            look_ns = td_clock_ns() + looks.pause_s * INT64_C(1000000000);
            pthread_mutex_lock(&trimmer.mu);
        }
    }
    pthread_mutex_unlock(&trimmer.mu);
    return NULL;
}

void td_trim_start(td_trim_plans *plans)
{
    trimmer.plans = plans;
    const bool runs = pthread_create(&trimmer.thread, NULL, trim_main, NULL) == 0;
    pthread_mutex_lock(&trimmer.mu);
    trimmer.runs = runs;
    pthread_mutex_unlock(&trimmer.mu);
}

void td_trim_stop(void)
{
    if (trimmer.runs) {
        pthread_mutex_lock(&trimmer.mu);
        trimmer.stop = true;
        pthread_cond_signal(&trimmer.wake);
        pthread_mutex_unlock(&trimmer.mu);
        pthread_join(trimmer.thread, NULL);
        trimmer.runs = false;
    }
}
