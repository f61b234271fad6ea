/* tests/host_cuda/control_draws_test.c - control flow that is drawn at random: a loop whose rounds have
 * branches and loops in them, and so on, is recorded whole, and gives what it gives on the host.
 *
 * The outermost is a loop, or an If.
 *
 *   block(k, a, w) -> u     some steps on a: arithmetic, an If or Case by k, a loop of some rounds by k;
 * each of
 *                           their functions has a block of its own, less deep
 *
 * TD_SEED: what is drawn from, and one graph alone is looked at.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "tests/host_cuda/there.h"

enum { GRAPHS = 18, TEXT = 60000, DEEP = 3, MOST_FUNCTIONS = 40 };

#define FLOAT " {T:type=float} "

/* Functions stand before those that name them: each is written to a text of its own first. */
struct drawing {
    uint64_t state;
    char text[TEXT];
    int functions;
};

static int below(struct drawing *d, int n)
{
    d->state = d->state * 6364136223846793005U + 1442695040888963407U;
    return (int)((d->state >> 33) % (uint64_t)n);
}

static void add(char *to, size_t bytes, const char *format, ...)
{
    va_list args;
    const size_t used = strlen(to);
    va_start(args, format);
    const int n = vsnprintf(to + used, bytes - used, format, args);
    va_end(args);
    CHECK(n >= 0 && (size_t)n < bytes - used);
}

static void draw_block(struct drawing *d, int deep, char *nodes, size_t bytes, char out[32]);

/* A function with such a block; its number. */
static int draw_function(struct drawing *d, int deep)
{
    char nodes[6000] = "", out[32];
    draw_block(d, deep, nodes, sizeof nodes, out);
    add(d->text, TEXT, "@f%d (k:int32, a:float, w:float) -> (u:float) = [ %s] (%s)\n", d->functions, nodes,
        out);
    return d->functions++;
}

static void draw_branches(struct drawing *d, int deep, int at, const char *a, char *nodes, size_t bytes)
{
    const int n = 2 + below(d, 2), one = draw_function(d, deep), two = draw_function(d, deep);
    add(nodes, bytes, "p%d = FloorMod {T:type=int32} (k, int32[] %d)\n", at, n);
    if (n == 2) {
        add(nodes, bytes,
            "s%d = StatelessIf {Tcond:type=int32; Tin:list(type)=[int32,float,float]; "
            "Tout:list(type)=[float]; "
            "then_branch:string='@f%d'; else_branch:string='@f%d'} (p%d:z:0, k, %s, w)\n",
            at, one, two, at, a);
    } else {
        add(nodes, bytes,
            "s%d = StatelessCase {Tin:list(type)=[int32,float,float]; Tout:list(type)=[float]; "
            "branches:list(string)=['@f%d','@f%d','@f%d']} (p%d:z:0, k, %s, w)\n",
            at, one, two, draw_function(d, deep), at, a);
    }
}

/* l goes from 0 to what k modulo some number is; its block is given l, or k. */
static void draw_loop(struct drawing *d, int deep, int at, const char *a, char *nodes, size_t bytes)
{
    char inner[6000] = "", out[32];
    const int number = d->functions++;
    const bool by_round = below(d, 2) == 0;
    draw_block(d, deep, inner, sizeof inner, out);
    add(d->text, TEXT,
        "@c%d (l:int32, k:int32, m:int32, a:float, w:float) -> (b:bool) = "
        "[ b = Less {T:type=int32} (l, m) ] (b:z:0)\n"
        "@b%d (%s:int32, %s:int32, m:int32, a:float, w:float) -> "
        "(n:int32, k2:int32, m2:int32, u:float, v:float) = "
        "[ j = AddV2 {T:type=int32} (%s, int32[] 1)\n%s] (j:z:0, %s, m, %s, w)\n",
        number, number, by_round ? "k" : "l", by_round ? "o" : "k", by_round ? "k" : "l", inner,
        by_round ? "o" : "k", out);
    add(nodes, bytes,
        "m%d = FloorMod {T:type=int32} (k, int32[] %d)\n"
        "s%d = StatelessWhile {T:list(type)=[int32,int32,int32,float,float]; cond:string='@c%d'; "
        "body:string='@b%d'} (int32[] 0, k, m%d:z:0, %s, w)\n",
        at, 2 + below(d, 4), at, number, number, at, a);
}

static void draw_block(struct drawing *d, int deep, char *nodes, size_t bytes, char out[32])
{
    char a[32] = "a";
    const int n = 1 + below(d, 3);
    for (int i = 0; i < n; i++) {
        const int kind = deep == 0 || d->functions > MOST_FUNCTIONS ? below(d, 3) : below(d, 7);
        if (kind < 3) {
            static const char *const ops[] = {"Neg", "Sin", "Tanh"};
            add(nodes, bytes, "s%d = %s" FLOAT "(%s)\n", i, ops[kind], a);
            (void)snprintf(a, sizeof a, "s%d:y:0", i);
        } else if (kind < 5) {
            draw_branches(d, deep - 1, i, a, nodes, bytes);
            (void)snprintf(a, sizeof a, "s%d:output:0", i);
        } else {
            draw_loop(d, deep - 1, i, a, nodes, bytes);
            (void)snprintf(a, sizeof a, "s%d:output:3", i);
        }
    }
    add(nodes, bytes, "e = AddV2" FLOAT "(%s, w)\nt = Tanh" FLOAT "(e:z:0)\n", a);
    (void)snprintf(out, 32, "t:y:0");
}

/* The block is a loop's, which each run goes round. */
static void draw_in_loop(struct drawing *d, const char *nodes, const char *out)
{
    add(d->text, TEXT,
        "@go (k:int32, a:float, w:float) -> (b:bool) = [ b = Less {T:type=int32} (k, int32[] 9) ] (b:z:0)\n"
        "@body (k:int32, a:float, w:float) -> (n:int32, u:float, v:float) = "
        "[ i = AddV2 {T:type=int32} (k, int32[] 1)\n%s] (i:z:0, %s, w)\n" X "y0 = AddV2" FLOAT "(x, x)\n"
        "n = StatelessWhile {T:list(type)=[int32,float,float]; cond:string='@go'; body:string='@body'} "
        "(int32[] 0, y0, x)\nr = Neg" FLOAT "(n:1)\n",
        nodes, out);
}

/* The block is a branch's, which most runs take: by k, which is 4 in the first, and grows. */
static void draw_in_branch(struct drawing *d, const char *nodes, const char *out)
{
    add(d->text, TEXT,
        "@stay (k:int32, a:float, w:float) -> (u:float) = [ t = Neg" FLOAT "(a) ] (t:y:0)\n"
        "@take (k:int32, a:float, w:float) -> (u:float) = [ %s] (%s)\n" X "y0 = AddV2" FLOAT "(x, x)\n"
        "s = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=false} (x, int32[2] 0 1)\n"
        "c = Div" FLOAT "(s, float[] 2.25)\nc7 = AddV2" FLOAT "(c, float[] 7)\n"
        "k = Cast {SrcT:type=float; DstT:type=int32} (c7)\np = FloorMod {T:type=int32} (k, int32[] 4)\n"
        "n = StatelessIf {Tcond:type=int32; Tin:list(type)=[int32,float,float]; Tout:list(type)=[float]; "
        "then_branch:string='@take'; else_branch:string='@stay'} (p, k, y0, x)\nr = Neg" FLOAT "(n:0)\n",
        nodes, out);
}

/* Returns whether it took more than one launch, and so went on somewhere in it. A branch without loops is in
 * one graph with what is before it. */
static bool look_at(uint64_t seed)
{
    static struct drawing d;
    const bool in_loop = seed % 3 > 0;
    char nodes[6000] = "", out[32];
    d = (struct drawing){.state = seed * 2654435761U + 1};
    draw_block(&d, DEEP, nodes, sizeof nodes, out);
    if (in_loop) {
        draw_in_loop(&d, nodes, out);
    } else {
        draw_in_branch(&d, nodes, out);
    }
    const struct td_device_counts c =
        same_there(d.text, &square, &(struct td_device_opts){.pinned = MIB, .graph_run = 1});
    const uint64_t most = in_loop ? 1 : 2;
    const bool loops = in_loop || c.graphs_made > 1;
    const uint64_t others = in_loop ? 0 : RUNS, seen = RUNS + (loops ? c.graph_launches - others : 0);
    if (c.graphs_made > most || c.copies[TD_COPY_TO_HOST] != seen) {
        (void)fprintf(stderr, "TD_SEED=%llu:\n%s", (unsigned long long)seed, d.text);
    }
    CHECK(c.graphs_made >= 1 && c.graphs_made <= most);
    CHECK_INT((long long)c.copies[TD_COPY_TO_HOST], (long long)seen);
    return loops && c.graph_launches > RUNS + others;
}

TEST(drawn_control_flow_is_decided_there)
{
    const char *const seed = getenv("TD_SEED");
    int paused = 0;
    for (uint64_t k = 1; seed == NULL && k <= GRAPHS; k++) {
        paused += look_at(k);
    }
    CHECK(seed != NULL || paused > GRAPHS / 3);
    if (seed != NULL) {
        (void)look_at(strtoull(seed, NULL, 10));
    }
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 ? argv[1] : NULL;
    int bad = 0;
    RUN(drawn_control_flow_is_decided_there)
    return bad != 0;
}
