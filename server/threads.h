/* server/threads.h - who runs what, and the one lock order. A header of comments only.
 *
 * Threads
 *   main          starts and stops everything; waits for signals; rereads the configuration file
 *   watch         (server/models/registry_list.c) looks at version folders every
 *                 --file_system_poll_wait_seconds, for damage every second; makes loaders that help
 *   waker         (server/models/registry_cold.c) with --lazy_loading: sends on the requests that wait for a
 *                 version when it is loaded, will not be, or their time is over; runs none of them
 *   load          (server/models/registry_load.c) --num_load_threads of them, niced once something serves,
 *                 and some that help while all are long at it: load and unload versions
 *   http accept   (server/base/accept_loop.c) accepts HTTP's connections, deals them out to the next
 *   http poll     (server/http/http.c) libmicrohttpd's: read, route, write; handle requests that are known to
 *                 be short
 *   http worker   (server/http/http_exchange.c) --rest_api_num_threads of them: handle all other requests, a
 *                 quarter of them at most what is lengthy: decode large bodies, encode large answers, make
 *                 programs of gradients
 *   http apart    (server/http/rest.c) one for each request that waits for models or runs one itself,
 *                 --max_waiting_commands of them at most
 *   http peers    (server/http/http_peers.c) ends connections whose clients have gone, or take too long
 *   http guard    (server/http/http_exchange.c) looks for clients that went away while their request waits or
 *                 runs
 *   gRPC          (server/grpc/grpc.c) --grpc_max_threads handlers and one more
 *   gRPC resume   (server/grpc/grpc_call.c) for a moment, as many as there are handlers: calls whose model
 *                 was loaded for them
 *   gRPC accept   (server/base/accept_loop.c) accepts gRPC's connections; server/grpc/grpc_accept.c counts
 *                 them, hands them to gRPC
 *   worker        (server/sched/workers.c) --lanes of them, and --gpu_streams more for each GPU there is: run
 *                 what had to wait, and whatever is not short, and encode the answers, but large ones of HTTP
 *   trim          (server/base/trim.c) gives back what the allocator keeps after a burst
 *   packs         (kernels/dense/pack_keeper.c) writes packed weights into files, as nice as can be
 *   jobs          (server/jobs/job_queue.c) starts and ends the processes of fine-tuning jobs, publishes what
 *                 they made, wakes followers
 *   reaper        (server/sched/workers.c) drops waiting requests that are too late or whose client left
 *
 * Locks, outermost first; a thread that holds one may only take locks further down
 *   jobs.opening           opening the state directory
 *   jobs.publishing        one publication, or cancel, at a time
 *   registry.configuring   one change of the model list at a time; held while folders are listed
 *   registry.mu            models, versions, their states; never held while listing, loading, running or
 *                          freeing
 *   http.mu                the queue of requests and the list of running ones
 *   http.peers.mu          the connections of a listener; held while one is shut down
 *   grpc.mu                the queue of calls and the list of streams (after the lock of a stream)
 *   workers.mu             who waits and who runs; never held while running or answering
 *   store.mu               a transaction of the jobs' database, or one statement
 *   jobs.following         the followers; held while they are woken
 *   servable.choosing      making signatures of fewer outputs
 *   gradients.naming       reading the names of variables
 *   gradients.mu           which gradients are kept, or under way; never held while one is made or freed
 *   connections.sweeping   looking for connections that have ended (server/base/connections.h)
 *   accept.mu              gRPC's connections by descriptor; held while those that have ended are looked for
 *   connections.mu         connections by address; nothing is taken under it
 *   open_calls.mu          what open gRPC calls are charged; the budget's own locks under it
 *   metrics' making, latency's mu, access.lock: new cells; tokens. Nothing is taken under them
 *   a primitive's weights, the list of packed ones, the queue of those to be written, the list of their files
 *                          (kernels/dense/dnnl_pack.c, pack_keeper.c, proto/bytes/packed_folder.c); files are
 *                          opened and mapped under the first two
 *   locks inside core (a callable's, a resource's), each held alone
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_THREADS_H
#define TD_SERVER_THREADS_H
#endif
