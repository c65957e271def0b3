/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "untar.h"

#include <sys/mman.h>

/* One entry of a ustar archive, as POSIX.1-2017 has it (pax, "ustar Interchange Format"). */
static void add_entry(struct mst_buf *tar, const char *name, char type, const char *link, const char *content)
{
    const size_t size = content ? strlen(content) : 0;
    char header[512] = {0};
    unsigned sum = 0;

    (void)snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    (void)snprintf(header + 124, 12, "%011zo", size);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = type;
    (void)snprintf(header + 157, 100, "%s", link);
    memcpy(header + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof header; i++)
        sum += (unsigned char)header[i];
    (void)snprintf(header + 148, 8, "%06o", sum);
    assert_int_equal(mst_buf_append(tar, header, sizeof header), 0);
    if (size > 0) {
        char block[512] = {0};
        assert_true(size <= sizeof block);
        memcpy(block, content, size);
        assert_int_equal(mst_buf_append(tar, block, sizeof block), 0);
    }
}

static void end_archive(struct mst_buf *tar)
{
    static const char zeros[1024];

    assert_int_equal(mst_buf_append(tar, zeros, sizeof zeros), 0);
}

static int untar(const struct mst_buf *tar, size_t bytes, const char *folder,
                 const struct untar_limits *limits, struct untar_result *ret_result, struct mst_error *err)
{
    const int fd = memfd_create("tar", MFD_CLOEXEC);
    int r;

    assert_true(fd >= 0);
    assert_int_equal(mst_write_all(fd, tar->bytes, bytes), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    r = untar_fd(fd, folder, limits, ret_result, err);
    (void)close(fd);
    return r;
}

static void only_plain_files_are_taken(void **state)
{
    static const char *const reserved[] = {"run.json", NULL};
    const struct untar_limits limits = {1000, 10000, reserved};
    const struct test_folder *folder = *state;
    mst_cleanup(mst_buf_release) struct mst_buf tar = MST_BUF_INIT(65536), text = MST_BUF_INIT(65536);
    struct untar_result result = {0};
    char path[320];

    add_entry(&tar, "st/", '5', "", NULL);
    add_entry(&tar, "st/history-w1.1.csv", '0', "", "slot,rank\n");
    add_entry(&tar, "plain", '0', "", "p");
    add_entry(&tar, "st/run.json", '0', "", "theirs");
    add_entry(&tar, "st/link", '2', "/etc/passwd", NULL);
    add_entry(&tar, "st/hard", '1', "st/plain", NULL);
    add_entry(&tar, "st/device", '3', "", NULL);
    add_entry(&tar, "st/fifo", '6', "", NULL);
    add_entry(&tar, "st/deep/er", '0', "", "x");
    add_entry(&tar, "/etc/evil", '0', "", "x");
    add_entry(&tar, "../../evil", '0', "", "x");
    add_entry(&tar, "st/..", '0', "", "x");
    add_entry(&tar, "st/.hidden", '0', "", "x");
    add_entry(&tar, "st/new\nline", '0', "", "x");
    end_archive(&tar);
    assert_int_equal(untar(&tar, tar.count, folder->path, &limits, &result, NULL), 0);
    assert_int_equal(result.files, 2);
    assert_int_equal(result.skipped, 11);
    assert_string_equal(result.first_skipped, "st/run.json");
    assert_int_equal(result.bytes, 11);
    assert_int_equal(test_entries(folder->path), 2);
    assert_int_equal(mst_file_read(test_path(folder, "history-w1.1.csv", path), &text, NULL), 0);
    assert_string_equal(mst_buf_text(&text), "slot,rank\n");
}

static void limits_hold(void **state)
{
    static const struct {
        struct untar_limits limits;
        int code;
    } cases[] = {
        {{10, 20, NULL}, 0},
        {{9, 20, NULL}, -EFBIG},
        {{10, 19, NULL}, -EFBIG},
    };
    const struct test_folder *folder = *state;
    mst_cleanup(mst_buf_release) struct mst_buf tar = MST_BUF_INIT(65536);

    add_entry(&tar, "st/a", '0', "", "0123456789");
    add_entry(&tar, "st/b", '0', "", "0123456789");
    end_archive(&tar);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct untar_result result = {.files = 77};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(untar(&tar, tar.count, folder->path, &cases[i].limits, &result, &err),
                         cases[i].code);
        if (cases[i].code < 0)
            assert_int_equal(result.files, 77);
    }
    assert_int_equal(test_entries(folder->path), 2); /* and no temporary file */
}

static void what_is_cut_or_no_archive_is_refused(void **state)
{
    const struct untar_limits limits = {1000, 10000, NULL};
    const struct test_folder *folder = *state;
    mst_cleanup(mst_buf_release) struct mst_buf tar = MST_BUF_INIT(65536), noise = MST_BUF_INIT(65536);
    struct untar_result result;

    add_entry(&tar, "st/a", '0', "", "0123456789");
    end_archive(&tar);
    assert_int_equal(untar(&tar, 515, folder->path, &limits, &result, NULL), -EPROTO); /* inside the file */
    assert_int_equal(untar(&tar, 300, folder->path, &limits, &result, NULL), -EPROTO); /* inside the header */
    for (int i = 0; i < 2000; i++)
        assert_int_equal(mst_buf_append(&noise, &(char){(char)(i * 37)}, 1), 0);
    assert_int_equal(untar(&noise, noise.count, folder->path, &limits, &result, NULL), -EPROTO);
    assert_int_equal(test_entries(folder->path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_plain_files_are_taken, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(limits_hold, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_is_cut_or_no_archive_is_refused, test_folder_setup,
                                        test_folder_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
