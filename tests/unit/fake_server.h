/* tests/unit/fake_server.h - a registry and an engine of a few lines, so that the gRPC front end is tested
 * alone.
 *
 * Models: "echo" answers its inputs; "slow" runs until it is stopped (or ten seconds); "scores" classifies
 * ("classify", "regress"); "broken" has only failed. Version 7 of each, label "stable". Linked before the
 * server's library, these definitions stand in for registry.c, request.c and servable.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FAKE_SERVER_H
#define TD_TESTS_FAKE_SERVER_H

#include <stdatomic.h>

extern atomic_int fake_running;      /* requests of "slow" that run now */
extern atomic_int fake_stopped;      /* how many of them saw their stop word */
extern atomic_int fake_configured;   /* models of the last td_registry_configure */
extern atomic_int fake_broken_state; /* of "broken": a number of enum td_state */

#endif
