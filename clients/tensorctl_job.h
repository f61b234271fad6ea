/* clients/tensorctl_job.h - files and jobs of fine-tuning, as the verbs of tensorctl see them: documents of
 * the HTTP API's shape, made of the messages of tensord.v1.FineTuning.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLIENTS_TENSORCTL_JOB_H
#define TD_CLIENTS_TENSORCTL_JOB_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "clients/tensorctl_args.h"

/* New reference: every field that is not empty, by its name; texts that hold a JSON object as that object. */
json_t *tdc_job_document(const ProtobufCMessage *m);
/* A unary method of tensord.v1.FineTuning; type: its answer's. *out is a new reference. */
int tdc_job_call(struct tdc_client *c, const char *method, const ProtobufCMessage *ask,
                 const ProtobufCMessageDescriptor *type, json_t **out, struct tdc_error *err);
/* The job of that id; *out is a new reference. */
int tdc_job_get(struct tdc_client *c, const char *id, json_t **out, struct tdc_error *err);
/* Uploads the file; *out: its document, a new reference. */
int tdc_job_upload(struct tdc_client *c, const char *path, json_t **out, struct tdc_error *err);
/* Reads a job's file, uploads what it names and creates the job; *out: its document, a new reference. */
int tdc_job_create(struct tdc_client *c, const char *path, json_t **out, struct tdc_error *err);
/* Shows the job's events until its end: lines, or, on a terminal, a line that changes and lines above it.
 * Returns the exit status: 0 when it has succeeded. */
int tdc_job_watch(struct tdc_client *c, const char *id, bool json);
/* One line of an event on stdout. */
void tdc_job_print_event(const json_t *event);
/* A member's text, "" without. */
const char *tdc_job_text(const json_t *doc, const char *key);

#endif
