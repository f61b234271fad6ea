/* kernels/cuda/base/shared_object.c - dlopen, by the dynamic linker's own rules: LD_LIBRARY_PATH, the
 * module's run path (beside it, and the CUDA toolkit's usual folder), the linker's cache.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/shared_object.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "a table of functions is filled as one of pointers");

static const char *reason(void)
{
    const char *why = dlerror();
    return why == NULL ? "unknown reason" : why;
}

bool td_shared_object_open(const struct td_shared_object *o, void *functions, const char **found, char *text,
                           size_t room)
{
    void *library = NULL;
    for (int i = 0; o->names[i] != NULL && library == NULL; i++) {
        library = dlopen(o->names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library == NULL && i == 0) {
            (void)snprintf(text, room, "%s", reason()); /* of the preferred one */
        }
        *found = o->names[i];
    }
    if (library == NULL) {
        return false;
    }
    char *to = functions;
    for (int i = 0; o->symbols[i] != NULL; i++) {
        void *const symbol = dlsym(library, o->symbols[i]);
        if (symbol == NULL) {
            (void)snprintf(text, room, "%s has no function %s", *found, o->symbols[i]);
            return false;
        }
        memcpy(to + (size_t)i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}
