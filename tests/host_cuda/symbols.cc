/* tests/host_cuda/symbols.cc - reads the ELF symbol table of the module that a kernel is in, once for each.
 *
 * A static shared variable is a thread_local in a function: its symbol is of type TLS, and its name _ZZ, the
 * function's name without _Z, E, its own. dl_iterate_phdr says where the calling thread has the module's
 * thread_local memory. A module without symbols: no names, no filling.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/symbols.h"

#include "tests/host_cuda/sanitizers.h"

#include "tests/host_cuda/reports.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace host_cuda
{
namespace
{

struct shared_variable {
    std::string name;
    size_t offset, bytes; /* in the module's TLS block */
};

struct module {
    std::map<uintptr_t, std::string> functions; /* by address from the module's base */
    std::vector<shared_variable> shared;
};

struct place {
    uintptr_t address, base;
    std::string path;
    char *tls; /* the calling thread's block; NULL: none */
    bool found;
};

int look(dl_phdr_info *info, size_t, void *data)
{
    auto *const p = static_cast<place *>(data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &h = info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + h.p_vaddr;
        if (h.p_type == PT_LOAD && p->address >= at && p->address < at + h.p_memsz) {
            p->base = info->dlpi_addr;
            p->path = info->dlpi_name[0] != 0 ? info->dlpi_name : "/proc/self/exe";
            p->tls = static_cast<char *>(info->dlpi_tls_data);
            p->found = true;
            return 1;
        }
    }
    return 0;
}

place place_of(const void *kernel)
{
    place p = {};
    p.address = reinterpret_cast<uintptr_t>(kernel);
    dl_iterate_phdr(look, &p);
    return p;
}

void read_symbols(const char *file, const Elf64_Shdr *sections, const Elf64_Shdr &table, module *m)
{
    const char *const names = file + sections[table.sh_link].sh_offset;
    const auto *const all = reinterpret_cast<const Elf64_Sym *>(file + table.sh_offset);
    for (size_t i = 0; i < table.sh_size / sizeof *all; i++) {
        const char *const name = names + all[i].st_name;
        const int type = ELF64_ST_TYPE(all[i].st_info);
        if (type == STT_FUNC && all[i].st_value != 0) {
            m->functions[all[i].st_value] = name;
        } else if (type == STT_TLS && strncmp(name, "_ZZ", 3) == 0 &&
                   strncmp(name, "_ZZN9host_cuda", 14) != 0) {
            m->shared.push_back({name, all[i].st_value, all[i].st_size});
        }
    }
}

void read_module(const std::string &path, module *m)
{
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && static_cast<size_t>(st.st_size) > sizeof(Elf64_Ehdr)) {
        const auto bytes = static_cast<size_t>(st.st_size);
        void *const map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            const char *const file = static_cast<const char *>(map);
            const auto *const head = reinterpret_cast<const Elf64_Ehdr *>(file);
            const auto *const sections = reinterpret_cast<const Elf64_Shdr *>(file + head->e_shoff);
            for (int i = 0; i < head->e_shnum; i++) {
                if (sections[i].sh_type == SHT_SYMTAB) {
                    read_symbols(file, sections, sections[i], m);
                }
            }
            munmap(map, bytes);
        }
    }
    close(fd);
}

const module &module_of(const place &p)
{
    static std::mutex mu;
    static std::map<std::string, std::unique_ptr<module>> all; /* under mu */
    const std::lock_guard<std::mutex> l(mu);
    auto &m = all[p.path];
    if (m == nullptr) {
        m = std::make_unique<module>();
        read_module(p.path, m.get());
    }
    return *m;
}

std::string mangled(const void *kernel)
{
    const place p = place_of(kernel);
    if (!p.found) {
        return "";
    }
    const module &m = module_of(p);
    const auto at = m.functions.find(p.address - p.base);
    return at != m.functions.end() ? at->second : "";
}

} // namespace

std::string kernel_name(const void *kernel)
{
    const std::string symbol = mangled(kernel);
    if (symbol.empty()) {
        return text("%p", kernel);
    }
    int status = 0;
    char *const plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string name = plain != nullptr ? plain : symbol;
    free(plain);
    const size_t parameters = name.rfind('(');
    if (parameters != std::string::npos && parameters > 0) {
        name.resize(parameters);
    }
    return name;
}

size_t static_shared_bytes(const void *kernel)
{
    const std::string symbol = mangled(kernel);
    const place p = place_of(kernel);
    size_t bytes = 0;
    if (symbol.size() > 2) {
        const std::string inside = "_ZZ" + symbol.substr(2) + "E";
        for (const auto &v : module_of(p).shared) {
            bytes += v.name.compare(0, inside.size(), inside) == 0 ? v.bytes : 0;
        }
    }
    return bytes;
}

void fill_static_shared(const void *kernel)
{
    thread_local const void *last;
    thread_local place p;
    if (last != kernel) {
        p = place_of(kernel);
        last = kernel;
    }
    if (p.tls == nullptr) {
        /* A module loaded later has its TLS block made at the first use: filled from the next block on. */
        last = nullptr;
        return;
    }
    const quiet q; /* the variables of all kernels, for each block: half of a run's time, told to TSan */
    for (const auto &v : module_of(p).shared) {
        memset(p.tls + v.offset, 0xFF, v.bytes);
    }
}

} // namespace host_cuda
