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
/* False for ranks we do not hold and for sizes that overflow. */
bool tdc_read_shape(const struct Tensorflow__TensorShapeProto *s, struct tdc_tensor *t);

#endif
