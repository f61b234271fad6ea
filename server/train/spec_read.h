/* server/train/spec_read.h - reading JSON objects by tables: one row a field.
 *
 *   static const struct td_spec_field EMA[] = {
 *       {"momentum", td_spec_read_number, offsetof(struct ema, momentum), .range = TD_BELOW_ONE},
 *       ..
 *       {0}};
 *   td_spec_read_object(r, value, EMA, &ema);
 *
 * A field that is absent or null leaves what is there (the default). A key without a row is refused, as is a
 * value outside its row's range; the fault's param is the path that leads there: "tensord.ema.momentum".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_SPEC_READ_H
#define TD_SERVER_TRAIN_SPEC_READ_H

#include "server/train/spec.h"

struct td_spec_reader {
    struct td_job_spec *spec;
    struct td_fault *f;
    char path[256]; /* of the value in hand */
};

struct td_spec_field;
typedef enum td_code td_spec_read_fn(struct td_spec_reader *r, json_t *value,
                                     const struct td_spec_field *field, void *to);

struct td_spec_field {
    const char *name; /* NULL ends a table */
    td_spec_read_fn *read;
    size_t at;                 /* of what is read, inside the object's struct */
    bool required, can_auto;   /* can_auto: "auto" says the same as null */
    int64_t least, most;       /* of td_spec_read_int; of a text's length */
    enum td_field_range range; /* of td_spec_read_number */
    const char *const *words;  /* of td_spec_read_word: ended by NULL */
};

/* What `to` is, for each: int64_t, double, bool, const char *, const char * of words, struct td_patterns. */
td_spec_read_fn td_spec_read_int, td_spec_read_number, td_spec_read_bool, td_spec_read_text,
    td_spec_read_word, td_spec_read_patterns;
td_spec_read_fn td_spec_read_nothing; /* a field that somebody else has read, or that nobody reads */

TD_MUST enum td_code td_spec_read_object(struct td_spec_reader *r, json_t *o,
                                         const struct td_spec_field *fields, void *to);
/* The object of a formula, which has a `name` and fields of its own beside those of the table. */
TD_MUST enum td_code td_spec_read_name(struct td_spec_reader *r, json_t *o, const char **name);
TD_MUST enum td_code td_spec_read_formula(struct td_spec_reader *r, json_t *o,
                                          const struct td_spec_field *fields, void *to,
                                          const struct td_field *own, struct td_field_values *values);
/* A list of at most td_spec_most: *out has room for its items, zeroed. */
enum { td_spec_most = 4096 };
TD_MUST enum td_code td_spec_read_list(struct td_spec_reader *r, json_t *list, size_t size, void *out,
                                       int *n);

/* The path to a member, to an item; back to what it was. */
size_t td_spec_read_enter(struct td_spec_reader *r, const char *name);
size_t td_spec_read_item(struct td_spec_reader *r, int i);
void td_spec_read_leave(struct td_spec_reader *r, size_t mark);
/* "PATH is VALUE, want .." with code invalid_value. */
enum td_code td_spec_read_wrong(struct td_spec_reader *r, json_t *value, const char *fmt, ...)
    TD_PRINTF(3, 4);
/* "PATH is VALUE, which is no WHAT; there are A, B, C" */
enum td_code td_spec_read_unknown(struct td_spec_reader *r, const char *what, const char *name,
                                  const char *(*row)(int i));
/* A block of the spec's arena; NULL after a fault. */
void *td_spec_read_alloc(struct td_spec_reader *r, size_t n, size_t size);

/* ---- the objects, each of its own file. to: the member of the spec that it is read into. */
td_spec_read_fn td_spec_losses_read, td_spec_losses_read_metrics, td_spec_losses_read_weighted;
td_spec_read_fn td_spec_optimizer_read, td_spec_optimizer_read_list, td_spec_optimizer_read_clip;
td_spec_read_fn td_spec_more_read_head, td_spec_more_read_lora, td_spec_more_read_gate,
    td_spec_more_read_padding, td_spec_more_read_constraints;

#endif
