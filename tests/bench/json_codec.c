/* tests/bench/json_codec.c - how fast tensor JSON is read and written on one core: MB of text a second.
 *
 *   build/json_codec     Markdown: one 224 x 224 x 3 image as an input, and as an output, by kind of number
 *
 * Reading is what a predict request takes: its parts are found (td_json_body), its values read
 * (td_json_inputs). The least processor time of some rounds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_tensor.h"

enum { SIDE = 224, CHANNELS = 3, VALUES = SIDE * SIDE * CHANNELS, ROOM = 32 * VALUES, ROUNDS = 60 };

static struct td_err err;

static double used_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(enum td_code rc)
{
    if (rc) {
        fprintf(stderr, "json_codec: %s\n", err.msg);
        exit(1);
    }
}

static float value(int i, int kind)
{
    const unsigned x = (unsigned)i * 2654435761U;
    return kind == 0   ? (float)(x >> 24)
           : kind == 1 ? (float)(x >> 24) / 255.0F
                       : (float)(x >> 8) / 8388608.0F - 1;
}

/* What stands before number i. */
static const char *before(int i)
{
    return i == 0 ? "[[[" : i % (SIDE * CHANNELS) == 0 ? "]], [[" : i % CHANNELS == 0 ? "], [" : ", ";
}

static size_t print_request(char *text, const char *format, int kind)
{
    size_t n = (size_t)snprintf(text, ROOM, "{\"instances\": [");
    for (int i = 0; i < VALUES; i++) {
        n += (size_t)snprintf(text + n, ROOM - n, "%s", before(i));
        n += (size_t)snprintf(text + n, ROOM - n, format, (double)value(i, kind));
    }
    return n + (size_t)snprintf(text + n, ROOM - n, "]]]]}");
}

static struct td_tensor read_request(const char *text, size_t n)
{
    static const struct td_json_field field = {.name = "x", .dtype = TD_FLOAT};
    struct td_arena *arena = td_arena_new(0);
    struct td_json_body body;
    struct td_named out;
    int n_out;
    must(td_json_body(text, n, arena, &body, &err));
    must(td_json_inputs(&body, &field, 1, &out, &n_out, &err));
    td_arena_free(arena);
    return out.t;
}

static void row(const char *name, const char *format, int kind)
{
    char *text = malloc(ROOM);
    if (text == NULL) {
        exit(1);
    }
    const size_t n = print_request(text, format, kind);
    double read_s = 1e9, write_s = 1e9;
    size_t written = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double from = used_s();
        struct td_tensor t = read_request(text, n);
        const double between = used_s();
        struct td_sink s = {0};
        const struct td_named named = {.name = "y", .t = t};
        must(td_json_outputs(&s, &named, 1, TD_JSON_ROWS, &err));
        const double to = used_s();
        written = s.n;
        td_sink_fini(&s);
        td_tensor_clear(&t);
        read_s = between - from < read_s ? between - from : read_s;
        write_s = to - between < write_s ? to - between : write_s;
    }
    printf("| %s | %.2f | %.0f | %.1f | %.2f | %.0f | %.1f |\n", name, (double)n / 1e6,
           (double)n / read_s / 1e6, read_s / VALUES * 1e9, (double)written / 1e6,
           (double)written / write_s / 1e6, write_s / VALUES * 1e9);
    free(text);
}

int main(void)
{
    printf("| numbers | MB read | MB/s | ns a number | MB written | MB/s | ns a number |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    row("0 .. 255", "%g", 0);
    row("3 digits", "%.3f", 1);
    row("9 digits", "%.9g", 1);
    row("17 digits", "%.17g", 2);
    return 0;
}
