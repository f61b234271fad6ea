/* tests/fuzz/run_files.c - runs a fuzz target over files and folders of files, where libFuzzer is not linked
 * in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* exact, so that a sanitizer sees the end */
    const int short_read = data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size;
    fclose(f);
    if (!short_read) {
        LLVMFuzzerTestOneInput(data, (size_t)size);
    }
    free(data);
    return short_read;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            bad += run_file(argv[i]);
            continue;
        }
        for (struct dirent *e; (e = readdir(dir)) != NULL;) {
            char path[4096];
            if (e->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name) < 4096) {
                bad += run_file(path);
            }
        }
        closedir(dir);
    }
    return bad != 0;
}
