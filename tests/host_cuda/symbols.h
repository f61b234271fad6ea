/* tests/host_cuda/symbols.h - what the program's own symbol table says of a kernel: its name, and which
 * static shared variables there are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_SYMBOLS_H
#define TD_TESTS_HOST_CUDA_SYMBOLS_H

#include <cstddef>
#include <string>

namespace host_cuda
{

std::string kernel_name(const void *kernel); /* without its parameters; its address when it has no symbol */
size_t static_shared_bytes(const void *kernel); /* of variables in the kernel itself */
void fill_static_shared(
    const void *kernel); /* the calling thread's, of the kernel's whole module, with 0xFF */

} // namespace host_cuda

#endif
