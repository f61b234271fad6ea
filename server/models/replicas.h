/* server/models/replicas.h - the devices that a version runs on, and which of them the next run goes to.
 *
 * A version has a replica for each: a td_model of the same graph, functions, variables and state of nodes,
 * with its own plans and its own copies of weights on its device (core/function/callable.h:
 * td_model_replicate). So a variable that one replica assigns is another's too. The first is the version's
 * own engine; it alone runs what is not asked of a signature of the file: restoring, gradients, the debugger,
 * training. A plan is compiled, and a weight sent, when a replica first needs it.
 *
 * Which devices (td_replicas_choose), of those that the server has:
 *   instance_group of config.pbtxt   KIND_GPU: its gpus, all where it names none; KIND_CPU: the host;
 *                                    KIND_AUTO: all; KIND_MODEL: as without a group. Several groups: all of
 *                                    their GPUs
 *   a graph that asks by name        "/device:GPU:1": that one alone, if it is there. Of several names the
 *                                    first: a plan has one device, and nodes of the others are placed as if
 *                                    they had not asked (core/compile/placer.h)
 *   else                             all
 *
 * A run goes to the replica with the least work under way, in rows; among equals to that which has begun the
 * fewest. A device that has been lost to the process answers at once, and would draw all requests: its
 * replica is left out as soon as a run finds it so, and where the run has no effects it is had again on
 * another; until the device was restarted (server/request/device_restart.h).
 *
 * Threads: td_replicas_open and td_replicas_close by whoever loads and frees the version; the rest any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_REPLICAS_H
#define TD_SERVER_MODELS_REPLICAS_H

#include "core/function/callable.h"
#include "server/models/model_config.h"

enum { TD_MOST_REPLICAS = 16 };

struct td_devices_list {
    const struct td_device *at[TD_MOST_REPLICAS];
    int n; /* 0: the host alone */
};

struct td_replica {
    struct td_model *engine;
    const struct td_device *device; /* NULL: the host */
    atomic_int_fast64_t work;       /* rows of the runs under way */
    atomic_uint_fast64_t begun;     /* runs */
    atomic_bool out;                /* its device is lost */
};

struct td_replicas {
    int n;
    struct td_replica at[TD_MOST_REPLICAS];
};

/* INVALID_ARGUMENT: a group names a GPU that the server has not, while it has others. */
TD_MUST enum td_code td_replicas_choose(const struct td_devices_list *all, const struct td_model_settings *s,
                                        const struct td_graph *graph, const struct td_library *lib,
                                        struct td_devices_list *out, struct td_err *err);
/* engine: made for the first of devices; borrowed. On failure too, r is closed. */
TD_MUST enum td_code td_replicas_open(struct td_replicas *r, struct td_model *engine,
                                      const struct td_devices_list *devices, struct td_err *err);
void td_replicas_close(struct td_replicas *r);
/* The devices of the first n, as bits of their numbers; 0: not all have one of 0 .. 31. */
uint32_t td_replicas_devices(const struct td_replicas *r, int n);

/* The replica that a run of so many rows goes to, among the first n; td_replicas_end when it is done. */
int td_replicas_begin(struct td_replicas *r, int n, int64_t rows);
void td_replicas_end(struct td_replicas *r, int i, int64_t rows);
/* After a run on i has failed: leaves it out if its device is lost. False when it is not, or is the last. */
bool td_replicas_lost(struct td_replicas *r, int i);
/* Whether no run can be had: every device is lost, and none is the host. */
bool td_replicas_all_lost(const struct td_replicas *r);
/* The device works again: runs go to its replica. */
void td_replicas_found(struct td_replicas *r, const struct td_device *d);

#endif
