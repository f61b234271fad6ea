/* core/base/obj.h - the counted objects that string, variant and resource tensors hold.
 *
 * An element of such a tensor is one pointer, `struct td_obj *`, and NULL means the empty string / an unset
 * variant. Strings are immutable byte blocks (struct td_str). Variants (TensorLists, optionals) and resources
 * (variables, tables, queues) embed struct td_obj first and bring their own td_obj_type, whose address
 * identifies the type.
 * Threads: counts are atomic; what an object guards against concurrent use is its own affair.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_OBJ_H
#define TD_CORE_BASE_OBJ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_obj;

struct td_obj_type {
    const char *name;                 /* as error texts name it: "string", "TensorList", "Variable" */
    void (*destroy)(struct td_obj *); /* called once, when the last reference goes; frees the object */
    /* Holds tensors, and begins with a count of how deep it does (kernels/control/tensor_list.h). */
    bool nests;
};

struct td_obj {
    atomic_int refs;
    const struct td_obj_type *type;
};

void td_obj_init(struct td_obj *o, const struct td_obj_type *type); /* one reference, the caller's */
struct td_obj *td_obj_ref(struct td_obj *o);                        /* accepts NULL; returns o */
void td_obj_unref(struct td_obj *o);                                /* accepts NULL */
bool td_obj_unique(const struct td_obj *o);                         /* nobody else holds it */

struct td_account;

struct td_str {
    struct td_obj obj;
    struct td_account *account; /* its bytes are charged to it; NULL: none */
    size_t len;
    char bytes[]; /* len bytes and a NUL that len does not count */
};

/* The most bytes that a string element may have: writers look at it while a string grows. */
#define TD_STR_MAX ((size_t)1 << 30)
/* Returns a new string holding a copy of len bytes (bytes may be NULL: left uninitialised), charged to the
 * work at hand, or NULL without memory. */
struct td_str *td_str_new(const char *bytes, size_t len);

#endif
