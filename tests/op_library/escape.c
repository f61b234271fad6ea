/* tests/op_library/escape.c - a library that tries, while it is opened, what --sandbox forbids, and says on
 * stderr what came of it: 0, or errno. (tests/e2e/confine_test.py; it has no ops, so that the start ends.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int opened(const char *path, int flags)
{
    const int fd = path == NULL ? -1 : open(path, flags, 0600);
    const int why = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return why;
}

static int executed(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(errno);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* To a port that nobody listens at: ECONNREFUSED where it may be tried. */
static int connected(void)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int why = connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 ? errno : 0;
    close(fd);
    return why;
}

static int datagram(void)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const int why = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return why;
}

__attribute__((constructor)) static void try_all(void)
{
    const char *outside = getenv("ESCAPE_TO");
    const int traced = ptrace(PTRACE_PEEKUSER, getppid(), 0, 0) < 0 ? errno : 0;
    const int mounted = mount("none", "/nowhere", "tmpfs", 0, NULL) != 0 ? errno : 0;
    fprintf(stderr, "escape: write=%d read=%d exec=%d connect=%d datagram=%d ptrace=%d mount=%d\n",
            opened(outside, O_WRONLY | O_CREAT), opened("/etc/passwd", O_RDONLY), executed(), connected(),
            datagram(), traced, mounted);
}
