/* server/base/options.c - a table of flags made from options.def, and one loop over argv.
 *
 * A row knows where its member lies in struct td_options, so setting a flag is one switch over the kinds.
 * Defaults are put in first, from the same rows. A value stands behind an = sign or, in flags that are
 * written with -, in the next argument; a flag of kind BOOL needs none. Unknown arguments are warned of and
 * ignored, as TF Serving does. Behind the loop come the ports, whose defaults depend on what is served and
 * are left alone when they were given, and the checks of flags that only make sense together.
 *
 * Texts are argv's own: nothing is copied or freed. Does not: read files (server/models/config_file.c), or
 * act on any flag (server/main.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"

enum kind { KIND_BOOL, KIND_INT, KIND_REAL, KIND_TEXT, KIND_PORT, KIND_LIST, KIND_NONE };

struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    double least, most;   /* exact for the integers that occur: all below 2^53 */
    const char *fallback; /* the default as --help shows it */
    const char *help;
};

#define AT(name) offsetof(struct td_options, name)
static const struct row ROWS[] = {
#define BOOL(name, def, help) {#name, KIND_BOOL, AT(name), 0, 1, #def, help},
#define INT(name, def, least, most, help) {#name, KIND_INT, AT(name), least, most, #def, help},
#define REAL(name, def, least, most, help) {#name, KIND_REAL, AT(name), least, most, #def, help},
#define TEXT(name, def, help) {#name, KIND_TEXT, AT(name), 0, 0, def, help},
#define PORT(name, def, help) {#name, KIND_PORT, AT(name), 0, 65535, #def, help},
#define LIST(name, help) {#name, KIND_LIST, AT(name), 0, 0, "", help},
#define NONE(name, def, help) {#name, KIND_NONE, 0, 0, 0, def, help},
#include "server/base/options.def"
};
#define N_ROWS (sizeof ROWS / sizeof ROWS[0])

/* Flags whose value is checked and then changes nothing. */
static const struct {
    const char *name, *why;
} IDLE_FLAGS[] = {
#define IDLE(name, why) {#name, why},
#include "server/base/options.def"
};
#define N_IDLE (sizeof IDLE_FLAGS / sizeof IDLE_FLAGS[0])

/* Other names of flags. */
static const struct {
    const char *other, *name;
} ALIASES[] = {
#define ALIAS(other, name) {#other, #name},
#include "server/base/options.def"
};
#define N_ALIASES (sizeof ALIASES / sizeof ALIASES[0])

/* Why a flag has no effect; NULL when it has one. */
static const char *idle_reason(const struct row *row)
{
    for (size_t i = 0; i < N_IDLE; i++) {
        if (strcmp(IDLE_FLAGS[i].name, row->name) == 0) {
            return IDLE_FLAGS[i].why;
        }
    }
    return row->kind == KIND_NONE ? row->help : NULL;
}

/* Whether a flag was written by that name, with - or _. */
static bool is_name(const char *flag, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (flag[i] != (name[i] == '-' ? '_' : name[i])) {
            return false;
        }
    }
    return flag[len] == '\0';
}

static const struct row *find_row(const char *name, size_t len)
{
    for (size_t i = 0; i < N_ALIASES; i++) {
        if (is_name(ALIASES[i].other, name, len)) {
            name = ALIASES[i].name;
            len = strlen(name);
        }
    }
    for (size_t i = 0; i < N_ROWS; i++) {
        if (is_name(ROWS[i].name, name, len)) {
            return &ROWS[i];
        }
    }
    return NULL;
}

static bool is_any(const char *s, const char *a, const char *b, const char *c)
{
    return strcasecmp(s, a) == 0 || strcmp(s, b) == 0 || strcasecmp(s, c) == 0;
}

static enum td_code set_bool(bool *to, const struct row *row, const char *value, struct td_err *err)
{
    if (is_any(value, "true", "1", "yes")) {
        *to = true;
    } else if (is_any(value, "false", "0", "no")) {
        *to = false;
    } else {
        TD_FAIL(err, INVALID_ARGUMENT, "flag --%s: value '%s' is neither true nor false", row->name, value);
    }
    return TD_OK;
}

static enum td_code read_int(int64_t *to, const struct row *row, const char *value, struct td_err *err)
{
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(value, &end, 10);
    TD_FAIL_IF(end == value || *end != '\0' || errno != 0, err, INVALID_ARGUMENT,
               "flag --%s: value '%s' is no integer", row->name, value);
    TD_FAIL_IF((double)v < row->least || (double)v > row->most, err, INVALID_ARGUMENT,
               "flag --%s: value %lld, want %.0f to %.0f", row->name, v, row->least, row->most);
    *to = v;
    return TD_OK;
}

static enum td_code set_port(int *to, const struct row *row, const char *value, struct td_err *err)
{
    if (strcmp(value, "auto") == 0) {
        *to = TD_PORT_AUTO;
        return TD_OK;
    }
    int64_t v = 0;
    TD_TRY(read_int(&v, row, value, err));
    *to = (int)v;
    return TD_OK;
}

static enum td_code set_real(double *to, const struct row *row, const char *value, struct td_err *err)
{
    char *end = NULL;
    const double v = strtod(value, &end);
    TD_FAIL_IF(end == value || *end != '\0' || !isfinite(v), err, INVALID_ARGUMENT,
               "flag --%s: value '%s' is no number", row->name, value);
    TD_FAIL_IF(v < row->least || v > row->most, err, INVALID_ARGUMENT, "flag --%s: value %g, want %g to %g",
               row->name, v, row->least, row->most);
    *to = v;
    return TD_OK;
}

static enum td_code add_text(struct td_texts *to, const struct row *row, const char *value,
                             struct td_err *err)
{
    TD_FAIL_IF(to->n == TD_MAX_LIST, err, INVALID_ARGUMENT, "flag --%s: given more than %d times", row->name,
               TD_MAX_LIST);
    to->at[to->n++] = value;
    return TD_OK;
}

static enum td_code set_row(struct td_options *o, const struct row *row, const char *value,
                            struct td_err *err)
{
    void *at = (char *)o + row->offset;
    switch (row->kind) {
    case KIND_BOOL:
        return set_bool(at, row, value, err);
    case KIND_INT:
        return read_int(at, row, value, err);
    case KIND_REAL:
        return set_real(at, row, value, err);
    case KIND_TEXT:
        *(const char **)at = value;
        return TD_OK;
    case KIND_PORT:
        return set_port(at, row, value, err);
    case KIND_LIST:
        return add_text(at, row, value, err);
    case KIND_NONE:
        break;
    }
    return TD_OK;
}

static const char *kind_word(enum kind kind)
{
    switch (kind) {
    case KIND_BOOL:
        return "bool";
    case KIND_INT:
        return "integer";
    case KIND_REAL:
        return "number";
    case KIND_PORT:
        return "port";
    case KIND_TEXT:
    case KIND_LIST:
    case KIND_NONE:
        break;
    }
    return "string";
}

void td_options_usage(int fd)
{
    dprintf(fd, "usage: tensord [DIR] [--flag=value ...]\n"
                "DIR is a SavedModel or a directory of numbered versions, served on ports 8500 and 8501.\n"
                "Flags:\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *row = &ROWS[i];
        const char *quote = row->kind == KIND_TEXT ? "\"" : "";
        dprintf(fd, "  --%s=%s%s%s\t%s\t%s%s\n", row->name, quote, row->fallback, quote, kind_word(row->kind),
                idle_reason(row) != NULL ? "no effect: " : "",
                idle_reason(row) != NULL ? idle_reason(row) : row->help);
    }
    for (size_t i = 0; i < N_ALIASES; i++) {
        dprintf(fd, "  --%s\tsame as --%s\n", ALIASES[i].other, ALIASES[i].name);
    }
}

static void warn_unknown(struct td_options *o, const char *arg)
{
    if (o->n_unknown++ == 0) {
        td_options_usage(STDERR_FILENO);
    }
    td_log(TD_LOG_WARNING, NULL, "unknown argument ignored: %s", arg);
}

/* What the command line says beyond the values. */
struct told {
    bool port, rest_api_port;
};

/* next: the argument behind, NULL none; *took says that it is the flag's value. */
static enum td_code parse_flag(struct td_options *o, const char *arg, const char *next, struct told *told,
                               bool *took, struct td_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    const size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct row *row = find_row(name, len);
    if (row == NULL) {
        warn_unknown(o, arg);
        return TD_OK;
    }
    if (idle_reason(row) != NULL) {
        td_log(TD_LOG_WARNING, NULL, "flag --%s has no effect: %s", row->name, idle_reason(row));
    }
    *took = equals == NULL && row->kind != KIND_BOOL && memchr(name, '-', len) != NULL && next != NULL &&
            next[0] != '-';
    if (row->kind == KIND_NONE) {
        return TD_OK;
    }
    TD_FAIL_IF(equals == NULL && row->kind != KIND_BOOL && !*took, err, INVALID_ARGUMENT,
               "flag --%s: no value, want --%s=VALUE", row->name, row->name);
    told->port = told->port || row->offset == AT(port);
    told->rest_api_port = told->rest_api_port || row->offset == AT(rest_api_port);
    return set_row(o, row, equals != NULL ? equals + 1 : *took ? next : "true", err);
}

/* Ports that follow from what is served, and those that are switched off. */
static void choose_ports(struct td_options *o, const struct told *told)
{
    const bool triton = o->model_repository.n > 0;
    if ((o->dir != NULL || triton) && !told->rest_api_port) {
        o->rest_api_port = triton ? 8000 : 8501;
    }
    if (triton && !told->port) {
        o->port = 8001;
    }
    o->rest_api_port = o->allow_http ? o->rest_api_port : 0;
    o->port = o->allow_grpc ? o->port : 0;
}

static enum td_code parse_args(struct td_options *o, int argc, char *const *argv, struct td_err *err)
{
    struct told told = {0};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0') {
            bool took = false;
            TD_TRY(parse_flag(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &told, &took, err));
            i += took;
        } else if (argv[i][0] != '-' && argv[i][0] != '\0' && o->dir == NULL) {
            o->dir = argv[i];
        } else {
            warn_unknown(o, argv[i]);
        }
    }
    choose_ports(o, &told);
    return TD_OK;
}

static enum td_code one_of(const char *flag, const char *value, const char *words, struct td_err *err)
{
    const size_t n = strlen(value);
    for (const char *at = words; n > 0 && (at = strstr(at, value)) != NULL; at += n) {
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) {
            return TD_OK;
        }
    }
    TD_FAIL(err, INVALID_ARGUMENT, "flag --%s: value '%s', want one of: %s", flag, value, words);
}

/* What no single flag can tell. */
static enum td_code check_together(const struct td_options *o, struct td_err *err)
{
    TD_TRY(one_of("kernels", o->kernels, "fast openblas reference", err));
    TD_TRY(one_of("log_format", o->log_format, "text json", err));
    TD_TRY(one_of("model_control_mode", o->model_control_mode, "none poll explicit", err));
    TD_TRY(one_of("log_level", o->log_level, "debug info warning error", err));
    TD_FAIL_IF(o->batching_parameters_file[0] != '\0' && !o->enable_batching, err, INVALID_ARGUMENT,
               "--batching_parameters_file is set without --enable_batching");
    TD_FAIL_IF(o->tensorflow_session_parallelism != 0 && o->tensorflow_intra_op_parallelism != 0 &&
                   o->tensorflow_inter_op_parallelism != 0,
               err, INVALID_ARGUMENT,
               "--tensorflow_session_parallelism is set together with --tensorflow_intra_op_parallelism and "
               "--tensorflow_inter_op_parallelism");
    return TD_OK;
}

enum td_code td_options_parse(struct td_options *o, int argc, char *const *argv, struct td_err *err)
{
    *o = (struct td_options){
#define BOOL(name, def, ...) .name = (def),
#define INT(name, def, ...) .name = (def),
#define REAL(name, def, ...) .name = (def),
#define TEXT(name, def, ...) .name = (def),
#define PORT(name, def, ...) .name = (def),
#include "server/base/options.def"
    };
    TD_TRY(parse_args(o, argc, argv, err));
    return check_together(o, err);
}
