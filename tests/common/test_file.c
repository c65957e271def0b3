/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/digest.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_file_is_read_whole_and_appended(void **state)
{
    const struct test_folder *folder = *state;
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 200000};
    char path[320];
    test_path(folder, "file", path);
    for (size_t s = 0; s < MST_ARRAY_COUNT(sizes); s++) {
        mst_cleanup(mst_freep) char *bytes = calloc(1, sizes[s] + 1);
        for (size_t i = 0; i < sizes[s]; i++)
            bytes[i] = (char)(i * 31 % 251);
        test_write(path, bytes, sizes[s]);
        mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(sizes[s] + 4);
        assert_int_equal(mst_buf_append_text(&content, "head"), 0);
        assert_int_equal(mst_file_read(path, &content, NULL), 0); /* exactly the limit */
        assert_int_equal(content.count, sizes[s] + 4);
        assert_memory_equal(content.bytes, "head", 4);
        assert_memory_equal(content.bytes + 4, bytes, sizes[s]);
        assert_int_equal(content.bytes[content.count], '\0');
    }
}

/* In a process of its own, whose status says what was found: the test's own descriptors stay. */
static void closed_standard_descriptors_are_taken(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int fd = 0; fd < 3; fd++) {
                if (closed & 1 << fd)
                    (void)close(fd);
            }
            char byte = 0;
            const int r = mst_open_standard_descriptors(), next = open("/dev/null", O_RDONLY | O_CLOEXEC);
            bool good = r == 0 && next > 2;
            if (closed & 1)
                good = good && read(0, &byte, 1) == 0;
            if (closed & 2)
                good = good && write(1, &byte, 1) < 0;
            _exit(good ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("closed: %d, status %d", closed, status);
    }
}

static void only_a_file_or_nothing_is_written_over(void **state)
{
    const struct test_folder *folder = *state;
    char path[320], file[320];
    struct stat status;
    test_write(test_path(folder, "file", file), "x", 1);
    assert_int_equal(mst_file_write_atomic(file, "y", 1, 0600, NULL), 0);
    test_path(folder, "other", path);
    for (int kind = 0; kind < 3; kind++) {
        struct mst_error err = MST_ERROR_INIT;
        static const char *const says[] = {"it is a pipe", "it is a link", "it is a folder"};
        assert_int_equal(kind == 0   ? mkfifo(path, 0600)
                         : kind == 1 ? symlink(file, path)
                                     : mkdir(path, 0700),
                         0);
        assert_int_equal(mst_file_write_atomic(path, "z", 1, 0600, &err), kind == 2 ? -EISDIR : -EINVAL);
        if (!strstr(err.text, says[kind]))
            fail_msg("%s", err.text);
        assert_int_equal(lstat(path, &status), 0);
        assert_false(S_ISREG(status.st_mode));
        assert_int_equal(remove(path), 0);
    }
}

static void what_cannot_be_read_leaves_the_content_as_it_was(void **state)
{
    const struct test_folder *folder = *state;
    char large[320], absent[320], below_file[400];
    test_write(test_path(folder, "large", large), "0123456789", 10);
    test_path(folder, "absent", absent);
    (void)snprintf(below_file, sizeof below_file, "%s/x", large);
    const struct {
        const char *path;
        size_t limit;
        int code;
    } cases[] = {
        {large, 13, -EFBIG},          {large, 5, -EFBIG},          {large, 4, -EFBIG}, {absent, 100, -ENOENT},
        {folder->path, 100, -EISDIR}, {below_file, 100, -ENOTDIR}, {"", 100, -ENOENT},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(cases[c].limit);
        assert_int_equal(mst_buf_append_text(&content, "head"), 0);
        assert_int_equal(mst_file_read(cases[c].path, &content, &err), cases[c].code);
        assert_non_null(strstr(err.text, cases[c].path));
        assert_string_equal(mst_buf_text(&content), "head");
        assert_int_equal(content.count, 4);
    }
}

static void what_is_no_file_is_refused_without_a_wait(void **state)
{
    const struct test_folder *folder = *state;
    char fifo[320], name[320];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(mkfifo(test_path(folder, "fifo", fifo), 0600), 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", test_path(folder, "socket", name));
    mst_cleanup(mst_closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    const struct {
        const char *path, *text;
        int code;
    } cases[] = {
        {fifo, "it is a pipe", -EINVAL}, /* nobody writes to it: open(2) alone would wait for ever */
        {name, "No such device", -ENXIO},
        {"/dev/zero", "it is a device", -EINVAL},
        {folder->path, "it is a folder", -EISDIR},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        uint8_t digest[MST_SHA256_BYTES];
        int fd = -7;
        assert_int_equal(mst_file_open(cases[c].path, &fd, &err), cases[c].code);
        assert_int_equal(fd, -7);
        assert_non_null(strstr(err.text, cases[c].text));
        assert_non_null(strstr(err.text, cases[c].path));
        assert_int_equal(mst_sha256_file(cases[c].path, digest, NULL), cases[c].code);
        mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(100);
        assert_int_equal(mst_file_read(cases[c].path, &content, NULL), cases[c].code);
        assert_int_equal(content.count, 0);
    }
}

static void an_atomic_write_replaces_and_leaves_no_other_file(void **state)
{
    const struct test_folder *folder = *state;
    char path[320];
    struct stat status;
    test_path(folder, "file", path);
    const mode_t mask = umask(077); /* the mode asked for is the mode given */
    assert_int_equal(mst_file_write_atomic(path, "one", 3, 0640, NULL), 0);
    assert_int_equal(mst_file_write_atomic(path, "", 0, 0644, NULL), 0);
    (void)umask(mask);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(status.st_mode & 07777, 0644);
    assert_int_equal(test_entries(folder->path), 1);
}

static void a_failed_write_keeps_the_old_file_and_cleans_up(void **state)
{
    const struct test_folder *folder = *state;
    char path[320], sub[320], below[400];
    test_write(test_path(folder, "file", path), "old", 3);

    /* As a full disk would: writing stops after some bytes. SIGXFSZ is ignored, so write(2) says EFBIG. */
    struct rlimit limit, saved;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
    limit = saved;
    limit.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    static const char bytes[5000];
    struct mst_error err = MST_ERROR_INIT;
    const int r = mst_file_write_atomic(path, bytes, sizeof bytes, 0644, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(r, -EFBIG);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(test_entries(folder->path), 1);

    assert_int_equal(mkdir(test_path(folder, "sub", sub), 0755), 0);
    const struct {
        const char *path;
        int code;
    } cases[] = {{sub, -EISDIR}, {"/nowhere/at/all", -ENOENT}, {"/proc/nothing", -ENOENT}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        err = (struct mst_error)MST_ERROR_INIT;
        assert_int_equal(mst_file_write_atomic(cases[c].path, "x", 1, 0644, &err), cases[c].code);
        assert_non_null(strstr(err.text, cases[c].path));
        assert_int_equal(test_entries(folder->path), 2);
    }
    (void)snprintf(below, sizeof below, "%s/x", path);
    assert_int_equal(mst_file_write_atomic(below, "x", 1, 0644, NULL), -ENOTDIR);
    assert_int_equal(rmdir(sub), 0);

    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(100);
    assert_int_equal(mst_file_read(path, &content, NULL), 0);
    assert_string_equal(mst_buf_text(&content), "old");
}

static void a_discarded_writer_leaves_nothing_and_can_be_discarded_again(void **state)
{
    const struct test_folder *folder = *state;
    struct mst_file_writer writer;
    char path[320];
    assert_int_equal(mst_file_writer_open(&writer, test_path(folder, "file", path), 0600, NULL), 0);
    assert_true(fcntl(writer.fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(mst_write_all(writer.fd, "half", 4), 0);
    assert_int_equal(test_entries(folder->path), 1);
    mst_file_writer_discard(&writer);
    mst_file_writer_discard(&writer);
    assert_int_equal(test_entries(folder->path), 0);

    assert_int_equal(mst_file_writer_open(&writer, path, 0600, NULL), 0);
    assert_int_equal(mst_write_all(writer.fd, "whole", 5), 0);
    assert_int_equal(access(path, F_OK), -1); /* not before it is whole */
    assert_int_equal(mst_file_writer_commit(&writer, NULL), 0);
    mst_file_writer_discard(&writer);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(test_entries(folder->path), 1);
}

static void folders_are_made_with_their_parents(void **state)
{
    const struct test_folder *folder = *state;
    char path[320], again[330];
    struct stat status;
    test_path(folder, "a/b/c", path);
    (void)snprintf(again, sizeof again, "%s//", path);
    assert_int_equal(mst_make_folders(path, 0700, NULL), 0);
    assert_int_equal(mst_make_folders(path, 0700, NULL), 0);
    assert_int_equal(mst_make_folders(again, 0700, NULL), 0);
    assert_int_equal(mst_make_folders("/", 0700, NULL), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);

    char file[320], below[320];
    test_write(test_path(folder, "a/file", file), "x", 1);
    test_path(folder, "a/file/d", below);
    const struct {
        const char *path;
        int code;
    } cases[] = {{file, -ENOTDIR}, {below, -ENOTDIR}, {"", -ENOENT}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(mst_make_folders(cases[c].path, 0700, &err), cases[c].code);
        assert_true(strlen(err.text) > 0);
    }
    assert_int_equal(unlink(file), 0);
    static const char *const made[] = {"a/b/c", "a/b", "a"};
    for (size_t m = 0; m < MST_ARRAY_COUNT(made); m++)
        assert_int_equal(rmdir(test_path(folder, made[m], path)), 0);
}

static void paths_are_joined_with_one_slash(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"/a/b", "c.txt", "/a/b/c.txt"}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(cases[c][0], cases[c][1]);
        assert_string_equal(path, cases[c][2]);
    }
}

static void plain_names_lead_nowhere_else(void **state)
{
    (void)state;
    char longest[257];
    memset(longest, 'n', sizeof longest);
    longest[255] = '\0';
    static const char *const plain[] = {"a", "a.b", "...", "history-w1.1.csv", " ", "\u00e9", "-rf"};
    static const char *const others[] = {"", ".", "..", "a/b", "/", "../x", "a\nb", "\x1b[2J", "a\x7f"};
    for (size_t c = 0; c < MST_ARRAY_COUNT(plain); c++)
        assert_true(mst_name_is_plain(plain[c]));
    for (size_t c = 0; c < MST_ARRAY_COUNT(others); c++)
        assert_false(mst_name_is_plain(others[c]));
    assert_true(mst_name_is_plain(longest));
    longest[255] = 'n';
    longest[256] = '\0';
    assert_false(mst_name_is_plain(longest));
}

static void writing_to_a_closed_descriptor_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(mst_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(mst_write_all(-1, "", 0), 0);
    mst_cleanup(mst_closep) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(mst_write_all(full, "x", 1), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_read_whole_and_appended, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(only_a_file_or_nothing_is_written_over, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(closed_standard_descriptors_are_taken),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_leaves_the_content_as_it_was, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused_without_a_wait, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(an_atomic_write_replaces_and_leaves_no_other_file, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_keeps_the_old_file_and_cleans_up, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_discarded_writer_leaves_nothing_and_can_be_discarded_again,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(folders_are_made_with_their_parents, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(paths_are_joined_with_one_slash),
        cmocka_unit_test(plain_names_lead_nowhere_else),
        cmocka_unit_test(writing_to_a_closed_descriptor_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
