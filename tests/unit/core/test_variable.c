/* tests/unit/core/test_variable.c - snapshots, copy on write, and writers at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/op.h"
#include "core/run/variable.h"

#include "tests/test.h"

static struct td_variable *fresh(void)
{
    struct td_err err = {0};
    struct td_variable *v;
    struct td_shape shape = td_shape_vector(2);
    CHECK_OK(td_variable_new("layer/w", TD_INT32, &shape, &v, &err));
    return v;
}

static struct td_tensor pair(int32_t a, int32_t b)
{
    struct td_err err = {0};
    struct td_tensor t;
    struct td_shape shape = td_shape_vector(2);
    CHECK_OK(td_tensor_new(&t, TD_INT32, &shape, &err));
    TD_DATA(&t, int32_t)[0] = a;
    TD_DATA(&t, int32_t)[1] = b;
    return t;
}

TEST(without_a_value_it_says_so)
{
    struct td_variable *v = fresh();
    struct td_tensor t;
    struct td_err read = {0}, edit = {0};
    CHECK(!td_variable_initialized(v));
    CHECK_INT(td_variable_read(v, &t, &read), TD_FAILED_PRECONDITION);
    CHECK(strstr(read.msg, "Could not find variable layer/w") != NULL);
    CHECK_INT(td_variable_edit(v, &edit), TD_FAILED_PRECONDITION); /* and leaves it unlocked */
    CHECK(!td_variable_initialized(v));
    td_obj_unref(&v->obj);
}

TEST(assigning_takes_the_tensor_over)
{
    struct td_variable *v = fresh();
    struct td_err err = {0}, wrong = {0};
    struct td_tensor t = pair(1, 2), f;
    struct td_shape two = td_shape_vector(2);
    void *data = t.data;
    CHECK_OK(td_variable_assign(v, &t, &err));
    CHECK(t.buf == NULL && v->value.data == data && v->generation == 1);
    CHECK_OK(td_tensor_new(&f, TD_FLOAT, &two, &err));
    CHECK_INT(td_variable_assign(v, &f, &wrong), TD_INVALID_ARGUMENT);
    CHECK(f.buf != NULL && v->generation == 1); /* still the caller's */
    td_tensor_clear(&f);
    td_obj_unref(&v->obj);
}

TEST(taking_leaves_it_without_a_value)
{
    struct td_variable *v = fresh();
    struct td_err err = {0}, none = {0};
    struct td_tensor t = pair(1, 2), taken;
    void *data = t.data;
    CHECK_OK(td_variable_assign(v, &t, &err));
    CHECK_OK(td_variable_take(v, &taken, &err));
    CHECK(taken.data == data && td_buffer_unique(taken.buf) && v->generation == 2);
    CHECK(!td_variable_initialized(v));
    CHECK_INT(td_variable_take(v, &t, &none), TD_FAILED_PRECONDITION);
    td_tensor_clear(&taken);
    td_obj_unref(&v->obj);
}

TEST(a_snapshot_never_changes)
{
    struct td_variable *v = fresh();
    struct td_err err = {0};
    struct td_tensor t = pair(1, 2), before, after;
    CHECK_OK(td_variable_assign(v, &t, &err));
    void *data = v->value.data;
    CHECK_OK(td_variable_edit(v, &err)); /* nobody else looks: in place */
    CHECK(v->value.data == data);
    TD_DATA(&v->value, int32_t)[0] = 10;
    td_variable_done(v);
    CHECK_OK(td_variable_read(v, &before, &err));
    CHECK_OK(td_variable_edit(v, &err));
    CHECK(v->value.data != data);
    TD_DATA(&v->value, int32_t)[0] = 20;
    td_variable_done(v);
    CHECK_OK(td_variable_read(v, &after, &err));
    CHECK_INT(td_tensor_int(&before, 0), 10);
    CHECK_INT(td_tensor_int(&after, 0), 20);
    CHECK_INT(v->generation, 3);
    td_obj_unref(&v->obj);
    CHECK_INT(td_tensor_int(&after, 1), 2); /* outlives the variable */
    td_tensor_clear(&before);
    td_tensor_clear(&after);
}

enum { ROUNDS = 3000 };

static void *count_up(void *variable)
{
    struct td_err err = {0};
    for (int i = 0; i < ROUNDS; i++) {
        struct td_tensor seen;
        CHECK_OK(td_variable_edit(variable, &err));
        int32_t *x = ((struct td_variable *)variable)->value.data;
        x[0]++;
        x[1]--;
        td_variable_done(variable);
        CHECK_OK(td_variable_read(variable, &seen, &err));
        CHECK_INT(td_tensor_int(&seen, 0), -td_tensor_int(&seen, 1)); /* whole, never half written */
        td_tensor_clear(&seen);
    }
    return NULL;
}

TEST(writers_at_once_lose_nothing)
{
    struct td_variable *v = fresh();
    struct td_err err = {0};
    struct td_tensor t = pair(0, 0);
    CHECK_OK(td_variable_assign(v, &t, &err));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pthread_create(&threads[i], NULL, count_up, v), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_INT(td_tensor_int(&v->value, 0), 3 * ROUNDS);
    CHECK_INT(v->generation, 3 * ROUNDS + 1);
    td_obj_unref(&v->obj);
}

TEST_MAIN(RUN(without_a_value_it_says_so) RUN(assigning_takes_the_tensor_over)
              RUN(taking_leaves_it_without_a_value) RUN(a_snapshot_never_changes)
                  RUN(writers_at_once_lose_nothing))
