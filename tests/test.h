/* tests/test.h - the unit tests' harness: named claims, each run in a process of its own.
 *
 *   TEST(rows_keep_their_order) { CHECK(x > 0); CHECK_INT(n, 3); CHECK_STR(text, "..."); }
 *   TEST_MAIN(RUN(rows_keep_their_order) RUN(...))
 *
 * A failing CHECK prints where and both values, and ends the test. With an argument only the tests whose name
 * contains it run; with TEST_EVERY=N in the environment only each N-th, the second among them. The exit
 * status is 0 when every test passed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_TEST_H
#define TD_TESTS_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST(name) static void name(void)

#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond);                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK_INT(got, want) test_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))
#define CHECK_STR(got, want) test_check_str(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_OK(call) test_check_ok(__FILE__, __LINE__, #call, (call), &err)

static inline void test_check_int(const char *file, int line, const char *what, long long got, long long want)
{
    if (got != want) {
        fprintf(stderr, "%s:%d: %s is %lld, want %lld\n", file, line, what, got, want);
        exit(1);
    }
}

static inline void test_check_str(const char *file, int line, const char *what, const char *got,
                                  const char *want)
{
    if (got == NULL || strcmp(got, want) != 0) {
        fprintf(stderr, "%s:%d: %s is\n  %s\nwant\n  %s\n", file, line, what, got ? got : "(null)", want);
        exit(1);
    }
}

/* For calls that fill in a struct td_err named err in scope. */
#define test_check_ok(file, line, what, code, err)                                                           \
    do {                                                                                                     \
        if ((code) != 0) {                                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, (err)->msg);                                \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Whether the environment has the next test left out. */
static inline int test_left_out(void)
{
    static int met;
    const char *every = getenv("TEST_EVERY");
    const long n = every != NULL ? strtol(every, NULL, 10) : 1;
    return n > 1 && met++ % n != 1;
}

static inline int test_run(const char *name, void (*fn)(void), const char *only)
{
    if ((only != NULL && strstr(name, only) == NULL) || test_left_out()) {
        return 0;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        fn();
        exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const int bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (bad && WIFSIGNALED(status)) {
        fprintf(stderr, "%s: signal %d\n", name, WTERMSIG(status));
    }
    fprintf(stderr, "%s %s\n", bad ? "FAIL" : "ok  ", name);
    return bad;
}

#define RUN(name) bad += test_run(#name, name, only);
#define TEST_MAIN(runs)                                                                                      \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        const char *only = argc > 1 ? argv[1] : NULL;                                                        \
        int bad = 0;                                                                                         \
        runs return bad != 0;                                                                                \
    }

#endif
