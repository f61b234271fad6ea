# What tensord_cuda.so is made of: for nvcc (CMakeLists.txt here), and for the tests' compiler (tests/host_cuda).
# A family is FAMILY.c, its rows, and FAMILY.cu, its kernels.
set(td_cuda_dir ${CMAKE_SOURCE_DIR}/kernels/cuda)
set(td_cuda_families cast conv elementwise loss matmul move norm pool reduce select softmax)
list(TRANSFORM td_cuda_families REPLACE "(.+)" "${td_cuda_dir}/\\1.c" OUTPUT_VARIABLE td_cuda_rows)
list(TRANSFORM td_cuda_families REPLACE "(.+)" "${td_cuda_dir}/\\1.cu" OUTPUT_VARIABLE td_cuda_kernels)
list(APPEND td_cuda_rows ${td_cuda_dir}/cells.c ${td_cuda_dir}/device.c ${td_cuda_dir}/rows.c ${td_cuda_dir}/slice.c
     ${td_cuda_dir}/steps.c ${td_cuda_dir}/view.c)
list(APPEND td_cuda_kernels ${td_cuda_dir}/runtime.cu)
# The module's own: its entry, the engine's functions by way of a table, and what of the engine keeps no state:
# of files of it that do more, the rest is left out (--gc-sections).
set(td_cuda_module ${td_cuda_dir}/host.c ${td_cuda_dir}/module.c ${CMAKE_SOURCE_DIR}/core/base/status.c
    ${CMAKE_SOURCE_DIR}/core/base/dtype.c ${CMAKE_SOURCE_DIR}/core/base/shape.c
    ${CMAKE_SOURCE_DIR}/kernels/array/slice_spec.c ${CMAKE_SOURCE_DIR}/kernels/nn/conv_spec.c
    ${CMAKE_SOURCE_DIR}/kernels/nn/pool_spec.c
    ${CMAKE_SOURCE_DIR}/kernels/cpu/window.c)
