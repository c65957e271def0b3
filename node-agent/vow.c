/* SPDX-License-Identifier: Apache-2.0 */
#include "vow.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/log.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VOW_FORMAT      1
#define VOW_MODE        0600
#define VIEW_MAX        (UINT64_C(1) << 53)    /* what a JSON number holds exactly */
#define TEMPORARY_BYTES (sizeof ".XXXXXX" - 1) /* as mst_file_write_atomic() names it */

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

static const char *const part_names[] = {
    [MEMBERSHIP_ABSENT] = "absent", [MEMBERSHIP_PRESENT] = "present", [MEMBERSHIP_WITNESS] = "witness"};

static int read_place(const cJSON *json, const char *path, struct membership_place *place,
                      struct mst_error *err)
{
    const char *part;
    int r = get_hex(json, "slot", path, place->slot.bytes, MEMBERSHIP_SLOT_BYTES, err);
    if (r == 0)
        r = mst_json_get_string(json, "part", path, &part, err);
    if (r < 0)
        return r;
    for (size_t p = 0; p < MST_ARRAY_COUNT(part_names); p++) {
        if (strcmp(part, part_names[p]) != 0)
            continue;
        place->part = (enum membership_part)p;
        return 0;
    }
    return mst_error_set(err, -EBADMSG, "%s: key 'part' is '%.64s'", path, part);
}

static size_t count_places(const cJSON *ballot)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(ballot, "places");
    return cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
}

/* Places go to `*next`, which is moved on. */
static int read_ballot(const cJSON *json, const char *path, struct membership_place **next,
                       struct membership_ballot *ballot, struct mst_error *err)
{
    ballot->count = count_places(json);
    ballot->places = *next;
    if (ballot->count < 1 || ballot->count > MEMBERSHIP_MAX_PLACES)
        return mst_error_set(err, -EBADMSG, "%s: key 'places' is not a list of 1 to %d", path,
                             MEMBERSHIP_MAX_PLACES);
    int r = mst_json_get_u64(json, "view", 1, VIEW_MAX, path, &ballot->view, err);
    if (r == 0)
        r = get_hex(json, "lineage", path, ballot->lineage, sizeof ballot->lineage, err);
    if (r == 0)
        r = get_hex(json, "digest", path, ballot->digest, sizeof ballot->digest, err);
    const cJSON *place = cJSON_GetObjectItemCaseSensitive(json, "places")->child;
    for (; r == 0 && place; place = place->next)
        r = read_place(place, path, (*next)++, err);
    return r;
}

static int read_vow(const cJSON *json, const char *path, struct membership_vow *vow,
                    struct membership_place **ret_places, struct mst_error *err)
{
    const cJSON *held = cJSON_GetObjectItemCaseSensitive(json, "held");
    const cJSON *attempts = cJSON_GetObjectItemCaseSensitive(json, "attempts"), *attempt;
    if (!cJSON_IsArray(attempts) || cJSON_GetArraySize(attempts) > MEMBERSHIP_MAX_ATTEMPTS)
        return mst_error_set(err, -EBADMSG, "%s: key 'attempts' is not a list of at most %d", path,
                             MEMBERSHIP_MAX_ATTEMPTS);
    size_t count = count_places(held) + 1;
    cJSON_ArrayForEach(attempt, attempts) count += count_places(attempt);
    mst_cleanup(mst_freep) struct membership_place *places = calloc(count, sizeof *places);
    struct membership_place *next = places;
    if (!places)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", path);
    int r = 0;
    if (cJSON_IsObject(held))
        r = read_ballot(held, path, &next, &vow->held, err);
    else if (!cJSON_IsNull(held))
        r = mst_error_set(err, -EBADMSG, "%s: key 'held' is neither a view nor null", path);
    for (attempt = attempts->child; r == 0 && attempt; attempt = attempt->next)
        r = read_ballot(attempt, path, &next, &vow->attempts[vow->count++], err);
    if (r < 0)
        return r;
    *ret_places = places;
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

/* A writer that was killed leaves its temporary file behind. */
static bool is_left_over(const char *name)
{
    const size_t length = strlen(VOW_FILE_NAME);
    return strncmp(name, VOW_FILE_NAME ".", length + 1) == 0 && strlen(name + length) == TEMPORARY_BYTES;
}

static void remove_left_overs(const char *folder)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return; /* reading the vow says why */
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        if (is_left_over(entry->d_name) && unlinkat(dirfd(entries), entry->d_name, 0) < 0)
            mst_log_debug("vow", "'%s/%s' stays behind: %s", folder, entry->d_name, strerrordesc_np(errno));
    (void)closedir(entries);
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
    remove_left_overs(folder);
    int r = read_file(path, &json, err);
    if (r <= 0)
        return r;
    r = mst_json_get_u64(json, "format", VOW_FORMAT, VOW_FORMAT, path, &format, err);
    if (r == 0)
        r = get_hex(json, "job", path, whose, sizeof whose, err);
    if (r == 0 && memcmp(whose, job, sizeof whose) != 0)
        return 0;
    if (r == 0)
        r = read_vow(json, path, &vow, ret_places, err);
    if (r < 0)
        return r;
    *ret_vow = vow;
    return 1;
}

static int append_ballot(struct mst_buf *text, const struct membership_ballot *ballot)
{
    char lineage[2 * MEMBERSHIP_LINEAGE_BYTES + 1], digest[MST_SHA256_HEX_BYTES];
    mst_hex(ballot->lineage, sizeof ballot->lineage, lineage);
    mst_hex(ballot->digest, sizeof ballot->digest, digest);
    int r = mst_buf_printf(
        text, "{\"view\": %" PRIu64 ", \"lineage\": \"%s\",\n  \"digest\": \"%s\",\n  \"places\": [",
        ballot->view, lineage, digest);
    for (size_t p = 0; r == 0 && p < ballot->count; p++) {
        char slot[2 * MEMBERSHIP_SLOT_BYTES + 1];
        mst_hex(ballot->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES, slot);
        r = mst_buf_printf(text, "%s\n   {\"slot\": \"%s\", \"part\": \"%s\"}", p > 0 ? "," : "", slot,
                           part_names[ballot->places[p].part]);
    }
    return r < 0 ? r : mst_buf_append_text(text, "]}");
}

static int append_vow(struct mst_buf *text, const uint8_t *job, const struct membership_vow *vow)
{
    char job_hex[MST_SHA256_HEX_BYTES];
    mst_hex(job, MST_SHA256_BYTES, job_hex);
    int r = mst_buf_printf(text, "{\"format\": %d, \"job\": \"%s\",\n \"held\": ", VOW_FORMAT, job_hex);
    if (r == 0)
        r = vow->held.view > 0 ? append_ballot(text, &vow->held) : mst_buf_append_text(text, "null");
    if (r == 0)
        r = mst_buf_append_text(text, ",\n \"attempts\": [");
    for (size_t a = 0; r == 0 && a < vow->count; a++) {
        r = a > 0 ? mst_buf_append_text(text, ",\n ") : 0;
        if (r == 0)
            r = append_ballot(text, &vow->attempts[a]);
    }
    return r < 0 ? r : mst_buf_append_text(text, "]}\n");
}

int vow_write(const char *folder, const uint8_t job[static MST_SHA256_BYTES],
              const struct membership_vow *vow, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
    int r = append_vow(&text, job, vow);
    if (!path || r < 0)
        return mst_error_set(err, r < 0 ? r : -ENOMEM, "write the vow: no memory");
    r = mst_file_write_atomic(path, mst_buf_text(&text), text.count, VOW_MODE, err);
    return r < 0 ? mst_error_wrap(err, r, "keep what was signed") : 0;
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
