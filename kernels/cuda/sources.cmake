# What tensord_cuda.so is made of: for nvcc (CMakeLists.txt here), and for the tests' compiler (tests/host_cuda).
# A family is FAMILY.c, its rows, and FAMILY.cu, its kernels; rows are .c files without kernels of their own, kernels .cu files that rows
# of several families launch.
set(td_cuda_dir ${CMAKE_SOURCE_DIR}/kernels/cuda)
set(td_cuda_rows ${td_cuda_dir}/rows.c)
set(td_cuda_kernels)
function(td_cuda_room room)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "FAMILIES;ROWS;KERNELS")
  foreach(name ${room_FAMILIES} ${room_ROWS})
    list(APPEND td_cuda_rows ${td_cuda_dir}/${room}/${name}.c)
  endforeach()
  foreach(name ${room_FAMILIES} ${room_KERNELS})
    list(APPEND td_cuda_kernels ${td_cuda_dir}/${room}/${name}.cu)
  endforeach()
  set(td_cuda_rows ${td_cuda_rows} PARENT_SCOPE)
  set(td_cuda_kernels ${td_cuda_kernels} PARENT_SCOPE)
endfunction()
td_cuda_room(base ROWS cells cublaslt cudnn cudnn_attention cudnn_conv describe device device_graph device_restart indices libraries made made_files nccl nvrtc pinned posts
  shared_object steps
  KERNELS border combine loop posts ranks refuse runtime sort swap)
td_cuda_room(array FAMILIES cast gather move partition pick ramp select unique where ROWS diagonal scatter segment slice view
  KERNELS picked)
td_cuda_room(math FAMILIES arg bins classes clip complex cross elementwise fft matmul random reduce scan search
  special top ROWS einsum KERNELS integers reduce_integers)
td_cuda_room(linalg FAMILIES eigen factor qr svd triangle KERNELS least)
td_cuda_room(nn FAMILIES adam attention canvas conv ctc_loss dilation fake_quant layer_norm loss lrn norm picture pool quantize recurrence
  resize rnn rnn_grad softmax suppress ROWS pool_places KERNELS attention_mma)
td_cuda_room(sparse FAMILIES cut entries fill_rows reorder spmm)
td_cuda_room(fused FAMILIES fused ROWS fused_posts fused_program fused_source)
# The module's own: its entry, the engine's functions by way of a table, and what of the engine keeps no state:
# of files of it that do more, the rest is left out (--gc-sections).
set(td_cuda_module ${td_cuda_dir}/host.c ${td_cuda_dir}/module.c ${CMAKE_SOURCE_DIR}/core/base/status.c
    ${CMAKE_SOURCE_DIR}/core/base/dtype.c ${CMAKE_SOURCE_DIR}/core/base/shape.c ${CMAKE_SOURCE_DIR}/core/graph/fused.c
    ${CMAKE_SOURCE_DIR}/kernels/array/slice_spec.c ${CMAKE_SOURCE_DIR}/kernels/nn/conv_spec.c
    ${CMAKE_SOURCE_DIR}/kernels/nn/pool_spec.c ${CMAKE_SOURCE_DIR}/kernels/math/random_generator.c
    ${CMAKE_SOURCE_DIR}/kernels/math/reduce_axes.c
    ${CMAKE_SOURCE_DIR}/kernels/control/recurrence_tensors_spec.c
    ${CMAKE_SOURCE_DIR}/kernels/linalg/attention_spec.c
    ${CMAKE_SOURCE_DIR}/kernels/linalg/einsum_equation.c ${CMAKE_SOURCE_DIR}/kernels/cpu/window.c)
