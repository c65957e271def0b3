/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the files that users train with: the first says as which. */
#include "fuzz_file.h"
#include "idx.h"
#include "image.h"
#include "safetensors.h"
#include "table.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_csv(const char *path)
{
    struct description description = {
        .path = (char[]){"fuzz"}, .header = true, .separator = ',', .label = cJSON_CreateNumber(-1)};
    struct table_plan plan = {0};
    struct table table = {0};
    struct mst_error err = MST_ERROR_INIT;
    int r = table_plan_make(&description, path, false, &plan, &err);
    if (r == 0)
        r = table_read(&plan, path, false, &table, &err);
    if (r == 0)
        r = table_close_categories(&plan, &table, &err);
    if (r == 0 && (table.rows == 0 || plan.input_count == 0))
        abort();
    if (r < 0 && !err.text[0])
        abort();
    table_release(&table);
    table_plan_release(&plan);
    cJSON_Delete((cJSON *)(uintptr_t)description.label);
}

static void read_idx(const char *path)
{
    struct trainer_idx idx = {0};
    struct mst_error err = MST_ERROR_INIT;
    if (trainer_idx_read(path, 3, &idx, &err) < 0 && (idx.values || !err.text[0]))
        abort();
    trainer_idx_release(&idx);
}

static void read_safetensors(const char *path)
{
    float values[6];
    const struct safetensors_entry entries[] = {
        {.name = "a.weight", .shape = {.count = 2, .dims = {2, 2}}, .values = values},
        {.name = "a.bias", .shape = {.count = 1, .dims = {2}}, .values = values + 4}};
    cJSON *metadata = NULL;
    struct mst_error err = MST_ERROR_INIT;
    if (safetensors_read(path, entries, 2, NULL, &metadata, &err) < 0 && (metadata || !err.text[0]))
        abort();
    cJSON_Delete(metadata);
    metadata = NULL;
    if (safetensors_read_metadata(path, &metadata, &err) < 0 && metadata)
        abort();
    cJSON_Delete(metadata);
}

static void read_image(const uint8_t *bytes, size_t count)
{
    struct image image = {0};
    struct mst_error err = MST_ERROR_INIT;
    if (image_decode(bytes, count, 0, "fuzz", &image, &err) < 0 && (image.pixels || !err.text[0]))
        abort();
    image_release(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return 0;
    struct fuzz_file file = fuzz_file_open(bytes + 1, count - 1);
    switch (bytes[0]) {
    case 'c':
        read_csv(file.path);
        break;
    case 'i':
        read_idx(file.path);
        break;
    case 's':
        read_safetensors(file.path);
        break;
    default:
        read_image(bytes + 1, count - 1);
    }
    fuzz_file_close(&file);
    return 0;
}
