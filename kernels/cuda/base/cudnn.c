/* kernels/cuda/base/cudnn.c - the library, and handles, which one call at a time may use: each has the stream
 * that its calls queue on, so a call takes one that nobody uses, or makes one, and puts it back.
 *
 * Threads: mu guards the idle handles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/cudnn_impl.h"
#include "kernels/cuda/base/shared_object.h"

static const char *const SYMBOLS[] = {
#define CALL(type, name, parameters) #name,
#include "kernels/cuda/base/cudnn_api.def"
    NULL};
_Static_assert(sizeof(struct td_cudnn_api) == sizeof SYMBOLS - sizeof *SYMBOLS, "a pointer each");

void td_cudnn_put(struct td_cudnn *dnn, struct td_cudnn_handle *h)
{
    pthread_mutex_lock(&dnn->mu);
    if (h != NULL) {
        h->next = dnn->idle;
        dnn->idle = h;
    }
    dnn->busy--;
    (void)pthread_cond_broadcast(&dnn->back);
    pthread_mutex_unlock(&dnn->mu);
}

struct td_cudnn_handle *td_cudnn_take(struct td_cudnn *dnn, int *status)
{
    pthread_mutex_lock(&dnn->mu);
    const bool stopped = dnn->stopped;
    struct td_cudnn_handle *h = stopped ? NULL : dnn->idle;
    if (h != NULL) {
        dnn->idle = h->next;
    }
    dnn->busy += !stopped;
    pthread_mutex_unlock(&dnn->mu);
    *status = TD_CUDNN_SUCCESS;
    if (stopped) {
        *status = TD_CUDNN_NO_HOST_MEMORY;
        return NULL;
    }
    if (h == NULL) {
        h = td_calloc(1, sizeof *h);
        *status = h != NULL ? dnn->api.cudnnCreate(&h->at) : TD_CUDNN_NO_HOST_MEMORY;
        if (*status != TD_CUDNN_SUCCESS) {
            td_free(h);
            td_cudnn_put(dnn, NULL);
            return NULL;
        }
    }
    return h;
}

/* What was found is of use: of version 9, and a handle can be made. */
static bool try_library(struct td_cudnn *dnn, const char *file, char *said, size_t room)
{
    const size_t version = dnn->api.cudnnGetVersion(); /* 91900 is 9.19.0 */
    int status;
    if (version / 10000 != 9) {
        (void)snprintf(said, room, "%s: it is version %zu, and 9 is wanted", file, version);
        return false;
    }
    struct td_cudnn_handle *h = td_cudnn_take(dnn, &status);
    if (h == NULL) {
        (void)snprintf(said, room, "%s: cudnnCreate: %s", file, dnn->api.cudnnGetErrorString(status));
        return false;
    }
    td_cudnn_put(dnn, h);
    (void)snprintf(said, room, "cuDNN %zu.%zu.%zu (%s)%s", version / 10000, version / 100 % 100,
                   version % 100, file, dnn->tf32 ? " with TF32" : "");
    return true;
}

struct td_cudnn *td_cudnn_open(const struct td_cudnn_opts *o, char *said, size_t room)
{
    static const char *const usual[] = {"libcudnn.so.9", NULL};
    const struct td_shared_object library = {.names = o->names != NULL ? o->names : usual,
                                             .symbols = SYMBOLS};
    const char *file = NULL;
    struct td_cudnn *dnn = td_calloc(1, sizeof *dnn);
    if (dnn == NULL || pthread_mutex_init(&dnn->mu, NULL) != 0 || pthread_cond_init(&dnn->back, NULL) != 0) {
        td_free(dnn);
        (void)snprintf(said, room, "there is no memory for it");
        return NULL;
    }
    dnn->device = o->device;
    dnn->tf32 = o->tf32;
    (void)td_cuda_use(o->device); /* where that fails, so does a handle */
    dnn->most_workspace = o->most_workspace;
    if (!td_shared_object_open(&library, &dnn->api, &file, said, room) ||
        !try_library(dnn, file, said, room)) {
        (void)pthread_mutex_destroy(&dnn->mu);
        td_free(dnn);
        return NULL;
    }
    return dnn;
}

void td_cudnn_close(struct td_cudnn *dnn)
{
    if (dnn == NULL) {
        return;
    }
    td_cudnn_stop(dnn);
    (void)pthread_mutex_destroy(&dnn->mu);
    (void)pthread_cond_destroy(&dnn->back);
    td_free(dnn);
}

void td_cudnn_stop(struct td_cudnn *dnn)
{
    (void)td_cuda_use(dnn->device);
    pthread_mutex_lock(&dnn->mu);
    dnn->stopped = true;
    while (dnn->busy > 0) {
        (void)pthread_cond_wait(&dnn->back, &dnn->mu);
    }
    td_cudnn_attentions_end(dnn);
    while (dnn->idle != NULL) {
        struct td_cudnn_handle *h = dnn->idle;
        dnn->idle = h->next;
        (void)dnn->api.cudnnDestroy(h->at);
        td_free(h);
    }
    pthread_mutex_unlock(&dnn->mu);
}

bool td_cudnn_start(struct td_cudnn *dnn)
{
    int status;
    pthread_mutex_lock(&dnn->mu);
    dnn->stopped = false;
    pthread_mutex_unlock(&dnn->mu);
    (void)td_cuda_use(dnn->device);
    struct td_cudnn_handle *h = td_cudnn_take(dnn, &status);
    if (h == NULL) {
        return false;
    }
    td_cudnn_put(dnn, h);
    return true;
}
