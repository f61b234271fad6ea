/* tests/host_cuda/nvrtc.cc - a stand-in for NVRTC (libnvrtc.so): the host's compiler makes a shared object of
 * the source, for library.cc to load. Kernels are those that the source declares as
 * `extern "C" __global__ void ... NAME(`.
 *
 *   HOST_CUDA_NVRTC=1        there is one; else this stands for none, also where the real one is installed
 *   HOST_CUDA_NVRTC_FOLDER   where objects are kept by a hash of the source, and found again (tests have many
 *                            processes, and a compiler takes its time); the default is beside this library
 *
 *   HOST_CUDA_REAL_NVRTC     the real one's file: it must take the source, too
 *
 * It takes what NVRTC takes: a source that includes nothing, the options that it knows, and an architecture.
 * As that does, it wants a second library, libnvrtc-builtins, which here must be open already: who finds
 * NVRTC by a run path of his own does not find that one by its name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

enum {
    SUCCESS = 0,
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6,
    BUILTINS = 7
};

struct program {
    std::string source, log, code;
};

extern "C" char **environ;

namespace
{

/* What a kernel's text is written in, and what else the compiler is not to say a word about. */
const char *const before = "#include <cuda_runtime.h>\n"
                           "template <class... P>\n"
                           "static void host_cuda_say(void (*k)(P...), host_cuda::kernel_type *t)\n"
                           "{ *t = host_cuda::typed<P...>::of(k); }\n"
                           "#line 1 \"fused.cu\"\n";

std::string read_file(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

void write_file(const std::string &path, const std::string &bytes)
{
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string folder()
{
    const char *const given = getenv("HOST_CUDA_NVRTC_FOLDER");
    Dl_info own;
    std::string path = given != nullptr ? given : "";
    if (path.empty() && dladdr(reinterpret_cast<const void *>(&folder), &own) != 0) {
        path = std::string(own.dli_fname);
        path = path.substr(0, path.rfind('/')) + "/objects";
    }
    mkdir(path.c_str(), 0777);
    return path;
}

std::string whole_source(const std::string &source)
{
    static const std::regex kernel("extern \"C\" __global__ void [^;{]*?(\\w+)\\(shape");
    std::string all = before + source + "\n";
    for (std::sregex_iterator i(source.begin(), source.end(), kernel), end; i != end; ++i) {
        const std::string name = (*i)[1];
        all += "extern \"C\" __attribute__((visibility(\"default\"))) void host_cuda_type_" + name +
               "(host_cuda::kernel_type *t) { host_cuda_say(" + name + ", t); }\n";
    }
    return all;
}

/* The compiler's exit status; its words go to a file. */
int run(const std::vector<std::string> &words, const std::string &log)
{
    std::vector<char *> args;
    for (const auto &w : words) {
        args.push_back(const_cast<char *>(w.c_str()));
    }
    args.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    /* what is preloaded into the test is not for the compiler */
    std::vector<char *> env;
    for (char **e = environ; *e != nullptr; e++) {
        if (strncmp(*e, "LD_", 3) != 0 && strncmp(*e, "GLIBC_TUNABLES", 14) != 0) {
            env.push_back(*e);
        }
    }
    env.push_back(nullptr);
    pid_t child;
    int status = -1;
    const int failed = posix_spawnp(&child, args[0], &files, nullptr, args.data(), env.data());
    posix_spawn_file_actions_destroy(&files);
    return failed == 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* What an object was made of beside its source: the device's headers. */
const std::string &headers()
{
    static const std::string all = [] {
        std::string text;
        for (const auto &file : std::filesystem::directory_iterator(HOST_CUDA_HEADERS)) {
            text += read_file(file.path());
        }
        return text;
    }();
    return all;
}

using create_function = int(program **, const char *, const char *, int, const char *const *,
                            const char *const *);
using compile_function = int(program *, int, const char *const *);
using log_size_function = int(program *, size_t *);
using log_function = int(program *, char *);
using destroy_function = int(program **);

template <class F> F *function_of(void *library, const char *name)
{
    return reinterpret_cast<F *>(dlsym(library, name));
}

/* Whether the real NVRTC, where there is one, takes the source with these options; p->log: why not. */
bool real_one_takes(program *p, int n, const char *const *options)
{
    const char *const file = getenv("HOST_CUDA_REAL_NVRTC");
    if (file == nullptr) {
        return true;
    }
    void *const real = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    program *theirs;
    if (real == nullptr || function_of<create_function>(real, "nvrtcCreateProgram")(
                               &theirs, p->source.c_str(), "fused.cu", 0, nullptr, nullptr) != SUCCESS) {
        p->log = std::string("there is no real NVRTC: ") + file;
        return false;
    }
    const bool takes =
        function_of<compile_function>(real, "nvrtcCompileProgram")(theirs, n, options) == SUCCESS;
    size_t bytes = 0;
    function_of<log_size_function>(real, "nvrtcGetProgramLogSize")(theirs, &bytes);
    p->log.resize(bytes);
    function_of<log_function>(real, "nvrtcGetProgramLog")(theirs, p->log.data());
    function_of<destroy_function>(real, "nvrtcDestroyProgram")(&theirs);
    if (!takes) {
        fprintf(stderr, "host_cuda: NVRTC takes no such source: %s\n%s\n", p->log.c_str(), p->source.c_str());
    }
    return takes;
}

bool builtins_are_open()
{
    return dlopen("libnvrtc-builtins.so.13.99", RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

int compile(program *p)
{
    static unsigned number;
    const std::string source = whole_source(p->source);
    const uint64_t hash = std::hash<std::string>{}(source + HOST_CUDA_COMPILE + headers());
    std::ostringstream name, mine;
    name << folder() << "/" << std::hex << hash;
    mine << name.str() << "-" << std::dec << getpid() << "-"
         << __atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
    const std::string object = name.str() + ".so", temporary = mine.str() + ".so", text = mine.str() + ".cc",
                      log = mine.str() + ".log";
    p->code = read_file(object);
    if (!p->code.empty()) {
        return SUCCESS;
    }
    write_file(text, source);
    std::istringstream words(HOST_CUDA_COMPILE);
    std::vector<std::string> args{std::istream_iterator<std::string>(words), {}};
    args.insert(args.end(), {"-o", temporary, text});
    const int status = run(args, log);
    p->log = read_file(log);
    p->code = status == 0 ? read_file(temporary) : "";
    rename(temporary.c_str(), object.c_str());
    unlink(text.c_str());
    unlink(log.c_str());
    return p->code.empty() ? COMPILATION : SUCCESS;
}

/* The real one wants megabytes of stack. */
__attribute__((noinline)) void use_stack()
{
    volatile char room[4 << 20];
    for (size_t i = 0; i < sizeof room; i += 4096) {
        room[i] = 1;
    }
}

bool known(const char *option)
{
    int capability;
    char rest;
    return strcmp(option, "--ftz=true") == 0 || strcmp(option, "--std=c++17") == 0 ||
           (sscanf(option, "--gpu-architecture=sm_%d%c", &capability, &rest) == 1 && capability >= 75);
}

} // namespace

#define API extern "C" __attribute__((visibility("default")))

API int nvrtcVersion(int *major, int *minor)
{
    if (getenv("HOST_CUDA_NVRTC") == nullptr) {
        return INVALID_INPUT;
    }
    *major = 13;
    *minor = 99; /* what it makes is not what the real one makes */
    return SUCCESS;
}

API const char *nvrtcGetErrorString(int number)
{
    return number == SUCCESS       ? "NVRTC_SUCCESS"
           : number == COMPILATION ? "NVRTC_ERROR_COMPILATION"
           : number == BUILTINS    ? "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"
                                   : "an error";
}

API int nvrtcCreateProgram(program **out, const char *source, const char *, int headers, const char *const *,
                           const char *const *)
{
    if (headers != 0 || strstr(source, "#include") != nullptr) {
        return INVALID_INPUT;
    }
    *out = new program{source, "", ""};
    return SUCCESS;
}

API int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
    for (int i = 0; i < n; i++) {
        if (!known(options[i])) {
            return INVALID_OPTION;
        }
    }
    use_stack();
    if (!builtins_are_open()) {
        p->log = "failed to open libnvrtc-builtins.so.13.99";
        return BUILTINS;
    }
    const int error = compile(p);
    return error == SUCCESS && !real_one_takes(p, n, options) ? COMPILATION : error;
}

API int nvrtcGetProgramLogSize(program *p, size_t *bytes)
{
    *bytes = p->log.size() + 1;
    return SUCCESS;
}

API int nvrtcGetProgramLog(program *p, char *text)
{
    memcpy(text, p->log.c_str(), p->log.size() + 1);
    return SUCCESS;
}

API int nvrtcGetCUBINSize(program *p, size_t *bytes)
{
    *bytes = p->code.size() + 16;
    return p->code.empty() ? INVALID_PROGRAM : SUCCESS;
}

API int nvrtcGetCUBIN(program *p, char *bytes)
{
    const uint64_t n = p->code.size();
    memcpy(bytes, "hostcuda", 8);
    memcpy(bytes + 8, &n, sizeof n);
    memcpy(bytes + 16, p->code.data(), n);
    return SUCCESS;
}

API int nvrtcDestroyProgram(program **p)
{
    delete *p;
    *p = nullptr;
    return SUCCESS;
}
