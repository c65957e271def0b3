/* SPDX-License-Identifier: Apache-2.0 */
#include "vow.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VOW_FORMAT 1
#define VOW_MODE   0600
#define VIEW_MAX   (UINT64_C(1) << 53) /* what a JSON number holds exactly */

static int parse_hex(const char *text, uint8_t *ret_bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * count)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        const char *high = strchr(digits, text[2 * i]), *low = strchr(digits, text[2 * i + 1]);
        if (!high || !low)
            return -EBADMSG;
        ret_bytes[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return 0;
}

static int get_hex(const cJSON *json, const char *key, const char *path, uint8_t *ret_bytes, size_t count,
                   struct mst_error *err)
{
    const char *text;
    int r = mst_json_get_string(json, key, path, &text, err);
    if (r == 0 && parse_hex(text, ret_bytes, count) < 0)
        r = mst_error_set(err, -EBADMSG, "%s: key '%s' is not %zu bytes in hex", path, key, count);
    return r;
}

static int read_places(const cJSON *list, const char *path, size_t *ret_count,
                       struct membership_place **ret_places, struct mst_error *err)
{
    const int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    if (count < 1 || count > MEMBERSHIP_MAX_PLACES)
        return mst_error_set(err, -EBADMSG, "%s: key 'places' is not a list of 1 to %d", path,
                             MEMBERSHIP_MAX_PLACES);
    mst_cleanup(mst_freep) struct membership_place *places = calloc((size_t)count, sizeof *places);
    if (!places)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    size_t next = 0;
    for (const cJSON *item = list->child; item; item = item->next, next++) {
        const int r = get_hex(item, "slot", path, places[next].slot.bytes, MEMBERSHIP_SLOT_BYTES, err);
        if (r < 0)
            return r;
        places[next].present = mst_json_bool_or(item, "present", false);
    }
    *ret_places = places;
    *ret_count = (size_t)count;
    places = NULL;
    return 0;
}

static int read_file(const char *path, cJSON **ret_json, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
    const int r = mst_file_read(path, &content, err);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    const int parsed = mst_json_parse(mst_buf_text(&content), content.count, path, ret_json, err);
    return parsed < 0 ? parsed : 1;
}

int vow_read(const char *folder, const uint8_t job[static MST_SHA256_BYTES], struct membership_vow *ret_vow,
             struct membership_place **ret_places, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct membership_vow vow = {0};
    uint8_t whose[MST_SHA256_BYTES];
    uint64_t format;
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the vow's file: no memory");
    int r = read_file(path, &json, err);
    if (r <= 0)
        return r;
    r = mst_json_get_u64(json, "format", VOW_FORMAT, VOW_FORMAT, path, &format, err);
    if (r == 0)
        r = get_hex(json, "job", path, whose, sizeof whose, err);
    if (r == 0 && memcmp(whose, job, sizeof whose) != 0)
        return 0;
    if (r == 0)
        r = mst_json_get_u64(json, "view", 1, VIEW_MAX, path, &vow.view, err);
    if (r == 0)
        r = get_hex(json, "lineage", path, vow.lineage, sizeof vow.lineage, err);
    if (r == 0)
        r = read_places(cJSON_GetObjectItemCaseSensitive(json, "places"), path, &vow.count, ret_places, err);
    if (r < 0)
        return r;
    vow.places = *ret_places;
    *ret_vow = vow;
    return 1;
}

static int append_places(struct mst_buf *text, const struct membership_vow *vow)
{
    int r = 0;
    for (size_t p = 0; r == 0 && p < vow->count; p++) {
        char slot[2 * MEMBERSHIP_SLOT_BYTES + 1];
        mst_hex(vow->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES, slot);
        r = mst_buf_printf(text, "%s\n  {\"slot\": \"%s\", \"present\": %s}", p > 0 ? "," : "", slot,
                           vow->places[p].present ? "true" : "false");
    }
    return r;
}

int vow_write(const char *folder, const uint8_t job[static MST_SHA256_BYTES],
              const struct membership_vow *vow, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
    char job_hex[MST_SHA256_HEX_BYTES], lineage[2 * MEMBERSHIP_LINEAGE_BYTES + 1];
    mst_hex(job, MST_SHA256_BYTES, job_hex);
    mst_hex(vow->lineage, sizeof vow->lineage, lineage);
    int r = mst_buf_printf(&text,
                           "{\"format\": %d, \"job\": \"%s\",\n \"view\": %" PRIu64
                           ", \"lineage\": \"%s\",\n \"places\": [",
                           VOW_FORMAT, job_hex, vow->view, lineage);
    if (r == 0)
        r = append_places(&text, vow);
    if (r == 0)
        r = mst_buf_append_text(&text, "]}\n");
    if (!path || r < 0)
        return mst_error_set(err, r < 0 ? r : -ENOMEM, "write the vow of view %" PRIu64 ": no memory",
                             vow->view);
    r = mst_file_write_atomic(path, mst_buf_text(&text), text.count, VOW_MODE, err);
    return r < 0 ? mst_error_wrap(err, r, "keep what view %" PRIu64 " was signed as", vow->view) : 0;
}

int vow_remove(const char *folder, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the vow's file: no memory");
    if (unlink(path) < 0 && errno != ENOENT)
        return mst_error_errno(err, -errno, "remove '%s'", path);
    return 0;
}
