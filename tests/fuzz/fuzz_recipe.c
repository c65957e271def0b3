/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a recipe. What is taken is in range. */
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct trainer_recipe recipe = {.batch = 77};
    struct mst_error err = MST_ERROR_INIT;
    const int r = trainer_recipe_parse((const char *)bytes, count, "recipe", &recipe, &err);

    if (r < 0) {
        if (recipe.batch != 77 || !err.text[0])
            abort();
        return 0;
    }
    struct trainer_config config = {.lr = isnan(recipe.lr) ? 1 : recipe.lr,
                                    .momentum = isnan(recipe.momentum) ? 0 : recipe.momentum,
                                    .rule = recipe.rule,
                                    .steps_per_epoch = recipe.steps > 0 ? recipe.steps : 7,
                                    .epochs = recipe.epochs > 0 ? recipe.epochs : 3};
    if (trainer_optimizer_check(&config, NULL) >= 0) {
        for (uint64_t done = 0; done < 30; done++) {
            const double lr = trainer_schedule_lr(&config, done);
            if (!(lr >= 0 && lr <= config.lr))
                abort();
        }
    }
    return 0;
}
