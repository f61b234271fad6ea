/* server/grpc/grpc_limits.c - the channel arguments of the server: our settings, then those of the command
 * line (gRPC takes the last of a name), then what stays ours, because other files of the server count on it.
 *
 * What gRPC itself bounds for us: streams of a connection, the size of headers and of messages, the time
 * until a client has said its first words (TLS, preface, settings), how long a connection may have no call,
 * and a client may not answer a ping; and, by a resource quota, the memory that transports and calls take
 * together: as it is used up, gRPC shrinks the windows in which clients may send, then ends calls.
 *
 * Compressed messages stay as they came: a message of 1 MB can hold 1 GB, and gRPC would unpack it before
 * anything was looked at (grpc_message.c does it within --max_request_bytes).
 *
 * Does not: bound connections (grpc_accept.c), or what requests hold (core/base/budget.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_impl.h"

#define MAX_ARGUMENTS 64
/* Large tensors are what we carry: fewer frames, and a window that one of them fills less often. */
#define LARGE_FRAME (1 << 20)
#define LOOKAHEAD (4 << 20)
#define MAX_STREAMS 1000 /* of a connection */
#define MAX_HEADERS 16384
#define HANDSHAKE_MS 20000
#define IDLE_MS 600000       /* without a call: as HTTP's */
#define PING_AFTER_MS 120000 /* without a word from the client */
#define PING_MS 20000
#define QUOTA_SHARE 4 /* of what the process may hold */

struct arguments {
    grpc_arg at[MAX_ARGUMENTS + 24];
    grpc_channel_args list;
};

/* "key=value" as an argument of gRPC; cuts text in place. False when there is no '='. */
static bool read_argument(char *text, grpc_arg *out)
{
    char *value = strchr(text, '='), *end;
    if (value == NULL) {
        return false;
    }
    *value++ = 0;
    const long number = strtol(value, &end, 10);
    if (*value && *end == 0 && number >= INT32_MIN && number <= INT32_MAX) {
        *out = (grpc_arg){.type = GRPC_ARG_INTEGER, .key = text, .value.integer = (int)number};
    } else {
        *out = (grpc_arg){.type = GRPC_ARG_STRING, .key = text, .value.string = value};
    }
    return true;
}

static void set(struct arguments *a, const char *key, int value)
{
    a->at[a->list.num_args++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static void set_pointer(struct arguments *a, const char *key, void *p, const grpc_arg_pointer_vtable *how)
{
    a->at[a->list.num_args++] = (grpc_arg){
        .type = GRPC_ARG_POINTER, .key = (char *)(uintptr_t)key, .value.pointer = {.p = p, .vtable = how}};
}

/* A pointer that gRPC only passes on. */
static void *same(void *p)
{
    return p;
}

static void nothing(void *p)
{
    (void)p;
}

static int compare(void *a, void *b)
{
    return a < b ? -1 : a > b;
}

static const grpc_arg_pointer_vtable BORROWED = {same, nothing, compare};

/* A share of what the process may hold, and room for two requests of the largest size. */
static size_t quota_bytes(const struct td_grpc_opts *o)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t allowed = td_budget_allowed(),
                   all = allowed > 0             ? allowed
                         : pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page
                                                 : (uint64_t)4 << 30,
                   share = all / QUOTA_SHARE, least = 2 * (uint64_t)o->max_request_bytes;
    return (size_t)(share > least ? share : least);
}

static void set_ours(struct arguments *a)
{
    set(a, GRPC_ARG_HTTP2_MAX_FRAME_SIZE, LARGE_FRAME);
    set(a, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, LOOKAHEAD);
    set(a, GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS);
    set(a, GRPC_ARG_MAX_METADATA_SIZE, MAX_HEADERS);
    set(a, "grpc.absolute_max_metadata_size", MAX_HEADERS); /* Debian's has the one above alone */
    set(a, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS);
    set(a, GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS);
    set(a, GRPC_ARG_KEEPALIVE_TIME_MS, PING_AFTER_MS);
    set(a, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PING_MS);
    /* Pings are answered, however many: gRPC stops reading behind 10,000 answers that are not read. To send
     * who pings too often away takes it 2.5 KB a ping as long as the client does not read that. */
    set(a, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

/* Cuts texts, which must outlive the list. */
static void set_command_line(struct arguments *a, char *texts)
{
    char *rest = NULL;
    int n = 0;
    for (char *t = strtok_r(texts, ",", &rest); t != NULL && n < MAX_ARGUMENTS;
         t = strtok_r(NULL, ",", &rest), n++) {
        if (read_argument(t, &a->at[a->list.num_args])) {
            a->list.num_args++;
        } else {
            td_log(TD_LOG_WARNING, NULL, "gRPC channel argument '%s' is not KEY=VALUE: left out", t);
        }
    }
}

grpc_server *td_grpc_make_server(const struct td_grpc_opts *o, void **handler)
{
    struct arguments a;
    char *texts = td_strdup(o->channel_arguments != NULL ? o->channel_arguments : "");
    grpc_resource_quota *quota = grpc_resource_quota_create("tensord");
    a.list = (grpc_channel_args){.args = a.at};
    grpc_resource_quota_resize(quota, quota_bytes(o));
    set_ours(&a);
    if (texts != NULL) {
        set_command_line(&a, texts);
    }
    set_pointer(&a, GRPC_ARG_RESOURCE_QUOTA, quota, grpc_resource_quota_arg_vtable());
    set_pointer(&a, TD_GRPC_EXTERNAL, handler, &BORROWED);
    set(&a, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    set(&a, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)o->max_request_bytes);
    set(&a, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    grpc_server *server = grpc_server_create(&a.list, NULL);
    grpc_resource_quota_unref(quota);
    td_free(texts);
    return server;
}
