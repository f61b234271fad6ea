/* tests/unit/server/test_shm.c - shared memory regions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/shm.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "server/request/cuda_ipc.h"
#include "tests/test.h"

static struct td_shm *s;
static struct td_err err;
static char key[64];
static int fd;

static void setup(void)
{
    (void)snprintf(key, sizeof key, "/td_test_shm.%d", (int)getpid());
    fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    CHECK_OK(td_shm_new(4096, &s, &err));
}

static void clean(void)
{
    td_shm_free(s);
    close(fd);
    shm_unlink(key);
}

static void refuses(enum td_code got, enum td_code want, const char *words)
{
    CHECK_INT(got, want);
    if (strstr(err.msg, words) == NULL) {
        CHECK_STR(err.msg, words);
    }
    err = (struct td_err){0};
}

TEST(bytes_go_both_ways_at_their_offsets)
{
    char got[8];
    setup();
    CHECK_OK(td_shm_register(s, "", "r", key, 100, 50, &err));
    CHECK_INT(pwrite(fd, "abcdefgh", 8, 110), 8);
    CHECK_OK(td_shm_read(s, "", "r", 10, got, 8, &err));
    CHECK(memcmp(got, "abcdefgh", 8) == 0);
    CHECK_OK(td_shm_write(s, "", "r", 42, "12345678", 8, &err));
    CHECK_INT(pread(fd, got, 8, 142), 8);
    CHECK(memcmp(got, "12345678", 8) == 0);
    CHECK_OK(td_shm_write(s, "", "r", 50, NULL, 0, &err));
    refuses(td_shm_read(s, "", "r", 43, got, 8, &err), TD_INVALID_ARGUMENT, "Invalid offset + byte size");
    refuses(td_shm_write(s, "", "r", UINT64_MAX, got, 8, &err), TD_INVALID_ARGUMENT,
            "Invalid offset + byte size");
    refuses(td_shm_read(s, "", "q", 0, got, 1, &err), TD_NOT_FOUND,
            "Unable to find shared memory region: 'q'");
    refuses(td_shm_check(s, "", "r", 0, 5000, &err), TD_INVALID_ARGUMENT,
            "larger than max_request_bytes (4096)");
    clean();
}

TEST(what_cannot_be_a_region_is_refused)
{
    setup();
    refuses(td_shm_register(s, "", "r", key, 0, 8193, &err), TD_INVALID_ARGUMENT, "invalid args");
    refuses(td_shm_register(s, "", "r", key, UINT64_MAX, 2, &err), TD_INVALID_ARGUMENT, "invalid args");
    refuses(td_shm_register(s, "", "r", key, 8192, 0, &err), TD_INVALID_ARGUMENT, "invalid args");
    refuses(td_shm_register(s, "", "r", "/", 0, 1, &err), TD_INVALID_ARGUMENT, "Unable to open");
    refuses(td_shm_register(s, "", "r", "/../x", 0, 1, &err), TD_INVALID_ARGUMENT, "without further slashes");
    refuses(td_shm_register(s, "", "r", "/td_test_none", 0, 1, &err), TD_INVALID_ARGUMENT, "Unable to open");
    refuses(td_shm_register(s, "", "", key, 0, 1, &err), TD_INVALID_ARGUMENT, "needs a name");
    CHECK_OK(td_shm_register(s, "", "r", key, 0, 8192, &err));
    refuses(td_shm_register(s, "", "r", key, 0, 1, &err), TD_ALREADY_EXISTS, "already in manager");
    clean();
}

static enum td_code count(void *n, const struct td_shm_row *row, struct td_err *e)
{
    (void)e;
    *(int *)n += row->byte_size == 1;
    return TD_OK;
}

TEST(without_a_gpu_there_is_no_memory_on_one)
{
    const char handle[64] = {0};
    int n = 0;
    setup();
    if (td_cuda_devices() == 0) {
        refuses(td_shm_register_cuda(s, "", "r", &(struct td_shm_handle){handle, sizeof handle, 0}, 8, &err),
                TD_UNIMPLEMENTED, "failed to register CUDA shared memory region: 'r', GPUs not supported");
    }
    refuses(td_shm_each(s, "", TD_SHM_CUDA, "r", count, &n, &err), TD_NOT_FOUND,
            "Unable to find cuda shared memory region: 'r'");
    CHECK_OK(td_shm_register(s, "", "r", key, 0, 1, &err));
    td_shm_unregister(s, "", TD_SHM_CUDA, "r"); /* of the other kind */
    td_shm_unregister(s, "", TD_SHM_CUDA, "");
    CHECK_OK(td_shm_each(s, "", TD_SHM_SYSTEM, "r", count, &n, &err));
    CHECK_INT(n, 1);
    clean();
}

TEST(regions_are_listed_and_dropped_by_name_or_all)
{
    int n = 0;
    setup();
    for (int i = 0; i < 3; i++) {
        CHECK_OK(td_shm_register(s, "", i == 0 ? "a" : i == 1 ? "b" : "c", key, 0, 1, &err));
    }
    td_shm_unregister(s, "", TD_SHM_SYSTEM, "b");
    td_shm_unregister(s, "", TD_SHM_SYSTEM, "b");
    CHECK_OK(td_shm_each(s, "", TD_SHM_SYSTEM, "", count, &n, &err));
    CHECK_INT(n, 2);
    CHECK_OK(td_shm_each(s, "", TD_SHM_SYSTEM, "c", count, &n, &err));
    CHECK_INT(n, 3);
    refuses(td_shm_each(s, "", TD_SHM_SYSTEM, "b", count, &n, &err), TD_NOT_FOUND,
            "Unable to find system shared memory region: 'b'");
    td_shm_unregister(s, "", TD_SHM_SYSTEM, "");
    CHECK_OK(td_shm_each(s, "", TD_SHM_SYSTEM, "", count, &n, &err));
    CHECK_INT(n, 3);
    clean();
}

TEST(a_region_that_shrank_is_an_error_and_does_not_grow)
{
    char got[8];
    struct td_err why = {0};
    setup();
    CHECK_OK(td_shm_register(s, "", "r", key, 0, 8192, &err));
    CHECK_INT(ftruncate(fd, 10), 0);
    refuses(td_shm_read(s, "", "r", 4, got, 8, &err), TD_INVALID_ARGUMENT, "has become smaller");
    refuses(td_shm_write(s, "", "r", 4096, got, 8, &err), TD_INVALID_ARGUMENT, "has become smaller");
    CHECK_INT(lseek(fd, 0, SEEK_END), 10);
    CHECK_INT(td_shm_read(s, "", "r", 2, got, 8, &why), TD_OK);
    clean();
}

static atomic_bool stop;

static void *shake(void *arg)
{
    struct td_err ignored;
    (void)arg;
    while (!atomic_load(&stop)) {
        ignored = (struct td_err){0};
        td_shm_unregister(s, "", TD_SHM_SYSTEM, "r");
        const enum td_code rc = td_shm_register(s, "", "r", key, 0, 4096, &ignored);
        CHECK(rc == TD_OK || rc == TD_INVALID_ARGUMENT);
        CHECK_INT(ftruncate(fd, 0), 0);
        CHECK_INT(ftruncate(fd, 8192), 0);
    }
    return NULL;
}

TEST(a_region_may_go_while_it_is_read)
{
    pthread_t t;
    static char got[4096];
    setup();
    CHECK_INT(pthread_create(&t, NULL, shake, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        struct td_err why = {0};
        const enum td_code rc = i % 2 ? td_shm_read(s, "", "r", 0, got, 4096, &why)
                                      : td_shm_write(s, "", "r", 0, got, 4096, &why);
        CHECK(rc == TD_OK || rc == TD_NOT_FOUND || rc == TD_INVALID_ARGUMENT);
    }
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    clean();
}

TEST_MAIN(RUN(bytes_go_both_ways_at_their_offsets) RUN(without_a_gpu_there_is_no_memory_on_one)
              RUN(what_cannot_be_a_region_is_refused) RUN(regions_are_listed_and_dropped_by_name_or_all)
                  RUN(a_region_that_shrank_is_an_error_and_does_not_grow)
                      RUN(a_region_may_go_while_it_is_read))
