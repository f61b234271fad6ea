/* tests/unit/temp_dir.h - a directory for one test, and the files in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_TEMP_DIR_H
#define TD_TESTS_UNIT_TEMP_DIR_H

#include "tests/test.h"

struct temp_dir {
    char path[200];
};

static inline struct temp_dir temp_dir_make(void)
{
    struct temp_dir d;
    const char *base = getenv("TMPDIR");
    snprintf(d.path, sizeof d.path, "%.100s/tensord-test-XXXXXX", base ? base : P_tmpdir);
    CHECK(mkdtemp(d.path) != NULL);
    return d;
}

/* PATH/name as a temporary. */
struct temp_path {
    char s[300];
};
static inline struct temp_path temp_dir_file(const struct temp_dir *d, const char *name)
{
    struct temp_path p;
    snprintf(p.s, sizeof p.s, "%s/%.90s", d->path, name);
    return p;
}

static inline void temp_dir_write(const struct temp_dir *d, const char *name, const void *bytes, size_t n)
{
    struct temp_path p = temp_dir_file(d, name);
    FILE *f = fopen(p.s, "wb");
    CHECK(f != NULL);
    CHECK(fwrite(bytes, 1, n, f) == n);
    CHECK(fclose(f) == 0);
}

/* Removes the directory and the files in it. */
static inline void temp_dir_remove(const struct temp_dir *d)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", d->path);
    CHECK(system(command) == 0);
}

#endif
