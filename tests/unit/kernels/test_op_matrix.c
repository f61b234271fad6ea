/* tests/unit/kernels/test_op_matrix.c - every op of the table against made-up hostile cases
 * (tests/fuzz/op_maker.h): each case must end, in time, with outputs or an error.
 *
 * The ops run in child processes, so that one which breaks is named and the others still run.
 *   TD_MATRIX_CASES=n  cases an op      TD_MATRIX_SEED=n  first seed      TD_MATRIX_OP=Name  one op
 *   TD_MATRIX_PRINT=1  print the graphs TD_MATRIX_REACH=1  counts of the cases that gave outputs
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "core/base/log.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_maker.h"
#include "tests/test.h"

const char *__asan_default_options(void);

/* Allocations past the limit come back as NULL, as they would from a C library that is short of memory. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

struct progress { /* shared with the child */
    uint64_t seed;
    long cases, ok;
    char error[200]; /* of the last case that failed */
};

enum { CASE_SECONDS = 20 }; /* under sanitizers, on a busy machine; the engine's own deadline is 2 s */

static uint64_t env_number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static void run_case(const struct td_op_table *ops, const struct td_op_def *def, struct progress *p)
{
    static struct op_graph g;
    struct op_script script;
    struct td_err err = {0};
    uint8_t seed[8];
    memcpy(seed, &p->seed, sizeof seed);
    if (!op_graph_open(&g)) {
        return;
    }
    op_script_open(&script, seed, sizeof seed);
    script.left = 0; /* the seed seeds only */
    if (op_maker_fill(&g, def, &script)) {
        if (getenv("TD_MATRIX_PRINT") != NULL) {
            op_maker_print(&g);
        }
        alarm(CASE_SECONDS);
        const enum td_code rc = op_graph_run(&g, ops, &err);
        p->ok += rc == TD_OK;
        if (rc != TD_OK) {
            CHECK(err.msg[0] != '\0');
            snprintf(p->error, sizeof p->error, "%.190s", err.msg);
        }
        if (getenv("TD_MATRIX_PRINT") != NULL) {
            printf("-> %s\n", rc == TD_OK ? "OK" : err.msg);
        }
        alarm(0);
    }
    op_graph_close(&g);
    p->cases++;
}

static int run_op(const struct td_op_table *ops, const struct td_op_def *def, struct progress *p)
{
    const uint64_t first = env_number("TD_MATRIX_SEED", 1), cases = env_number("TD_MATRIX_CASES", 8);
    memset(p, 0, sizeof *p);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        td_log_setup(TD_LOG_ERROR, false);
        for (p->seed = first; p->seed < first + cases; p->seed++) {
            run_case(ops, def, p);
        }
        exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const int bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (bad) {
        fprintf(stderr, "BROKE %s seed %llu status %d%s\n", def->name, (unsigned long long)p->seed, status,
                WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (does not end)" : "");
    }
    if (getenv("TD_MATRIX_REACH") != NULL) {
        printf("REACH %s %ld of %ld  %s\n", def->name, p->ok, p->cases, p->error);
    }
    return bad;
}

/* Recipes are of use while they run. */
static int check_recipes(const struct td_op_table *ops)
{
    static struct op_graph g;
    int bad = 0;
    const char *op, *text;
    for (int i = 0; (text = op_recipe(i, &op)) != NULL; i++) {
        struct td_err err = {0};
        CHECK(op_graph_open(&g));
        alarm(CASE_SECONDS);
        enum td_code rc = op_graph_read(&g, text, (i & 1) != 0, &err);
        rc = rc ? rc : op_graph_run(&g, ops, &err);
        op_graph_close(&g);
        if (rc != TD_OK) {
            fprintf(stderr, "recipe %d of %s: %s\n", i, op, err.msg);
            bad++;
        }
    }
    alarm(0);
    return bad;
}

int main(void)
{
    struct td_op_table *ops;
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    struct progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    const char *only = getenv("TD_MATRIX_OP");
    int n, bad = only == NULL ? check_recipes(ops) : 0;
    const struct td_op_def *const *list = td_op_list(ops, &n);
    for (int i = 0; i < n; i++) {
        if (only == NULL || strcmp(only, list[i]->name) == 0) {
            bad += run_op(ops, list[i], p);
        }
    }
    fprintf(stderr, "%d ops, %d broke\n", n, bad);
    td_op_table_free(ops);
    return bad != 0;
}
