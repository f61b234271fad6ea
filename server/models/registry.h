/* server/models/registry.h - the models being served: aspired versions, their states, and the serving map.
 *
 * A model is configured (name, base path, version policy, labels). The watch thread lists version folders
 * and sets the aspired versions, TF Serving's word for those that the policy wants served; load threads
 * load them; a new version is made available before the old one is withdrawn; a version that fails to load
 * keeps the old one serving and its error stays in its status. Requests take a counted reference to a
 * version through td_registry_find: a short lock, never held while loading or running. A model is settled
 * when each of its aspired versions has been loaded or has failed.
 *
 * With `lazy` a version is surveyed only (td_servable_survey): it is then AVAILABLE and cold. The first
 * request that means it has it loaded (td_registry_await), and shares that load with those that come
 * meanwhile. What is loaded is resident. Past max_resident_bytes the least recently used version that no
 * request holds becomes cold again: it is evicted. A model that is resident when a newer version appears has
 * that loaded before the old one goes, as without `lazy`.
 *
 * A load is a work of its own (core/base/work.h) with a time limit; where all load threads are long at it,
 * further ones are made, so that models which never settle keep no others from loading. Functions that wait
 * (configure, rescan, load, unload) do so for the work at hand: they fail with DEADLINE_EXCEEDED when its
 * time is over and with its stop word's code when that is set, RESOURCE_EXHAUSTED when too many wait
 * already; what they asked for goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_REGISTRY_H
#define TD_SERVER_MODELS_REGISTRY_H

#include "server/models/servable.h"

struct td_registry;
struct td_model_dirs;
struct td_workers;
struct td_upload;

/* States have the numbers of ModelVersionStatus.State. */
enum td_state {
    TD_STATE_UNKNOWN = 0,
    TD_STATE_START = 10,
    TD_STATE_LOADING = 20,
    TD_STATE_AVAILABLE = 30,
    TD_STATE_UNLOADING = 40,
    TD_STATE_END = 50
};
const char *td_registry_state_name(enum td_state s); /* "AVAILABLE" */

struct td_label {
    char *name;
    int64_t version;
};
struct td_model_config {
    char *name, *base_path;
    bool on_command;      /* is loaded when told to: not by being configured */
    bool policy_of_model; /* the config.pbtxt in base_path, or the default, sets what follows */
    enum td_policy_kind policy;
    int n_latest;      /* of TD_POLICY_LATEST, >= 1 */
    int64_t *versions; /* of TD_POLICY_SPECIFIC */
    int n_versions;
    struct td_label *labels;
    int n_labels;
    char *log_prefix; /* of its log of requests (server/base/request_log.h); NULL none */
    double log_rate;  /* how many of them, from 0 to 1 */
};

struct td_registry_opts {
    struct td_servable_opts servable;
    double poll_wait_s; /* > 0 period, 0 list once, < 0 never list by itself */
    /* borrowed: a load finds models there that are not configured yet; NULL nowhere */
    const struct td_model_dirs *model_dirs;
    int max_load_retries;
    int64_t retry_wait_us;
    int load_threads;      /* >= 1 */
    double load_timeout_s; /* of a load, its initialisers and warm-ups; 0: none */
    int max_waiting;       /* threads that wait for models at once, as commands do; 0: no limit */
    bool labels_for_unavailable;
    bool lazy;                   /* versions are loaded at their first request.. */
    uint64_t max_resident_bytes; /* ..and what they hold together may be so much; 0: no limit */
    /* where requests run; borrowed. NULL: on the thread that brings them, alone */
    struct td_workers *workers;
    /* Makes a version that has loaded known to the workers (td_workers_admit); set with them. */
    enum td_code (*admit)(struct td_workers *w, struct td_servable *s, struct td_err *err);
    /* Whether they answer (td_workers_answer); set with them. */
    bool (*answer)(struct td_workers *w);
    bool strict_shapes; /* handed to every run */
    /* What a loaded version goes through before it is published (td_warmup_run); its failure fails the load.
     * NULL: nothing */
    enum td_code (*warm_up)(struct td_registry *r, struct td_servable *s, struct td_err *err);
    int warmup_iterations; /* times each recorded request is replayed; <= 1: once */
    bool check_methods;    /* signatures must have the method that the request is of */
};

TD_MUST enum td_code td_registry_start(const struct td_registry_opts *opts, struct td_registry **out,
                                       struct td_err *err);
/* Ends loads that are under way and waits for models, and begins no others; what serves goes on. */
void td_registry_cancel(struct td_registry *r);
/* Withdraws all, waits for running requests, joins threads, frees. */
void td_registry_stop(struct td_registry *r);

/* The options it was started with: borrowed. */
const struct td_registry_opts *td_registry_options(const struct td_registry *r);

/* Replaces the list of models (copies it). Validates first (duplicate names, relative paths, labels) and
 * changes nothing on failure. wait: returns once every new model has an available version or has failed
 * (UNAVAILABLE then names each). */
TD_MUST enum td_code td_registry_configure(struct td_registry *r, const struct td_model_config *models, int n,
                                           bool wait, struct td_err *err);
/* Lists version folders of one model (NULL: all) now and waits until its aspired versions are settled. */
TD_MUST enum td_code td_registry_rescan(struct td_registry *r, const char *model, struct td_err *err);

/* Looks for versions of one model now, as the watch thread does every poll period: what is found is loaded
 * later, a model unloaded by command stays so. */
TD_MUST enum td_code td_registry_look(struct td_registry *r, const char *model, struct td_err *err);
/* Whether a version serves (or is cold), has failed, or is not to be loaded. */
bool td_registry_version_settled(struct td_registry *r, const char *model, int64_t version);

/* Loads a model by name: brings it back after td_registry_unload, looks for versions, and loads those again
 * whose files have changed. u (NULL: none): what came with the command. Its configuration counts in place
 * of the model's config.pbtxt, and its files, if it has any, in place of the model's folder, until the next
 * td_registry_load or td_registry_unload of the model; with files the model may be one that is not
 * configured. All its versions are then loaded again; what serves goes on until they are there. On failure
 * everything stays as it was, and the error names the versions that failed. */
TD_MUST enum td_code td_registry_load(struct td_registry *r, const char *model, struct td_upload *u,
                                      struct td_err *err);

/* Withdraws all versions of a model and keeps it so until td_registry_rescan names it: polling does not bring
 * it back. Returns once nothing can be asked any more; running requests end as they would. NOT_FOUND as
 * td_registry_rescan. */
TD_MUST enum td_code td_registry_unload(struct td_registry *r, const char *model, struct td_err *err);

/* A version that is AVAILABLE, and cold. */
struct td_cold {
    char *model; /* NULL: none was found */
    int64_t version;
    char *dir;
};
void td_cold_fini(struct td_cold *c); /* of what td_registry_find has filled */

/* version > 0 or label (not NULL), or neither for the latest available. Returns a counted reference.
 * NOT_FOUND "Servable not found for request: Latest(NAME)" / "Specific(NAME, V)";
 * INVALID_ARGUMENT "Unrecognized servable version label: L"; DATA_LOSS, or why else it does not load, of one
 * that is known to be broken. UNAVAILABLE, and *cold filled, of a cold one: td_registry_await has it loaded.
 * cold (empty) NULL: nothing is asked of what is found, so it does not count as a use. */
TD_MUST enum td_code td_registry_find(struct td_registry *r, const char *model, int64_t version,
                                      const char *label, struct td_cold *cold, struct td_servable **out,
                                      struct td_err *err);

/* s: what was waited for, counted and given. NULL: err says why not; or, with TD_OK, look again with
 * td_registry_find: what is meant by the name is another version now, or none. Called once, on a thread of
 * the registry's that must not be kept, with no lock held. */
typedef void td_registry_go_fn(void *ctx, struct td_servable *s, const struct td_err *err);
/* Has a cold version loaded, and calls go when it is, when that has failed, or when the work is over, which
 * is borrowed until then. Does not wait itself. Fails, and will not call go, when the server stops
 * (UNAVAILABLE) or too many wait (RESOURCE_EXHAUSTED). */
TD_MUST enum td_code td_registry_await(struct td_registry *r, const struct td_cold *cold,
                                       const struct td_work *work, td_registry_go_fn *go, void *ctx,
                                       struct td_err *err);
/* Whether a cold version has a signature of that key; "" or NULL: the default one. */
bool td_registry_cold_has(struct td_registry *r, const struct td_cold *cold, const char *signature);
/* The keys of a version's signatures, loaded or not, as td_servable_survey gives them; NULL: not known. */
char *td_registry_signatures(struct td_registry *r, const char *model, int64_t version);

struct td_version_status {
    int64_t version;
    enum td_state state;
    struct td_err error; /* code TD_OK unless loading failed */
    double load_ms;
    int64_t loaded_at; /* seconds since the epoch; 0 not loaded */
    bool cold;         /* AVAILABLE, and loaded at the next request */
};
/* Statuses of a model's versions, highest first, in an array the caller td_frees. version > 0 asks for one
 * only. NOT_FOUND "Could not find any versions of model NAME" / "Could not find version V of model NAME". */
TD_MUST enum td_code td_registry_status(struct td_registry *r, const char *model, int64_t version,
                                        struct td_version_status **rows, int *n, struct td_err *err);
/* The versions that serve now, each counted: td_registry_let_go. */
TD_MUST enum td_code td_registry_serving(struct td_registry *r, struct td_servable ***out, int *n,
                                         struct td_err *err);
void td_registry_let_go(struct td_servable **list, int n);
bool td_registry_has(struct td_registry *r, const char *model); /* with versions or without */
/* Copies of all configured models (free with td_model_configs_free). */
TD_MUST enum td_code td_registry_models(struct td_registry *r, struct td_model_config **out, int *n,
                                        struct td_err *err);
/* The same of one model: an array of one. NOT_FOUND. */
TD_MUST enum td_code td_registry_model(struct td_registry *r, const char *model, struct td_model_config **out,
                                       struct td_err *err);
void td_model_configs_free(struct td_model_config *models, int n);
/* False when every worker has been at one run for too long (--busy_timeout): nothing would be answered. */
bool td_registry_answers(struct td_registry *r);
bool td_registry_lost(struct td_registry *r, const char *model); /* all that serves has lost its devices */
/* True when the workers answer and every configured model (but those unloaded by command) has an available
 * version that is not lost; else missing (td_free) lists the names of those that do not, comma-separated. */
bool td_registry_ready(struct td_registry *r, char **missing);
/* True when every configured model has been listed (unless it never is) and no aspired version waits or
 * loads. */
bool td_registry_all_settled(struct td_registry *r);

struct td_resident_counts {
    int64_t resident, cold, waiting; /* versions; requests that wait for one */
    uint64_t bytes; /* that the resident ones held when they were last asked: once a second */
    uint64_t first_loads, evictions; /* since the start: of cold versions, for requests or commands */
};
void td_registry_count(struct td_registry *r, struct td_resident_counts *out);

#endif
