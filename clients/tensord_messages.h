/* clients/tensord_messages.h - what the message files of the client share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLIENTS_TENSORD_MESSAGES_H
#define TD_CLIENTS_TENSORD_MESSAGES_H

#include "clients/tensord_client.h"
#include "proto/schema/serving.pb-c.h"

/* One block that holds an array and everything it points to: measured with p NULL, then filled. */
struct tdc_block {
    char *p;
    size_t n;
};
/* n more bytes of the block, aligned for any type: their place, or NULL while measuring. */
void *tdc_take(struct tdc_block *b, size_t n);
const char *tdc_take_text(struct tdc_block *b, const char *text);

int tdc_fail(struct tdc_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Serializes m, calls path and unpacks the answer; *reply is freed with protobuf_c_message_free_unpacked. */
int tdc_exchange(struct tdc_client *c, const char *path, const ProtobufCMessage *m,
                 const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, struct tdc_error *err);
/* Makes ask a PredictRequest (whose fields other requests begin with) and hands it to send. */
typedef int tdc_send_fn(struct tdc_client *c, const Tensorflow__Serving__PredictRequest *m, void *ctx,
                        struct tdc_error *err);
int tdc_send(struct tdc_client *c, const struct tdc_ask *ask, tdc_send_fn *send, void *ctx,
             struct tdc_error *err);
/* Who is asked; number is what spec may point to. */
void tdc_fill_spec(const struct tdc_ask *ask, Tensorflow__Serving__ModelSpec *spec,
                   Google__Protobuf__Int64Value *number);
/* A tensor as messages hold it, all parts in one struct; strings are freed with free(). */
struct tdc_sent {
    Tensorflow__TensorProto tensor;
    Tensorflow__TensorShapeProto shape;
    Tensorflow__TensorShapeProto__Dim dim[TDC_MAX_RANK], *dims[TDC_MAX_RANK];
    ProtobufCBinaryData *strings;
};
/* Fills in *to, whose parts point at each other and at t's data. False: its rank is none, or no memory. */
bool tdc_write_tensor(struct tdc_sent *to, const struct tdc_tensor *t);

/* A tensor of an answer. */
struct tdc_answered {
    const char *name;
    const Tensorflow__TensorProto *tensor;
    bool none; /* there is no value: it becomes a tensor of dtype 0 */
};
/* *out: n tensors in one block, freed with tdc_free. */
int tdc_take_tensors(const struct tdc_answered *from, size_t n, struct tdc_tensor **out,
                     struct tdc_error *err);
/* False for ranks we do not hold and for sizes that overflow. */
bool tdc_read_shape(const struct Tensorflow__TensorShapeProto *s, struct tdc_tensor *t);

#endif
