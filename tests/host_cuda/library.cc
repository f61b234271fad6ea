/* tests/host_cuda/library.cc - code that was made at run time: what the stand-in for NVRTC has made
 * (tests/host_cuda/nvrtc.cc) is a shared object, behind 8 bytes "hostcuda" and its size in 64 bits. Each
 * kernel has a function beside it that says of what type it is.
 *
 * The object's own references, threadIdx and the rest, are to what this is linked into: that is made visible
 * to it, as the main program is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"
#include "tests/host_cuda/device.h"
#include "tests/host_cuda/reports.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

struct CUlib_st {
    void *object;
};

namespace host_cuda
{
namespace
{

void show_own_symbols()
{
    static const int once = [] {
        Dl_info own;
        if (dladdr(reinterpret_cast<const void *>(&show_own_symbols), &own) != 0) {
            (void)dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
        }
        return 0;
    }();
    (void)once;
}

/* Linked, then its file's name is gone. */
void *load(const char *bytes, size_t n)
{
    char path[] = "/tmp/host_cuda_XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) {
        return nullptr;
    }
    show_own_symbols();
    const bool whole = write(file, bytes, n) == static_cast<ssize_t>(n);
    void *const object = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (object == nullptr) {
        fprintf(stderr, "host_cuda: code was not loaded: %s\n", whole ? dlerror() : "no room");
    }
    close(file);
    unlink(path);
    return object;
}

} // namespace
} // namespace host_cuda

using namespace host_cuda;

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *, void **,
                                unsigned, enum cudaLibraryOption *, void **, unsigned)
{
    return call([&](locked &) {
        uint64_t bytes;
        const char *const all = static_cast<const char *>(code);
        if (memcmp(all, "hostcuda", 8) != 0) {
            return cudaErrorInvalidValue;
        }
        memcpy(&bytes, all + 8, sizeof bytes);
        void *const object = load(all + 16, bytes);
        if (object == nullptr) {
            return cudaErrorInvalidValue;
        }
        *library = new CUlib_st{object};
        return cudaSuccess;
    });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    const void *found = nullptr;
    const cudaError_t error = call([&](locked &) {
        void *const type = dlsym(library->object, text("host_cuda_type_%s", name).c_str());
        found = type;
        return type != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
    });
    if (error != cudaSuccess) {
        return error;
    }
    const auto type_of = reinterpret_cast<void (*)(kernel_type *)>(const_cast<void *>(found));
    kernel_type type;
    type_of(&type);
    *kernel = static_cast<cudaKernel_t>(const_cast<void *>(remember(type, name)));
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return call([&](locked &l) {
        wait_for_device(l, current_device());
        dlclose(library->object);
        delete library;
        return cudaSuccess;
    });
}
}
