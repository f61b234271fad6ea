/* tests/bench/rest_echo.c - the least an HTTP server on libmicrohttpd can do: every request is read to its
 * end and answered with the same fixed bytes.
 *
 *   rest_echo PORT THREADS FILE      until it is killed; FILE holds the answer
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char answer[1 << 20];
static size_t n_answer;

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *n,
                                  void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data;
    if (*con_cls == NULL) {
        *con_cls = answer;
        return MHD_YES;
    }
    if (*n > 0) {
        *n = 0;
        return MHD_YES;
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(n_answer, answer, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    const enum MHD_Result rc = MHD_queue_response(connection, MHD_HTTP_OK, r);
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
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL, MHD_OPTION_SOCK_ADDR,
                         (struct sockaddr *)&address, MHD_OPTION_THREAD_POOL_SIZE,
                         (unsigned)strtoul(argv[2], NULL, 10), MHD_OPTION_END);
    if (d == NULL) {
        fprintf(stderr, "port %s cannot be bound\n", argv[1]);
        return 1;
    }
    for (;;) {
        pause();
    }
}
