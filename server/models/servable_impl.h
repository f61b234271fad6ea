/* server/models/servable_impl.h - what the files of a servable share: servable.c (loading), servable_entry.c
 * (what is behind a signature) and gradient*.c (its gradients).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_SERVABLE_IMPL_H
#define TD_SERVER_MODELS_SERVABLE_IMPL_H

#include <pthread.h>

#include "server/models/gradient.h"
#include "server/models/row_parts.h"

struct td_entry {                 /* what is behind a signature */
    struct td_callable *callable; /* NULL: see error */
    /* On the second replica and further ones; NULL: it runs on the first alone. */
    struct td_callable **others;
    struct td_row_parts *parts; /* of its calls; NULL: they are never cut */
    enum td_dtype *fed;         /* dtype of each fed edge, in signature order */
    struct td_err *error;
    _Atomic(void *) slot; /* the scheduler's */
    void (*free_slot)(void *slot);
    struct td_latency_row *latency; /* the servable's: where its requests are counted */
    /* Signatures made of this one for fewer outputs; under the servable's choosing. */
    struct td_derived *subsets;
    int n_subsets;
};

/* A signature that was made of another one. */
struct td_derived {
    struct td_signature sig; /* first: its address is the entry's */
    struct td_entry entry;
    struct td_derived *next;
    struct td_gradient *gradient; /* that it is; NULL: the signature of fewer outputs */
};

#define TD_MAX_GRADIENTS 64                   /* kept, of a version */
#define TD_GRADIENT_BYTES ((size_t)256 << 20) /* that they may hold together, but for the last asked */

/* The gradients that were asked for. */
struct td_gradients {
    pthread_mutex_t mu; /* guards what follows up to evictions */
    pthread_cond_t made;
    struct td_gradient *kept[TD_MAX_GRADIENTS]; /* counted */
    int n;
    struct td_gradient_making *making; /* asks under way */
    uint64_t clock, evictions;
    pthread_mutex_t naming; /* guards variables while they are read */
    struct td_variables *variables;
};
void td_gradients_init(struct td_gradients *g);
void td_gradients_fini(struct td_gradients *g); /* nobody uses any of them */

struct td_servable {
    atomic_int refs;
    char *name, *tags, *passes_off; /* the last two may be NULL */
    char *dir;                      /* the SavedModel's */
    char *home;                     /* the version's folder: dir, or the one above it */
    int64_t version;
    struct td_servable_opts opts; /* for copies; without texts of its own, with a reference to the upload */
    struct td_saved_model *model; /* lives in the arena that engine owns */
    struct td_model *engine;
    struct td_replicas replicas; /* the first is engine */
    struct td_entry *entries;    /* one a signature */
    struct td_model_settings settings;
    struct td_stats stats;
    struct td_metrics_model *metrics;
    struct td_latency_version *latency; /* open while it is loaded; may be NULL */
    struct td_load_times times;
    struct td_account *account;  /* charged by what loading it has allocated */
    atomic_uint_fast64_t weight; /* of all that it holds, when it was weighed last */
    uint64_t loaded_plans;       /* bytes of plans among that: of warm-ups */
    pthread_mutex_t choosing;
    struct td_gradients gradients;
    uint64_t loaded_as; /* Debug builds: hash of what loading has set; 0 while it loads */
};

/* Makes the callable of a signature of the file, or of some of its outputs. On failure too, d is closed. */
TD_MUST enum td_code td_entry_open(struct td_servable *s, const struct td_signature *sig, struct td_entry *d,
                                   struct td_err *err);
void td_entry_close(struct td_entry *d);
struct td_entry *td_servable_entry(struct td_servable *s, const struct td_signature *sig);
uint64_t td_servable_plan_bytes(const struct td_servable *s); /* of all replicas */
/* It runs when the model is loaded, and only then. */
bool td_signature_is_init(const struct td_signature *sig);

/* A source of a gradient, as it was found. */
struct td_gradient_source {
    const char *name;             /* as in the answer */
    int feed;                     /* of the signature's inputs; -1: */
    const char *const *resources; /* a variable, or its parts */
    int n_resources, axis;
    enum td_dtype dtype;
    int output; /* of the derived signature's; -1: nothing leads to it */
    bool zero;  /* then: it is zeros all the same (gradient_make.c) */
};

struct td_gradient {
    struct td_derived derived; /* first */
    atomic_int refs;
    struct td_arena *arena; /* of names, and arrays of the signature */
    char *key;              /* what was asked, as bytes */
    size_t key_bytes;
    uint64_t last_used; /* under the gradients' mu */
    struct td_program *program;
    const struct td_signature *of;
    struct td_gradient_ask ask; /* lists and names are the arena's */
    const int *target;          /* outputs of `of` */
    struct td_gradient_source *source;
    int n_sources;
    const char *title;
};

/* Returns new, with a count of one and without key. */
TD_MUST enum td_code td_gradient_make(struct td_servable *s, const struct td_signature *sig,
                                      const struct td_gradient_ask *ask, struct td_gradient **out,
                                      struct td_err *err);

#endif
