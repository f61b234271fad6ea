/* server/models/model_config.h - the config.pbtxt beside a model, in Triton's terms
 * (proto/schema/model_config.proto).
 *
 * It lies in the version's folder or, for all versions, in the model's (the one that holds the numbered
 * folders); the version's own counts. Honoured: max_batch_size, dynamic_batching, instance_group,
 * version_policy, label_filename, model_warmup, and inputs and outputs as a description that must fit the
 * model. A model without one takes whole tensors of any size, and has a configuration made of its signature
 * for those who ask.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_MODEL_CONFIG_H
#define TD_SERVER_MODELS_MODEL_CONFIG_H

#include <stdint.h>

#include "proto/model/saved_model.h"

struct Inference__ModelConfig;

/* What a queue does with requests that wait too long, or are too many. */
struct td_queue_policy {
    bool delay;                  /* a request past its time runs after all others; else it is refused */
    bool allow_timeout_override; /* a request may name a shorter time of its own */
    uint64_t default_timeout_us; /* 0 none */
    uint32_t max_queue_size;     /* 0 no limit of its own */
};
struct td_priority_policy {
    uint64_t level;
    struct td_queue_policy policy;
};

#define TD_LABEL_BYTES 1024 /* of a class's label; longer ones are cut */

/* The classes of an output: line i of the file that its label_filename names. */
struct td_label_list {
    const char *output;
    char **text;
    int64_t n;
};

struct td_model_settings {
    bool given;             /* there is a config.pbtxt; else all is 0 below */
    int32_t max_batch_size; /* rows that a request, and a batch, may have; 0 none is said */
    bool dynamic_batching;  /* and its fields: */
    const int32_t *preferred_batch_size;
    int n_preferred_batch_size;
    uint64_t max_queue_delay_us;
    bool preserve_ordering;
    uint64_t priority_levels; /* 0 none; priorities are 1 (first) .. priority_levels */
    uint64_t default_priority_level;
    struct td_queue_policy queue_policy;
    struct td_priority_policy *priority_policies;
    int n_priority_policies;
    int instances; /* of its instance groups, on each of the GPUs that they name; 0 none is said */
    struct td_label_list *labels;
    int n_labels;
    char *dir;                               /* where the file lies; labels and warm-up data are beside it */
    const struct Inference__ModelConfig *pb; /* the file; NULL without */
};

/* Reads the file for a version's folder; without one *out is zeroed and all is well. INVALID_ARGUMENT for
 * text that is no configuration, UNIMPLEMENTED for kinds of models that are not served (other platforms,
 * ensembles, sequence batching, decoupled answers). */
TD_MUST enum td_code td_model_config_read(const char *version_dir, struct td_model_settings *out,
                                          struct td_err *err);
/* The same from the n bytes of a file's text; files that it names lie in dir. */
TD_MUST enum td_code td_model_config_parse(const char *dir, const char *text, size_t n,
                                           struct td_model_settings *out, struct td_err *err);
/* The same from the n bytes of a configuration as JSON (proto/json/json_pb.h), which stands in for the file
 * of a version's folder. */
TD_MUST enum td_code td_model_config_override(const char *version_dir, const char *json, size_t n,
                                              struct td_model_settings *out, struct td_err *err);
/* INVALID_ARGUMENT when inputs or outputs that it lists are not those of the signature. */
TD_MUST enum td_code td_model_config_check(const struct td_model_settings *m, const struct td_signature *sig,
                                           struct td_err *err);
void td_model_settings_fini(struct td_model_settings *m);

enum td_policy_kind { TD_POLICY_LATEST, TD_POLICY_ALL, TD_POLICY_SPECIFIC };
struct td_version_policy {
    enum td_policy_kind kind;
    int n_latest;      /* of TD_POLICY_LATEST, >= 1 */
    int64_t *versions; /* of TD_POLICY_SPECIFIC: td_free them */
    int n_versions;
};
/* The version_policy of the file in a model's folder; the latest one version where none is said, or the file
 * cannot be read (what is wrong with it is told by the version that is loaded). */
struct td_version_policy td_model_config_policy(const char *base_path);
/* The same of a configuration as JSON. */
struct td_version_policy td_model_config_policy_json(const char *json, size_t n);

/* NULL: none. */
const struct td_label_list *td_model_config_labels(const struct td_model_settings *m, const char *output);

/* Whether every input and output has a first size that is open: rows of a batch. NULL has none. */
bool td_model_config_has_rows(const struct td_signature *sig);

#define TD_CONFIG_PLATFORM "tensorflow_savedmodel"
/* The dtype of an inference.DataType; TD_DTYPE_NONE for TYPE_INVALID. */
enum td_dtype td_model_config_dtype(int data_type);

#endif
