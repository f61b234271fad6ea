/* server/sched/sched_devices.c - how many batches run on which devices, where models are confined to some.
 *
 * Batches are counted by the set of devices that they may run on, because which one a batch gets is found
 * when it runs (server/models/replicas.h). A batch may start where, for each set that holds all of its
 * devices, fewer run within that set than its devices run at once: else one of them would have too many. So
 * models of one GPU leave the others' share to the others, and a model of all GPUs takes what they leave.
 *
 * A queue that may run on all devices has no set: the whole number is its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/sched/sched.h"

static bool holds(uint32_t set, uint32_t other)
{
    return (other & ~set) == 0;
}

int td_sched_device_runs(const struct td_sched *s, uint32_t devices)
{
    const int runs = s->each_device * __builtin_popcount(devices);
    return devices == 0 || runs > s->device_runs ? s->device_runs : runs;
}

void td_sched_confine(struct td_sched *s, struct td_sched_queue *q, uint32_t devices)
{
    const bool all = td_sched_device_runs(s, devices) == s->device_runs;
    struct td_device_set *unused = NULL;
    if (q->set != NULL) {
        q->set->n_queues--;
        q->set = NULL;
    }
    for (int i = 0; !all && i < TD_DEVICE_SETS; i++) {
        struct td_device_set *at = &s->sets[i];
        unused = at->n_queues == 0 && unused == NULL ? at : unused;
        if (at->n_queues > 0 && at->devices == devices) {
            q->set = at;
            at->n_queues++;
            return;
        }
    }
    if (unused != NULL) {
        *unused = (struct td_device_set){.devices = devices, .n_queues = 1};
        q->set = unused;
    }
}

/* Of queues that are confined. */
static int running_within(const struct td_sched *s, uint32_t devices)
{
    int n = 0;
    for (int i = 0; i < TD_DEVICE_SETS; i++) {
        n += s->sets[i].n_queues > 0 && holds(devices, s->sets[i].devices) ? s->sets[i].running : 0;
    }
    return n;
}

int td_sched_device_idle(const struct td_sched *s, const struct td_sched_queue *q)
{
    int idle = s->device_runs - s->device_running;
    for (int i = 0; q->set != NULL && i < TD_DEVICE_SETS; i++) {
        const struct td_device_set *at = &s->sets[i];
        if (at->n_queues > 0 && holds(at->devices, q->set->devices)) {
            const int n = td_sched_device_runs(s, at->devices) - running_within(s, at->devices);
            idle = n < idle ? n : idle;
        }
    }
    return idle > 0 ? idle : 0;
}

void td_sched_device_count(struct td_sched *s, struct td_sched_queue *q, int by)
{
    s->device_running += by;
    if (q->set != NULL) {
        q->set->running += by;
    }
}
