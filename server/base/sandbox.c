/* server/base/sandbox.c - rules for Landlock from lists of paths, and a seccomp program from a table of
 * calls.
 *
 * Landlock holds a thread and what it starts, so this runs before the first thread does. Rules name
 * folders by descriptor: what is put there later counts, what a link leads to elsewhere does not, unless it
 * has a rule of its own (td_sandbox_model adds those that it finds). Access rights that the running kernel
 * does not know are left out by its ABI version: 1 reading, writing, executing; 2 renaming between folders;
 * 3 truncating; 4 connecting by TCP; 6 signals to other domains.
 *
 * The seccomp program lets pass what is not in the table: servers and libraries make too many calls to list,
 * and those that are refused (EPERM) are what breaks out or reconfigures a host. Sockets over IP are streams
 * only, so that nothing leaves by UDP; connecting is Landlock's, by port, or refused whole where that is too
 * old. execve passes where jobs are on; Landlock then lets one program through, and the loader that starts
 * it.
 *
 * Does not: change user or namespaces, bound memory or time (options of their own, and systemd's).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"

/* ------------------------------------------------------------------ paths */

static enum td_code add(struct td_sandbox_list *l, const char *path)
{
    char real[PATH_MAX];
    if (path[0] == '\0' || realpath(path, real) == NULL) {
        return TD_OK;
    }
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->at[i], real) == 0) {
            return TD_OK;
        }
    }
    if (l->n == TD_SANDBOX_PATHS) {
        return TD_RESOURCE_EXHAUSTED;
    }
    l->at[l->n] = td_strdup(real);
    return l->at[l->n++] != NULL ? TD_OK : TD_RESOURCE_EXHAUSTED;
}

enum td_code td_sandbox_read(struct td_sandbox *s, const char *path, enum td_code before)
{
    return before ? before : add(&s->read, path);
}

enum td_code td_sandbox_write(struct td_sandbox *s, const char *path, enum td_code before)
{
    return before ? before : add(&s->write, path);
}

/* The folder that path lies in, unless that is the root of all. */
static enum td_code add_holder(struct td_sandbox *s, const char *path)
{
    char real[PATH_MAX];
    char *slash = realpath(path, real) != NULL ? strrchr(real, '/') : NULL;
    if (slash == NULL || slash == real) {
        return TD_OK;
    }
    *slash = '\0';
    return add(&s->read, real);
}

enum td_code td_sandbox_model(struct td_sandbox *s, const char *base_path, bool writes)
{
    char path[PATH_MAX];
    struct stat st;
    enum td_code rc = td_sandbox_read(s, base_path, add_holder(s, base_path));
    rc = writes ? td_sandbox_write(s, base_path, rc) : rc;
    DIR *all = opendir(base_path);
    for (const struct dirent *e; rc == TD_OK && all != NULL && (e = readdir(all)) != NULL;) {
        const int n = snprintf(path, sizeof path, "%s/%s", base_path, e->d_name);
        if (n > 0 && (size_t)n < sizeof path && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
            rc = td_sandbox_read(s, path, add_holder(s, path));
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return rc;
}

static bool below_any(const struct td_sandbox_list *l, const char *real)
{
    for (int i = 0; i < l->n; i++) {
        const size_t n = strlen(l->at[i]);
        if (strncmp(real, l->at[i], n) == 0 && (real[n] == '/' || real[n] == '\0')) {
            return true;
        }
    }
    return false;
}

bool td_sandbox_may_read(const struct td_sandbox *s, const char *path)
{
    char real[PATH_MAX];
    if (s == NULL || strstr(path, "://") != NULL) {
        return true;
    }
    const char *name = realpath(path, real) != NULL ? real : path; /* resolving asks for no right */
    return below_any(&s->read, name) || below_any(&s->write, name);
}

void td_sandbox_fini(struct td_sandbox *s)
{
    for (int i = 0; i < s->read.n; i++) {
        td_free(s->read.at[i]);
    }
    for (int i = 0; i < s->write.n; i++) {
        td_free(s->write.at[i]);
    }
    *s = (struct td_sandbox){0};
}

/* ------------------------------------------------------------------ Landlock */

#define FS_TRUNCATE (1ULL << 14)
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_SIGNAL (1ULL << 1)
enum { RULE_PATH = 1, RULE_PORT = 2 };

/* The kernel's structure as of ABI 6; an older one takes its first fields. */
struct ruleset {
    uint64_t fs, net, scoped;
};
struct port_rule {
    uint64_t access, port;
};

#define READS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FILE_RIGHTS                                                                                          \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE)
#define ALL_V1 ((1ULL << 13) - 1)

static enum td_code rule(int ruleset, const char *path, uint64_t access, struct td_err *err)
{
    struct stat st;
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return TD_OK; /* what is not there cannot be used */
    }
    const struct landlock_path_beneath_attr attr = {
        .allowed_access = S_ISDIR(st.st_mode) ? access : access & FILE_RIGHTS, .parent_fd = fd};
    const long rc = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH, &attr, 0);
    const int why = errno;
    close(fd);
    TD_FAIL_IF(rc != 0, err, FAILED_PRECONDITION, "--sandbox: a Landlock rule for %s: %s", path,
               strerror(why));
    return TD_OK;
}

/* What libc, TLS and the engine read anywhere, and devices that they write. */
static enum td_code system_rules(int ruleset, uint64_t handled, struct td_err *err)
{
    static const char *const read[] = {"/usr/lib",
                                       "/usr/lib64",
                                       "/usr/local/lib",
                                       "/usr/share",
                                       "/lib",
                                       "/lib64",
                                       "/etc/ssl",
                                       "/etc/pki",
                                       "/etc/hosts",
                                       "/etc/host.conf",
                                       "/etc/localtime",
                                       "/etc/timezone",
                                       "/etc/nsswitch.conf",
                                       "/etc/resolv.conf",
                                       "/etc/ld.so.cache",
                                       "/etc/gai.conf",
                                       "/etc/protocols",
                                       "/etc/services",
                                       "/proc",
                                       "/sys/devices",
                                       "/sys/fs/cgroup",
                                       "/sys/kernel/mm",
                                       "/dev/urandom",
                                       "/dev/random",
                                       "/dev/zero"};
    static const char *const write[] = {"/dev/null", "/dev/shm", "/proc/self/oom_score_adj"};
    static const char *const devices[] = {"/dev/nvidia0",   "/dev/nvidia1",   "/dev/nvidia2", "/dev/nvidia3",
                                          "/dev/nvidia4",   "/dev/nvidia5",   "/dev/nvidia6", "/dev/nvidia7",
                                          "/dev/nvidiactl", "/dev/nvidia-uvm"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        TD_TRY(rule(ruleset, read[i], READS, err));
    }
    for (size_t i = 0; i < sizeof write / sizeof *write; i++) {
        TD_TRY(rule(ruleset, write[i], handled & ~LANDLOCK_ACCESS_FS_EXECUTE, err));
    }
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        TD_TRY(rule(ruleset, devices[i], READS | LANDLOCK_ACCESS_FS_WRITE_FILE, err));
    }
    return TD_OK;
}

static enum td_code all_rules(const struct td_sandbox *s, int ruleset, uint64_t handled, struct td_err *err)
{
    static const char *const loaders[] = {"/proc/self/exe", "/lib64/ld-linux-x86-64.so.2",
                                          "/lib/ld-linux-aarch64.so.1"};
    TD_TRY(system_rules(ruleset, handled, err));
    for (int i = 0; i < s->read.n; i++) {
        TD_TRY(rule(ruleset, s->read.at[i], READS, err));
    }
    for (int i = 0; i < s->write.n; i++) {
        TD_TRY(rule(ruleset, s->write.at[i], handled & ~LANDLOCK_ACCESS_FS_EXECUTE, err));
    }
    for (size_t i = 0; s->jobs && i < sizeof loaders / sizeof *loaders; i++) {
        TD_TRY(rule(ruleset, loaders[i], READS | LANDLOCK_ACCESS_FS_EXECUTE, err));
    }
    return TD_OK;
}

/* *abi: the kernel's version of it. */
static enum td_code enter_landlock(const struct td_sandbox *s, long *abi, struct td_err *err)
{
    *abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    TD_FAIL_IF(*abi < 1, err, FAILED_PRECONDITION, "--sandbox: this kernel has no Landlock: %s",
               strerror(errno));
    const struct ruleset r = {.fs = ALL_V1 | (*abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
                                    (*abi >= 3 ? FS_TRUNCATE : 0),
                              .net = *abi >= 4 ? NET_CONNECT_TCP : 0,
                              .scoped = *abi >= 6 ? SCOPE_SIGNAL : 0};
    const size_t size = *abi >= 6 ? 24 : *abi >= 4 ? 16 : 8;
    const int set = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
    TD_FAIL_IF(set < 0, err, FAILED_PRECONDITION, "--sandbox: Landlock: %s", strerror(errno));
    enum td_code rc = all_rules(s, set, r.fs, err);
    for (int i = 0; rc == TD_OK && *abi >= 4 && i < 2; i++) {
        const struct port_rule port = {NET_CONNECT_TCP, (uint64_t)s->connect_port[i]};
        if (port.port > 0 && syscall(SYS_landlock_add_rule, set, RULE_PORT, &port, 0) != 0) {
            rc = td_fail(err, TD_FAILED_PRECONDITION, "--sandbox: a Landlock rule for port %d: %s",
                         s->connect_port[i], strerror(errno));
        }
    }
    if (rc == TD_OK && syscall(SYS_landlock_restrict_self, set, 0) != 0) {
        rc = td_fail(err, TD_FAILED_PRECONDITION, "--sandbox: Landlock: %s", strerror(errno));
    }
    close(set);
    return rc;
}

/* ------------------------------------------------------------------ seccomp */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

static const int REFUSED[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_personality,
    SYS_vhangup,
    SYS_nfsservctl,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#endif
#ifdef SYS_move_mount
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsmount,
    SYS_fsconfig,
    SYS_fspick,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
};

enum { MAX_FILTER = 128 };

struct program {
    struct sock_filter at[MAX_FILTER];
    unsigned short n;
};

static void put(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    TD_CHECK(p->n < MAX_FILTER);
    p->at[p->n++] = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k};
}

#define LOAD(field) put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field), 0, 0)
#define ANSWER(what) put(p, BPF_RET | BPF_K, (what), 0, 0)
#define NO (SECCOMP_RET_ERRNO | EPERM)

/* The number is loaded. */
static void refuse(struct program *p, int number)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    ANSWER(NO);
}

/* socket(AF_INET or AF_INET6, anything but a stream): refused; all else passes. */
static void refuse_datagrams(struct program *p)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 7); /* not: allow */
    LOAD(args[0]);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 4); /* not: allow */
    LOAD(args[1]);
    put(p, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0); /* the kind, without SOCK_CLOEXEC and SOCK_NONBLOCK */
    put(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0);
    ANSWER(NO);
    ANSWER(SECCOMP_RET_ALLOW);
}

static void make_program(struct program *p, const struct td_sandbox *s, bool no_connect)
{
    LOAD(arch);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    ANSWER(NO);
    LOAD(nr);
#ifdef __x86_64__
    put(p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1); /* x32: the same calls by other numbers */
    ANSWER(NO);
#endif
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        refuse(p, REFUSED[i]);
    }
    if (!s->jobs) {
        refuse(p, SYS_execve);
        refuse(p, SYS_execveat);
    }
    if (no_connect) {
        refuse(p, SYS_connect);
    }
    if (!s->names) {
        refuse_datagrams(p);
    }
    ANSWER(SECCOMP_RET_ALLOW);
}

static enum td_code enter_seccomp(const struct td_sandbox *s, bool no_connect, struct td_err *err)
{
    static struct program p;
    p.n = 0;
    make_program(&p, s, no_connect);
    const struct sock_fprog prog = {.len = p.n, .filter = p.at};
    TD_FAIL_IF(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) != 0, err,
               FAILED_PRECONDITION, "--sandbox: this kernel takes no seccomp program: %s", strerror(errno));
    return TD_OK;
}

enum td_code td_sandbox_enter(const struct td_sandbox *s, struct td_err *err)
{
    long abi;
    TD_FAIL_IF(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0, err, FAILED_PRECONDITION,
               "--sandbox: no_new_privs: %s", strerror(errno));
    TD_TRY(enter_landlock(s, &abi, err));
    return enter_seccomp(s, abi < 4 && s->connect_port[0] + s->connect_port[1] == 0, err);
}
