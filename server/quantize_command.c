/* server/quantize_command.c - from recorded requests to precision.json (server/models/precision_file.h).
 *
 *   ranges       of what weights are multiplied with, seen while the requests run        (int8 alone)
 *   agreement    of answers in floats with those in the precision, printed as a table
 *   the file     written last: what fails before it leaves the model as it was
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/quantize_command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/run/engine.h"
#include "kernels/ops.h"
#include "proto/bytes/file.h"
#include "server/command_args.h"
#include "server/models/precision_file.h"
#include "server/op_library.h"
#include "server/quantize/agreement.h"
#include "server/quantize/ranges.h"

static const char USAGE[] =
    "usage: tensord quantize DIR --precision=int8|bfloat16 [options]\n"
    "Has the SavedModel in DIR (a version's directory) computed in lower precision from its next load on:\n"
    "writes DIR/" TD_PRECISION_FILE ". Removing that file takes it back.\n"
    "\n"
    "  --requests=FILE          recorded requests: of int8, the ranges are what these show; TFRecord of\n"
    "                           PredictionLog, or .jsonl of REST bodies; else the version's own\n"
    "                           assets.extra/tf_serving_warmup_requests\n"
    "  --check=FILE             requests that the answers are compared on; else those above\n"
    "  --output=NAME            whose largest element is the row's class; else the first of floats\n"
    "  --saved_model_tags=TAGS  as the daemon's\n"
    "  --op_library=FILES       as the daemon's\n"
    "\n"
    "A line of .jsonl may have \"labels\": the class of each of its rows. Exit status: 0 done, 2 it cannot "
    "be\n"
    "done as it is asked for, 1 anything else.\n";

enum { EXIT_DONE = 0, EXIT_OTHER = 1, EXIT_BAD = 2 };

struct command {
    const char *dir, *precision, *requests, *check, *output, *tags, *op_library;
    bool help;
};

/* ------------------------------------------------------------------ arguments */

static enum td_code read_arguments(struct command *c, int argc, char **argv, struct td_err *err)
{
    const struct td_command_option options[] = {
        {"precision", &c->precision}, {"requests", &c->requests},     {"check", &c->check},
        {"output", &c->output},       {"saved_model_tags", &c->tags}, {"op_library", &c->op_library},
    };
    struct td_command_args args = {.options = options,
                                   .n_options = sizeof options / sizeof options[0],
                                   .what = "model",
                                   .place = &c->dir};
    TD_TRY(td_command_args_read(&args, argc, argv, err));
    c->help = args.help;
    if (c->help) {
        return TD_OK;
    }
    TD_FAIL_IF(c->dir == NULL, err, INVALID_ARGUMENT, "which model? tensord quantize DIR ..");
    const bool known =
        c->precision != NULL && (strcmp(c->precision, "int8") == 0 || strcmp(c->precision, "bfloat16") == 0);
    TD_FAIL_IF(!known, err, INVALID_ARGUMENT, "--precision=%s: there are int8 and bfloat16",
               c->precision == NULL ? "" : c->precision);
    return TD_OK;
}

/* ------------------------------------------------------------------ the work */

static bool is_int8(const struct command *c)
{
    return strcmp(c->precision, "int8") == 0;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_row(const char *name, const struct td_agreement *a, int which)
{
    const bool low = which == 1;
    char right[32] = "-", agree[32] = "-", error[32] = "-";
    if (a->labelled > 0) {
        (void)snprintf(right, sizeof right, "%.4f", share(a->by[which].right, a->labelled));
    }
    if (low) {
        (void)snprintf(agree, sizeof agree, "%.4f", share(a->agree, a->rows));
        (void)snprintf(error, sizeof error, "%.3g", a->largest_error);
    }
    fprintf(stdout, "%-10s %9s %9s %14s %12.4f\n", name, right, agree, error, a->by[which].ns_per_row / 1e6);
}

static void print_table(const struct command *c, const struct td_agreement *a)
{
    fprintf(stdout, "%lld rows, %lld with a label; outputs reach %.3g\n", (long long)a->rows,
            (long long)a->labelled, a->largest);
    fprintf(stdout, "%-10s %9s %9s %14s %12s\n", "precision", "accuracy", "agrees", "largest error",
            "ms a row");
    print_row("float32", a, 0);
    print_row(c->precision, a, 1);
    fprintf(stdout, "%.2f times as fast\n", a->by[0].ns_per_row / a->by[1].ns_per_row);
}

static enum td_code find_requests(const struct command *c, char path[TD_FILE_PATH], struct td_err *err)
{
    const int n = c->requests != NULL
                      ? snprintf(path, TD_FILE_PATH, "%s", c->requests)
                      : snprintf(path, TD_FILE_PATH, "%s/assets.extra/tf_serving_warmup_requests", c->dir);
    TD_FAIL_IF(n < 0 || n >= TD_FILE_PATH, err, INVALID_ARGUMENT, "%.200s: the path is too long",
               c->requests != NULL ? c->requests : c->dir);
    const bool wanted = is_int8(c) || c->requests != NULL;
    TD_FAIL_IF(wanted && access(path, R_OK) != 0, err, NOT_FOUND,
               "%s: no recorded requests are there (--requests=FILE)", path);
    return TD_OK;
}

static enum td_code quantize_with(const struct command *c, const struct td_servable_opts *opts,
                                  struct td_err *err)
{
    char requests[TD_FILE_PATH];
    struct td_precision *p;
    TD_TRY(find_requests(c, requests, err));
    TD_TRY(is_int8(c) ? td_ranges_of(c->dir, opts, requests, &p, err)
                      : td_precision_new(TD_PRECISION_BFLOAT16, NULL, 0, &p, err));
    const char *check = c->check != NULL ? c->check : requests;
    struct td_agreement a;
    enum td_code rc = TD_OK;
    if (c->check != NULL || access(check, R_OK) == 0) {
        rc = td_agreement_of(c->dir, opts, p, check, c->output, &a, err);
        if (rc == TD_OK) {
            print_table(c, &a);
        }
    }
    rc = rc ? rc : td_precision_file_write(c->dir, p, err);
    if (rc == TD_OK) {
        fprintf(stdout, "wrote %s/" TD_PRECISION_FILE "\n", c->dir);
    }
    td_precision_unref(p);
    return rc;
}

static enum td_code quantize(const struct command *c, struct td_err *err)
{
    struct td_engine engine;
    struct td_op_libraries *libraries = NULL;
    TD_TRY(td_engine_init(&engine, td_op_families, err));
    enum td_code rc = td_op_libraries_open(c->op_library, &engine, &libraries, err);
    const struct td_servable_opts opts = {.ops = engine.ops, .tags = c->tags};
    rc = rc ? rc : quantize_with(c, &opts, err);
    td_engine_fini(&engine);
    td_op_libraries_close(libraries);
    return rc;
}

int td_quantize_command(int argc, char **argv)
{
    struct command c = {0};
    struct td_err err = {0};
    enum td_code rc = read_arguments(&c, argc, argv, &err);
    if (rc == TD_OK && c.help) {
        fputs(USAGE, stdout);
        return EXIT_DONE;
    }
    rc = rc ? rc : quantize(&c, &err);
    if (rc) {
        fprintf(stderr, "tensord quantize: %s\n", err.msg);
    }
    const bool asked = rc == TD_INVALID_ARGUMENT || rc == TD_NOT_FOUND;
    return rc == TD_OK ? EXIT_DONE : asked ? EXIT_BAD : EXIT_OTHER;
}
