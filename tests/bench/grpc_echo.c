/* tests/bench/grpc_echo.c - the least a gRPC server on the C core can do: every Predict is answered with its
 * own bytes, or with those of a file.
 *
 *   grpc_echo PORT [THREADS [FILE]]      until it is killed
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#if __has_include(<grpc/credentials.h>) /* of later versions */
#include <grpc/credentials.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct call {
    int answered, cancelled;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
};

static grpc_server *server;
static grpc_completion_queue *cq;
static void *method;
static grpc_byte_buffer *answer; /* NULL: what came */

static void listen_next(void)
{
    struct call *c = calloc(1, sizeof *c);
    grpc_metadata_array_init(&c->metadata);
    grpc_server_request_registered_call(server, method, &c->call, &c->deadline, &c->metadata, &c->payload, cq,
                                        cq, c);
}

static void *poll_main(void *unused)
{
    for (;;) {
        grpc_event e = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct call *c = e.tag;
        if (c->answered) {
            grpc_call_unref(c->call);
            grpc_metadata_array_destroy(&c->metadata);
            grpc_byte_buffer_destroy(c->payload);
            free(c);
            continue;
        }
        listen_next();
        c->answered = 1;
        if (answer != NULL) {
            grpc_byte_buffer_destroy(c->payload);
            c->payload = grpc_byte_buffer_copy(answer); /* sending empties it */
        }
        const grpc_op ops[] = {
            {.op = GRPC_OP_SEND_INITIAL_METADATA},
            {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = c->payload},
            {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
            {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled},
        };
        grpc_call_start_batch(c->call, ops, 4, c, NULL);
    }
    return unused;
}

static void read_answer(const char *file)
{
    static char bytes[1 << 20];
    FILE *f = fopen(file, "rb");
    if (f == NULL) {
        perror(file);
        exit(1);
    }
    grpc_slice s = grpc_slice_from_copied_buffer(bytes, fread(bytes, 1, sizeof bytes, f));
    fclose(f);
    answer = grpc_raw_byte_buffer_create(&s, 1);
    grpc_slice_unref(s);
}

int main(int argc, char **argv)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%s", argc > 1 ? argv[1] : "0");
    const int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2;
    grpc_init();
    if (argc > 3) {
        read_answer(argv[3]);
    }
    cq = grpc_completion_queue_create_for_next(NULL);
    server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(server, cq, NULL);
    method = grpc_server_register_method(server, "/tensorflow.serving.PredictionService/Predict", NULL,
                                         GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    printf("port %d\n",
           grpc_server_add_http2_port(server, address, grpc_insecure_server_credentials_create()));
    fflush(stdout);
    grpc_server_start(server);
    for (int i = 0; i < 32; i++) {
        listen_next();
    }
    for (int i = 1; i < threads; i++) {
        pthread_t t;
        pthread_create(&t, NULL, poll_main, NULL);
    }
    poll_main(NULL);
    return 0;
}
