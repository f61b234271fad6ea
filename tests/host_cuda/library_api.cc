/* tests/host_cuda/library_api.cc - kernels/cuda/base/cublaslt_api.h, cudnn_api.h and, where NCCL's header
 * is beside them, nccl_api.h against NVIDIA's own headers: compiled where those are, never run.
 *
 * Function types are compared with every pointer as void *, every enum as int, and structs by their sizes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cublasLt.h>
#include <cudnn.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <cstddef>
#include <type_traits>

#include "kernels/cuda/base/cublaslt_api.h"
#include "kernels/cuda/base/cudnn_api.h"
#include "kernels/cuda/base/nccl_api.h"

namespace
{

template <class T, bool = std::is_enum<T>::value, bool = std::is_class<T>::value> struct plain {
    using type = T;
};
template <class T> struct plain<T, true, false> {
    using type = int;
};
template <class T> struct plain<T *, false, false> {
    using type = void *;
};
template <class T> struct plain<T, false, true> {
    using type = std::integral_constant<std::size_t, sizeof(T)>;
};
template <class F> struct plain_call;
template <class R, class... P> struct plain_call<R (*)(P...)> {
    using type = typename plain<R>::type (*)(typename plain<P>::type...);
};
template <class A, class B> constexpr bool same_call()
{
    return std::is_same<typename plain_call<A>::type, typename plain_call<B>::type>::value;
}
#define CALL(made, name, parameters)                                                                         \
    static_assert(same_call<decltype(&::name), decltype(td_cublaslt_api::name)>(), #name);
#include "kernels/cuda/base/cublaslt_api.def"
#define CALL(made, name, parameters)                                                                         \
    static_assert(same_call<decltype(&::name), decltype(td_cudnn_api::name)>(), #name);
#include "kernels/cuda/base/cudnn_api.def"

#ifdef NCCL_MAJOR
#define CALL(made, name, parameters)                                                                         \
    static_assert(same_call<decltype(&::name), decltype(td_nccl_api::name)>(), #name);
#include "kernels/cuda/base/nccl_api.def"
#endif

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours)
SAME(TD_CUBLASLT_R_32F, CUDA_R_32F);
SAME(TD_CUBLASLT_R_64F, CUDA_R_64F);
SAME(TD_CUBLASLT_R_16F, CUDA_R_16F);
SAME(TD_CUBLASLT_R_16BF, CUDA_R_16BF);
SAME(TD_CUBLASLT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(TD_CUBLASLT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(TD_CUBLASLT_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(TD_CUBLASLT_OP_N, CUBLAS_OP_N);
SAME(TD_CUBLASLT_OP_T, CUBLAS_OP_T);
SAME(TD_CUBLASLT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(TD_CUBLASLT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(TD_CUBLASLT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(TD_CUBLASLT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(TD_CUBLASLT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(TD_CUBLASLT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(TD_CUBLASLT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(TD_CUBLASLT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(TD_CUBLASLT_LAYOUT_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(TD_CUBLASLT_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(TD_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(TD_CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(TD_CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(TD_CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(TD_CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT);
SAME(TD_CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
SAME(TD_CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(TD_CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(TD_CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU);
SAME(TD_CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);

SAME(TD_CUDNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(TD_CUDNN_HALF, CUDNN_DATA_HALF);
SAME(TD_CUDNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(TD_CUDNN_NHWC, CUDNN_TENSOR_NHWC);
SAME(TD_CUDNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(TD_CUDNN_DETERMINISTIC, CUDNN_DETERMINISTIC);
SAME(TD_CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(TD_CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(TD_CUDNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(TD_CUDNN_RELU, CUDNN_ACTIVATION_RELU);
SAME(TD_CUDNN_IDENTITY, CUDNN_ACTIVATION_IDENTITY);
SAME(TD_CUDNN_NOT_PROPAGATE_NAN, CUDNN_NOT_PROPAGATE_NAN);
SAME(TD_CUDNN_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME(TD_CUDNN_SUCCESS, CUDNN_STATUS_SUCCESS);
SAME(TD_CUDNN_BAD_PARAM, CUDNN_STATUS_BAD_PARAM);
SAME(TD_CUDNN_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED);
SAME(TD_CUDNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(TD_CUDNN_NO_HOST_MEMORY, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);

SAME(TD_CUDNN_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
SAME(TD_CUDNN_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME(TD_CUDNN_HEUR, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(TD_CUDNN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(TD_CUDNN_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(TD_CUDNN_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(TD_CUDNN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME(TD_CUDNN_SDPA_FORWARD, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
SAME(TD_CUDNN_HEUR_MODE, CUDNN_ATTR_ENGINEHEUR_MODE);
SAME(TD_CUDNN_HEUR_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(TD_CUDNN_HEUR_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS);
SAME(TD_CUDNN_CONFIG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE);
SAME(TD_CUDNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME(TD_CUDNN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME(TD_CUDNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME(TD_CUDNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
SAME(TD_CUDNN_GRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_OPS);
SAME(TD_CUDNN_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(TD_CUDNN_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE);
SAME(TD_CUDNN_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_DIMENSIONS);
SAME(TD_CUDNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES);
SAME(TD_CUDNN_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME(TD_CUDNN_TENSOR_IS_BY_VALUE, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
SAME(TD_CUDNN_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME(TD_CUDNN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
SAME(TD_CUDNN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME(TD_CUDNN_ENGINE_NOTES, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
SAME(TD_CUDNN_SDPA_Q, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
SAME(TD_CUDNN_SDPA_K, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC);
SAME(TD_CUDNN_SDPA_V, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC);
SAME(TD_CUDNN_SDPA_O, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC);
SAME(TD_CUDNN_SDPA_SCALE, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC);
SAME(TD_CUDNN_TYPE_HANDLE, CUDNN_TYPE_HANDLE);
SAME(TD_CUDNN_TYPE_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
SAME(TD_CUDNN_TYPE_BOOLEAN, CUDNN_TYPE_BOOLEAN);
SAME(TD_CUDNN_TYPE_INT64, CUDNN_TYPE_INT64);
SAME(TD_CUDNN_TYPE_POINTER, CUDNN_TYPE_VOID_PTR);
SAME(TD_CUDNN_TYPE_HEUR_MODE, CUDNN_TYPE_HEUR_MODE);
SAME(TD_CUDNN_TYPE_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
SAME(TD_CUDNN_TYPE_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME(TD_CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_A);
SAME(TD_CUDNN_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);

#ifdef NCCL_MAJOR
SAME(TD_NCCL_FLOAT, ncclFloat32);
SAME(TD_NCCL_DOUBLE, ncclFloat64);
SAME(TD_NCCL_SUM, ncclSum);
SAME(TD_NCCL_SUCCESS, ncclSuccess);
SAME(TD_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(TD_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(TD_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(TD_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(TD_NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
#endif

#define PLACE(ours, field, theirs, their_field)                                                              \
    static_assert(offsetof(ours, field) == offsetof(theirs, their_field) && sizeof(ours) == sizeof(theirs),  \
                  #ours "." #field)
PLACE(td_cublaslt_algo, data, cublasLtMatmulAlgo_t, data);
PLACE(td_cublaslt_found, algo, cublasLtMatmulHeuristicResult_t, algo);
PLACE(td_cublaslt_found, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
PLACE(td_cublaslt_found, status, cublasLtMatmulHeuristicResult_t, state);
#define FOUND(theirs)                                                                                        \
    PLACE(td_cudnn_found, algo, theirs, algo);                                                               \
    PLACE(td_cudnn_found, status, theirs, status);                                                           \
    PLACE(td_cudnn_found, memory, theirs, memory);                                                           \
    PLACE(td_cudnn_found, determinism, theirs, determinism);                                                 \
    PLACE(td_cudnn_found, math, theirs, mathType)
FOUND(cudnnConvolutionFwdAlgoPerf_t);
FOUND(cudnnConvolutionBwdDataAlgoPerf_t);
FOUND(cudnnConvolutionBwdFilterAlgoPerf_t);

} // namespace
