/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"
#include "deliver.h"
#include "muster/file.h"
#include "store.h"
#include "test.h"

#include <signal.h>
#include <sys/resource.h>

static int begin(struct store *store, const char *name, uint64_t bytes, const void *content,
                 size_t content_bytes, struct mst_error *err)
{
    struct control_file file = {.bytes = bytes};
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(1024);
    (void)snprintf(file.name, sizeof file.name, "%s", name);
    assert_int_equal(mst_sha256(content, content_bytes, file.sha256, NULL), 0);
    assert_int_equal(control_pack_file(&payload, &file), 0);
    return store_frame(store, CONTROL_FILE_BEGIN, (const uint8_t *)payload.bytes, payload.count, err);
}

static int data(struct store *store, const void *bytes, size_t count, struct mst_error *err)
{
    return store_frame(store, CONTROL_FILE_DATA, bytes, count, err);
}

static int end(struct store *store, struct mst_error *err)
{
    return store_frame(store, CONTROL_FILE_END, NULL, 0, err);
}

static void check_file(const char *folder, const char *name, const char *text)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_file_read(path, &content, NULL), 0);
    assert_string_equal(mst_buf_text(&content), text);
}

static struct store *new_store(const char *folder)
{
    struct store *store = NULL;
    assert_int_equal(store_new(folder, &store, NULL), 0);
    return store;
}

static void files_come_in_pieces_one_after_another(void **state)
{
    const char *folder = *state;
    struct store *store = new_store(folder);
    assert_int_equal(begin(store, "a", 11, "hello world", 11, NULL), 0);
    assert_int_equal(data(store, "hello ", 6, NULL), 0);
    assert_int_equal(data(store, "", 0, NULL), 0);
    assert_int_equal(data(store, "world", 5, NULL), 0);
    assert_int_equal(end(store, NULL), 1);
    assert_int_equal(store_last_bytes(store), 11);
    assert_int_equal(begin(store, "empty", 0, "", 0, NULL), 0);
    assert_int_equal(end(store, NULL), 1);
    assert_int_equal(begin(store, "a", 3, "new", 3, NULL), 0); /* a worker that came back sends it again */
    assert_int_equal(data(store, "new", 3, NULL), 0);
    check_file(folder, "a", "hello world");
    assert_int_equal(end(store, NULL), 1);
    check_file(folder, "a", "new");
    check_file(folder, "empty", "");
    store_free(store);
    store_free(NULL);
    assert_int_equal(test_entries(folder), 2);
}

static void a_file_that_is_not_finished_leaves_nothing(void **state)
{
    const char *folder = *state;
    for (size_t sent = 0; sent <= 5; sent++) {
        struct store *store = new_store(folder);
        assert_int_equal(begin(store, "a", 5, "hello", 5, NULL), 0);
        assert_int_equal(data(store, "hello", sent, NULL), 0);
        store_free(store);
        assert_int_equal(test_entries(folder), 0);
    }
}

static void what_is_not_as_announced_is_refused_and_leaves_nothing(void **state)
{
    const char *folder = *state;
    static const struct {
        const char *name;
        uint64_t announced;
        const char *pieces[3];
        int begin, data, end;
    } cases[] = {
        {"a", 5, {"hellO"}, 0, 0, -EBADMSG},     /* another digest */
        {"a", 5, {"hell"}, 0, 0, -EPROTO},       /* too short */
        {"a", 5, {"hello", "!"}, 0, -EPROTO, 0}, /* too long */
        {"a", 5, {"hello!"}, 0, -EPROTO, 0},
        {"a", 0, {"h"}, 0, -EPROTO, 0},
        {"../a", 5, {NULL}, -EBADMSG, 0, -EPROTO},
        {"b/a", 5, {NULL}, -EBADMSG, 0, -EPROTO},
        {"..", 5, {NULL}, -EBADMSG, 0, -EPROTO},
        {"a", DELIVER_FILE_MAX_BYTES + 1, {NULL}, -EFBIG, 0, -EPROTO},
        {"a", UINT64_MAX, {NULL}, -EFBIG, 0, -EPROTO},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        struct store *store = new_store(folder);
        assert_int_equal(begin(store, cases[c].name, cases[c].announced, "hello", 5, &err), cases[c].begin);
        int r = 0;
        for (size_t p = 0; p < 3 && cases[c].pieces[p]; p++)
            r = data(store, cases[c].pieces[p], strlen(cases[c].pieces[p]), &err);
        assert_int_equal(r, cases[c].data);
        if (r == 0) /* after an error nobody listens any more */
            assert_int_equal(end(store, &err), cases[c].end);
        assert_true(strlen(err.text) > 0);
        store_free(store);
        assert_int_equal(test_entries(folder), 0);
    }
}

static void frames_out_of_turn_are_refused(void **state)
{
    const char *folder = *state;
    static const uint16_t others[] = {0, CONTROL_HEARTBEAT, CONTROL_PROPOSE, CONTROL_STORED, UINT16_MAX};
    struct store *store = new_store(folder);
    assert_int_equal(data(store, "x", 1, NULL), -EPROTO);
    assert_int_equal(end(store, NULL), -EPROTO);
    assert_int_equal(store_frame(store, CONTROL_FILE_BEGIN, (const uint8_t *)"short", 5, NULL), -EBADMSG);
    assert_int_equal(begin(store, "a", 5, "hello", 5, NULL), 0);
    assert_int_equal(begin(store, "b", 5, "hello", 5, NULL), -EPROTO);
    for (size_t o = 0; o < MST_ARRAY_COUNT(others); o++)
        assert_int_equal(store_frame(store, others[o], (const uint8_t *)"", 0, NULL), -EPROTO);
    store_free(store);
    assert_int_equal(test_entries(folder), 0);
}

static void a_wrong_file_keeps_the_older_one_of_its_name(void **state)
{
    const char *folder = *state;
    struct store *store = new_store(folder);
    assert_int_equal(begin(store, "a", 3, "old", 3, NULL), 0);
    assert_int_equal(data(store, "old", 3, NULL), 0);
    assert_int_equal(end(store, NULL), 1);
    assert_int_equal(begin(store, "a", 3, "new", 3, NULL), 0);
    assert_int_equal(data(store, "bad", 3, NULL), 0);
    assert_int_equal(end(store, NULL), -EBADMSG);
    store_free(store);
    check_file(folder, "a", "old");
    assert_int_equal(test_entries(folder), 1);
}

static void a_disk_that_is_full_or_not_there_is_told(void **state)
{
    const char *folder = *state;
    struct mst_error err = MST_ERROR_INIT;
    struct store *store = new_store("/nowhere/at/all");
    assert_int_equal(begin(store, "a", 5, "hello", 5, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/at/all/a"));
    store_free(store);

    static const char bytes[5000];
    struct rlimit limit, saved;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    store = new_store(folder);
    assert_int_equal(begin(store, "a", sizeof bytes, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
    limit = saved;
    limit.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const int r = data(store, bytes, sizeof bytes, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(r, -EFBIG);
    assert_non_null(strstr(err.text, folder));
    store_free(store);
    assert_int_equal(test_entries(folder), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, test_folder_setup, test_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(files_come_in_pieces_one_after_another),
        IN_FOLDER(a_file_that_is_not_finished_leaves_nothing),
        IN_FOLDER(what_is_not_as_announced_is_refused_and_leaves_nothing),
        IN_FOLDER(frames_out_of_turn_are_refused),
        IN_FOLDER(a_wrong_file_keeps_the_older_one_of_its_name),
        IN_FOLDER(a_disk_that_is_full_or_not_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
