/* server/models/registry_impl.h - the registry's insides, shared by the registry*.c files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_REGISTRY_IMPL_H
#define TD_SERVER_MODELS_REGISTRY_IMPL_H

#include <pthread.h>

#include "server/models/registry.h"
#include "server/models/upload.h"
#include "server/models/watch.h"

#define TD_MAX_LOAD_THREADS 256
#define TD_MAX_SPARE_LOADERS 64 /* further ones, while all are long at it */
#define TD_MAX_PARKED 16384     /* requests that wait for versions to be loaded */
#define TD_MAX_ENDED 64         /* unloaded versions of a model whose END status is kept */

struct td_version {
    int64_t number;
    char *dir;
    enum td_state state;
    struct td_err error; /* why loading failed; state is then TD_STATE_END */
    double load_ms;
    int64_t loaded_at;            /* seconds since the epoch */
    struct td_servable *servable; /* counted; only while AVAILABLE and not cold */
    bool cold;                    /* loaded when a request comes, or.. */
    bool demanded;                /* ..since a command has said so, or a request's load has failed */
    bool leaving;                 /* to be evicted: requests wait as if it were cold already */
    bool lacks_room;              /* its load waits for room */
    uint64_t asked;         /* since when it is called for, by the registry's count of uses; 0: it is not */
    bool evicting, loading; /* its bytes count still, or already */
    int n_parked;           /* requests that wait for it: the struct must stay */
    char *signatures;       /* as td_servable_survey gives them; NULL: not known */
    uint64_t used;          /* its last use, by the registry's count of them */
    uint64_t bytes;         /* that it held, or will; a resident one's servable knows */
    int64_t since_ns, stays_ns; /* resident since then, and for so long at least */
    bool aspired;               /* on disk and wanted by the policy */
    bool busy;                  /* a loader works on it: the struct must stay */
    int n_tries;
    int64_t next_try_ns; /* of a failed one, CLOCK_MONOTONIC; 0: no further try */
    /* its files as the last look saw them, as the last try did, and as what serves was loaded from */
    struct td_watch_seen seen, tried, served;
    char *served_dir;           /* the folder of those; NULL before the first. `dir` may be another by now */
    bool quiet;                 /* nobody writes to them: it may be loaded */
    bool stale;                 /* to be loaded again; what serves goes on until that is done.. */
    bool changed;               /* ..and ends if it fails, since its files are others; else it goes on */
    bool damaged;               /* it served, and its files are not what they were: error says it */
    unsigned long damages;      /* of mapped files in the process, when it was last loaded */
    td_stop stop;               /* of its load */
    uint64_t upload_id;         /* of the last try to load it */
    struct td_err reload_error; /* of the last time that it was loaded in place */
};

struct td_entry {
    char *name; /* never changes */
    struct td_model_config config;
    bool configured; /* false: removed; its statuses stay until its name is needed or space is */
    uint64_t since;  /* the change of the list that configured it */
    bool listed;
    bool held;    /* unloaded by command: aspires to nothing until it is rescanned by name */
    bool loading; /* a command to load it runs: others wait */
    /* counted: what it is loaded with, and perhaps from; NULL: its own folder alone */
    struct td_upload *upload;
    bool uploaded;            /* not on the list of models: it is there for its upload, and goes with it */
    struct td_err list_error; /* of the last listing */
    struct td_version **versions; /* highest first */
    int n_versions;
};

struct td_registry {
    struct td_registry_opts opts;
    pthread_mutex_t configuring;
    pthread_mutex_t mu;        /* guards all below */
    pthread_cond_t changed;    /* some state changed */
    pthread_cond_t work;       /* loaders: something may be due */
    pthread_cond_t tick;       /* the watcher: stop */
    struct td_entry **entries; /* sorted by name */
    int n_entries;
    int next_entry;      /* where the loaders look first: models take turns */
    uint64_t n_changes;  /* of the list of models */
    int n_waiting;       /* threads that wait for models */
    int n_busy, n_spare; /* loaders that load; those that were made besides */
    int64_t moved_ns;    /* when a loader last began or ended something */
    /* registry_cold.c, registry_room.c */
    struct td_parked *parked; /* requests that wait for versions, the youngest first */
    int n_parked;
    uint64_t n_uses, n_first_loads, n_evictions;
    bool lacks_room, any_leaving; /* some load waits for room; versions leave for it */
    pthread_cond_t moved;         /* the cold thread: something changed, or one more is parked */
    pthread_t waker;
    bool has_waker;
    bool any_unquiet; /* some version is not taken yet because its files change: look again soon */
    bool stop;
    pthread_t watcher, loaders[TD_MAX_LOAD_THREADS];
    int n_loaders;
    bool has_watcher;
};

/* registry.c: the entry of a configured model, or NULL. Caller holds mu. */
struct td_entry *td_registry_entry(const struct td_registry *r, const char *name);
/* The same, also of a model that is configured no longer while its last version goes. */
struct td_entry *td_registry_any_entry(const struct td_registry *r, const char *name);
/* Entries are sorted by name and versions by number, and who is AVAILABLE has a servable. Caller holds mu. */
TD_MUST enum td_code td_registry_check(const struct td_registry *r, struct td_err *err);
/* The label of that name; NULL. */
const struct td_label *td_registry_label(const struct td_model_config *c, const char *name);

/* registry.c: the entry of a name, made when there is none. Caller holds mu. */
TD_MUST enum td_code td_registry_add_entry(struct td_registry *r, const char *name, struct td_entry **out,
                                           struct td_err *err);
/* registry.c: some state changed. Caller holds mu. */
void td_registry_tell(struct td_registry *r);

/* registry_wait.c. What did not become available, for one sentence. */
struct td_failures {
    char text[900];
    size_t at;
    int n;
};
void td_failures_add(struct td_failures *f, const char *model, int64_t version, const struct td_err *why);
/* UNAVAILABLE, unless there is nothing to be told. */
TD_MUST enum td_code td_failures_tell(const struct td_failures *f, struct td_err *err);

/* registry_wait.c. Callers hold mu. */
/* Which models are waited for: that of the name (NULL: all), those that a change of the list has added (0:
 * whenever). */
struct td_registry_pick {
    const char *name;
    uint64_t since;
};
/* Waits until they are settled, then names those that serve nothing. */
TD_MUST enum td_code td_registry_wait_settled(struct td_registry *r, const struct td_registry_pick *pick,
                                              struct td_err *err);
/* Waits for a change, or a moment: OK when the caller shall look again. To be called between the next two. */
TD_MUST enum td_code td_registry_wait_changed(struct td_registry *r, struct td_err *err);
/* RESOURCE_EXHAUSTED when too many wait already. */
TD_MUST enum td_code td_registry_begin_wait(struct td_registry *r, struct td_err *err);
void td_registry_end_wait(struct td_registry *r);

/* registry_config.c. The copies are the caller's. */
void td_model_config_fini(struct td_model_config *c);
TD_MUST enum td_code td_model_config_copy(struct td_model_config *to, const struct td_model_config *from,
                                          struct td_err *err);
TD_MUST enum td_code td_model_configs_copy(struct td_model_config **to, const struct td_model_config *from,
                                           int n, struct td_err *err);

/* registry_list.c. Why the folders are looked at. */
enum td_look {
    TD_LOOK_POLL,   /* by the watcher: what is not quiet is left for later */
    TD_LOOK_TAKE,   /* somebody says that they are complete */
    TD_LOOK_AGAIN,  /* the same, and what has failed is tried again */
    TD_LOOK_DAMAGE, /* only at the files of what serves */
};
/* Lists the folders of all configured models (only: of that one) and sets what they aspire to; what is wrong
 * with a folder stays in its entry. */
TD_MUST enum td_code td_registry_list_all(struct td_registry *r, const char *only, enum td_look how,
                                          struct td_err *err);
void *td_registry_watcher_main(void *registry);

/* A version folder, as it was seen without mu. */
struct td_sight {
    const struct td_version_dir *dir;
    bool wanted, serves;         /* by the policy; a version that is AVAILABLE */
    struct td_watch_seen served; /* of what serves */
    unsigned long damages;
    struct td_watch_seen seen; /* now */
    struct td_err fault;       /* its files are not complete, or not what is mapped: only of what serves */
    struct td_servable *gone;  /* takes what served: to be let go without mu */
};
/* registry_aspire.c. Callers of the next four hold mu. */
/* Which of the folders are wanted, and which serve; they are then looked at without mu. */
void td_registry_choose(struct td_entry *e, struct td_sight *sights, int n);
/* Makes the wanted folders the aspired versions. */
TD_MUST enum td_code td_registry_aspire(struct td_registry *r, struct td_entry *e, struct td_sight *sights,
                                        int n, enum td_look how, struct td_err *err);
/* Withdraws what serves of files that are damaged, and does nothing else. */
void td_registry_doubt(struct td_registry *r, struct td_entry *e, struct td_sight *sights, int n);
/* NULL: there is none. */
struct td_version *td_registry_version(const struct td_entry *e, int64_t number);
void td_registry_forget_aspired(struct td_entry *e); /* for a model that was removed */
/* registry_wait.c: every aspired version is AVAILABLE or failed. Caller holds mu. */
bool td_registry_settled(const struct td_entry *e);
/* registry_load.c. Caller holds mu. */
bool td_registry_has_available(const struct td_entry *e);
void td_version_start_over(struct td_version *v); /* to be loaded, as if it had never been tried */
void td_version_free(struct td_version *v);
/* It serves, or is cold, of files below `dir`: what becomes of those is its business. Caller holds mu. */
bool td_version_serves_from(const struct td_version *v, const char *dir);

/* Starts loader threads; stop is set and they are joined by registry.c. */
TD_MUST enum td_code td_registry_start_loaders(struct td_registry *r, struct td_err *err);
/* Makes a further loader where something is to be done and all have been at it for a while. Caller holds mu.
 */
void td_registry_spare_loader(struct td_registry *r);

#endif
