/* server/models/config_file.h - the configuration files that flags name: protobuf text, parsed and checked.
 *
 * Errors begin "Error parsing text-format tensorflow.serving.MESSAGE" where the text does not parse, and name
 * the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_CONFIG_FILE_H
#define TD_SERVER_MODELS_CONFIG_FILE_H

#include "server/models/registry.h"

/* --model_config_file: free with td_model_configs_free. */
TD_MUST enum td_code td_config_file_models(const char *path, struct td_model_config **out, int *n,
                                           struct td_err *err);

/* --ssl_config_file: PEM texts; ca NULL without one. */
struct td_tls_config {
    char *key, *cert, *ca;
    bool client_verify;
};
TD_MUST enum td_code td_config_file_tls(const char *path, struct td_tls_config *out, struct td_err *err);
void td_tls_config_fini(struct td_tls_config *c);

/* --batching_parameters_file, with TF Serving's defaults. */
#define TD_MAX_ALLOWED_BATCH_SIZES 128
struct td_batching {
    int64_t max_batch_size, batch_timeout_micros, max_enqueued_batches, num_batch_threads;
    int64_t max_execution_batch_size; /* of large batches, when they are split */
    int64_t allowed_batch_sizes[TD_MAX_ALLOWED_BATCH_SIZES];
    int n_allowed;
    bool pad_variable_length_inputs, split_large;
    char thread_pool_name[64]; /* a label of metrics; "" none is given */
};
TD_MUST enum td_code td_config_file_batching(const char *path, struct td_batching *out, struct td_err *err);
/* Likewise dir/batching_params.pbtxt of a model, opened beneath dir; NOT_FOUND when there is none. */
TD_MUST enum td_code td_config_file_model_batching(const char *dir, struct td_batching *out,
                                                   struct td_err *err);

/* --monitoring_config_file. */
struct td_monitoring {
    bool enable;
    char path[256];
};
TD_MUST enum td_code td_config_file_monitoring(const char *path, struct td_monitoring *out,
                                               struct td_err *err);

#endif
