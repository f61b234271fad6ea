/* tests/bench/grpc_load.c - how many small unary calls a second a gRPC server answers, and how fast.
 *
 *   grpc_load TARGET [CONNECTIONS [SECONDS [MODEL [SHAPE [v2]]]]]       SHAPE: 3, 1x64, ...
 *   grpc_load TARGET CONNECTIONS SECONDS @FILE                          FILE holds a PredictRequest
 *
 * Every connection has one Predict (v2: ModelInfer) of a float tensor under way at any time; one thread
 * drives them all. The bare echo of grpc_echo.c answers the same calls without looking at them: the
 * difference is what our server adds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#if __has_include(<grpc/credentials.h>) /* of later versions */
#include <grpc/credentials.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PREDICT "/tensorflow.serving.PredictionService/Predict"
#define INFER "/inference.GRPCInferenceService/ModelInfer"
#define MAX_SAMPLES (1 << 22)

struct slot {
    grpc_channel *channel;
    grpc_call *call;
    grpc_metadata_array head, tail;
    grpc_byte_buffer *reply;
    grpc_status_code status;
    grpc_slice text;
    double started;
};

static grpc_completion_queue *cq;
static grpc_byte_buffer *request;
static const char *path = PREDICT;
static double samples[MAX_SAMPLES];
static long n_samples, n_failed;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void begin(struct slot *s)
{
    s->call = grpc_channel_create_call(s->channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
                                       grpc_slice_from_static_string(path), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_metadata_array_init(&s->head);
    grpc_metadata_array_init(&s->tail);
    s->reply = NULL;
    s->text = grpc_empty_slice();
    grpc_byte_buffer *copy = grpc_byte_buffer_copy(request); /* sending empties a buffer */
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = copy},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &s->head},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->reply},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &s->tail,
                                        .status = &s->status,
                                        .status_details = &s->text}},
    };
    s->started = now();
    grpc_call_start_batch(s->call, ops, 6, s, NULL);
    grpc_byte_buffer_destroy(copy);
}

static void end(struct slot *s)
{
    if (s->status != GRPC_STATUS_OK && n_failed++ == 0) {
        fprintf(stderr, "status %d: %.*s\n", (int)s->status, (int)GRPC_SLICE_LENGTH(s->text),
                (const char *)GRPC_SLICE_START_PTR(s->text));
    }
    if (n_samples < MAX_SAMPLES) {
        samples[n_samples++] = now() - s->started;
    }
    grpc_metadata_array_destroy(&s->head);
    grpc_metadata_array_destroy(&s->tail);
    grpc_byte_buffer_destroy(s->reply);
    grpc_slice_unref(s->text);
    grpc_call_unref(s->call);
}

static size_t put(char *to, const void *p, size_t n)
{
    memcpy(to, p, n);
    return n;
}

static size_t varint(char *to, size_t v)
{
    size_t n = 0;
    for (; v >= 128; v >>= 7) {
        to[n++] = (char)(v | 128);
    }
    to[n++] = (char)v;
    return n;
}

/* TensorShapeProto's dims of "1x64" into to; *elements is their product. */
static size_t put_shape(char *to, const char *shape, size_t *elements)
{
    size_t n = 0;
    *elements = 1;
    for (char *end = (char *)shape; *end != '\0'; shape = end + (*end == 'x')) {
        const size_t size = strtoul(shape, &end, 10);
        char dim[16] = "\x08";
        const size_t d = 1 + varint(dim + 1, size);
        n += put(to + n, "\x12", 1);
        n += varint(to + n, d);
        n += put(to + n, dim, d);
        *elements *= size;
        if (end == shape) {
            break;
        }
    }
    return n;
}

/* PredictRequest { model_spec { name }, inputs { "x": float[shape] as tensor_content } } */
static void make_request(const char *model, const char *shape)
{
    char dims[256];
    size_t elements;
    const size_t n_dims = put_shape(dims, shape, &elements);
    const size_t data = elements * 4, name = strlen(model);
    char *buffer = calloc(1, data + name + 600), *tensor = calloc(1, data + 400);
    size_t t = put(tensor, "\x08\x01", 2), n = 0;
    t += put(tensor + t, "\x12", 1);
    t += varint(tensor + t, n_dims);
    t += put(tensor + t, dims, n_dims);
    t += put(tensor + t, "\x22", 1);
    t += varint(tensor + t, data) + data;
    char length[16];
    const size_t entry = 3 + 1 + varint(length, t) + t;
    n += put(buffer + n, "\x0a", 1);
    n += varint(buffer + n, name + 2);
    n += put(buffer + n, "\x0a", 1);
    n += varint(buffer + n, name);
    n += put(buffer + n, model, name);
    n += put(buffer + n, "\x12", 1);
    n += varint(buffer + n, entry);
    n += put(buffer + n, "\x0a\x01x\x12", 4);
    n += varint(buffer + n, t);
    n += put(buffer + n, tensor, t);
    grpc_slice slice = grpc_slice_from_copied_buffer(buffer, n);
    request = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    free(buffer);
    free(tensor);
}

/* ModelInferRequest { model_name, inputs { "x", "FP32", shape }, raw_input_contents } */
static void make_infer(const char *model, const char *shape)
{
    char dims[64], input[100];
    size_t elements = 1, n_dims = 0, n = 0;
    for (char *end = (char *)shape; *end != '\0' && n_dims < sizeof dims - 10; shape = end + (*end == 'x')) {
        const size_t size = strtoul(shape, &end, 10);
        n_dims += varint(dims + n_dims, size);
        elements *= size;
    }
    const size_t data = elements * 4, name = strlen(model);
    char *buffer = calloc(1, data + name + 200);
    size_t t = put(input,
                   "\x0a\x01x\x12\x04"
                   "FP32\x1a",
                   10);
    t += varint(input + t, n_dims);
    t += put(input + t, dims, n_dims);
    n += put(buffer + n, "\x0a", 1);
    n += varint(buffer + n, name);
    n += put(buffer + n, model, name);
    n += put(buffer + n, "\x2a", 1);
    n += varint(buffer + n, t);
    n += put(buffer + n, input, t);
    n += put(buffer + n, "\x3a", 1);
    n += varint(buffer + n, data) + data;
    grpc_slice slice = grpc_slice_from_copied_buffer(buffer, n);
    request = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    free(buffer);
}

/* The request as a file holds it. */
static void read_request(const char *file)
{
    FILE *f = fopen(file, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
        perror(file);
        exit(1);
    }
    grpc_slice s = grpc_slice_malloc((size_t)ftell(f));
    rewind(f);
    if (fread(GRPC_SLICE_START_PTR(s), 1, GRPC_SLICE_LENGTH(s), f) != GRPC_SLICE_LENGTH(s)) {
        perror(file);
        exit(1);
    }
    fclose(f);
    request = grpc_raw_byte_buffer_create(&s, 1);
    grpc_slice_unref(s);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const char *target = argc > 1 ? argv[1] : "127.0.0.1:8500";
    const int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 64;
    const double seconds = argc > 3 ? strtod(argv[3], NULL) : 5;
    grpc_init();
    cq = grpc_completion_queue_create_for_next(NULL);
    const bool v2 = argc > 6 && strcmp(argv[6], "v2") == 0;
    path = v2 ? INFER : PREDICT;
    const char *model = argc > 4 ? argv[4] : "half_plus_two";
    if (model[0] == '@') {
        read_request(model + 1);
    } else {
        (v2 ? make_infer : make_request)(model, argc > 5 ? argv[5] : "3");
    }
    struct slot *slots = calloc((size_t)n, sizeof *slots);
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    for (int i = 0; i < n; i++) { /* an argument of its own keeps every channel on a connection of its own */
        grpc_arg args[] = {{.type = GRPC_ARG_INTEGER, .key = (char *)"connection", .value.integer = i},
                           {.type = GRPC_ARG_INTEGER,
                            .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                            .value.integer = -1}};
        const grpc_channel_args list = {.num_args = 2, .args = args};
        slots[i].channel = grpc_channel_create(target, creds, &list);
        begin(&slots[i]);
    }
    const double start = now();
    double warm = 0;
    for (int running = n; running > 0;) {
        grpc_event e = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct slot *s = e.tag;
        end(s);
        const double t = now();
        if (warm == 0 && t - start > 0.5) {
            warm = t;
            n_samples = 0;
        }
        if (t - start < seconds + 0.5) {
            begin(s);
        } else {
            running--;
        }
    }
    const double took = now() - warm;
    qsort(samples, (size_t)n_samples, sizeof *samples, compare);
    printf("%d connections: %.0f calls/s, p50 %.0f us, p99 %.0f us, %ld failed\n", n,
           (double)n_samples / took, samples[n_samples / 2] * 1e6, samples[n_samples * 99 / 100] * 1e6,
           n_failed);
    return n_failed > 0;
}
