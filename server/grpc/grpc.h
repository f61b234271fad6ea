/* server/grpc/grpc.h - the gRPC listener: every service of methods.def on one port, on the gRPC C core.
 *
 * Threads: `threads` handlers of inference calls run at once, each on the thread that read its call; there is
 * one more thread to read, so that health, status and cancellation are served while all of them compute; only
 * as many read at a time as the traffic needs (grpc_poll.c). Calls that manage models get a thread of their
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_H
#define TD_SERVER_GRPC_GRPC_H

#include "server/base/access.h"
#include "server/base/connections.h"
#include "server/base/open_calls.h"
#include "server/models/registry.h"

struct td_grpc;

struct td_grpc_opts {
    const char *address;        /* "127.0.0.1:8500", "[::]:0" (port 0: any free one); NULL: no TCP */
    const char *second_address; /* served too; NULL: none */
    const char *unix_socket;    /* path; NULL or "": none. A stale socket file is replaced */
    int threads;                /* inference handlers at once; 0: number of cores */
    int max_waiting;            /* calls that wait for models at once; 0: some */
    size_t max_request_bytes;   /* 0: what gRPC can, 2 GiB - 1 */
    int64_t wait_ns;            /* the same of a call that waits for models to be loaded; 0: any */
    int64_t deadline_ns;      /* time for a call, or a message of ModelStreamInfer, without its own; 0: any */
    bool health;              /* answer grpc.health.v1.Health */
    struct td_access *access; /* borrowed; NULL: no tokens are asked for */
    bool open_management;     /* calls that manage models are answered to other hosts too */
    bool debug_api;           /* answer tensord.v1.Debug */
    const struct td_devices *devices; /* borrowed; for tensord.v1.Models/Devices */
    struct td_shm *shm;               /* tensors in shared memory; borrowed. NULL: none */
    /* Counts those of all listeners; borrowed. NULL: as many as come */
    struct td_connections *connections;
    struct td_open_calls *calls; /* the same of calls */
    struct td_jobs *jobs;        /* borrowed; NULL: tensord.v1.FineTuning answers UNAVAILABLE */
    bool content_outputs;        /* Predict answers with tensor_content instead of typed fields */
    /* "k=v,k=v" for gRPC itself; integers are passed as such. NULL or "": none */
    const char *channel_arguments;
    const char *tls_key, *tls_cert, *tls_ca; /* PEM texts; tls_key NULL: no TLS */
    bool tls_client_verify;
};

/* Returns new and starts serving; *port is the bound TCP port (0 without). opts is copied. UNAVAILABLE when
 * an address cannot be bound (SO_REUSEPORT is off: a taken port fails). */
TD_MUST enum td_code td_grpc_start(const struct td_grpc_opts *opts, struct td_registry *registry,
                                   struct td_grpc **out, int *port, struct td_err *err);
/* The bound port of second_address; 0 without. */
int td_grpc_second_port(const struct td_grpc *g);
/* Takes no new calls, lets running ones finish for up to drain_ms, then cancels them; joins all threads and
 * frees. Accepts NULL. */
void td_grpc_stop(struct td_grpc *g, int64_t drain_ms);

#endif
