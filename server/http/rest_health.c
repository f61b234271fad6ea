/* server/http/rest_health.c - is the process up, and is every model served?
 *
 * healthz says yes as long as somebody answers. readyz asks the registry, which names the models that are
 * missing, and the workers, whether one of them has come free of late; it says no while the server drains,
 * so that a load balancer looks elsewhere before connections are refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"

enum td_code td_rest_healthz(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    (void)rest;
    return td_sink_put(&x->out, "{\"status\": \"ok\"}\n", 17, err);
}

/* "a,b" as a list of texts. */
static json_t *names_json(char *names)
{
    json_t *list = json_array();
    char *rest = NULL;
    for (char *name = names != NULL ? strtok_r(names, ",", &rest) : NULL; name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        (void)json_array_append_new(list, td_rest_json_text(name));
    }
    return list;
}

enum td_code td_rest_readyz(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    char *missing = NULL;
    const bool draining = atomic_load(&rest->draining);
    const bool ready = td_registry_ready(rest->registry, &missing) && !draining;
    json_t *doc = json_pack("{s:b, s:b, s:b, s:o}", "ready", ready, "draining", draining, "workers_answer",
                            td_registry_answers(rest->registry), "missing", names_json(missing));
    td_free(missing);
    x->status = ready ? 200 : 503;
    return td_rest_put_json(&x->out, doc, err);
}
