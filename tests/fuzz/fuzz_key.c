/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as two key files: the input, cut in two where its first byte says. And any text as a wish for
 * interfaces. */
#include "fuzz_file.h"
#include "muster/discovery.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_filter(const uint8_t *bytes, size_t count)
{
    struct discovery_filter filter = {.count = 77};
    struct mst_error err = MST_ERROR_INIT;
    const struct discovery_interface interface = {.name = "eth0", .ipv4 = 0x0a000001, .prefix = 24};
    char *text = malloc(count + 1);
    if (!text)
        abort();
    memcpy(text, bytes, count);
    text[count] = '\0';
    const int r = discovery_filter_parse(text, &filter, &err);
    if (r < 0 ? filter.count != 77 || !err.text[0] : filter.count < 1 || filter.count > DISCOVERY_FILTER_MAX)
        abort();
    if (r == 0)
        (void)discovery_filter_match(&filter, &interface);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 1)
        return 0;
    const size_t first = (size_t)bytes[0] * 8 < count - 1 ? (size_t)bytes[0] * 8 : count - 1;
    struct fuzz_file new_file = fuzz_file_open(bytes + 1, first);
    struct fuzz_file old_file = fuzz_file_open(bytes + 1 + first, count - 1 - first);
    struct discovery_self self = {0};
    struct mst_error err = MST_ERROR_INIT;
    const int r = discovery_keys_read(&self, new_file.path, old_file.path, &err);
    if (r < 0 && !err.text[0])
        abort();
    for (size_t k = 0; r == 0 && k < self.key_count; k++)
        if (self.keys[k].count < DISCOVERY_KEY_MIN_BYTES || self.keys[k].count > DISCOVERY_KEY_MAX_BYTES)
            abort();
    if (r == 0 && memcmp(self.keys[0].bytes, bytes + 1, first) != 0)
        abort();
    fuzz_file_close(&new_file);
    fuzz_file_close(&old_file);
    read_filter(bytes + 1, count - 1);
    return 0;
}
