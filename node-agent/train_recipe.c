/* SPDX-License-Identifier: Apache-2.0 */
/* How to train: what options say, then what the recipe says, then the options' defaults. */
#include "train_private.h"

#include <math.h>

static double choose(const struct agent_config *config, enum config_given option, double own, double recipe)
{
    return config->given & option || isnan(recipe) ? own : recipe;
}

static uint32_t choose_count(const struct agent_config *config, enum config_given option, uint32_t own,
                             uint32_t recipe)
{
    return config->given & option || recipe == 0 ? own : recipe;
}

int train_settle(struct train *train, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    struct trainer_recipe recipe = {.lr = NAN, .momentum = NAN, .validation = NAN};
    const int r = config->recipe ? trainer_recipe_read(config->recipe, &recipe, err) : 0;
    if (r < 0)
        return r;
    train->config.rule = recipe.rule;
    train->config.lr = choose(config, CONFIG_GIVEN_LR, config->lr, recipe.lr);
    train->config.momentum = choose(config, CONFIG_GIVEN_MOMENTUM, config->momentum, recipe.momentum);
    train->config.batch = choose_count(config, CONFIG_GIVEN_BATCH, config->batch, recipe.batch);
    train->config.epochs = choose_count(config, CONFIG_GIVEN_EPOCHS, config->epochs, recipe.epochs);
    train->config.steps_per_epoch = choose_count(config, CONFIG_GIVEN_STEPS, config->steps, recipe.steps);
    train->whole_passes = config->recipe && recipe.steps == 0 && !(config->given & CONFIG_GIVEN_STEPS);
    train->validation = choose(config, CONFIG_GIVEN_VALIDATION, config->validation, recipe.validation);
    train->patience = choose_count(config, CONFIG_GIVEN_PATIENCE, config->patience, recipe.patience);
    if (train->patience > 0 && train->validation == 0)
        return mst_error_set(err, -EINVAL, "recipe '%s': 'patience' needs 'validation'", config->recipe);
    return 0;
}

void train_settle_steps(struct train *train)
{
    const uint64_t step = (uint64_t)train->config.batch * train->config.shards;
    const uint64_t steps = trainer_dataset_count(train->data.train) / step;
    if (train->whole_passes)
        train->config.steps_per_epoch = steps > 0 ? (uint32_t)steps : 1;
}
