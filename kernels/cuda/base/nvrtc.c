/* kernels/cuda/base/nvrtc.c - libnvrtc.so by its functions' names. It is not unloaded.
 *
 * It compiles on a thread of its own: it wants megabytes of stack, and a caller may have few. Kernels run
 * with denormal numbers as zeros, and so do the threads that plan them; a compiler that works out constants
 * does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "kernels/cuda/base/runtime.h"

enum { STACK_BYTES = 64 << 20 };

/* NVRTC's own interface: 0 is success, everything else an error. */
typedef struct nvrtc_program *program;

static struct {
    int (*version)(int *major, int *minor);
    const char *(*error)(int number);
    int (*create)(program *p, const char *source, const char *name, int headers, const char *const *texts,
                  const char *const *names);
    int (*compile)(program p, int n, const char *const *options);
    int (*log_bytes)(program p, size_t *bytes);
    int (*log)(program p, char *text);
    int (*code_bytes)(program p, size_t *bytes);
    int (*code)(program p, char *bytes);
    int (*destroy)(program *p);
    char name[32], missing[160]; /* missing: "" where all of it is there */
} nvrtc;

/* ------------------------------------------------------------------ looking for it */

/* Those of the toolkit's version, and of the one before it, which knows the GPUs of its time. */
static void *open_library(void)
{
    int driver, built, capability;
    char name[32];
    td_cuda_versions(&driver, &built, &capability);
    void *library = NULL;
    for (int major = built / 1000; library == NULL && major >= built / 1000 - 1; major--) {
        (void)snprintf(name, sizeof name, "libnvrtc.so.%d", major);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        const char *why = dlerror();
        (void)snprintf(nvrtc.missing, sizeof nvrtc.missing, "%s", why != NULL ? why : name);
    }
    return library;
}

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        (void)snprintf(nvrtc.missing, sizeof nvrtc.missing, "%s is not in it", name);
    }
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from one to the other */
}

/* NVRTC opens a second library by its bare name when it compiles, and has no run path: where we have found
 * it by ours, the linker does not find that one. Once it is open the name is enough. */
static void open_builtins(int major, int minor)
{
    char path[PATH_MAX];
    Dl_info own;
    void *at;
    memcpy(&at, &nvrtc.version, sizeof at);
    const char *const end = dladdr(at, &own) != 0 ? strrchr(own.dli_fname, '/') : NULL;
    const int folder = end != NULL ? (int)(end - own.dli_fname) : 0;
    if (folder > 0 && snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", folder, own.dli_fname,
                               major, minor) < (int)sizeof path) {
        (void)dlopen(path,
                     RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* where it is not there, compiling says so */
    }
}

static void look(void)
{
    int major = 0, minor = 0;
    void *library = open_library();
    if (library == NULL) {
        return;
    }
    find(library, "nvrtcVersion", &nvrtc.version);
    find(library, "nvrtcGetErrorString", &nvrtc.error);
    find(library, "nvrtcCreateProgram", &nvrtc.create);
    find(library, "nvrtcCompileProgram", &nvrtc.compile);
    find(library, "nvrtcGetProgramLogSize", &nvrtc.log_bytes);
    find(library, "nvrtcGetProgramLog", &nvrtc.log);
    find(library, "nvrtcGetCUBINSize", &nvrtc.code_bytes);
    find(library, "nvrtcGetCUBIN", &nvrtc.code);
    find(library, "nvrtcDestroyProgram", &nvrtc.destroy);
    if (nvrtc.missing[0] != '\0') {
        return;
    }
    const int error = nvrtc.version(&major, &minor);
    if (error != 0) {
        (void)snprintf(nvrtc.missing, sizeof nvrtc.missing, "%s", nvrtc.error(error));
        return;
    }
    open_builtins(major, minor);
    (void)snprintf(nvrtc.name, sizeof nvrtc.name, "NVRTC %d.%d", major, minor);
}

static void look_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, look);
}

const char *td_cuda_nvrtc_version(void)
{
    look_once();
    return nvrtc.name[0] != '\0' ? nvrtc.name : NULL;
}

const char *td_cuda_nvrtc_missing(void)
{
    look_once();
    return nvrtc.missing;
}

/* ------------------------------------------------------------------ compiling */

static enum td_code checked(int error, const char *what, struct td_err *err)
{
    TD_FAIL_IF(error != 0, err, INTERNAL, "%s: %s", what, nvrtc.error(error));
    return TD_OK;
}

/* What it says of a source that it does not take. */
static enum td_code refused(program p, int error, struct td_err *err)
{
    size_t bytes = 0;
    char *text = nvrtc.log_bytes(p, &bytes) == 0 && bytes > 0 ? td_calloc(1, bytes + 1) : NULL;
    const bool said = text != NULL && nvrtc.log(p, text) == 0;
    const enum td_code rc =
        td_fail(err, TD_INTERNAL, "compiling a kernel: %s: %.300s", nvrtc.error(error), said ? text : "");
    td_free(text);
    return rc;
}

static enum td_code compile(program p, int capability, char **code, size_t *bytes, struct td_err *err)
{
    char architecture[40];
    (void)snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d", capability);
    const char *const options[] = {architecture, "--ftz=true", "--std=c++17"};
    const int error = nvrtc.compile(p, sizeof options / sizeof *options, options);
    if (error != 0) {
        return refused(p, error, err);
    }
    TD_TRY(checked(nvrtc.code_bytes(p, bytes), "a kernel's size", err));
    *code = td_calloc(1, *bytes + 1);
    if (*code == NULL) {
        return td_no_memory(err, *bytes, "a kernel");
    }
    const enum td_code rc = checked(nvrtc.code(p, *code), "a kernel's code", err);
    if (rc) {
        td_free(*code);
    }
    return rc;
}

struct job {
    const char *source;
    int capability;
    char *code;
    size_t bytes;
    struct td_err err;
};

static void *compile_job(void *job)
{
    struct job *j = job;
    program p;
    td_float_mode_set(td_float_mode_get() & ~(unsigned long)TD_FLOAT_MODE_FLUSH);
    if (checked(nvrtc.create(&p, j->source, "fused.cu", 0, NULL, NULL), "a program", &j->err) == TD_OK) {
        (void)!compile(p, j->capability, &j->code, &j->bytes, &j->err);
        (void)nvrtc.destroy(&p);
    }
    return NULL;
}

/* Runs it to its end. */
static enum td_code run_job(struct job *j, struct td_err *err)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool ok = pthread_attr_init(&attr) == 0;
    if (ok) {
        ok = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
             pthread_create(&thread, &attr, compile_job, j) == 0;
        (void)pthread_attr_destroy(&attr);
    }
    TD_FAIL_IF(!ok, err, UNAVAILABLE, "there is no thread to compile a kernel on");
    (void)pthread_join(thread, NULL);
    return j->err.code ? td_fail(err, j->err.code, "%s", j->err.msg) : TD_OK;
}

enum td_code td_cuda_nvrtc_compile(const char *source, int capability, char **code, size_t *bytes,
                                   struct td_err *err)
{
    struct job j = {.source = source, .capability = capability};
    TD_FAIL_IF(td_cuda_nvrtc_version() == NULL, err, UNIMPLEMENTED, "there is no NVRTC: %s",
               td_cuda_nvrtc_missing());
    TD_TRY(run_job(&j, err));
    *code = j.code;
    *bytes = j.bytes;
    return TD_OK;
}
