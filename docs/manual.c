/* docs/manual.c - prints the pages that are made of tables, so that no page lags behind what it tells of.
 *
 *   manual flags.md | metrics.md | api.md | passes.md      Markdown, for docs/ (docs/generate.sh puts them
 *                                                          there)
 *   manual tensord.1 | tensorctl.1                         man pages, made when the daemon is built
 *
 *   server/base/options.def  ->  flags.md, tensord.1
 *   server/base/metrics.def  ->  metrics.md
 *   server/http/routes.def, server/grpc/methods.def  ->  api.md
 *   core/compile/passes.def  ->  passes.md
 *   clients/verbs.def  ->  tensorctl.1
 *
 * Each table is included as the program that reads it includes it; what is written around it is below.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* ------------------------------------------------------------------ the tables */

enum flag_kind {
    FLAG_GROUP,
    FLAG_BOOL,
    FLAG_INT,
    FLAG_TEXT,
    FLAG_PORT,
    FLAG_LIST,
    FLAG_ALIAS,
    FLAG_NONE,
    FLAG_IDLE
};

static const struct flag {
    enum flag_kind kind;
    const char *name, *fallback, *least, *most, *help; /* of an alias: help is the flag that it stands for */
} FLAGS[] = {
#define GROUP(title) {FLAG_GROUP, title, "", "", "", ""},
#define BOOL(name, def, help) {FLAG_BOOL, #name, #def, "", "", help},
#define INT(name, def, least, most, help) {FLAG_INT, #name, #def, #least, #most, help},
#define REAL(name, def, least, most, help) {FLAG_INT, #name, #def, #least, #most, help},
#define TEXT(name, def, help) {FLAG_TEXT, #name, def, "", "", help},
#define PORT(name, def, help) {FLAG_PORT, #name, #def, "", "", help},
#define LIST(name, help) {FLAG_LIST, #name, "", "", "", help},
#define ALIAS(other, name) {FLAG_ALIAS, #other, "", "", "", #name},
#define NONE(name, def, help) {FLAG_NONE, #name, def, "", "", help},
#define IDLE(name, why) {FLAG_IDLE, #name, "", "", "", why},
#include "server/base/options.def"
};

enum source {
    SOURCE_COUNTED,
    SOURCE_VERSION,
    SOURCE_TRITON,
    SOURCE_JOBS,
    SOURCE_CLIENTS,
    SOURCE_DEVICE,
    SOURCE_GPU,
    SOURCE_PROCESS
};

static const struct metric {
    enum source source;
    const char *type, *name, *labels, *help;
    double first, growth; /* of a histogram's bounds */
    int n_bounds;
} METRICS[] = {
#define METRIC(id, type, name, labels, help) {SOURCE_COUNTED, #type, name, labels, help, 0, 0, 0},
#define METRIC_HISTOGRAM(id, first, growth, n, name, labels, help)                                           \
    {SOURCE_COUNTED, "histogram", name, labels, help, first, growth, n},
#define METRIC_OF_VERSION(type, name, outcome, look, help)                                                   \
    {SOURCE_VERSION, #type, name, #outcome, help, 0, 0, 0},
#define METRIC_OF_TRITON(type, name, reason, look, help) {SOURCE_TRITON, #type, name, #reason, help, 0, 0, 0},
#define METRIC_OF_JOBS(type, name, status, member, help) {SOURCE_JOBS, #type, name, #status, help, 0, 0, 0},
#define METRIC_OF_CLIENTS(type, name, reason, member, help)                                                  \
    {SOURCE_CLIENTS, #type, name, #reason, help, 0, 0, 0},
#define METRIC_OF_DEVICE(type, name, direction, member, help)                                                \
    {SOURCE_DEVICE, #type, name, #direction, help, 0, 0, 0},
#define METRIC_OF_TRITON_GPU(type, name, member, help) {SOURCE_GPU, #type, name, "gpu_uuid", help, 0, 0, 0},
#define METRIC_OF_PROCESS(type, name, look, help) {SOURCE_PROCESS, #type, name, "", help, 0, 0, 0},
#include "server/base/metrics.def"
};

static const struct route {
    const char *method, *pattern, *traits;
} ROUTES[] = {
#define ROUTE(method, pattern, handler, traits) {#method, pattern, #traits},
#include "server/http/routes.def"
};

static const struct rpc {
    const char *service, *method, *kind, *access; /* access: what follows the handler */
} RPCS[] = {
#define RPC(service, method, kind, ...) {service, method, #kind, #__VA_ARGS__},
#include "server/grpc/methods.def"
};

static const struct verb {
    const char *name, *arguments, *what, *usage;
} VERBS[] = {
#define VERB(name, arguments, what, usage) {#name, arguments, what, usage},
#include "clients/verbs.def"
};

static const struct pass {
    const char *name, *when, *what;
} PASSES[] = {
#define PASS_AT_BUILD(name, what) {#name, "while the graph is copied", what},
#define PASS(name, when, what) {#name, #when, what},
#define PASS_ON_STEPS(name, what) {#name, "on the steps of the finished plan", what},
#include "core/compile/passes.def"
};

/* ------------------------------------------------------------------ text */

/* The text as Markdown takes it inside a table. */
static void put_md(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr("|*<", *p) != NULL) {
            putchar('\\');
        }
        putchar(*p);
    }
}

/* The text as roff takes it, anywhere in a line. */
static void put_roff(const char *text)
{
    if (*text == '.' || *text == '\'') {
        fputs("\\&", stdout);
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\' || *p == '-') {
            fputs(*p == '-' ? "\\-" : "\\e", stdout);
        } else {
            putchar(*p);
        }
    }
}

static void put_made_from(const char *tables)
{
    printf("<!-- Made by docs/generate.sh from %s: change the table, not this page. -->\n\n", tables);
}

/* ------------------------------------------------------------------ flags */

/* Why a flag has no effect; NULL when it has one. */
static const char *idle_reason(const struct flag *f)
{
    for (int i = 0; i < COUNT(FLAGS); i++) {
        if (FLAGS[i].kind == FLAG_IDLE && strcmp(FLAGS[i].name, f->name) == 0) {
            return FLAGS[i].help;
        }
    }
    return f->kind == FLAG_NONE ? f->help : NULL;
}

static const char *kind_word(const struct flag *f)
{
    static const char *const words[] = {[FLAG_BOOL] = "bool",
                                        [FLAG_INT] = "number",
                                        [FLAG_TEXT] = "text",
                                        [FLAG_PORT] = "port",
                                        [FLAG_LIST] = "text, repeatable",
                                        [FLAG_NONE] = "any"};
    return words[f->kind];
}

static void put_flag_row(const struct flag *f)
{
    if (f->kind == FLAG_ALIAS) {
        printf("| `--%s` | | | the same as `--%s` |\n", f->name, f->help);
        return;
    }
    printf("| `--%s` | %s | ", f->name, kind_word(f));
    if (f->fallback[0] != '\0') {
        printf("`%s`", f->fallback);
    }
    fputs(" | ", stdout);
    const char *why = idle_reason(f);
    fputs(why != NULL ? "no effect: " : "", stdout);
    put_md(why != NULL ? why : f->help);
    if (f->kind == FLAG_INT) {
        printf(" (%s to %s)", f->least, f->most);
    }
    fputs(" |\n", stdout);
}

static void flags_md(void)
{
    printf("# Flags of tensord\n\n");
    put_made_from("server/base/options.def");
    printf("`--flag=value`; a bool may stand alone (`--flag`). In a name `-` and `_` are the same, and a "
           "flag that is\n"
           "written with `-` may have its value behind a space, as tritonserver's may. A port is a number, "
           "`0` (off) or\n"
           "`auto` (a free one, named in the line that begins `ready:`). A bad value ends the start with "
           "status 2; an\n"
           "argument that is not known is named, with the usage, and ignored, as TF Serving does. A flag "
           "without effect\n"
           "is accepted with one warning line. `tensord --help` prints the same list.\n");
    for (int i = 0; i < COUNT(FLAGS); i++) {
        if (FLAGS[i].kind == FLAG_GROUP) {
            printf("\n## %s\n\n| flag | value | default | what it does |\n| --- | --- | --- | --- |\n",
                   FLAGS[i].name);
        } else if (FLAGS[i].kind != FLAG_IDLE) {
            put_flag_row(&FLAGS[i]);
        }
    }
}

static void put_flag_roff(const struct flag *f)
{
    fputs(".TP\n\\fB\\-\\-", stdout);
    put_roff(f->name);
    if (f->kind != FLAG_BOOL && f->kind != FLAG_ALIAS) {
        fputs("\\fR=\\fI", stdout);
        put_roff(f->kind == FLAG_PORT ? "PORT" : f->kind == FLAG_INT ? "N" : "TEXT");
    }
    fputs("\\fR\n", stdout);
    if (f->kind == FLAG_ALIAS) {
        fputs("The same as \\fB\\-\\-", stdout);
        put_roff(f->help);
        fputs("\\fR.\n", stdout);
        return;
    }
    const char *why = idle_reason(f);
    fputs(why != NULL ? "No effect: " : "", stdout);
    put_roff(why != NULL ? why : f->help);
    if (f->fallback[0] != '\0') {
        fputs(" (default ", stdout);
        put_roff(f->fallback);
        putchar(')');
    }
    putchar('\n');
}

/* ------------------------------------------------------------------ metrics */

/* A metric that counted before it in the table: the row goes on with it. */
static bool goes_on(int i)
{
    return METRICS[i].help[0] == '\0';
}

static void put_type(const struct metric *m)
{
    const bool gauge = strcmp(m->type, "GAUGE") == 0;
    if (m->n_bounds == 0) {
        fputs(gauge ? "gauge" : "counter", stdout);
    } else {
        printf("histogram: %d bounds from %g, each %g times the last", m->n_bounds, m->first, m->growth);
    }
}

static void put_labels(const struct metric *m)
{
    if (m->source == SOURCE_VERSION) {
        fputs(strcmp(m->labels, "NULL") == 0 ? "model_name, version" : "model_name, version, outcome",
              stdout);
    } else if (m->source == SOURCE_TRITON) {
        fputs(strcmp(m->labels, "NULL") == 0 ? "model, version" : "model, version, reason", stdout);
    } else if (m->source == SOURCE_JOBS) {
        fputs(strcmp(m->labels, "NULL") == 0 ? "" : "status", stdout);
    } else if (m->source == SOURCE_CLIENTS) {
        fputs(strcmp(m->labels, "NULL") == 0 ? "" : "reason", stdout);
    } else if (m->source == SOURCE_DEVICE) {
        fputs(strcmp(m->labels, "NULL") == 0 ? "device" : "device, direction", stdout);
    } else {
        fputs(m->labels, stdout);
    }
}

static void put_metrics(const char *title, enum source source, bool of_tf)
{
    printf("\n## %s\n\n| name | type | labels | what |\n| --- | --- | --- | --- |\n", title);
    for (int i = 0; i < COUNT(METRICS); i++) {
        const struct metric *m = &METRICS[i];
        if (m->source == source && (m->name[0] == ':') == of_tf && !goes_on(i)) {
            printf("| `%s` | ", m->name);
            put_type(m);
            fputs(" | ", stdout);
            put_labels(m);
            fputs(" | ", stdout);
            put_md(m->help);
            fputs(" |\n", stdout);
        }
    }
}

static void metrics_md(void)
{
    printf("# Metrics\n\n");
    put_made_from("server/base/metrics.def");
    printf(
        "Prometheus text at `/metrics` of the HTTP API, and at the path that `--monitoring_config_file` "
        "names\n"
        "(`/monitoring/prometheus/metrics` when it names none). Names, labels and bounds that begin with "
        "a colon are\n"
        "TensorFlow Serving's, so that its dashboards and alerts go on working. Labels are bounded: a "
        "model that was\n"
        "never configured is counted under the empty name, and version directories beyond 4,000 share the "
        "empty path;\n"
        "of a version's signatures the first 64 have series of their own. The series of a version go with "
        "it: those of its\n"
        "requests when it is unloaded, those of its loads when its state is told no longer. What sums over "
        "versions, as\n"
        "TensorFlow Serving's families do, goes on.\n"
        "A counter or histogram appears when it has first counted.\n");
    put_metrics("TensorFlow Serving's", SOURCE_COUNTED, true);
    put_metrics("tensord's own", SOURCE_COUNTED, false);
    put_metrics("Of each version that is loaded", SOURCE_VERSION, false);
    put_metrics("The same under Triton's names", SOURCE_TRITON, false);
    put_metrics("Of fine-tuning", SOURCE_JOBS, false);
    put_metrics("Of clients", SOURCE_CLIENTS, false);
    put_metrics("Of each GPU that models run on", SOURCE_DEVICE, false);
    put_metrics("The same under Triton's names", SOURCE_GPU, false);
    put_metrics("Of the process", SOURCE_PROCESS, false);
}

/* ------------------------------------------------------------------ paths and methods */

static const char *route_needs(const char *traits)
{
    return strstr(traits, "OPEN") != NULL                                           ? "nothing"
           : strstr(traits, "API(GRADIENT)") != NULL                                ? "infer or gradient"
           : strstr(traits, "DEBUGS") != NULL                                       ? "debug"
           : strstr(traits, "MANAGES") != NULL                                      ? "manage"
           : strstr(traits, "TRAINS") != NULL                                       ? "train"
           : strstr(traits, "API(") != NULL && strstr(traits, "API(OTHER)") == NULL ? "infer"
                                                                                    : "any token";
}

static const char *rpc_needs(const struct rpc *r)
{
    return strstr(r->access, "SCOPE_OPEN") != NULL       ? "nothing"
           : strstr(r->access, "SCOPE_DEBUG") != NULL    ? "debug"
           : strstr(r->access, "SCOPE_MANAGE") != NULL   ? "manage"
           : strstr(r->access, "SCOPE_TRAIN") != NULL    ? "train"
           : strstr(r->access, "SCOPE_INFER_OR") != NULL ? "infer or gradient"
           : strstr(r->access, "SCOPE_INFER") != NULL    ? "infer"
           : strstr(r->access, "SCOPE_ANY") != NULL      ? "any token"
           : strcmp(r->kind, "INFER") == 0               ? "infer"
           : strcmp(r->kind, "MANAGE") == 0              ? "manage"
                                                         : "any token";
}

static void api_md(void)
{
    printf("# Paths and methods\n\n");
    put_made_from("server/http/routes.def and server/grpc/methods.def");
    printf("`{model}` is a model's name, percent-encoded where it holds `/` or `:`; `{name}` the same, or\n"
           "`MODEL:SIGNATURE`; `{at}` is nothing, `/versions/N` or `/labels/LABEL`. *Needs* is the scope "
           "that a bearer\n"
           "token must have when there is a `--tokens_file`. Without one, what is marked *here* is answered "
           "on this host\n"
           "only, unless `--open_management` is given. `:debug` and `tensord.v1.Debug.Run` need "
           "`--enable_debug_api` besides.\n"
           "Gradients ([gradients.md](gradients.md)) by weights need the scope `gradient`; those by inputs "
           "`infer` or `gradient`.\nFiles and jobs are in [fine-tuning.md](fine-tuning.md).\n\n"
           "## REST\n\n| method | path | needs | |\n| --- | --- | --- | --- |\n");
    for (int i = 0; i < COUNT(ROUTES); i++) {
        const bool manages =
            strstr(ROUTES[i].traits, "MANAGES") != NULL || strstr(ROUTES[i].traits, "TRAINS") != NULL;
        printf("| %s | `%s` | %s | %s |\n", ROUTES[i].method, ROUTES[i].pattern,
               route_needs(ROUTES[i].traits), manages ? "here" : "");
    }
    printf("\n## gRPC\n\n| service | method | needs | |\n| --- | --- | --- | --- |\n");
    for (int i = 0; i < COUNT(RPCS); i++) {
        const bool manages =
            strcmp(RPCS[i].kind, "MANAGE") == 0 || strstr(RPCS[i].access, "SCOPE_TRAIN") != NULL;
        printf("| %s | %s | %s | %s |\n", RPCS[i].service, RPCS[i].method, rpc_needs(&RPCS[i]),
               manages ? "here" : "");
    }
}

static void passes_md(void)
{
    printf("# Compiler passes\n\n");
    put_made_from("core/compile/passes.def");
    printf("What the compiler does to a signature's graph, in this order. `--passes_off=NAME,NAME` of the "
           "daemon leaves\n"
           "some out, `--passes_off=all` all of them (but `handles`, which cannot be left out): a way to "
           "find out whether\n"
           "a wrong answer is a pass's doing. `ROUND`: in rounds, until a round has changed nothing; `LAST`: "
           "once, behind\n"
           "the rounds.\n\n| pass | when | what it does |\n| --- | --- | --- |\n");
    for (int i = 0; i < COUNT(PASSES); i++) {
        printf("| `%s` | %s | ", PASSES[i].name, PASSES[i].when);
        put_md(PASSES[i].what);
        fputs(" |\n", stdout);
    }
}

/* ------------------------------------------------------------------ man pages */

static const char *const TENSORD_1[] = {
    ".SH NAME\n",
    "tensord \\- serve TensorFlow SavedModels over REST and gRPC\n",
    ".SH SYNOPSIS\n",
    ".B tensord\n[\\fIDIR\\fR] [\\fB\\-\\-flag\\fR=\\fIvalue\\fR ...]\n",
    ".SH DESCRIPTION\n",
    "Serves saved graph models over TensorFlow Serving's REST and gRPC APIs and over KServe v2.\n",
    "With \\fIDIR\\fR, a SavedModel or a directory of numbered versions of one, and nothing else, it is "
    "served on ports\n",
    "8500 (gRPC) and 8501 (REST). Many models are named by \\fB\\-\\-model_config_file\\fR or lie below\n",
    "\\fB\\-\\-model_repository\\fR.\n",
    ".PP\n",
    "A flag is written \\fB\\-\\-flag\\fR=\\fIvalue\\fR; one without a value stands for true where it is a "
    "bool.\n",
    "In a name \\- and _ are the same, and a flag written with \\- may have its value behind a space.\n",
    "A port is a number, 0 (off) or auto (a free one, named in the line that begins with \"ready:\").\n",
};
static const char *const TENSORD_1_END[] = {
    ".SH EXAMPLES\n.nf\n",
    "tensord models/digits\n",
    "tensord \\-\\-port=8500 \\-\\-rest_api_port=8501 \\-\\-model_config_file=models.config\n",
    "tensord \\-\\-model\\-repository=models \\-\\-model\\-control\\-mode=explicit "
    "\\-\\-load\\-model=digits\n",
    "curl \\-d '{\"instances\": [[1, 2]]}' localhost:8501/v1/models/NAME:predict\n.fi\n",
    ".SH SIGNALS\n",
    ".TP\nSIGTERM, SIGINT\nStop: readiness fails at once, open requests have some seconds to finish.\n",
    ".TP\nSIGHUP\nRead \\fB\\-\\-tokens_file\\fR, \\fB\\-\\-model_config_file\\fR and the model repository "
    "again.\n",
    ".SH EXIT STATUS\n",
    ".TP\n0\nStopped by a signal, all requests answered; or \\fB\\-\\-help\\fR, \\fB\\-\\-version\\fR.\n",
    ".TP\n2\nBad flags or configuration.\n",
    ".TP\n1\nAnything else.\n",
    ".SH SEE ALSO\n.BR tensorctl (1)\n",
};
static const char *const TENSORCTL_1[] = {
    ".SH NAME\n",
    "tensorctl \\- ask a tensord server, or look into a SavedModel without one\n",
    ".SH SYNOPSIS\n",
    ".B tensorctl\n\\fIVERB\\fR [\\fIargument\\fR ...]\n",
    ".SH DESCRIPTION\n",
    "\\fBinspect\\fR, \\fBrun\\fR, \\fBcheckpoint\\fR and \\fBops\\fR need no server: they load the model "
    "themselves.\n",
    "The others speak gRPC to one.\n",
    "Values are JSON: \\fB\\-\\-inputs\\fR 'x=[[1,2]];y=\"text\"'; a string that is not UTF\\-8 is {\"b64\": "
    "\"...\"}.\n",
};
static const char *const TENSORCTL_1_END[] = {
    ".SH EXAMPLES\n.nf\n",
    "tensorctl inspect models/my/1\n",
    "tensorctl run models/my/1 \\-\\-inputs 'x=[[1,2]]' \\-\\-eager \\-\\-print\\-nodes\n",
    "tensorctl predict my \\-\\-server 127.0.0.1:8500 \\-\\-inputs 'x=[[1,2]]'\n.fi\n",
    ".SH EXIT STATUS\n",
    ".TP\n0\nDone.\n",
    ".TP\n1\nThe model or the server answered with an error, which is printed.\n",
    ".TP\n2\nArguments that are not understood; the usage is printed.\n",
    ".SH SEE ALSO\n.BR tensord (1)\n",
};

static void put_lines(const char *const *lines, int n)
{
    for (int i = 0; i < n; i++) {
        fputs(lines[i], stdout);
    }
}

static void put_title(const char *name)
{
    printf(".\\\" Made by docs/manual.c.\n.TH %s 1 \"\" \"tensord " TENSORD_VERSION "\" \"User Commands\"\n",
           name);
}

static void tensord_1(void)
{
    put_title("TENSORD");
    put_lines(TENSORD_1, COUNT(TENSORD_1));
    printf(".SH OPTIONS\n");
    for (int i = 0; i < COUNT(FLAGS); i++) {
        if (FLAGS[i].kind == FLAG_GROUP) {
            printf(".SS \"%s\"\n", FLAGS[i].name);
        } else if (FLAGS[i].kind != FLAG_IDLE) {
            put_flag_roff(&FLAGS[i]);
        }
    }
    put_lines(TENSORD_1_END, COUNT(TENSORD_1_END));
}

/* A verb's usage without its first word, line by line as it is. */
static void put_usage(const char *usage)
{
    static const char first[] = "usage: ";
    char line[400];
    fputs(".PP\n.nf\n", stdout);
    for (const char *p = usage + strlen(first); *p != '\0';) {
        const int n = (int)strcspn(p, "\n");
        (void)snprintf(line, sizeof line, "%.*s", n, p);
        put_roff(line);
        putchar('\n');
        p += n + (p[n] == '\n');
    }
    fputs(".fi\n", stdout);
}

static void tensorctl_1(void)
{
    put_title("TENSORCTL");
    put_lines(TENSORCTL_1, COUNT(TENSORCTL_1));
    printf(".SH VERBS\n");
    for (int i = 0; i < COUNT(VERBS); i++) {
        printf(".SS %s\n", VERBS[i].name);
        put_roff(VERBS[i].what);
        fputs(".\n", stdout);
        put_usage(VERBS[i].usage);
    }
    put_lines(TENSORCTL_1_END, COUNT(TENSORCTL_1_END));
}

/* ------------------------------------------------------------------ main */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } pages[] = {{"flags.md", flags_md},   {"metrics.md", metrics_md}, {"api.md", api_md},
                 {"passes.md", passes_md}, {"tensord.1", tensord_1},   {"tensorctl.1", tensorctl_1}};
    for (int i = 0; argc == 2 && i < COUNT(pages); i++) {
        if (strcmp(argv[1], pages[i].name) == 0) {
            pages[i].print();
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: manual PAGE, of");
    for (int i = 0; i < COUNT(pages); i++) {
        fprintf(stderr, " %s", pages[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}
