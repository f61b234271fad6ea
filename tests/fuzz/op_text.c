/* tests/fuzz/op_text.c - reads graphs that are written as text (op_graph.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/sig.h"
#include "tests/fuzz/op_graph.h"

enum { WORDS = 16, WORD_BYTES = 1024 };

struct text {
    struct op_graph *g;
    const char *p;
    bool constant;
    struct td_err *err;
};

static enum td_code bad(struct text *s, const char *want)
{
    return td_fail(s->err, TD_INVALID_ARGUMENT, "graph text: expected %s at \"%.60s\"", want, s->p);
}

static void skip(struct text *s)
{
    while (isspace((unsigned char)*s->p)) {
        s->p++;
    }
}

static bool accept(struct text *s, char c)
{
    skip(s);
    const bool found = *s->p == c;
    s->p += found;
    return found;
}

/* Copies what does not hold one of `ends`, without blanks at its end. */
static void until(struct text *s, const char *ends, char *buf, size_t bytes)
{
    skip(s);
    size_t n = strcspn(s->p, ends);
    const size_t taken = n;
    while (n > 0 && isspace((unsigned char)s->p[n - 1])) {
        n--;
    }
    n = n < bytes - 1 ? n : bytes - 1;
    memcpy(buf, s->p, n);
    buf[n] = '\0';
    s->p += taken;
}

static enum td_dtype dtype_named(const char *name)
{
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t) && strcmp(td_dtype_name((enum td_dtype)t), name) == 0) {
            return (enum td_dtype)t;
        }
    }
    return TD_DTYPE_NONE;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Cuts \n and \xNN down to the byte they stand for; the length left. */
static size_t unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0'; p++) {
        if (p[0] == '\\' && p[1] == 'x' && hex(p[2]) >= 0 && hex(p[3]) >= 0) {
            *to++ = (char)(hex(p[2]) * 16 + hex(p[3]));
            p += 3;
        } else if (p[0] == '\\' && p[1] == 'n') {
            *to++ = '\n';
            p++;
        } else {
            *to++ = *p;
        }
    }
    return (size_t)(to - text);
}

static enum td_code set_element(struct td_tensor *t, int64_t i, const char *word, struct td_err *err)
{
    if (t->dtype == TD_STRING) {
        char text[WORD_BYTES];
        (void)snprintf(text, sizeof text, "%s", word);
        const size_t n = unescape(text);
        return td_tensor_set_str(t, i, text, n, err);
    }
    if (!td_dtype_is_object(t->dtype)) {
        op_graph_put(t->dtype, (unsigned char *)t->data + (size_t)i * td_dtype_size(t->dtype),
                     (int64_t)strtoull(word, NULL, 0), strtod(word, NULL));
    }
    return TD_OK;
}

static enum td_code read_elements(struct text *s, struct td_tensor *t)
{
    char word[WORDS][WORD_BYTES];
    int n = 0;
    for (;;) {
        skip(s);
        if (*s->p == ',' || *s->p == ')' || n == WORDS) {
            break;
        }
        until(s, " ,)\n", word[n++], sizeof word[0]);
    }
    const int64_t count = td_tensor_count(t);
    if (n == 0) {
        memset(t->data, 0, td_tensor_bytes(t));
    }
    for (int64_t i = 0; i < count && n > 0; i++) {
        TD_TRY(set_element(t, i, word[i % n], s->err));
    }
    return TD_OK;
}

/* dtype[dims] values, or the name of an output. */
static enum td_code read_input(struct text *s, struct td_node *n)
{
    char name[64];
    until(s, "[,)", name, sizeof name);
    if (*s->p != '[') {
        op_graph_input(s->g, n, name);
        return TD_OK;
    }
    struct td_shape shape = td_shape_scalar();
    s->p++;
    while (!accept(s, ']')) {
        char *end;
        shape.dim[shape.rank] = strtoll(s->p, &end, 10);
        if (end == s->p || ++shape.rank == TD_MAX_RANK) {
            return bad(s, "dims");
        }
        s->p = end;
        accept(s, ',');
    }
    struct td_tensor t;
    TD_TRY(td_tensor_new(&t, dtype_named(name), &shape, s->err));
    if (read_elements(s, &t)) {
        td_tensor_clear(&t);
        return s->err->code;
    }
    op_graph_input(s->g, n, op_graph_value(s->g, &t, s->constant));
    return TD_OK;
}

/* Strings that start with '@' become names of functions. */
static void name_functions(struct op_graph *g, struct td_attr *a)
{
    if (a->kind != TD_ATTR_STRING || a->n == 0 || a->str[0].len == 0 || a->str[0].p[0] != '@') {
        return;
    }
    const struct td_bytes *names = a->str;
    a->kind = TD_ATTR_FUNC;
    a->func = td_arena_alloc(g->arena, (size_t)a->n, sizeof a->func[0]);
    for (int i = 0; i < a->n; i++) {
        char *name = td_arena_alloc(g->arena, names[i].len, 1);
        memcpy(name, names[i].p + 1, names[i].len - 1); /* zeroed: ends with NUL */
        a->func[i] = (struct td_func_ref){.name = name};
    }
}

static enum td_code read_attrs(struct text *s, struct td_node *n)
{
    char attrs[512], sig[560];
    struct td_op_def def = {0};
    until(s, "}", attrs, sizeof attrs);
    snprintf(sig, sizeof sig, "() -> () {%s}", attrs);
    TD_TRY(td_sig_parse(s->g->arena, "test", sig, &def, s->err));
    for (int i = 0; i < def.n_attrs && n->n_attrs < OP_GRAPH_ATTRS; i++) {
        n->attrs[n->n_attrs] = def.attrs[i].value;
        n->attrs[n->n_attrs].name = def.attrs[i].name;
        name_functions(s->g, &n->attrs[n->n_attrs++]);
    }
    return accept(s, '}') ? TD_OK : bad(s, "'}'");
}

static enum td_code read_node(struct text *s)
{
    char name[64], op[64];
    until(s, "=", name, sizeof name);
    if (!accept(s, '=')) {
        return bad(s, "'='");
    }
    until(s, " {(\n", op, sizeof op);
    struct td_node *n = op_graph_node(s->g, name, op);
    if (n == NULL) {
        return bad(s, "memory for a node");
    }
    if (accept(s, '{')) {
        TD_TRY(read_attrs(s, n));
    }
    if (!accept(s, '(')) {
        return bad(s, "'('");
    }
    while (!accept(s, ')')) {
        TD_TRY(read_input(s, n));
        accept(s, ',');
    }
    op_graph_put_last(s->g->into, n); /* its values were added after it */
    skip(s);
    return TD_OK;
}

static enum td_code read_results(struct text *s, struct td_function *f)
{
    f->ret_texts = td_arena_alloc(s->g->arena, (size_t)f->def.n_out + 1, sizeof f->ret_texts[0]);
    if (!accept(s, '(')) {
        return bad(s, "'('");
    }
    while (!accept(s, ')')) {
        char name[64];
        until(s, ",)", name, sizeof name);
        if (f->n_rets == f->def.n_out) {
            return bad(s, "as many results as declared");
        }
        f->ret_texts[f->n_rets++] = td_arena_strdup(s->g->arena, name);
        accept(s, ',');
    }
    skip(s);
    return TD_OK;
}

static enum td_code read_function(struct text *s)
{
    char name[64], sig[256];
    struct td_function *f;
    until(s, " (", name, sizeof name);
    until(s, "=", sig, sizeof sig);
    if (!accept(s, '=') || !accept(s, '[')) {
        return bad(s, "'= ['");
    }
    TD_TRY(td_library_add(&s->g->lib, td_arena_strdup(s->g->arena, name), &f, s->err));
    TD_TRY(td_sig_parse(s->g->arena, f->name, sig, &f->def, s->err));
    f->args = td_arena_alloc(s->g->arena, (size_t)f->def.n_in + 1, sizeof f->args[0]);
    s->g->into = &f->body;
    for (int i = 0; i < f->def.n_in; i++) {
        struct td_node *n = op_graph_node(s->g, f->def.in[i].name, "_Arg");
        if (n == NULL) {
            return bad(s, "memory for a function");
        }
        op_graph_attr(s->g, n, "T", TD_ATTR_TYPE, false, 1)->type[0] = f->def.in[i].type;
        op_graph_attr(s->g, n, "index", TD_ATTR_INT, false, 1)->i[0] = i;
        f->args[f->n_args++] = n;
    }
    while (!accept(s, ']')) {
        TD_TRY(read_node(s));
    }
    s->g->into = &s->g->graph;
    return read_results(s, f);
}

enum td_code op_graph_read(struct op_graph *g, const char *text, bool constant, struct td_err *err)
{
    struct text s = {.g = g, .p = text, .constant = constant, .err = err};
    skip(&s);
    while (*s.p != '\0') {
        TD_TRY(accept(&s, '@') ? read_function(&s) : read_node(&s));
    }
    return TD_OK;
}
