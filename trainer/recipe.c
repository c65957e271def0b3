/* SPDX-License-Identifier: Apache-2.0 */
/* Recipe files: how a model is trained, in JSON. */
#include "keys.h"
#include "loss.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WHERE_BYTES 512
#define MAX_EPOCHS  100000 /* as the programs' options: a history of more would be larger than one may be */
#define MAX_STEPS   1000000000

static const char *const recipe_keys[] = {"loss",       "optimizer", "lr",    "schedule", "weight_decay",
                                          "clip_norm",  "shift",     "batch", "epochs",   "steps",
                                          "validation", "patience",  NULL};

/* The names of an enum's values, in their order. */
static const char *const optimizers[] = {"sgd", "nesterov", "adam", "adamw", NULL};
static const char *const schedules[] = {"constant", "step", "cosine", NULL};

static const char *const optimizer_keys[][4] = {
    {"momentum"}, {"momentum"}, {"beta1", "beta2", "epsilon"}, {"beta1", "beta2", "epsilon"}};
static const char *const schedule_keys[][5] = {
    {"warmup_epochs"}, {"warmup_epochs", "every_epochs", "factor", "min_lr"}, {"warmup_epochs", "min_lr"}};
static const char *const type_keys[] = {"type", NULL};

/* A number in [min, max], or above min with `above`. When the key is not there, *value stays. */
struct range {
    double min, max;
    bool above;
    const char *expected;
};

static int read_number(const cJSON *json, const char *key, const struct range *range, const char *where,
                       double *value, struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    const double number = cJSON_GetNumberValue(item); /* NaN when it is none */

    if (!item)
        return 0;
    if (!(number >= range->min && number <= range->max) || (range->above && number == range->min))
        return mst_error_set(err, -EBADMSG, "%s: key '%s' must be a number %s", where, key, range->expected);
    *value = number;
    return 0;
}

static int read_whole(const cJSON *json, const char *key, uint32_t max, const char *where, uint32_t *value,
                      struct mst_error *err)
{
    uint64_t number = *value;
    int r = 0;

    if (cJSON_GetObjectItemCaseSensitive(json, key))
        r = mst_json_get_u64(json, key, 1, max, where, &number, err);
    *value = (uint32_t)number;
    return r;
}

/* A choice is a name, or an object with the name as "type" and settings; *ret_settings is NULL for a name. */
static int read_choice(const cJSON *json, const char *key, const char *const *names, const char *where,
                       int *ret_choice, const cJSON **ret_settings, struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    char expected[TRAINER_NAMES_TEXT_BYTES];
    const char *name = cJSON_GetStringValue(item);

    *ret_settings = cJSON_IsObject(item) ? item : NULL;
    if (*ret_settings)
        name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "type"));
    for (int i = 0; names[i]; i++) {
        if (name && strcmp(names[i], name) == 0) {
            *ret_choice = i;
            return 0;
        }
    }
    (void)trainer_names_text(names, expected);
    if (!name)
        return mst_error_set(err, -EBADMSG,
                             "%s: key '%s' must be %s, or an object with one of them as 'type'", where, key,
                             expected);
    return mst_error_set(err, -EBADMSG, "%s: %s '%.32s', expected %s", where, key, name, expected);
}

static int read_optimizer(const cJSON *json, const char *what, struct trainer_recipe *recipe,
                          struct mst_error *err)
{
    static const struct range share = {0, 0.9999, false, "from 0 to 0.9999"};
    static const struct range beta = {0, 0.999999, true, "above 0, at most 0.999999"};
    static const struct range epsilon = {0, 1, true, "above 0, at most 1"};
    char where[WHERE_BYTES];
    const cJSON *settings;
    int choice = 0;

    if (!cJSON_GetObjectItemCaseSensitive(json, "optimizer"))
        return 0;
    int r = read_choice(json, "optimizer", optimizers, what, &choice, &settings, err);
    if (r < 0)
        return r;
    recipe->rule.optimizer = (enum trainer_optimizer)choice;
    (void)snprintf(where, sizeof where, "%s: optimizer (%s)", what, optimizers[choice]);
    if (settings)
        r = trainer_check_keys(settings, optimizer_keys[choice], type_keys, where, err);
    if (r >= 0)
        r = read_number(settings, "momentum", &share, where, &recipe->momentum, err);
    if (r >= 0)
        r = read_number(settings, "beta1", &beta, where, &recipe->rule.beta1, err);
    if (r >= 0)
        r = read_number(settings, "beta2", &beta, where, &recipe->rule.beta2, err);
    if (r >= 0)
        r = read_number(settings, "epsilon", &epsilon, where, &recipe->rule.epsilon, err);
    return r;
}

static int read_schedule(const cJSON *json, const char *what, struct trainer_recipe *recipe,
                         struct mst_error *err)
{
    static const struct range epochs = {0, 1e6, false, "from 0 to 1000000"};
    static const struct range every = {0, 1e6, true, "above 0, at most 1000000"};
    static const struct range factor = {0, 1, true, "above 0, at most 1"};
    static const struct range lr = {0, 1e6, false, "0 or more"};
    struct trainer_rule *rule = &recipe->rule;
    char where[WHERE_BYTES];
    const cJSON *settings;
    int choice = 0;

    if (!cJSON_GetObjectItemCaseSensitive(json, "schedule"))
        return 0;
    int r = read_choice(json, "schedule", schedules, what, &choice, &settings, err);
    if (r < 0)
        return r;
    rule->schedule = (enum trainer_schedule)choice;
    (void)snprintf(where, sizeof where, "%s: schedule (%s)", what, schedules[choice]);
    if (settings)
        r = trainer_check_keys(settings, schedule_keys[choice], type_keys, where, err);
    if (r >= 0)
        r = read_number(settings, "warmup_epochs", &epochs, where, &rule->warmup_epochs, err);
    if (r >= 0)
        r = read_number(settings, "every_epochs", &every, where, &rule->step_epochs, err);
    if (r >= 0)
        r = read_number(settings, "factor", &factor, where, &rule->step_factor, err);
    if (r >= 0)
        r = read_number(settings, "min_lr", &lr, where, &rule->min_lr, err);
    if (r >= 0 && rule->schedule == TRAINER_STEP && !(rule->step_epochs > 0 && rule->step_factor > 0))
        r = mst_error_set(err, -EBADMSG, "%s: keys 'every_epochs' and 'factor' are missing", where);
    return r;
}

static int read_loss(const cJSON *json, const char *what, struct trainer_recipe *recipe,
                     struct mst_error *err)
{
    const char *name;

    if (!cJSON_GetObjectItemCaseSensitive(json, "loss"))
        return 0;
    const int r = mst_json_get_string(json, "loss", what, &name, err);
    if (r < 0)
        return r;
    recipe->rule.loss = trainer_loss_find(name);
    return recipe->rule.loss != TRAINER_LOSS_OF_MODEL
               ? 0
               : mst_error_set(err, -EBADMSG,
                               "%s: loss '%.32s', expected 'softmax_cross_entropy', 'cross_entropy' or 'mse'",
                               what, name);
}

static int read_recipe(const cJSON *json, const char *what, struct trainer_recipe *recipe,
                       struct mst_error *err)
{
    static const struct range lr = {0, 1e6, true, "above 0"};
    static const struct range decay = {0, 1, false, "from 0 to 1"};
    static const struct range norm = {0, 1e30, true, "above 0"};
    static const struct range share = {0, 0.99, false, "from 0 to 0.99"};

    if (!cJSON_IsObject(json))
        return mst_error_set(err, -EBADMSG, "%s: a recipe is a JSON object", what);
    int r = trainer_check_keys(json, recipe_keys, NULL, what, err);
    if (r >= 0)
        r = read_loss(json, what, recipe, err);
    if (r >= 0)
        r = read_optimizer(json, what, recipe, err);
    if (r >= 0)
        r = read_number(json, "lr", &lr, what, &recipe->lr, err);
    if (r >= 0)
        r = read_schedule(json, what, recipe, err);
    if (r >= 0)
        r = read_number(json, "weight_decay", &decay, what, &recipe->rule.weight_decay, err);
    if (r >= 0)
        r = read_number(json, "clip_norm", &norm, what, &recipe->rule.clip_norm, err);
    if (r >= 0)
        r = read_number(json, "validation", &share, what, &recipe->validation, err);
    if (r >= 0)
        r = read_whole(json, "shift", 1024, what, &recipe->rule.shift, err);
    if (r >= 0)
        r = read_whole(json, "batch", TRAINER_MAX_BATCH, what, &recipe->batch, err);
    if (r >= 0)
        r = read_whole(json, "epochs", MAX_EPOCHS, what, &recipe->epochs, err);
    if (r >= 0)
        r = read_whole(json, "steps", MAX_STEPS, what, &recipe->steps, err);
    if (r >= 0)
        r = read_whole(json, "patience", MAX_EPOCHS, what, &recipe->patience, err);
    if (r >= 0 && recipe->patience > 0 && !(recipe->validation > 0))
        r = mst_error_set(
            err, -EBADMSG,
            "%s: key 'patience' needs 'validation': the share of the training samples to judge by", what);
    return r;
}

int trainer_recipe_parse(const char *text, size_t bytes, const char *what, struct trainer_recipe *ret_recipe,
                         struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct trainer_recipe recipe = {.lr = (double)NAN, .momentum = (double)NAN, .validation = (double)NAN};

    int r = mst_json_parse(text, bytes, what, &json, err);
    if (r >= 0)
        r = read_recipe(json, what, &recipe, err);
    if (r >= 0)
        *ret_recipe = recipe;
    return r;
}

int trainer_recipe_read(const char *path, struct trainer_recipe *ret_recipe, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(TRAINER_RECIPE_MAX_BYTES);

    const int r = mst_file_read(path, &text, err);
    return r < 0 ? r : trainer_recipe_parse(mst_buf_text(&text), text.count, path, ret_recipe, err);
}
