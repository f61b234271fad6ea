/* server/models/version_files.h - whether the files of a version are all there, before anything is made of
 * them.
 *
 * A folder is complete when its graph is there, when the checkpoint's data files are there that its index
 * names, each of its length, and when nothing is missing that the graph itself names: assets, and a
 * checkpoint where it restores variables.
 *
 * Threads: any. Nothing is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_VERSION_FILES_H
#define TD_SERVER_MODELS_VERSION_FILES_H

#include "proto/model/saved_model.h"

/* Where the SavedModel of a version's folder lies: the folder, or model.savedmodel in it. The caller td_frees
 * it; NULL without memory. */
char *td_version_files_model_dir(const char *home);

/* What can be told without reading the graph: dir is where the SavedModel lies. NOT_FOUND, DATA_LOSS: what is
 * missing, or too short. */
TD_MUST enum td_code td_version_files_check(const char *dir, struct td_err *err);
/* The same of the checkpoint alone. */
TD_MUST enum td_code td_version_files_check_checkpoint(const char *dir, struct td_err *err);
/* What the graph names: NOT_FOUND. */
TD_MUST enum td_code td_version_files_check_model(const char *dir, const struct td_saved_model *m,
                                                  struct td_err *err);

#endif
