/* core/function/callable_impl.h - what analyses and reports see of a callable; not for users of the engine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_FUNCTION_CALLABLE_IMPL_H
#define TD_CORE_FUNCTION_CALLABLE_IMPL_H

#include "core/base/list.h"
#include "core/function/callable.h"
#include "core/run/exec.h"

/* A callable's place in the list of all (core/function/plan_trim.c). */
struct td_callable_place {
    struct td_callable *callable;
    struct td_link link;
};
void td_callable_list(struct td_callable_place *place);
void td_callable_unlist(struct td_callable_place *place);
/* Now, on a clock that costs nothing to read and steps by some ms. */
int64_t td_coarse_ms(void);
/* Lets bound plans go that were last used before then, unless f is being bound this moment. */
void td_callable_trim(struct td_callable *f, int64_t before_ms);

/* The callable of a library function; made at first use, then kept. Borrowed. INVALID_ARGUMENT on another
 * arity. */
TD_MUST enum td_code td_model_function(struct td_model *m, const char *name, int n_in, int n_out,
                                       struct td_callable **out, struct td_err *err);
/* As struct td_callable_calls has it. */
TD_MUST enum td_code td_callable_bind(struct td_callable *f, const struct td_tensor *const *in,
                                      const struct td_run *run, struct td_bound_plan **out,
                                      struct td_err *err);
/* Runs inside another run: any input shapes, in[] borrowed. */
TD_MUST enum td_code td_callable_run_inside(struct td_callable *f, const struct td_tensor *const *in,
                                            struct td_tensor *out, struct td_run *run, struct td_err *err);
/* function: one concrete function for all shapes. Returns new, the caller's. */
TD_MUST enum td_code td_callable_make(struct td_model *m, const struct td_graph *graph,
                                      const struct td_callable_opts *opts, bool function,
                                      struct td_callable **out, struct td_err *err);
void td_callable_free(struct td_callable *f);
struct td_model *td_callable_model(const struct td_callable *f);
/* The compiled plan (borrowed, as long as f), made now if it was not yet. */
TD_MUST enum td_code td_callable_plan(struct td_callable *f, const struct td_plan **out, struct td_err *err);
/* The plan bound to the shapes that f ran with last, counted for the caller; NULL: it has not run. */
struct td_bound_plan *td_callable_latest(struct td_callable *f);

#endif
