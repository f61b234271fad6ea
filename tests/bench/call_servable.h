/* tests/bench/call_servable.h - a case (call.h) as a call inside of the process, with options of one's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_BENCH_CALL_SERVABLE_H
#define TD_TESTS_BENCH_CALL_SERVABLE_H

#include "core/run/engine.h"
#include "server/models/servable_run.h"
#include "tests/bench/call.h"

/* Until the process ends. */
struct call_servable {
    struct td_engine engine;
    struct td_servable *servable;
    const struct td_signature *sig;
    struct td_named in[BENCH_MAX_TENSORS];
    int n_in;
};

TD_MUST enum td_code call_servable_load(const char *dir, const struct bench_case *c,
                                        struct call_servable *out, struct td_err *err);
/* The outputs are dropped. */
TD_MUST enum td_code call_servable_run(struct call_servable *s, const struct td_run_opts *how,
                                       struct td_err *err);

#endif
