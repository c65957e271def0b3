/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"
#include "muster/cleanup.h"
#include "passes.h"
#include "record.h"
#include "recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PASSES 23

static const struct metrics_options all = {.kinds = METRICS_ALL, .version = "0.1.0"};
static char folder[] = "/tmp/muster-record-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "%s/file", folder);
    return mkdtemp(folder) ? (snprintf(path, sizeof path, "%s/file", folder), 0) : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct mst_buf page_of(const struct monitor_pass *pass)
{
    struct mst_buf text = MST_BUF_INIT(1 << 22);
    assert_int_equal(metrics_write(pass, &all, &text), 0);
    return text;
}

/* Ticks `from` to `to` into `path`; each block holds three. */
static void record_ticks(uint64_t from, uint64_t to, const struct record_options *more)
{
    static struct made_pass made;
    struct record_options options = more ? *more : (struct record_options){0};
    struct record *record = NULL;
    options.path = path;
    options.version = "0.1.0";
    options.node = "node1";
    options.block_ns = 2000000000;
    assert_int_equal(record_open(&options, &record, NULL), 0);
    for (uint64_t tick = from; tick < to; tick++) {
        make_pass(&made, 2 + tick % 3, tick);
        assert_int_equal(record_add(record, &made.pass, NULL, NULL), 0);
    }
    assert_int_equal(record_close(record, NULL), 0);
}

static void check_ticks(struct recording *recording, uint64_t from, uint64_t to)
{
    static struct made_pass made;
    const struct monitor_pass *pass;
    for (uint64_t tick = from; tick < to; tick++) {
        make_pass(&made, 2 + tick % 3, tick);
        assert_int_equal(recording_next(recording, &pass, NULL), 1);
        struct mst_buf live = page_of(&made.pass), replayed = page_of(pass);
        assert_string_equal(live.bytes, replayed.bytes);
        mst_buf_release(&live);
        mst_buf_release(&replayed);
    }
    assert_int_equal(recording_next(recording, &pass, NULL), 0);
}

static void a_page_comes_back_byte_for_byte(void **state)
{
    struct recording *recording = NULL;
    double first_s, last_s;
    (void)state;
    (void)unlink(path);
    record_ticks(0, PASSES, NULL);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    assert_int_equal(recording_passes(recording), PASSES);
    assert_int_equal(recording_blocks(recording), 8);
    assert_int_equal(recording_torn(recording), 0);
    assert_string_equal(recording_node(recording), "node1");
    recording_span(recording, &first_s, &last_s);
    assert_true(first_s == 1.8e9 + 0.25 && last_s == 1.8e9 + 0.25 + PASSES - 1);
    check_ticks(recording, 0, PASSES);
    assert_int_equal(recording_seek(recording, 1.8e9 + 10, NULL), 0);
    check_ticks(recording, 10, PASSES);
    recording_free(recording);
}

static void rates_know_the_sample_before_over_the_boundary_of_a_block(void **state)
{
    struct recording *recording = NULL;
    const struct monitor_pass *pass;
    double percent;
    (void)state;
    (void)unlink(path);
    record_ticks(0, 9, NULL);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    for (uint64_t tick = 0; tick < 9; tick++) {
        assert_int_equal(recording_next(recording, &pass, NULL), 1);
        const struct monitor_sample *before = &pass->before[1];
        assert_int_equal(monitor_cpu_percent(before->read_ns ? before : NULL, &pass->samples[1], &percent),
                         tick > 0);
    }
    recording_free(recording);
}

static void a_file_is_carried_on(void **state)
{
    struct recording *recording = NULL;
    (void)state;
    (void)unlink(path);
    record_ticks(0, 5, NULL);
    record_ticks(5, PASSES, NULL);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    check_ticks(recording, 0, PASSES);
    recording_free(recording);
}

/* However many bytes a crash has left: what opens is whole, and is all but the last block. */
static void any_cut_loses_at_most_what_was_cut(void **state)
{
    struct recording *recording = NULL;
    struct stat about;
    (void)state;
    (void)unlink(path);
    record_ticks(0, 7, NULL); /* blocks of 3, 3 and 1 */
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    const uint64_t ends[] = {recording_block(recording, 0)->offset, recording_block(recording, 1)->offset,
                             recording_block(recording, 2)->offset, recording_end(recording)};
    recording_free(recording);
    assert_int_equal(stat(path, &about), 0);
    for (off_t size = about.st_size - 1; size > (off_t)ends[0]; size -= size > (off_t)ends[3] ? 1 : 7) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(recording_open(path, &recording, NULL), 0);
        const uint64_t expected = (uint64_t)size >= ends[3]   ? 7
                                  : (uint64_t)size >= ends[2] ? 6
                                  : (uint64_t)size >= ends[1] ? 3
                                                              : 0;
        assert_int_equal(recording_passes(recording), expected);
        check_ticks(recording, 0, expected);
        recording_free(recording);
    }
    record_ticks(0, 7, NULL); /* and a writer goes on behind what is whole */
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    check_ticks(recording, 0, 7);
    recording_free(recording);
}

static void set_byte(off_t offset, int difference)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte = (unsigned char)(byte + difference);
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    assert_int_equal(close(fd), 0);
}

/* Read to its end, or refused with a place. Never anything else. */
static int read_through(struct mst_error *err)
{
    struct recording *recording = NULL;
    const struct monitor_pass *pass;
    int r = recording_open(path, &recording, err);
    while (r == 0 && (r = recording_next(recording, &pass, err)) == 1)
        r = 0;
    recording_free(recording);
    return r;
}

static void a_changed_byte_before_the_last_block_is_refused(void **state)
{
    struct recording *recording = NULL;
    (void)state;
    (void)unlink(path);
    record_ticks(0, 7, NULL);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    const off_t last = (off_t)recording_block(recording, 2)->offset;
    recording_free(recording);
    for (off_t at = 0; at < last; at += 3) {
        struct mst_error err = MST_ERROR_INIT;
        set_byte(at, 1);
        assert_int_equal(read_through(&err), -EBADMSG);
        assert_non_null(strstr(err.text, path));
        set_byte(at, -1);
    }
    assert_int_equal(read_through(NULL), 0);
}

static void other_files_are_refused_with_a_reason(void **state)
{
    struct recording *recording = NULL;
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    assert_int_equal(recording_open("/etc/passwd", &recording, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "no recording"));
    assert_int_equal(recording_open("/nowhere", &recording, &err), -ENOENT);
    assert_int_equal(recording_open("/tmp", &recording, &err), -EISDIR);
    assert_null(recording);
    const struct record_options options = {.path = MUSTER_SOURCE_DIR "/LICENSE", .version = "1", .node = "n"};
    struct record *record = NULL;
    assert_int_equal(record_open(&options, &record, &err), -EBADMSG); /* and it is as it was */
    assert_null(record);
}

static void two_writers_exclude_each_other(void **state)
{
    const struct record_options options = {.path = path, .version = "1", .node = "n"};
    struct record *first = NULL, *second = NULL;
    (void)state;
    (void)unlink(path);
    assert_int_equal(record_open(&options, &first, NULL), 0);
    assert_int_equal(record_open(&options, &second, NULL), -EBUSY);
    assert_int_equal(record_close(first, NULL), 0);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    assert_int_equal(closedir(dir), 0);
    return count;
}

static void full_files_are_set_aside_and_the_oldest_removed(void **state)
{
    const struct record_options options = {.max_bytes = 1, .keep = 3};
    (void)state;
    (void)unlink(path);
    record_ticks(0, PASSES, &options); /* a file for each block */
    assert_int_equal(count_files(), 4);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -f %s/file.*", folder);
    assert_int_equal(system(command), 0);
}

/* RLIMIT_FSIZE stands for a full disk: writes end with EFBIG. */
static void a_full_disk_costs_what_comes_meanwhile_and_the_file_still_opens(void **state)
{
    static struct made_pass made;
    struct recording *recording = NULL;
    const struct monitor_pass *pass;
    (void)state;
    (void)unlink(path);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct record_options options = {
            .path = path, .version = "0.1.0", .node = "node1", .block_ns = 2000000000};
        const struct rlimit limit = {6000, 6000};
        struct record *record = NULL;
        uint64_t lost = 0;
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || record_open(&options, &record, NULL) < 0)
            _exit(1);
        for (uint64_t tick = 0; tick < 60; tick++) {
            make_pass(&made, 4, tick);
            if (record_add(record, &made.pass, &lost, NULL) < 0)
                _exit(2);
        }
        _exit(lost > 0 && record_close(record, NULL) == 0 ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    assert_int_equal(recording_torn(recording), 0);
    uint64_t count = 0;
    while (recording_next(recording, &pass, NULL) == 1)
        count++;
    assert_true(count > 0 && count < 60);
    recording_free(recording);
}

static bool limit_file_size(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    return signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static void a_start_on_a_full_disk_leaves_no_half_of_a_header(void **state)
{
    const struct record_options options = {.path = path, .version = "0.1.0", .node = "node1"};
    struct record *record = NULL;
    struct stat about;
    (void)state;
    (void)unlink(path);
    assert_true(limit_file_size(10));
    assert_int_equal(record_open(&options, &record, NULL), -EFBIG);
    assert_null(record);
    assert_true(limit_file_size(RLIM_INFINITY));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 0);
    assert_int_equal(record_open(&options, &record, NULL), 0); /* with room again */
    assert_int_equal(record_close(record, NULL), 0);
}

/* Three ticks, so one block. */
static int add_block(struct record *record, uint64_t tick, double wall_s, uint64_t *ret_lost)
{
    static struct made_pass made;
    int r = 0;
    for (uint64_t end = tick + 3; r == 0 && tick < end; tick++) {
        make_pass(&made, 2, tick);
        made.pass.wall_s = wall_s;
        r = record_add(record, &made.pass, ret_lost, NULL);
    }
    return r;
}

static void no_file_is_begun_while_the_disk_is_full(void **state)
{
    struct record_options options = {
        .path = path, .version = "0.1.0", .node = "node1", .block_ns = 2000000000};
    struct record *record = NULL;
    struct recording *recording = NULL;
    uint64_t lost = 0;
    (void)state;
    (void)unlink(path);
    assert_int_equal(record_open(&options, &record, NULL), 0);
    assert_int_equal(add_block(record, 0, 1000, NULL), 0);
    assert_int_equal(record_close(record, NULL), 0);
    options.max_age_ns = 3600000000000; /* it is that old already */
    assert_int_equal(record_open(&options, &record, NULL), 0);
    assert_true(limit_file_size(10));
    assert_int_equal(add_block(record, 3, 2000, &lost), 0);
    assert_int_equal(lost, 3);
    assert_true(limit_file_size(RLIM_INFINITY));
    assert_int_equal(count_files(), 1);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    assert_int_equal(recording_passes(recording), 3);
    recording_free(recording);
    assert_int_equal(add_block(record, 6, 3000, &lost), 0); /* there is room again: the next file, too */
    assert_int_equal(lost, 3);
    assert_int_equal(record_close(record, NULL), 0);
    assert_int_equal(count_files(), 2);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -f %s/file.*", folder);
    assert_int_equal(system(command), 0);
}

static void without_a_next_file_the_old_one_goes_on(void **state)
{
    static struct made_pass made;
    const struct record_options options = {
        .path = path, .version = "0.1.0", .node = "node1", .block_ns = 2000000000, .max_bytes = 1};
    struct record *record = NULL;
    struct recording *recording = NULL;
    char next[80];
    (void)state;
    (void)unlink(path);
    (void)snprintf(next, sizeof next, "%s.new", path);
    assert_int_equal(mkdir(next, 0700), 0); /* stands in its way */
    assert_int_equal(record_open(&options, &record, NULL), 0);
    for (uint64_t tick = 0; tick < 9; tick++) {
        make_pass(&made, 2 + tick % 3, tick);
        assert_int_equal(record_add(record, &made.pass, NULL, NULL), 0);
    }
    assert_int_equal(count_files(), 2); /* that, and the one file */
    assert_int_equal(rmdir(next), 0);
    for (uint64_t tick = 9; tick < 15; tick++) {
        make_pass(&made, 2 + tick % 3, tick);
        assert_int_equal(record_add(record, &made.pass, NULL, NULL), 0);
    }
    assert_int_equal(record_close(record, NULL), 0);
    assert_int_equal(count_files(), 3);
    size_t count;
    char **paths = record_files(path, &count);
    assert_int_equal(count, 3);
    assert_int_equal(recording_open(paths[0], &recording, NULL), 0);
    check_ticks(recording, 0, 12);
    recording_free(recording);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(unlink(paths[i]), 0);
        free(paths[i]);
    }
    free(paths);
}

static void a_killed_writer_loses_at_most_the_last_block(void **state)
{
    static struct made_pass made;
    struct recording *recording = NULL;
    (void)state;
    (void)unlink(path);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct record_options options = {
            .path = path, .version = "0.1.0", .node = "node1", .block_ns = 2000000000};
        struct record *record = NULL;
        if (record_open(&options, &record, NULL) < 0)
            _exit(1);
        for (uint64_t tick = 0; tick < 20; tick++) {
            make_pass(&made, 2 + tick % 3, tick);
            (void)record_add(record, &made.pass, NULL, NULL);
        }
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(recording_open(path, &recording, NULL), 0);
    assert_int_equal(recording_passes(recording), 18);
    check_ticks(recording, 0, 18);
    recording_free(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_comes_back_byte_for_byte),
        cmocka_unit_test(rates_know_the_sample_before_over_the_boundary_of_a_block),
        cmocka_unit_test(a_file_is_carried_on),
        cmocka_unit_test(any_cut_loses_at_most_what_was_cut),
        cmocka_unit_test(a_changed_byte_before_the_last_block_is_refused),
        cmocka_unit_test(other_files_are_refused_with_a_reason),
        cmocka_unit_test(two_writers_exclude_each_other),
        cmocka_unit_test(full_files_are_set_aside_and_the_oldest_removed),
        cmocka_unit_test(a_full_disk_costs_what_comes_meanwhile_and_the_file_still_opens),
        cmocka_unit_test(a_start_on_a_full_disk_leaves_no_half_of_a_header),
        cmocka_unit_test(no_file_is_begun_while_the_disk_is_full),
        cmocka_unit_test(without_a_next_file_the_old_one_goes_on),
        cmocka_unit_test(a_killed_writer_loses_at_most_the_last_block),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
