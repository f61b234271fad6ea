/* clients/tensorctl_watch.c - follows a job on the screen.
 *
 *   2026-01-31 12:00:07  epoch 3: loss 0.412, val_loss 0.391, val_accuracy 0.88
 *   [=========>          ]  1200/2500  epoch 3  loss 0.3981  lr 0.001  212 steps/s  0:06 left
 *
 * Events come over WatchEvents, oldest first. Where the output is no terminal each is a line of its own; on
 * one the steps share the last line, which is drawn again at most DRAWS_PER_S times a second, and everything
 * else scrolls above it. The rate is that of the last RATE_SAMPLES half seconds here, so that a job that is
 * watched late does not seem as fast as its past events arrive. A connection that breaks is opened again
 * behind the last event that was seen: the server may have been restarted, and the job goes on with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "clients/tensorctl_job.h"
#include "proto/schema/tensord.pb-c.h"

enum { UNAVAILABLE = 14, TRIES = 60, RATE_SAMPLES = 16, DRAWS_PER_S = 10, BAR = 24 };
#define SAMPLE_S 0.5
#define EPOCH_S 0.3

struct screen {
    bool terminal, json;
    double last_draw, last_epoch;
    bool drawn; /* the last line is a bar */
    struct {
        double at, step;
    } sample[RATE_SAMPLES];
    int n_samples;
    char last_id[80];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t whole(const json_t *o, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(o, key));
}

/* ------------------------------------------------------------------ lines */

static void print_metrics(const json_t *metrics, const char *prefix)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)metrics, name, v)
    {
        if (json_is_number(v)) {
            printf(", %s%s %.6g", prefix, name, json_number_value(v));
        }
    }
}

void tdc_job_print_event(const json_t *event)
{
    const time_t at = (time_t)whole(event, "created_at");
    const json_t *data = json_object_get(event, "data"), *metrics = json_object_get(data, "metrics");
    char text[32] = "";
    struct tm parts;
    if (localtime_r(&at, &parts) != NULL) {
        (void)!strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    }
    const char *level = tdc_job_text(event, "level");
    printf("%s  %s%s", text, strcmp(level, "info") == 0 ? "" : level, strcmp(level, "info") == 0 ? "" : ": ");
    if (metrics != NULL) {
        printf("epoch %lld", (long long)whole(data, "epoch"));
        print_metrics(json_object_get(metrics, "train"), "");
        print_metrics(json_object_get(metrics, "validation"), "val_");
        printf("\n");
    } else {
        printf("%s\n", tdc_job_text(event, "message"));
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------ the bar */

/* Steps a second of late; 0: not known yet. */
static double rate_of(struct screen *s, double step)
{
    const double at = now();
    const int n = s->n_samples;
    if (n == 0 || at - s->sample[n - 1].at >= SAMPLE_S) {
        if (n == RATE_SAMPLES) {
            memmove(s->sample, s->sample + 1, (RATE_SAMPLES - 1) * sizeof s->sample[0]);
            s->n_samples--;
        }
        s->sample[s->n_samples].at = at;
        s->sample[s->n_samples++].step = step;
    }
    const double seconds = at - s->sample[0].at;
    return s->n_samples > 2 && seconds > 0 ? (step - s->sample[0].step) / seconds : 0;
}

static void put_time(char *to, size_t room, double seconds)
{
    const long long t = (long long)seconds;
    (void)(t >= 3600 ? snprintf(to, room, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60)
                     : snprintf(to, room, "%lld:%02lld", t / 60, t % 60));
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void erase(struct screen *s)
{
    if (s->drawn) {
        printf("\r\033[K");
        s->drawn = false;
    }
}

static void draw(struct screen *s, const json_t *data)
{
    const double step = (double)whole(data, "step"), total = (double)whole(data, "total_steps");
    const double rate = rate_of(s, step), share = total > 0 ? fmin(step / total, 1) : 0;
    if (now() - s->last_draw < 1.0 / DRAWS_PER_S && step < total) {
        return;
    }
    char bar[BAR + 1], left[32] = "", line[400], speed[80] = "";
    const int full = (int)(share * BAR);
    memset(bar, ' ', BAR);
    memset(bar, '=', (size_t)full);
    bar[full < BAR ? full : BAR - 1] = full < BAR ? '>' : '=';
    bar[BAR] = 0;
    if (rate > 0) {
        put_time(left, sizeof left, (total - step) / rate);
        snprintf(speed, sizeof speed, "  %.*f steps/s  %s left", rate < 100, rate, left);
    }
    const json_t *rates = json_object_get(data, "learning_rate");
    char lr[40] = "";
    if (json_array_size(rates) > 0) {
        snprintf(lr, sizeof lr, "  lr %.4g", json_number_value(json_array_get(rates, 0)));
    }
    snprintf(line, sizeof line, "[%s]  %.0f/%.0f  epoch %lld  loss %.4g%s%s", bar, step, total,
             (long long)whole(data, "epoch"), json_number_value(json_object_get(data, "train_loss")), lr,
             speed);
    printf("\r\033[K%.*s", columns() - 1, line);
    fflush(stdout);
    s->drawn = true;
    s->last_draw = now();
}

/* ------------------------------------------------------------------ following */

/* On a terminal epochs that take no time are not all told: a few lines a second can be read. */
static bool is_too_many(struct screen *s, const json_t *data)
{
    const bool last = whole(data, "step") == whole(data, "total_steps");
    if (!s->terminal || json_object_get(data, "metrics") == NULL || last ||
        now() - s->last_epoch >= EPOCH_S) {
        s->last_epoch = json_object_get(data, "metrics") != NULL ? now() : s->last_epoch;
        return false;
    }
    return true;
}

static void show(struct screen *s, const json_t *event)
{
    const json_t *data = json_object_get(event, "data");
    const bool step =
        strcmp(tdc_job_text(event, "type"), "metrics") == 0 && json_object_get(data, "metrics") == NULL;
    snprintf(s->last_id, sizeof s->last_id, "%s", tdc_job_text(event, "id"));
    if (s->json) {
        json_dumpf(event, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        printf("\n");
        fflush(stdout);
    } else if (s->terminal && step) {
        draw(s, data);
    } else if (!is_too_many(s, data)) {
        erase(s);
        tdc_job_print_event(event);
    }
}

static struct tdc_stream *ask(struct tdc_client *c, const char *id, const char *after, struct tdc_error *err)
{
    Tensord__V1__WatchEventsRequest m = TENSORD__V1__WATCH_EVENTS_REQUEST__INIT;
    m.id = (char *)id;
    m.after = (char *)after;
    const size_t n = tensord__v1__watch_events_request__get_packed_size(&m);
    uint8_t *packed = malloc(n + 1);
    struct tdc_stream *s =
        packed != NULL ? tdc_stream_open(c, "/tensord.v1.FineTuning/WatchEvents", err) : NULL;
    if (s != NULL) {
        tensord__v1__watch_events_request__pack(&m, packed);
        (void)(tdc_stream_send(s, packed, n) && tdc_stream_done(s));
    }
    free(packed);
    return s;
}

/* One stream, to its end. *any: something came. */
static int follow(struct screen *s, struct tdc_client *c, const char *id, bool *any, struct tdc_error *err)
{
    struct tdc_stream *stream = ask(c, id, s->last_id, err);
    void *bytes = NULL;
    size_t n = 0;
    int rc = stream != NULL ? 0 : err->code;
    *any = false;
    while (rc == 0 && (rc = tdc_stream_receive(stream, &bytes, &n, err)) == 0 && bytes != NULL) {
        Tensord__V1__Event *m = tensord__v1__event__unpack(NULL, n, bytes);
        tdc_free(bytes);
        if (m != NULL) {
            json_t *event = tdc_job_document(&m->base);
            show(s, event);
            json_decref(event);
            tensord__v1__event__free_unpacked(m, NULL);
            *any = true;
        }
    }
    tdc_stream_close(stream);
    return rc;
}

/* How it ended; 0 when it has succeeded. */
static int tell_end(struct tdc_client *c, const char *id, bool json)
{
    struct tdc_error err = {0};
    json_t *job = NULL;
    if (tdc_job_get(c, id, &job, &err) != 0) {
        return tdc_args_failed("finetune", &err);
    }
    const char *status = tdc_job_text(job, "status"), *result = tdc_job_text(job, "fine_tuned_model");
    const char *why = tdc_job_text(json_object_get(job, "error"), "message");
    const bool good = strcmp(status, "succeeded") == 0;
    if (!json || !good) {
        fprintf(good ? stdout : stderr, "%s %s%s%s\n", id, status, *result != 0 || *why != 0 ? ": " : "",
                *result != 0 ? result : why);
    }
    json_decref(job);
    return good ? 0 : 1;
}

int tdc_job_watch(struct tdc_client *c, const char *id, bool json)
{
    struct screen s = {.terminal = isatty(STDOUT_FILENO) != 0, .json = json};
    struct tdc_error err = {0};
    int rc = UNAVAILABLE;
    for (int tries = 0; rc == UNAVAILABLE && tries < TRIES; tries++) {
        bool any;
        if (tries > 0) {
            sleep(1);
        }
        rc = follow(&s, c, id, &any, &err);
        erase(&s);
        if (rc == UNAVAILABLE && (any || tries == 0)) {
            fprintf(stderr, "the connection is lost (%s), trying again\n", err.text);
            tries = 0;
        }
    }
    return rc != 0 ? tdc_args_failed("finetune", &err) : tell_end(c, id, json);
}
