/* kernels/cuda/base/cublaslt.c - the library's handle, which threads may share, and plans.
 *
 *                     the library's      in our terms      rows x columns   leading dimension
 *   its A             b^T                b  [k,n]          n x k            n    (tb: k x n, k, transposed)
 *   its B             a^T                a  [m,k]          k x m            k    (ta: m x k, m, transposed)
 *   its C and D       y^T                y  [m,n]          n x m            n    (C: what is added)
 *
 * The bias of its epilogues is a number for each row of D: for each column of y.
 *
 * A descriptor holds the bias's address, so that a plan with a bias has one made for each call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cublaslt.h"

#include <pthread.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/cublaslt_api.h"
#include "kernels/cuda/base/shared_object.h"

enum { MOST_CHOICES = 8 };

struct handle {
    pthread_rwlock_t mu; /* guards at, but in products: none is queued while it changes */
    void *at;            /* NULL: td_cublaslt_stop */
};

struct td_cublaslt {
    struct td_cublaslt_api api;
    struct handle *handle;
    int device;
    bool tf32;
    size_t most_workspace;
};

struct td_cublaslt_plan {
    const struct td_cublaslt *lt;
    struct td_cublaslt_product product;
    void *desc, *a, *b, *d; /* as the library calls them */
    struct td_cublaslt_algo algo;
    size_t workspace_bytes;
};

/* ------------------------------------------------------------------ the library */

static const char *const SYMBOLS[] = {
#define CALL(type, name, parameters) #name,
#include "kernels/cuda/base/cublaslt_api.def"
    NULL};
_Static_assert(sizeof(struct td_cublaslt_api) == sizeof SYMBOLS - sizeof *SYMBOLS, "a pointer each");

static struct td_cublaslt *free_both(struct td_cublaslt *lt, struct handle *handle)
{
    td_free(lt);
    td_free(handle);
    return NULL;
}

struct td_cublaslt *td_cublaslt_open(const struct td_cublaslt_opts *o, char *said, size_t room)
{
    static const char *const usual[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const struct td_shared_object library = {.names = o->names != NULL ? o->names : usual,
                                             .symbols = SYMBOLS};
    const char *file = NULL;
    struct td_cublaslt *lt = td_calloc(1, sizeof *lt);
    struct handle *handle = td_calloc(1, sizeof *handle);
    if (lt == NULL || handle == NULL) {
        (void)snprintf(said, room, "there is no memory for it");
        return free_both(lt, handle);
    }
    if (!td_shared_object_open(&library, &lt->api, &file, said, room)) {
        return free_both(lt, handle);
    }
    (void)td_cuda_use(o->device); /* where that fails, so does the handle */
    const int status = lt->api.cublasLtCreate(&handle->at);
    if (status != TD_CUBLASLT_SUCCESS) {
        (void)snprintf(said, room, "%s: cublasLtCreate: %s", file, lt->api.cublasLtGetStatusString(status));
        return free_both(lt, handle);
    }
    (void)pthread_rwlock_init(&handle->mu, NULL);
    lt->handle = handle;
    const size_t version = lt->api.cublasLtGetVersion(); /* 130002 is 13.0.2 */
    (void)snprintf(said, room, "cuBLASLt %zu.%zu.%zu (%s)%s", version / 10000, version / 100 % 100,
                   version % 100, file, o->tf32 ? " with TF32" : "");
    lt->device = o->device;
    lt->tf32 = o->tf32;
    lt->most_workspace = o->most_workspace;
    return lt;
}

void td_cublaslt_close(struct td_cublaslt *lt)
{
    if (lt != NULL) {
        td_cublaslt_stop(lt);
        (void)pthread_rwlock_destroy(&lt->handle->mu);
        (void)free_both(lt, lt->handle);
    }
}

void td_cublaslt_stop(struct td_cublaslt *lt)
{
    pthread_rwlock_wrlock(&lt->handle->mu);
    if (lt->handle->at != NULL) {
        (void)td_cuda_use(lt->device);
        (void)lt->api.cublasLtDestroy(lt->handle->at);
        lt->handle->at = NULL;
    }
    pthread_rwlock_unlock(&lt->handle->mu);
}

bool td_cublaslt_start(struct td_cublaslt *lt)
{
    pthread_rwlock_wrlock(&lt->handle->mu);
    (void)td_cuda_use(lt->device);
    if (lt->handle->at == NULL && lt->api.cublasLtCreate(&lt->handle->at) != TD_CUBLASLT_SUCCESS) {
        lt->handle->at = NULL;
    }
    const bool there = lt->handle->at != NULL;
    pthread_rwlock_unlock(&lt->handle->mu);
    return there;
}

/* ------------------------------------------------------------------ descriptors */

static int data_type(enum td_cuda_type t)
{
    return t == TD_CUDA_DOUBLE     ? TD_CUBLASLT_R_64F
           : t == TD_CUDA_HALF     ? TD_CUBLASLT_R_16F
           : t == TD_CUDA_BFLOAT16 ? TD_CUBLASLT_R_16BF
                                   : TD_CUBLASLT_R_32F;
}

static bool has_bias(const struct td_cublaslt_product *p)
{
    return p->epilogue == TD_CUBLASLT_BIAS || p->epilogue == TD_CUBLASLT_BIAS_RELU ||
           p->epilogue == TD_CUBLASLT_BIAS_GELU;
}

static bool set(const struct td_cublaslt *lt, void *desc, int attribute, int32_t value)
{
    return lt->api.cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) ==
           TD_CUBLASLT_SUCCESS;
}

/* NULL: there is no memory, or the library does not know what is asked. */
static void *make_desc(const struct td_cublaslt *lt, const struct td_cublaslt_product *p, const void *bias)
{
    static const int32_t epilogues[] = {[TD_CUBLASLT_PLAIN] = TD_CUBLASLT_EPILOGUE_DEFAULT,
                                        [TD_CUBLASLT_RELU] = TD_CUBLASLT_EPILOGUE_RELU,
                                        [TD_CUBLASLT_BIAS] = TD_CUBLASLT_EPILOGUE_BIAS,
                                        [TD_CUBLASLT_BIAS_RELU] = TD_CUBLASLT_EPILOGUE_RELU_BIAS,
                                        [TD_CUBLASLT_GELU] = TD_CUBLASLT_EPILOGUE_GELU,
                                        [TD_CUBLASLT_BIAS_GELU] = TD_CUBLASLT_EPILOGUE_GELU_BIAS};
    const bool wide = p->type == TD_CUDA_DOUBLE;
    const int compute = wide                                   ? TD_CUBLASLT_COMPUTE_64F
                        : lt->tf32 && p->type == TD_CUDA_FLOAT ? TD_CUBLASLT_COMPUTE_32F_FAST_TF32
                                                               : TD_CUBLASLT_COMPUTE_32F;
    void *desc = NULL;
    if (lt->api.cublasLtMatmulDescCreate(&desc, compute, wide ? TD_CUBLASLT_R_64F : TD_CUBLASLT_R_32F)) {
        return NULL;
    }
    const bool whole =
        set(lt, desc, TD_CUBLASLT_DESC_TRANSA, p->tb ? TD_CUBLASLT_OP_T : TD_CUBLASLT_OP_N) &&
        set(lt, desc, TD_CUBLASLT_DESC_TRANSB, p->ta ? TD_CUBLASLT_OP_T : TD_CUBLASLT_OP_N) &&
        set(lt, desc, TD_CUBLASLT_DESC_EPILOGUE, epilogues[p->epilogue]) &&
        (bias == NULL || lt->api.cublasLtMatmulDescSetAttribute(desc, TD_CUBLASLT_DESC_BIAS_POINTER, &bias,
                                                                sizeof bias) == TD_CUBLASLT_SUCCESS);
    if (!whole) {
        (void)lt->api.cublasLtMatmulDescDestroy(desc);
        return NULL;
    }
    return desc;
}

/* rows x columns, column by column without gaps. */
static void *make_layout(const struct td_cublaslt *lt, const struct td_cublaslt_product *p, int64_t rows,
                         int64_t columns, int64_t step)
{
    const int32_t batches = (int32_t)p->batches;
    void *layout = NULL;
    if (lt->api.cublasLtMatrixLayoutCreate(&layout, data_type(p->type), (uint64_t)rows, (uint64_t)columns,
                                           rows)) {
        return NULL;
    }
    if (batches > 1 && (lt->api.cublasLtMatrixLayoutSetAttribute(layout, TD_CUBLASLT_LAYOUT_BATCH_COUNT,
                                                                 &batches, sizeof batches) ||
                        lt->api.cublasLtMatrixLayoutSetAttribute(layout, TD_CUBLASLT_LAYOUT_BATCH_OFFSET,
                                                                 &step, sizeof step))) {
        (void)lt->api.cublasLtMatrixLayoutDestroy(layout);
        return NULL;
    }
    return layout;
}

/* ------------------------------------------------------------------ plans */

static void *make_preference(const struct td_cublaslt *lt)
{
    static const int aligned[] = {
        TD_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, TD_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES,
        TD_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, TD_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = lt->most_workspace;
    const uint32_t bytes = TD_CUBLASLT_ALIGNED;
    void *preference = NULL;
    if (lt->api.cublasLtMatmulPreferenceCreate(&preference)) {
        return NULL;
    }
    bool whole = lt->api.cublasLtMatmulPreferenceSetAttribute(
                     preference, TD_CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most) == 0;
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) {
        whole = whole && lt->api.cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &bytes,
                                                                      sizeof bytes) == 0;
    }
    if (!whole) {
        (void)lt->api.cublasLtMatmulPreferenceDestroy(preference);
        return NULL;
    }
    return preference;
}

/* The algorithm of that place in the library's order, of those that it says will work. */
static const char *choose(struct td_cublaslt_plan *plan, int choice)
{
    const struct td_cublaslt *lt = plan->lt;
    struct td_cublaslt_found found[MOST_CHOICES];
    int n = 0;
    void *preference = make_preference(lt);
    if (preference == NULL) {
        return "cuBLASLt takes no preference";
    }
    pthread_rwlock_rdlock(&lt->handle->mu);
    const bool there = lt->handle->at != NULL;
    const int status =
        !there ? TD_CUBLASLT_SUCCESS
               : lt->api.cublasLtMatmulAlgoGetHeuristic(lt->handle->at, plan->desc, plan->a, plan->b, plan->d,
                                                        plan->d, preference, MOST_CHOICES, found, &n);
    pthread_rwlock_unlock(&lt->handle->mu);
    (void)lt->api.cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == TD_CUBLASLT_SUCCESS && i < n; i++) {
        if (found[i].status == TD_CUBLASLT_SUCCESS && found[i].workspace_bytes <= lt->most_workspace &&
            choice-- == 0) {
            plan->algo = found[i].algo;
            plan->workspace_bytes = found[i].workspace_bytes;
            return NULL;
        }
    }
    return "cuBLASLt has no algorithm more for such a product";
}

const char *td_cublaslt_plan_make(const struct td_cublaslt *lt, const struct td_cublaslt_product *p,
                                  int choice, struct td_cublaslt_plan **out)
{
    if (p->m == 0 || p->n == 0 || p->k == 0 || p->batches == 0) {
        return "there is nothing to multiply";
    }
    if (p->batches > INT32_MAX) {
        return "more batches than cuBLASLt counts";
    }
    struct td_cublaslt_plan *plan = td_calloc(1, sizeof *plan);
    if (plan == NULL) {
        return "there is no memory for a plan of cuBLASLt's";
    }
    (void)td_cuda_use(lt->device);
    plan->lt = lt;
    plan->product = *p;
    plan->desc = make_desc(lt, p, NULL);
    plan->a = make_layout(lt, p, p->tb ? p->k : p->n, p->tb ? p->n : p->k, p->b_step);
    plan->b = make_layout(lt, p, p->ta ? p->m : p->k, p->ta ? p->k : p->m, p->a_step);
    plan->d = make_layout(lt, p, p->n, p->m, p->m * p->n);
    const bool whole = plan->desc != NULL && plan->a != NULL && plan->b != NULL && plan->d != NULL;
    const char *refusal = whole ? choose(plan, choice) : "cuBLASLt cannot describe such a product";
    if (refusal != NULL) {
        td_cublaslt_plan_free(plan);
        return refusal;
    }
    *out = plan;
    return NULL;
}

void td_cublaslt_plan_free(struct td_cublaslt_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    const struct td_cublaslt_api *api = &plan->lt->api;
    void *const layouts[] = {plan->a, plan->b, plan->d};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i] != NULL) {
            (void)api->cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (plan->desc != NULL) {
        (void)api->cublasLtMatmulDescDestroy(plan->desc);
    }
    td_free(plan);
}

size_t td_cublaslt_plan_workspace(const struct td_cublaslt_plan *plan)
{
    return plan->workspace_bytes;
}

const struct td_cublaslt_product *td_cublaslt_plan_product(const struct td_cublaslt_plan *plan)
{
    return &plan->product;
}

size_t td_cublaslt_plan_bytes(const struct td_cublaslt_plan *plan)
{
    return sizeof *plan;
}

enum td_code td_cublaslt_multiply(const struct td_cublaslt_plan *plan, const struct td_cublaslt_call *c,
                                  struct td_err *err)
{
    static const float one = 1, zero = 0;
    static const double one_wide = 1, zero_wide = 0;
    const struct td_cublaslt *lt = plan->lt;
    const bool wide = plan->product.type == TD_CUDA_DOUBLE, bias = has_bias(&plan->product);
    const void *const alpha = wide ? (const void *)&one_wide : &one;
    const void *const beta = plan->product.adds ? alpha : wide ? (const void *)&zero_wide : &zero;
    const void *const added = plan->product.adds ? c->added : c->y;
    void *desc = bias ? make_desc(lt, &plan->product, c->bias) : plan->desc;
    if (desc == NULL) {
        return td_no_memory(err, sizeof *plan, "a product's descriptor");
    }
    const int status = lt->api.cublasLtMatmul(lt->handle->at, desc, alpha, c->b, plan->a, c->a, plan->b, beta,
                                              added, plan->d, c->y, plan->d, &plan->algo, c->workspace,
                                              plan->workspace_bytes, c->stream);
    if (bias) {
        (void)lt->api.cublasLtMatmulDescDestroy(desc);
    }
    return status == TD_CUBLASLT_SUCCESS
               ? TD_OK
               : td_fail(err, status == TD_CUBLASLT_ALLOC_FAILED ? TD_RESOURCE_EXHAUSTED : TD_INTERNAL,
                         "cublasLtMatmul: %s", lt->api.cublasLtGetStatusString(status));
}
