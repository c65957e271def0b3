/* SPDX-License-Identifier: Apache-2.0 */
/* The file of what was signed: kept whole over a restart, and refused where it cannot be what was written. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "test.h"
#include "vow.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t job[MST_SHA256_BYTES] = {1, 2, 3};

/* A view that held, and two attempts since. */
static struct membership_vow make_vow(struct membership_place *places)
{
    struct membership_vow vow = {.held = {.view = 7, .count = 2}, .count = 2};
    for (uint8_t p = 0; p < 6; p++) {
        memset(places[p].slot.bytes, p, sizeof places[p].slot.bytes);
        places[p].part = (enum membership_part)(p % 3);
    }
    vow.held.places = places;
    for (size_t a = 0; a < 2; a++)
        vow.attempts[a] = (struct membership_ballot){.view = 8 + a, .count = 2, .places = places + 2 + 2 * a};
    memset(vow.held.lineage, 0xab, sizeof vow.held.lineage);
    memset(vow.attempts[1].digest, 0xcd, sizeof vow.attempts[1].digest);
    return vow;
}

static void assert_same_ballot(const struct membership_ballot *a, const struct membership_ballot *b)
{
    assert_int_equal(a->view, b->view);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->lineage, b->lineage, sizeof a->lineage);
    assert_memory_equal(a->digest, b->digest, sizeof a->digest);
    for (size_t p = 0; p < a->count; p++) {
        assert_memory_equal(a->places[p].slot.bytes, b->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES);
        assert_int_equal(a->places[p].part, b->places[p].part);
    }
}

static void what_was_signed_is_known_after_a_restart(void **state)
{
    const char *folder = *state;
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    struct membership_place room[6];
    const struct membership_vow vow = make_vow(room);
    struct membership_vow again = {0};
    mst_cleanup(mst_freep) struct membership_place *places = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(vow_read(folder, job, &again, &places, &err), 0); /* there is none yet */
    assert_null(places);
    assert_int_equal(vow_write(folder, job, &vow, &err), 0);
    assert_int_equal(vow_read(folder, job, &again, &places, &err), 1);
    assert_int_equal(again.count, 2);
    assert_same_ballot(&again.held, &vow.held);
    assert_same_ballot(&again.attempts[0], &vow.attempts[0]);
    assert_same_ballot(&again.attempts[1], &vow.attempts[1]);
    assert_int_equal(vow_remove(folder, &err), 0);
    assert_int_equal(vow_remove(folder, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void another_jobs_vow_is_not_read(void **state)
{
    const char *folder = *state;
    struct membership_place room[6];
    const struct membership_vow vow = make_vow(room);
    struct membership_vow again = {0};
    struct membership_place *places = NULL;
    uint8_t other[MST_SHA256_BYTES] = {9};
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(vow_write(folder, other, &vow, &err), 0);
    assert_int_equal(vow_read(folder, job, &again, &places, &err), 0);
    assert_int_equal(again.held.view, 0);
    assert_null(places);
}

/* Each first text becomes the second one, once. */
static void a_file_that_is_no_vow_is_refused_with_its_path(void **state)
{
    const char *folder = *state;
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\"format\": 1", "\"format\": 2"},
        {"\"held\": {", "\"held\": 5, \"x\": {"},
        {"\"held\": {", "\"other\": {"},
        {"\"view\": 7", "\"view\": 0"},
        {"\"view\": 8", "\"view\": 1e300"},
        {"\"present\"", "\"maybe\""},
        {"\"attempts\": [", "\"attempts\": 3, \"x\": ["},
        {"abababab", "ABABABAB"},
        {"abababab", "ab"},
        {"\"places\": [", "\"places\": [], \"x\": ["},
        {"]}]}", "]}"},
        {"\"slot\": \"00", "\"slot\": \"0"},
    };
    struct membership_place room[6];
    const struct membership_vow vow = make_vow(room);
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        struct membership_vow again = {.count = 77};
        struct membership_place *places = NULL;
        mst_cleanup(mst_buf_release) struct mst_buf good = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
        mst_cleanup(mst_buf_release) struct mst_buf bad = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
        assert_int_equal(vow_write(folder, job, &vow, &err), 0);
        assert_int_equal(mst_file_read(path, &good, &err), 0);
        const char *at = strstr(mst_buf_text(&good), cases[c].from);
        assert_non_null(at);
        assert_int_equal(mst_buf_append(&bad, good.bytes, (size_t)(at - good.bytes)), 0);
        assert_int_equal(mst_buf_append_text(&bad, cases[c].to), 0);
        assert_int_equal(mst_buf_append_text(&bad, at + strlen(cases[c].from)), 0);
        assert_int_equal(mst_file_write_atomic(path, bad.bytes, bad.count, 0600, &err), 0);
        assert_int_equal(vow_read(folder, job, &again, &places, &err), -EBADMSG);
        assert_non_null(strstr(err.text, VOW_FILE_NAME));
        assert_int_equal(again.count, 77);
        assert_null(places);
    }
}

static void a_file_that_was_cut_short_anywhere_is_refused(void **state)
{
    const char *folder = *state;
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, VOW_FILE_NAME);
    struct membership_place room[6];
    const struct membership_vow vow = make_vow(room);
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_buf_release) struct mst_buf good = MST_BUF_INIT(VOW_FILE_MAX_BYTES);
    assert_int_equal(vow_write(folder, job, &vow, &err), 0);
    assert_int_equal(mst_file_read(path, &good, &err), 0);
    for (size_t count = 0; count + 2 < good.count; count += 7) {
        struct membership_vow again = {0};
        struct membership_place *places = NULL;
        assert_int_equal(mst_file_write_atomic(path, good.bytes, count, 0600, &err), 0);
        assert_int_equal(vow_read(folder, job, &again, &places, &err), -EBADMSG);
        assert_null(places);
    }
}

static void what_a_killed_writer_left_behind_goes_at_the_next_start(void **state)
{
    const char *folder = *state;
    static const struct {
        const char *name;
        bool stays;
    } files[] = {{VOW_FILE_NAME ".aB3xYz", false},
                 {VOW_FILE_NAME ".000000", false},
                 {VOW_FILE_NAME ".backup1", true},
                 {"other.json.aB3xYz", true}};
    struct membership_vow vow = {0};
    struct membership_place *places = NULL;
    struct mst_error err = MST_ERROR_INIT;
    for (size_t f = 0; f < MST_ARRAY_COUNT(files); f++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, files[f].name);
        assert_int_equal(mst_file_write_atomic(path, "half", 4, 0600, &err), 0);
    }
    assert_int_equal(vow_read(folder, job, &vow, &places, &err), 0);
    for (size_t f = 0; f < MST_ARRAY_COUNT(files); f++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, files[f].name);
        assert_int_equal(access(path, F_OK) == 0, files[f].stays);
        (void)unlink(path);
    }
}

static void a_folder_that_is_not_there_is_an_error_of_the_writer_and_not_of_the_reader(void **state)
{
    struct membership_place room[6];
    const struct membership_vow vow = make_vow(room);
    struct membership_vow again = {0};
    struct membership_place *places = NULL;
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    assert_int_equal(vow_read("/proc/no-such-folder", job, &again, &places, &err), 0);
    assert_true(vow_write("/proc/no-such-folder", job, &vow, &err) < 0);
    assert_non_null(strstr(err.text, "keep what was signed"));
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, test_folder_setup, test_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(what_was_signed_is_known_after_a_restart),
        WITH_FOLDER(another_jobs_vow_is_not_read),
        WITH_FOLDER(a_file_that_is_no_vow_is_refused_with_its_path),
        WITH_FOLDER(a_file_that_was_cut_short_anywhere_is_refused),
        WITH_FOLDER(what_a_killed_writer_left_behind_goes_at_the_next_start),
        WITH_FOLDER(a_folder_that_is_not_there_is_an_error_of_the_writer_and_not_of_the_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
