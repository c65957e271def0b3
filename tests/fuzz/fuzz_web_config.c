/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as --web.config.file. */
#include "web_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct web_config config = {0};
    struct mst_error err = MST_ERROR_INIT;
    const int r = web_config_parse((const char *)bytes, count, "web.yml", "/nowhere", &config, &err);
    if (r < 0 && !err.text[0])
        abort();
    for (size_t i = 0; r == 0 && i < config.user_count; i++) {
        if (strlen(config.users[i].hash) != 60) /* nothing but a hash opens the door */
            abort();
    }
    if (r == 0)
        web_config_release(&config);
    return 0;
}
