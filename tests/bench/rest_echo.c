/* tests/bench/rest_echo.c - the least an HTTP server on libmicrohttpd can do: every request is read to its
 * end and answered with the same fixed bytes.
 *
 *   rest_echo PORT THREADS FILE      until it is killed; FILE holds the answer
 *
 * As rest_echo_json (READ_JSON) it reads the body's numbers, too, once it is whole (json_floats.h): the
 * least that a server of tensors in JSON can do. A body that is no JSON is answered with 400.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef READ_JSON
#include "json_floats.h"
#endif

struct body {
    size_t n, room;
    char *bytes;
};

static char answer[1 << 20];
static size_t n_answer;

#ifdef READ_JSON
/* libmicrohttpd copies what it has received to the callback alone: a server that wants the whole keeps it. */
static void keep(struct body *b, const char *data, size_t n)
{
    if (b->n + n + JSON_FLOATS_PADDING > b->room) {
        b->room = 2 * b->room + n + JSON_FLOATS_PADDING;
        b->bytes = realloc(b->bytes, b->room);
        if (b->bytes == NULL) {
            abort();
        }
    }
    memcpy(b->bytes + b->n, data, n);
    b->n += n;
}

static unsigned read_body(const struct body *b)
{
    float *numbers = malloc((b->n / 2 + 1) * sizeof *numbers); /* a digit and a comma each */
    const long n = numbers != NULL && b->n > 0 ? json_floats(b->bytes, b->n, numbers, b->n / 2 + 1) : -1;
    free(numbers);
    return n < 0 ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_OK;
}
#else
static void keep(struct body *b, const char *data, size_t n)
{
    (void)b, (void)data, (void)n;
}

static unsigned read_body(const struct body *b)
{
    (void)b;
    return MHD_HTTP_OK;
}
#endif

static void on_end(void *cls, struct MHD_Connection *connection, void **con_cls,
                   enum MHD_RequestTerminationCode why)
{
    struct body *b = *con_cls;
    (void)cls, (void)connection, (void)why;
    if (b != NULL) {
        free(b->bytes);
        free(b);
    }
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *n,
                                  void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version;
    if (*con_cls == NULL) {
        *con_cls = calloc(1, sizeof(struct body));
        return *con_cls != NULL ? MHD_YES : MHD_NO;
    }
    if (*n > 0) {
        keep(*con_cls, data, *n);
        *n = 0;
        return MHD_YES;
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(n_answer, answer, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    const enum MHD_Result rc = MHD_queue_response(connection, read_body(*con_cls), r);
    MHD_destroy_response(r);
    return rc;
}

int main(int argc, char **argv)
{
    FILE *f = argc > 3 ? fopen(argv[3], "rb") : NULL;
    if (f == NULL) {
        fprintf(stderr, "usage: rest_echo PORT THREADS FILE\n");
        return 1;
    }
    n_answer = fread(answer, 1, sizeof answer, f);
    fclose(f);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL,
                                            MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
                                            MHD_OPTION_THREAD_POOL_SIZE, (unsigned)strtoul(argv[2], NULL, 10),
                                            MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_END);
    if (d == NULL) {
        fprintf(stderr, "port %s cannot be bound\n", argv[1]);
        return 1;
    }
    for (;;) {
        pause();
    }
}
