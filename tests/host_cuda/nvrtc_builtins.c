/* tests/host_cuda/nvrtc_builtins.c - libnvrtc-builtins of the stand-in for NVRTC, which asks for no more than
 * that it is open.
 *
 * SPDX-License-Identifier: Apache-2.0 */
__attribute__((visibility("default"))) const int host_cuda_nvrtc_builtins = 1;
