/* server/jobs/child.c - a process made by posix_spawn, watched through its stderr.
 *
 * The pipe that is its stderr ends when the process does, however it does, so one poll waits for words and
 * for ends alike. Until waitpid has taken its end its number is not given to another process, so a signal
 * can reach no stranger. Only descriptors 0 to 2 are handed on.
 *
 * It has a process group of its own: a terminal's Ctrl-C is for the server, which then tells its children.
 *
 * Does not: know what jobs are (job_queue.c), what a job's process does (job_process.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/statm.h"

enum { MAX_ARGS = 128, LINE = 1000, NICEST = 19, LOG_BYTES = 1 << 20, WAIT_US = 1000 };
#define BEYOND ((int64_t)1 << 30) /* stacks, libraries, what the allocator keeps */
#define OOM_SCORE "500"           /* of 1000: before the server */

struct td_child {
    pid_t pid;
    int out; /* the pipe's end that is read */
    int log; /* -1: none */
    int64_t logged;
    char job[64];
    char line[LINE + 1]; /* begun */
    size_t n_line;
    char last[300];
};

/* ------------------------------------------------------------------ starting */

static enum td_code set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *how, int pipe_end)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    const bool ok = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                    posix_spawn_file_actions_adddup2(files, pipe_end, 2) == 0 &&
                    posix_spawn_file_actions_adddup2(files, 2, 1) == 0 &&
                    posix_spawn_file_actions_addclosefrom_np(files, 3) == 0 &&
                    posix_spawnattr_setsigmask(how, &none) == 0 &&
                    posix_spawnattr_setsigdefault(how, &all) == 0 && posix_spawnattr_setpgroup(how, 0) == 0 &&
                    posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                      POSIX_SPAWN_SETPGROUP) == 0;
    return ok ? TD_OK : TD_RESOURCE_EXHAUSTED;
}

static int spawn(const struct td_child_opts *o, int pipe_end, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    char *argv[MAX_ARGS + 2] = {(char *)"tensord"};
    for (int i = 0; o->args[i] != NULL; i++) {
        if (i == MAX_ARGS) {
            return E2BIG;
        }
        argv[i + 1] = (char *)o->args[i]; /* posix_spawn does not write there */
    }
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    const int rc =
        set_up(&files, &how, pipe_end) ? ENOMEM : posix_spawn(pid, o->program, &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

enum td_code td_child_start(const struct td_child_opts *o, struct td_child **out, struct td_err *err)
{
    int ends[2];
    struct td_child *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return td_no_memory(err, sizeof *c, "a process");
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        td_free(c);
        TD_FAIL(err, UNAVAILABLE, "starting the process of job %s: no pipe: %s", o->job, strerror(errno));
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const int rc = spawn(o, ends[1], &c->pid);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        td_free(c);
        TD_FAIL(err, UNAVAILABLE, "starting the process of job %s (%s): %s", o->job, o->program,
                strerror(rc));
    }
    struct stat st;
    c->out = ends[0];
    c->log = open(o->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    c->logged = c->log >= 0 && fstat(c->log, &st) == 0 ? (int64_t)st.st_size : 0;
    (void)snprintf(c->job, sizeof c->job, "%s", o->job);
    *out = c;
    return TD_OK;
}

/* ------------------------------------------------------------------ watching */

int td_child_fd(const struct td_child *c)
{
    return c->out;
}

static void end_line(struct td_child *c)
{
    c->line[c->n_line] = '\0';
    if (c->n_line > 0) {
        (void)snprintf(c->last, sizeof c->last, "%.*s", (int)sizeof c->last - 1, c->line);
        td_log(TD_LOG_INFO, NULL, "job %s: %s", c->job, c->line);
    }
    c->n_line = 0;
}

static void take(struct td_child *c, const char *bytes, size_t n)
{
    if (c->log >= 0 && c->logged < LOG_BYTES) {
        const int64_t room = LOG_BYTES - c->logged;
        const ssize_t put = write(c->log, bytes, (int64_t)n < room ? n : (size_t)room);
        c->logged += put > 0 ? put : room; /* a full disk: no more */
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || c->n_line == LINE) {
            end_line(c);
        }
        if (bytes[i] != '\n') {
            c->line[c->n_line++] = bytes[i];
        }
    }
}

bool td_child_read(struct td_child *c)
{
    char buf[4096];
    for (;;) {
        const ssize_t got = read(c->out, buf, sizeof buf);
        if (got > 0) {
            take(c, buf, (size_t)got);
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return true;
        } else if (errno == EAGAIN) {
            return false;
        }
    }
}

void td_child_signal(struct td_child *c, int number)
{
    (void)kill(c->pid, number);
}

struct td_child_end td_child_end(struct td_child *c)
{
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    (void)td_child_read(c);
    end_line(c);
    struct td_child_end e = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                             .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    memcpy(e.last_words, c->last, sizeof e.last_words);
    close(c->out);
    if (c->log >= 0) {
        close(c->log);
    }
    td_free(c);
    return e;
}

/* ------------------------------------------------------------------ in the process itself */

static void be_killed_first(void)
{
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        const ssize_t put = write(fd, OOM_SCORE, sizeof OOM_SCORE - 1);
        (void)put; /* then it stands where the server does */
        close(fd);
    }
}

void td_child_bound(int64_t bytes)
{
    const int64_t now = (int64_t)td_statm().data;
    struct rlimit r;
    if (bytes > 0 && now > 0 && bytes < (INT64_MAX - now - BEYOND) / 2 && getrlimit(RLIMIT_DATA, &r) == 0) {
        const rlim_t most = (rlim_t)(now + 2 * bytes + BEYOND);
        r.rlim_cur = most < r.rlim_max ? most : r.rlim_max;
        (void)setrlimit(RLIMIT_DATA, &r);
    }
}

enum td_code td_child_enter(int64_t parent, struct td_err *err)
{
    TD_FAIL_IF(prctl(PR_SET_PDEATHSIG, SIGKILL) != 0, err, UNAVAILABLE, "asking to end with the server: %s",
               strerror(errno));
    TD_FAIL_IF(parent > 0 && (int64_t)getppid() != parent, err, FAILED_PRECONDITION,
               "the server that started this process has gone");
    (void)setpriority(PRIO_PROCESS, 0, NICEST);
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &none); /* long slices, no preference on waking up */
    be_killed_first();
    return TD_OK;
}
