/* core/base/log.c - one line, one write(2), so that lines of several threads never mix.
 *
 *   text   2026-01-01T00:00:00.123Z INFO  [model=NAME version=1 request=ID trace=.. span=..] message
 *   json   {"ts":"...","level":"INFO","model":"NAME","version":1,"request_id":"ID","trace_id":"..",
 *           "span_id":"..","message":"..."}
 *
 * A line is put together in a buffer on the stack; what does not fit is cut. Control characters are escaped,
 * since parts of a line may come from a request, which must not be able to forge lines. Levels are bits of
 * one atomic, and a level that is off costs one load. Whether lines are JSON is set once, before there are
 * threads.
 *
 * Takes no lock and allocates nothing. Does not: open files, rotate, keep lines for later; a write that fails
 * is dropped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"
#include "core/base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/work.h"

static atomic_uint levels = 1 << TD_LOG_INFO | 1 << TD_LOG_WARNING | 1 << TD_LOG_ERROR;
static bool as_json;
static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR", "AUDIT"};

void td_log_setup(enum td_log_level least, bool json)
{
    atomic_store(&levels, (1u << (TD_LOG_ERROR + 1)) - (1u << least));
    as_json = json;
}

unsigned td_log_levels(void)
{
    return atomic_load_explicit(&levels, memory_order_relaxed);
}

void td_log_choose(unsigned chosen)
{
    atomic_store(&levels, chosen);
}

struct line {
    char text[4096];
    size_t n;
};

static void put(struct line *l, const char *fmt, ...) TD_PRINTF(2, 3);

static void put(struct line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, ap);
    va_end(ap);
    l->n += n < 0 ? 0 : (size_t)n;
    if (l->n > sizeof l->text - 2) {
        l->n = sizeof l->text - 2;
    }
}

/* Control characters never reach the log raw, nor bytes that are no UTF-8: a request must not forge lines, or
 * break who reads them. */
static void put_escaped(struct line *l, const char *s)
{
    for (; *s != 0; s++) {
        unsigned char c = (unsigned char)*s;
        const int n = (int)td_utf8_char(s, strnlen(s, 4));
        if (n > 1) {
            put(l, "%.*s", n, s);
            s += n - 1;
        } else if (n == 0) {
            put(l, "?");
        } else if (as_json && (c == '"' || c == '\\')) {
            put(l, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            put(l, "\\u%04x", c);
        } else {
            put(l, "%c", c);
        }
    }
}

static void put_time(struct line *l)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    put(l, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
        tm.tm_min, tm.tm_sec, (int)(now.tv_nsec / 1000000));
}

/* 16 or 8 bytes as digits; nothing for zeros. Returns what separates the next. */
static const char *put_id(struct line *l, const char *key, const char *sep, const uint8_t *id, size_t n)
{
    static const uint8_t none[16] = {0};
    if (memcmp(id, none, n) == 0) {
        return sep;
    }
    as_json ? put(l, ",\"%s_id\":\"", key) : put(l, "%s%s=", sep, key);
    for (size_t i = 0; i < n; i++) {
        put(l, "%02x", id[i]);
    }
    put(l, as_json ? "\"" : "%s", "");
    return " ";
}

static void put_about(struct line *l, const struct td_log_about *about)
{
    const struct td_work *work = td_work_now();
    const struct td_log_trace *trace = about->trace != NULL ? about->trace
                                       : work != NULL       ? work->trace
                                                            : NULL;
    const char *open = as_json ? "" : " [", *sep = open;
    if (about->model != NULL) {
        put(l, as_json ? ",\"model\":\"" : "%smodel=", sep);
        put_escaped(l, about->model);
        put(l, as_json ? "\"" : "%s", "");
        sep = " ";
    }
    if (about->version != 0) {
        as_json ? put(l, ",\"version\":%lld", (long long)about->version)
                : put(l, "%sversion=%lld", sep, (long long)about->version);
        sep = " ";
    }
    if (about->request_id != NULL && about->request_id[0] != 0) {
        put(l, as_json ? ",\"request_id\":\"" : "%srequest=", sep);
        put_escaped(l, about->request_id);
        put(l, as_json ? "\"" : "%s", "");
        sep = " ";
    }
    if (trace != NULL) {
        sep = put_id(l, "trace", sep, trace->trace_id, sizeof trace->trace_id);
        sep = put_id(l, "span", sep, trace->span_id, sizeof trace->span_id);
    }
    if (!as_json && sep != open) {
        put(l, "]");
    }
}

void td_log(enum td_log_level level, const struct td_log_about *about, const char *fmt, ...)
{
    if (level != TD_LOG_AUDIT && !(td_log_levels() & 1u << level)) {
        return;
    }
    char message[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    struct line l = {.n = 0};
    put(&l, as_json ? "{\"ts\":\"" : "%s", "");
    put_time(&l);
    put(&l, as_json ? "\",\"level\":\"%s\"" : " %-7s", names[level]);
    put_about(&l, about != NULL ? about : &(struct td_log_about){0});
    put(&l, as_json ? ",\"message\":\"" : "%s", as_json ? "" : " ");
    put_escaped(&l, message);
    put(&l, as_json ? "\"}" : "%s", "");
    l.text[l.n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, l.text, l.n);
    (void)ignored;
}
