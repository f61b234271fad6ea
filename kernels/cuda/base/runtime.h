/* kernels/cuda/base/runtime.h - what the engine's side asks of CUDA: devices, memory, copies, streams and
 * events, as plain C. Files in C include this; CUDA's own headers are for .cu files.
 *
 * Every call says on which device it works and returns CUDA's error number, 0 when all is well. What is
 * queued and fails shows in a later call, as CUDA has it.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_RUNTIME_H
#define TD_KERNELS_CUDA_BASE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's own, in disguise: a stream is queued to as a cudaStream_t (td_cuda_queue in launch.cuh). */
struct td_cuda_stream;
struct td_cuda_event;
struct td_cuda_graph;    /* a cudaGraphExec_t */
struct td_cuda_code;     /* kernels that were loaded: a cudaLibrary_t */
struct td_cuda_function; /* one of them: a cudaKernel_t */

/* Types of elements that kernels know. */
enum td_cuda_type {
    TD_CUDA_FLOAT,
    TD_CUDA_DOUBLE,
    TD_CUDA_HALF,
    TD_CUDA_BFLOAT16,
    TD_CUDA_INT32,
    TD_CUDA_INT64,
    TD_CUDA_BOOL,
    TD_CUDA_INT8,
    TD_CUDA_INT16,
    TD_CUDA_UINT8,
    TD_CUDA_UINT16,
    TD_CUDA_UINT32,
    TD_CUDA_UINT64,
    TD_CUDA_COMPLEX64,
    TD_CUDA_COMPLEX128,
    TD_CUDA_NO_TYPE
};

enum td_cuda_copy { TD_CUDA_TO_DEVICE, TD_CUDA_TO_HOST, TD_CUDA_ON_DEVICE };

struct td_cuda_facts {
    char name[256];
    char pci[16];            /* "0000:1b:00.0" */
    uint64_t memory, unused; /* bytes */
    int multiprocessors, major, minor;
};

/* "cudaErrorMemoryAllocation"; "out of memory"; whether it is that; whether the device is lost for this
 * process. */
const char *td_cuda_error_name(int error);
const char *td_cuda_error_text(int error);
bool td_cuda_is_memory(int error);
bool td_cuda_is_sticky(int error);

/* 0 devices without a driver, or with one that is too old: *error says which. */
int td_cuda_count(int *error);
/* CUDA's version that the driver serves, and the one that this was built with: 12040 is 12.4; driver 0: there
 * is none. And what its kernels need of a GPU: 80 is compute capability 8.0. */
void td_cuda_versions(int *driver, int *built, int *capability);
/* Makes it the calling thread's, for kernels that are launched next. */
int td_cuda_use(int device);
int td_cuda_describe(int device, struct td_cuda_facts *out);
/* Before anything else that is asked of it: threads that wait for it, in whatever call, sleep meanwhile. */
int td_cuda_wait_asleep(int device);
/* All that this process has of it is gone: memory, also pinned of the host's that was allocated for it,
 * streams, events, graphs, and the errors that stay, unless CUDA says no. Code that was loaded stays. */
int td_cuda_reset(int device);
enum { TD_CUDA_UNKNOWN = 999 }; /* cudaErrorUnknown */

/* In the stream's order: usable by what is queued behind it. Freed bytes are kept for the next to ask, up to
 * what td_cuda_keep says, or given back by td_cuda_trim. */
int td_cuda_allocate(int device, struct td_cuda_stream *stream, size_t bytes, void **out);
int td_cuda_free(int device, struct td_cuda_stream *stream, void *p);
int td_cuda_keep(int device, uint64_t bytes);
int td_cuda_trim(int device);

/* Pinned memory of the host, of all devices; what is freed nobody uses any more. Fills it with other bytes of
 * the host's. */
int td_cuda_host_allocate(int device, size_t bytes, void **out);
int td_cuda_host_free(int device, void *p);
void td_cuda_host_fill(void *pinned, const void *from, size_t bytes);

/* To or from memory that is not pinned, a copy may take the calling thread's time. */
int td_cuda_copy(int device, struct td_cuda_stream *stream, enum td_cuda_copy which, void *dst,
                 const void *src, size_t bytes);

int td_cuda_stream_new(int device, struct td_cuda_stream **out);
int td_cuda_stream_wait(int device, struct td_cuda_stream *stream);
/* What is queued on stream from now on comes after the event's point. */
int td_cuda_stream_after(int device, struct td_cuda_stream *stream, struct td_cuda_event *event);
int td_cuda_stream_free(struct td_cuda_stream *stream);
/* What is queued on the stream from here on is recorded, and nothing else that the thread asks; and the end
 * of it: *out is NULL on errors. */
int td_cuda_capture_begin(int device, struct td_cuda_stream *stream);
int td_cuda_capture_end(int device, struct td_cuda_stream *stream, struct td_cuda_graph **out);
/* Of a stream that is recorded: a condition, which a kernel sets (loop.cu) before a node by it is put behind
 * what the stream has so far. What bodies, new streams, are given from there on is what the node runs; and
 * the end of one. WHILE, IF: one body, while or where the condition is not 0. SWITCH: n of them, of which the
 * condition says the number. */
enum td_cuda_node { TD_CUDA_WHILE, TD_CUDA_IF, TD_CUDA_SWITCH };
/* Which of them there are, by bits; 0: none. Asked of the driver with a graph of its own. */
unsigned td_cuda_nodes(int device);
int td_cuda_condition(int device, struct td_cuda_stream *stream, uint64_t *condition);
int td_cuda_node_open(int device, struct td_cuda_stream *stream, enum td_cuda_node type, uint64_t condition,
                      int n, struct td_cuda_stream *const *bodies);
int td_cuda_body_close(int device, struct td_cuda_stream *body);
int td_cuda_graph_launch(int device, struct td_cuda_graph *graph, struct td_cuda_stream *stream);
int td_cuda_graph_free(int device, struct td_cuda_graph *graph);
int td_cuda_event_new(int device, struct td_cuda_event **out);
int td_cuda_event_record(int device, struct td_cuda_event *event, struct td_cuda_stream *stream);
int td_cuda_event_wait(int device, struct td_cuda_event *event);
int td_cuda_event_free(struct td_cuda_event *event);

/* Code that was made at run time, and its kernels by name. A launch has so many blocks, at most as many as
 * keep a GPU busy, of TD_CUDA_MADE_THREADS threads; args: where each parameter's value is. */
enum { TD_CUDA_MADE_THREADS = 256 };
int td_cuda_code_load(int device, const void *code, struct td_cuda_code **out);
int td_cuda_code_find(int device, struct td_cuda_code *code, const char *name, struct td_cuda_function **out);
int td_cuda_code_unload(int device, struct td_cuda_code *code);
int td_cuda_launch_made(const struct td_cuda_function *kernel, int64_t blocks, void **args,
                        struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
