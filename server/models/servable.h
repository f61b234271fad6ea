/* server/models/servable.h - one model version, loaded and ready to answer: its signatures and what runs
 * behind them.
 *
 * Loading reads the SavedModel, restores variables through the graph's own restore op, feeds assets, runs
 * the init op and makes one callable for each signature. A servable is counted: a request holds it, and the
 * last one to let go frees it. Threads: everything after loading may be called from any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_SERVABLE_H
#define TD_SERVER_MODELS_SERVABLE_H

#include "core/function/callable.h"
#include "proto/model/saved_model.h"
#include "server/models/model_config.h"
#include "server/models/replicas.h"
#include "server/base/metrics.h"
#include "server/base/stats.h"

struct td_servable;
struct td_upload;

struct td_servable_opts {
    const struct td_op_table *ops;
    const char *tags;       /* NULL: "serve" */
    const char *state_dir;  /* scratch root; NULL: none */
    uint64_t scratch_quota; /* bytes of a version's scratch files; 0: no limit */
    enum td_kernel_choice kernels;
    int64_t trial_ns;           /* as in core/run/model.h, as is timings */
    struct td_timings *timings; /* borrowed for the life of every servable */
    const char *passes_off;
    struct td_devices_list devices;        /* that it may run on (server/models/replicas.h) */
    bool no_soft_placement, log_placement; /* as in core/run/model.h */
    bool alone;                            /* likewise */
    const struct td_precision *precision;  /* counts in place of the version's file; NULL: the file's */
    struct td_thread_pool *pool; /* that a load may borrow from, lasting as timings do; NULL: none */
    /* whose configuration counts in place of config.pbtxt (held while loaded); NULL: none */
    struct td_upload *upload;
};

/* Returns new. On failure nothing stays allocated or mapped. dir is the version directory; where it holds no
 * SavedModel but a folder model.savedmodel, as in Triton's repositories, that is read. */
TD_MUST enum td_code td_servable_load(const char *name, int64_t version, const char *dir,
                                      const struct td_servable_opts *opts, struct td_servable **out,
                                      struct td_err *err);
/* Looks whether a version could be loaded, without its weights: its files are complete, and what its graph
 * file says can be read. *names: the keys of its signatures, each with its NUL, and an empty one behind them;
 * the caller td_frees it. *bytes: its graph in memory. Errors as td_servable_load. */
TD_MUST enum td_code td_servable_survey(const char *dir, const struct td_servable_opts *opts, char **names,
                                        uint64_t *bytes, struct td_err *err);
/* Returns new: another instance of the same version, read from its directory again (mapped weights are
 * shared), whose variables have the values that those of s have now. Tables and random counters are as after
 * a load; it has no scratch directory. */
TD_MUST enum td_code td_servable_copy(struct td_servable *s, struct td_servable **out, struct td_err *err);
struct td_servable *td_servable_ref(struct td_servable *s);
void td_servable_unref(struct td_servable *s);
/* Whether anybody but one holds it: a request, say, besides who asks. */
bool td_servable_in_use(const struct td_servable *s);
/* Works out what it holds in bytes: its graph, weights (mapped ones too), tables, and the plans that it has
 * now with their packed copies. */
uint64_t td_servable_weigh(struct td_servable *s);
/* What that said last; 0 at first. */
uint64_t td_servable_weight(const struct td_servable *s);
/* The keys of its signatures, as td_servable_survey gives them; NULL without memory. */
char *td_servable_names(const struct td_servable *s);

const char *td_servable_name(const struct td_servable *s);
int64_t td_servable_version(const struct td_servable *s);
/* Where its SavedModel is, and the version's own folder: that, or the one above it (Triton's layout). */
const char *td_servable_dir(const struct td_servable *s);
const char *td_servable_home(const struct td_servable *s);
/* What its file says: signatures, tags. Borrowed. */
const struct td_saved_model *td_servable_model(const struct td_servable *s);
/* The version as the engine sees it (core/run/model.h). Borrowed. */
struct td_model *td_servable_engine(struct td_servable *s);
/* NULL when there is no such signature. "" and NULL mean serving_default, or the only public signature there
 * is. */
const struct td_signature *td_servable_signature(const struct td_servable *s, const char *key);
/* The signature for the named outputs only: what nothing of them needs does not run, as TensorFlow has it, so
 * an output that is not asked for has no effects. sig itself when the names are not some of its outputs, each
 * once (or are all of them), and beyond 32 such sets. Borrowed. */
const struct td_signature *td_servable_fewer_outputs(struct td_servable *s, const struct td_signature *sig,
                                                     const char *const *names, int n);
/* The callable behind a signature (made at load); NULL: td_servable_closed says why. */
struct td_callable *td_servable_callable(struct td_servable *s, const struct td_signature *sig);
/* Where it runs: each with its device, the first with the engine above. Borrowed. */
const struct td_replicas *td_servable_replicas(const struct td_servable *s);
void td_servable_found_device(struct td_servable *s, const struct td_device *d); /* td_replicas_found */
/* The signature's callable on replica i; NULL: it runs on the first alone. */
struct td_callable *td_servable_callable_on(struct td_servable *s, const struct td_signature *sig, int i);
/* Fails when the signature cannot be called: its tensors do not exist, or it runs at load only. */
TD_MUST enum td_code td_servable_closed(struct td_servable *s, const struct td_signature *sig,
                                        struct td_err *err);

/* What the scheduler keeps with a signature, NULL at first. Set once; freed with the servable. */
void td_servable_set_slot(struct td_servable *s, const struct td_signature *sig, void *slot,
                          void (*free_slot)(void *slot));
void *td_servable_slot(struct td_servable *s, const struct td_signature *sig);

/* dtype of the edge that input i of sig feeds: some signatures misdeclare their graph's. */
enum td_dtype td_servable_fed_dtype(struct td_servable *s, const struct td_signature *sig, int i);

/* Where its model's runs are counted, and its requests by their signature (server/base/latency.h); sig NULL:
 * of none, or of several. Borrowed. */
struct td_metrics_model *td_servable_metrics(const struct td_servable *s);
struct td_latency_row *td_servable_latency(struct td_servable *s, const struct td_signature *sig);
/* Requests and runs since it was loaded, reported by the front ends' common path (server/sched/request.c).
 * Borrowed. */
struct td_stats *td_servable_stats(struct td_servable *s);
/* Nanoseconds that restoring its variables, and its init op, took when it was loaded. */
struct td_load_times {
    int64_t restore_ns, init_ns;
};
struct td_load_times td_servable_load_times(const struct td_servable *s);
/* What the config.pbtxt beside it says; all defaults when there is none. Borrowed. */
const struct td_model_settings *td_servable_settings(const struct td_servable *s);

#endif
