/* core/run/select.c - walks an op's kernel rows in order; each refusal has a reason.
 *
 * Without shapes, a row is taken if it is for the target's device, is allowed by --kernels, has the node's
 * dtypes, and its own refuse() does not mind. Those taken are kept as a list, because the first may still
 * refuse the shapes. With shapes, each row of the list is asked in turn: prepare() offers a state, or says
 * why not. The first to serve is chosen, unless rows compete and time was set aside for trying them.
 *
 * Reasons are gathered in short texts on the stack, cut where they are too long; those of a bound plan are
 * kept by step, and what an error said is copied.
 *
 * Threads: no state here; what prepare() makes belongs to the choice.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/select.h"

#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"

/* ------------------------------------------------------------------ without shapes */

const struct td_kernel *td_select_row(const struct td_node *n, int i)
{
    const struct td_op_def *def = n->def != NULL && n->def->op == n->op ? n->def : NULL;
    for (const struct td_kernel_rows *more = def == NULL ? NULL : def->added; more != NULL;
         more = more->next) {
        if (i < more->n) {
            return &more->rows[i];
        }
        i -= more->n;
    }
    const struct td_kernel *own = n->op->kernels;
    while (own != NULL && own->name != NULL && i > 0) {
        own++;
        i--;
    }
    return own == NULL || own->name == NULL ? NULL : own;
}

static bool runs_on(const struct td_kernel *k, const struct td_device *device)
{
    return device == NULL ? k->device == TD_CPU : k->device == device->kind || k->device == device->kernels;
}

bool td_select_runs_on(const struct td_op_def *def, const struct td_device *device)
{
    const struct td_node any = {.op = def->op, .def = def};
    const struct td_kernel *k = td_select_row(&any, 0);
    for (int i = 1; k != NULL && !runs_on(k, device); i++) {
        k = td_select_row(&any, i);
    }
    return k != NULL;
}

static bool allowed(const struct td_kernel *k, enum td_kernel_choice choice)
{
    const unsigned plain = 1u << TD_LIB_REFERENCE,
                   openblas = plain | 1u << TD_LIB_OWN | 1u << TD_LIB_OPENBLAS;
    const unsigned set = choice == TD_KERNELS_REFERENCE ? plain : openblas;
    return choice == TD_KERNELS_FAST || (set >> k->library & 1u) != 0;
}

/* The attribute of n that breaks a type rule of k, or NULL. */
static const struct td_type_rule *broken_rule(const struct td_node *n, const struct td_kernel *k,
                                              enum td_dtype *found)
{
    for (int r = 0; r < TD_TYPE_RULES && k->types[r].attr != NULL; r++) {
        int count;
        const enum td_dtype *types = td_attr_types(n, k->types[r].attr, &count);
        for (int i = 0; i < count; i++) {
            if (!td_dtype_in(types[i], k->types[r].set)) {
                *found = types[i];
                return &k->types[r];
            }
        }
    }
    return NULL;
}

static const char *reason(const struct td_node *n, const struct td_kernel *k, const struct td_target *t,
                          char *text, size_t bytes)
{
    enum td_dtype found;
    if (!runs_on(k, t->device)) {
        return "for another device";
    }
    if (!allowed(k, t->kernels)) {
        return "switched off by --kernels";
    }
    const struct td_type_rule *rule = broken_rule(n, k, &found);
    if (rule != NULL) {
        snprintf(text, bytes, "%s=%s is not supported", rule->attr, td_dtype_tf_name(found));
        return text;
    }
    return k->refuse == NULL ? NULL : k->refuse(n);
}

static void put_reason(char *text, size_t bytes, const char *row, const char *why)
{
    const size_t used = strlen(text);
    if (used + 1 < bytes) {
        snprintf(text + used, bytes - used, "%s%s: %s", used > 0 ? "; " : "", row, why);
    }
}

static enum td_code none(const struct td_node *n, const char *reasons, struct td_err *err)
{
    return td_fail(
        err, TD_UNIMPLEMENTED,
        "Could not find device for node: %s: No OpKernel was registered to support Op '%s' used by it (%s)",
        TD_NODE_STR(n), n->op_name, reasons);
}

enum td_code td_select_rows(const struct td_node *n, const struct td_target *t,
                            const struct td_kernel *rows[TD_KERNEL_MOST], int *n_rows, char *why,
                            size_t why_bytes, struct td_err *err)
{
    TD_FAIL_IF(n->op == NULL, err, UNIMPLEMENTED,
               "Op type not registered '%s': %s needs an op that this build does not have", n->op_name,
               TD_NODE_STR(n));
    TD_FAIL_IF(n->op->flags & TD_OP_REFUSED, err, UNIMPLEMENTED, "Op '%s' is refused at %s: %s", n->op_name,
               TD_NODE_STR(n),
               n->op->doc == NULL ? "it runs code or touches files outside the model" : n->op->doc);
    TD_FAIL_IF(td_select_row(n, 0) == NULL, err, UNIMPLEMENTED, "%s: the op has no kernel in this build",
               TD_NODE_STR(n));
    char text[96], reasons[400] = "";
    *n_rows = 0;
    const struct td_kernel *k;
    for (int i = 0; (k = td_select_row(n, i)) != NULL; i++) {
        const char *no = reason(n, k, t, text, sizeof text);
        if (no == NULL) {
            TD_CHECK(*n_rows < TD_KERNEL_MOST);
            rows[(*n_rows)++] = k;
        } else if (*n_rows == 0) {
            put_reason(reasons, sizeof reasons, k->name, no);
        }
    }
    if (*n_rows == 0) {
        return none(n, reasons, err);
    }
    if (why != NULL) {
        snprintf(why, why_bytes, "%s", reasons);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ choices and notes */

const char *td_choice_name(const struct td_choice *c)
{
    return c->offer.name != NULL ? c->offer.name : c->kernel->name;
}

void td_choice_fini(struct td_choice *c)
{
    if (c->offer.state != NULL && c->kernel->release != NULL) {
        c->kernel->release(c->offer.state);
    }
    *c = (struct td_choice){0};
}

void td_select_notes_fini(struct td_select_notes *n)
{
    for (int i = 0; i < n->n; i++) {
        td_free(n->list[i].text);
    }
    td_free(n->list);
    *n = (struct td_select_notes){0};
}

/* failed: the reason is a text that will not stay. */
static void note(const struct td_kernel_query *q, const struct td_kernel *row, const char *why, bool failed)
{
    struct td_select_notes *n = q->notes;
    if (n == NULL) {
        return;
    }
    if (n->n == n->room) {
        struct td_select_note *more = td_realloc(n->list, (size_t)n->room * 2 + 16, sizeof *more);
        if (more == NULL) {
            return;
        }
        n->list = more;
        n->room = n->room * 2 + 16;
    }
    n->list[n->n++] = (struct td_select_note){.row = row,
                                              .text = failed ? td_strdup(why) : NULL,
                                              .reason = failed ? "it could not be prepared" : why,
                                              .step = q->step};
}

void td_select_notes_put(const struct td_select_notes *n, int step, char *text, size_t bytes)
{
    for (int i = 0; i < n->n; i++) {
        const struct td_select_note *x = &n->list[i];
        if (x->step == step) {
            put_reason(text, bytes, x->row->name, x->text != NULL ? x->text : x->reason);
        }
    }
}

/* ------------------------------------------------------------------ with shapes */

/* Asks one row. *why: NULL when it serves; else the reason, in err->msg when it failed. */
static enum td_code ask(const struct td_kernel_query *q, const struct td_kernel *row, struct td_choice *out,
                        const char **why, struct td_err *err)
{
    *out = (struct td_choice){.kernel = row, .offer = {.row = row}};
    *why = NULL;
    if (row->prepare == NULL) {
        return TD_OK;
    }
    const enum td_code rc = row->prepare(q, &out->offer, err);
    *why = rc ? err->msg : out->offer.refusal;
    if (*why != NULL) {
        td_choice_fini(out);
    }
    return rc;
}

/* The row that is faster, of *first and those behind it that compete and serve. */
static void compete(const struct td_kernel_query *q, const struct td_kernel *const *rows, int n_rows,
                    struct td_choice *first)
{
    struct td_choice rival[TD_TRIAL_MOST] = {*first};
    int n = 1;
    for (int i = 0; i < n_rows && n < TD_TRIAL_MOST && rows[i]->competes; i++) {
        struct td_err err = {0};
        const char *why;
        const enum td_code rc = ask(q, rows[i], &rival[n], &why, &err);
        if (why == NULL) {
            n++;
        } else {
            note(q, rows[i], why, rc != TD_OK);
        }
    }
    const int best = n > 1 ? q->fastest(q, rival, n) : 0;
    for (int i = 0; i < n; i++) {
        if (i != best) {
            note(q, rival[i].kernel, "was slower when tried", false);
            td_choice_fini(&rival[i]);
        }
    }
    *first = rival[best];
}

static enum td_code none_serves(const struct td_kernel_query *q, const struct td_kernel *const *rows,
                                int n_rows, struct td_err *err)
{
    char reasons[400] = "";
    for (int i = 0; i < n_rows; i++) {
        struct td_choice c;
        struct td_err ignored = {0};
        const char *why;
        (void)ask(q, rows[i], &c, &why, &ignored);
        put_reason(reasons, sizeof reasons, rows[i]->name, why != NULL ? why : "serves now");
        td_choice_fini(&c);
    }
    return none(q->node, reasons, err);
}

TD_CHECK_FN enum td_code choice_check(const struct td_kernel_query *q, const struct td_kernel *const *rows,
                                      const struct td_choice *c, struct td_err *err)
{
    TD_WANT(!td_select_is_plain(rows, &q->target) || c->kernel == rows[0], err,
            "%s gets %s for its shapes, where %s serves them all", TD_NODE_STR(q->node), c->kernel->name,
            rows[0]->name);
    TD_WANT(c->kernel->prepare != NULL || c->offer.state == NULL, err, "%s has a state that nothing prepared",
            c->kernel->name);
    return TD_OK;
}

enum td_code td_select_bind(const struct td_kernel_query *q, const struct td_kernel *const *rows, int n_rows,
                            struct td_choice *out, struct td_err *err)
{
    enum td_code last = TD_OK;
    struct td_err failed;
    for (int i = 0; i < n_rows; i++) {
        const char *why;
        failed.code = TD_OK;
        last = ask(q, rows[i], out, &why, &failed);
        if (why != NULL) {
            note(q, rows[i], why, last != TD_OK);
            continue;
        }
        if (rows[i]->competes && q->fastest != NULL) {
            compete(q, rows + i + 1, n_rows - i - 1, out);
        }
        TD_HOLDS(choice_check, q, rows, out);
        return TD_OK;
    }
    *out = (struct td_choice){0};
    return last != TD_OK ? td_fail(err, last, "%s", failed.msg) : none_serves(q, rows, n_rows, err);
}
