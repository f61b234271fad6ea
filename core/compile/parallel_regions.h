/* core/compile/parallel_regions.h - parallel regions of one graph: parts that do not need each other,
 * between a fork and a join.
 *
 *            +-- conv 1x1 ---------------+
 *   pool --> +-- conv 1x1 -- conv 3x3 ---+--> concat        steps: pool | 1x1 | 1x1 3x3 | 1x1 5x5 | concat
 *            +-- conv 1x1 -- conv 5x5 ---+                  region:     [     groups              )
 *
 * A region is a range of steps that falls apart into groups, each contiguous, with no edge from one group to
 * another. It is found when the plan is made (the compiler's pass "parallel"); a run computes its groups one
 * after the other, or, when workers idle and it is worth it, several at once (core/run/region_run.c).
 *
 * What may be in a region: steps without an effect, and those that read a variable or a table (what writes is
 * never in one, so a read stays before or behind every write). TF1's reference edges and graphs with dead
 * values are left alone.
 *
 * Invariants, on which runs on several threads rely:
 *   - no group reads what another makes;
 *   - values of one group never share bytes with those of another, nor with what another reads
 *     (core/run/memory_plan.c);
 *   - a value from before that several groups read has its last use behind the region
 *   (core/compile/plan_make.c), so that
 *     none of them releases it or takes its bytes over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PARALLEL_REGIONS_H
#define TD_CORE_COMPILE_PARALLEL_REGIONS_H

#include "core/run/plan.h"

/* Finds the regions of n steps in topological order, ascending and disjoint, and sorts the steps of each by
 * group. Everything else keeps its place. The regions are the arena's. */
TD_MUST enum td_code td_regions_find(struct td_arena *arena, struct td_node **steps, int n,
                                     struct td_region **out, int *n_out, struct td_err *err);

#endif
