/* tests/unit/core/test_placer.c - device names, refusals without soft placement, the log, and eager runs on a
 * device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/placer.h"

#include <fcntl.h>

#include "core/function/placement.h"
#include "tests/second_device.h"
#include "tests/unit/core/graph_make.h"

#define TEST_DEVICE "/device:TEST:0"

static struct td_device *device;

static void open_device(void)
{
    struct td_err err = {0};
    CHECK_OK(td_second_device_new(SECOND_DEVICE_LAZY, &device, &err));
}

/* x -> n (op Neg, on `place`) -> y (Add), fed at x; run when `opts` says how. */
static struct td_callable *graph_of(struct made *m, const char *op, const char *place,
                                    const struct td_model_opts *how, struct td_model **model)
{
    made_start(m);
    made_add(&m->graph, "x", strcmp(op, "Text") == 0 ? "Word" : "X", "");
    made_add(&m->graph, "n", op, "x")->device = place;
    if (strcmp(op, "Text") != 0) {
        made_add(&m->graph, "y", "Add", "n n");
    }
    CHECK_INT(made_resolve(m), TD_OK);
    struct td_model_opts opts = *how;
    struct td_err err = {0};
    opts.ops = m->ops;
    CHECK_OK(td_model_new(&opts, m->arena, &m->graph, &m->lib, model, &err));
    m->arena = NULL;
    struct td_value at = made_value(m, "x"), want = made_value(m, strcmp(op, "Text") == 0 ? "n" : "y");
    struct td_callable_opts f = {.name = "f", .feeds = &at, .n_feeds = 1, .fetches = &want, .n_fetches = 1};
    struct td_callable *callable;
    CHECK_OK(td_callable_new(*model, &f, &callable, &err));
    return callable;
}

static enum td_code run_one(const char *op, const char *place, const struct td_model_opts *how,
                            struct td_err *err)
{
    struct made m;
    struct td_model *model;
    struct td_tensor x = made_tensor(4, 1), y;
    struct td_callable *f = graph_of(&m, op, place, how, &model);
    if (strcmp(op, "Text") == 0) {
        struct td_shape two = td_shape_vector(2);
        td_tensor_clear(&x);
        CHECK_INT(td_tensor_new(&x, TD_STRING, &two, err), TD_OK);
    }
    enum td_code rc = td_callable_run(f, &x, &y, NULL, err);
    if (rc == TD_OK) {
        CHECK(strcmp(op, "Text") == 0 || TD_DATA(&y, float)[3] == -8);
        td_tensor_clear(&y);
    }
    td_tensor_clear(&x);
    td_model_unref(model);
    made_end(&m);
    return rc;
}

TEST(names_are_read_as_tensorflow_reads_them)
{
    static const struct {
        const char *name;
        bool host, with_device; /* whether it is to be had with the host alone, and with the device */
    } rows[] = {
        {"", true, true},
        {"/cpu:0", true, true},
        {"/CPU:0", true, true},
        {"/device:CPU:*", true, true},
        {"/device:CPU", true, true},
        {"/job:localhost", true, true},
        {"/job:localhost/replica:0/task:0/device:CPU:0", true, true},
        {"/device:CPU:1", false, false},
        {"/gpu:0", false, false},
        {"/device:TEST:0", false, true},
        {"/job:localhost/replica:0/task:0/device:test:0", false, true},
        {"/device:TEST:1", false, false},
        {"/job:worker", false, false},
        {"/job:localhost/task:1", false, false},
        {"/replica:1/cpu:0", false, false},
        {"/device", false, false},
        {"/device:", false, false},
        {"/device:AN_ABSURDLY_LONG_DEVICE_TYPE:0", false, false},
        {"here", false, false},
        {"/task", false, false},
        {"/", false, false},
    };
    open_device();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int with = 0; with < 2; with++) {
            struct td_err err = {0};
            struct td_model_opts how = {.device = with ? device : NULL, .no_soft_placement = true};
            bool ok = with ? rows[i].with_device : rows[i].host;
            enum td_code rc = run_one("Neg", rows[i].name, &how, &err);
            if (rc != (ok ? TD_OK : TD_INVALID_ARGUMENT)) {
                CHECK_STR(rows[i].name, err.msg);
            }
            struct td_err soft = {0};
            how.no_soft_placement = false;
            CHECK_INT(run_one("Neg", rows[i].name, &how, &soft), TD_OK);
        }
    }
    td_second_device_free(device);
}

TEST(refusals_have_tensorflows_words)
{
    struct td_err absent = {0}, no_kernel = {0};
    open_device();
    struct td_model_opts how = {.no_soft_placement = true};
    CHECK_INT(run_one("Neg", "/device:GPU:0", &how, &absent), TD_INVALID_ARGUMENT);
    CHECK_STR(absent.msg, "Cannot assign a device for operation n: {{node n}} was explicitly assigned to "
                          "/device:GPU:0 but available "
                          "devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure the "
                          "device specification refers to a "
                          "valid device. Op: Neg. Registered kernels: device='CPU'");
    how.device = device;
    CHECK_INT(run_one("Text", TEST_DEVICE, &how, &no_kernel), TD_INVALID_ARGUMENT);
    CHECK_STR(no_kernel.msg,
              "Cannot assign a device for operation n: Could not satisfy explicit device specification "
              "'/device:TEST:0' because no supported kernel for TEST devices is available. Op: Text. "
              "Registered kernels: device='CPU'");
    td_second_device_free(device);
}

struct seen {
    int dev, on_host;
    char device_names[200];
};

static void on_step(void *ctx, const struct td_observed *o)
{
    struct seen *s = ctx;
    bool dev = strcmp(o->device, TEST_DEVICE) == 0;
    s->dev += dev;
    s->on_host += !dev && strcmp(o->device, "cpu") == 0;
    CHECK(o->n_out == 0 || o->out[0].device == NULL);
    if (dev) {
        snprintf(s->device_names + strlen(s->device_names), sizeof s->device_names - strlen(s->device_names),
                 "%s:%s ", o->node->name, o->kernel);
    }
}

static struct seen watch(const char *op, const char *place, bool eager)
{
    struct made m;
    struct td_model *model;
    struct seen seen = {0};
    struct td_err err = {0};
    struct td_model_opts how = {.device = device};
    struct td_run_opts run = {.eager = eager, .observe = on_step, .ctx = &seen};
    struct td_tensor x = made_tensor(4, 1), y;
    struct td_callable *f = graph_of(&m, op, place, &how, &model);
    CHECK_OK(td_callable_run(f, &x, &y, &run, &err));
    CHECK(TD_DATA(&y, float)[3] == -8);
    td_tensor_clear(&x);
    td_tensor_clear(&y);
    td_model_unref(model);
    made_end(&m);
    return seen;
}

TEST(eager_and_compiled_runs_go_to_the_device_that_nodes_ask_for)
{
    open_device();
    for (int eager = 0; eager < 2; eager++) {
        struct seen free_choice = watch("Neg", "", eager), host = watch("Neg", "/cpu:0", eager);
        CHECK_STR(free_choice.device_names, "n:neg y:add ");
        CHECK_STR(host.device_names, "y:add ");
        CHECK_INT(host.on_host, 1);
        /* an op that tells no shapes runs here, and what comes behind it there */
        struct seen late = watch("LateNeg", "", eager);
        CHECK_STR(late.device_names, "y:add ");
        CHECK_INT(late.on_host, 1);
    }
    td_second_device_free(device);
}

static void on_place(void *ctx, const struct td_placement *p)
{
    char *text = ctx;
    snprintf(text + strlen(text), 300 - strlen(text), "%s %s '%s'; ", p->node->name, p->device, p->why);
}

TEST(the_list_of_places_names_devices_and_what_was_asked_for_in_vain)
{
    struct made m;
    struct td_model *model;
    struct td_err err = {0};
    char text[300] = "";
    open_device();
    struct td_model_opts how = {.device = device};
    struct td_callable *f = graph_of(&m, "Neg", "/gpu:3", &how, &model);
    CHECK_OK(td_placement_each(f, on_place, text, &err));
    CHECK_STR(text, "x cpu ''; n /device:TEST:0 'asks for /gpu:3, which is not here'; y /device:TEST:0 ''; ");
    td_model_unref(model);
    made_end(&m);
    td_second_device_free(device);
}

TEST(a_body_takes_the_device_of_its_call)
{
    struct made m;
    struct td_ir ir;
    made_start(&m);
    made_add(&m.graph, "x", "X", "");
    struct td_function *f = made_function(&m, "f", 1, "n:y:0", TD_FLOAT);
    made_add(&f->body, "n", "Neg", "own:y:0");
    made_add(&f->body, "own", "Neg", "a")->device = "/cpu:0";
    made_add(&m.graph, "call", "f", "x")->device = "/gpu:1";
    CHECK_INT(made_resolve(&m), TD_OK);
    CHECK_INT(made_ir(&m, "x", "call", &ir), TD_OK);
    for (int i = 0; i < ir.n_nodes; i++) {
        const char *name = ir.nodes[i]->name;
        CHECK_STR(ir.nodes[i]->device, strcmp(name, "call/n") == 0     ? "/gpu:1"
                                       : strcmp(name, "call/own") == 0 ? "/cpu:0"
                                                                       : "");
    }
    made_end(&m);
}

TEST(the_log_has_a_line_for_each_node)
{
    char path[] = "/tmp/tensord-placer.XXXXXX", text[2000] = "";
    int file = mkstemp(path);
    CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    unlink(path);
    open_device();
    struct td_err err = {0};
    struct td_model_opts how = {.device = device, .log_placement = true};
    CHECK_INT(run_one("Neg", "/cpu:0", &how, &err), TD_OK);
    CHECK(pread(file, text, sizeof text - 1, 0) > 0);
    CHECK(strstr(text, "x: (_Feed): /job:localhost/replica:0/task:0/device:CPU:0\n") != NULL);
    CHECK(strstr(text, "n: (Neg): /job:localhost/replica:0/task:0/device:CPU:0\n") != NULL);
    CHECK(strstr(text, "y: (Add): /job:localhost/replica:0/task:0/device:TEST:0\n") != NULL);
    td_second_device_free(device);
    close(file);
}

TEST_MAIN(RUN(names_are_read_as_tensorflow_reads_them) RUN(refusals_have_tensorflows_words)
              RUN(eager_and_compiled_runs_go_to_the_device_that_nodes_ask_for)
                  RUN(the_list_of_places_names_devices_and_what_was_asked_for_in_vain)
                      RUN(a_body_takes_the_device_of_its_call) RUN(the_log_has_a_line_for_each_node))
