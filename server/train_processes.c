/* server/train_processes.c - see server/train_processes.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train_processes.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/cores.h"

static enum td_code no_state(void *ctx, enum td_train_state state, struct td_err *err)
{
    (void)ctx;
    (void)state;
    (void)err;
    return TD_OK;
}

static enum td_code no_event(void *ctx, const struct td_train_event *e, struct td_err *err)
{
    (void)ctx;
    (void)e;
    (void)err;
    return TD_OK;
}

static enum td_code no_progress(void *ctx, const int64_t at[4], bool sync, struct td_err *err)
{
    (void)ctx;
    (void)at;
    (void)sync;
    (void)err;
    return TD_OK;
}

static enum td_code no_checkpoint(void *ctx, int64_t step, json_t *metrics, struct td_err *err)
{
    (void)ctx;
    (void)step;
    (void)metrics;
    (void)err;
    return TD_OK;
}

struct td_train_sink td_train_silence(void)
{
    return (struct td_train_sink){
        .state = no_state, .event = no_event, .progress = no_progress, .checkpoint = no_checkpoint};
}

/* The number that a launcher has left in the environment; 0: none. */
static int left_by(const char *name)
{
    const char *text = getenv(name);
    const long n = text == NULL ? 0 : strtol(text, NULL, 10);
    return n > 0 && n < 1 << 20 ? (int)n : 0;
}

int td_train_threads(const struct td_job_spec *spec)
{
    const int cores = td_cores_usable(""), open_mpi = left_by("OMPI_COMM_WORLD_LOCAL_SIZE");
    const int here = spec->gpus > 1 ? (int)spec->gpus
                     : open_mpi > 0 ? open_mpi
                                    : left_by("MPI_LOCALNRANKS"); /* MPICH's */
    if (here <= 1 || left_by("OMPI_MCA_orte_bound_at_launch") > 0) {
        return cores;
    }
    return cores > here ? cores / here : 1;
}

enum td_code td_train_check_gpus(const struct td_job_spec *spec, const char *devices, struct td_fault *f)
{
    const bool cpu = devices == NULL || strcmp(devices, "cpu") == 0;
    if (spec->gpus <= 1 || (!cpu && !td_ranks_wanted())) {
        return TD_OK;
    }
    return TD_FAULT(f, "invalid_value", "tensord.gpus", "tensord.gpus is %lld, and %s", (long long)spec->gpus,
                    cpu ? "the job is to run on the CPU (--devices)"
                        : "mpirun has made the processes, which have a GPU each");
}

struct td_devices_opts td_train_devices(const struct td_devices_opts *o, const struct td_train_opts *train)
{
    struct td_devices_opts mine = *o;
    mine.first = td_ranks_here(train->ranks);
    if (train->spec->gpus > 1) {
        mine.devices = "gpu"; /* "auto" would leave one of them on the CPU */
    }
    return mine;
}
