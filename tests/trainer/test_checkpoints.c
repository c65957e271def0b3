/* SPDX-License-Identifier: Apache-2.0 */
/* The linker sends the sources' fsync() and write() through here (--wrap in CMakeLists.txt): the one so that
 * a write stays under way for as long as a test wants, the other so that the disk is full when it wants. */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "teams.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: nothing gets through fsync() */
static atomic_bool disk_full;

int __wrap_fsync(int fd)
{
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    return __real_fsync(fd);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (atomic_load(&disk_full)) {
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, bytes, count);
}

#define TINY                                                                                                 \
    "{\"name\":\"tiny\",\"input\":[2,2,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["                   \
    "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":3}]}"

struct fixture {
    struct teams_data data;
    struct trainer_config config;
    char *folder;
    uint8_t job[MST_SHA256_BYTES];
    char reasons[2048]; /* for which files were passed over */
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    void *folder;

    if (!fixture || helper_make_folder(&folder) < 0)
        return -1;
    fixture->folder = folder;
    fixture->data.model = helper_model(TINY);
    fixture->data.train = helper_dataset((struct trainer_shape){.count = 3, .dims = {2, 2, 1}}, 50, 3);
    fixture->config = teams_config(&fixture->data, 1, 0.5);
    *state = fixture;
    return trainer_config_digest(&fixture->config, fixture->job, NULL);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    void *folder = fixture->folder;

    trainer_dataset_free(fixture->data.train);
    trainer_model_free(fixture->data.model);
    free(fixture);
    return helper_remove_folder(&folder);
}

static struct trainer_checkpoints *open_run(const struct fixture *fixture, const char *run)
{
    struct trainer_checkpoints *checkpoints = NULL;
    struct mst_error err = MST_ERROR_INIT;

    if (trainer_checkpoints_open(fixture->folder, fixture->job, run, &checkpoints, &err) < 0)
        fail_msg("%s", err.text);
    return checkpoints;
}

/* A trainer whose state, and an extra, that are known from the step. */
static struct trainer *trainer_at(const struct fixture *fixture, uint64_t step)
{
    struct trainer *trainer = teams_trainer(&fixture->config);

    teams_set_state(trainer, step, (uint32_t)step);
    return trainer;
}

static void check_state(const struct fixture *fixture, const struct trainer *trainer, uint64_t step,
                        uint64_t extra)
{
    struct trainer *expected = trainer_at(fixture, step);

    assert_true(teams_same_state(trainer, expected));
    assert_int_equal(extra, step * 3);
    trainer_free(expected);
}

static int begin(const struct fixture *fixture, struct trainer_checkpoints *checkpoints, uint64_t step,
                 struct mst_error *err)
{
    struct trainer *trainer = trainer_at(fixture, step);
    const uint64_t extra = step * 3;

    const int r = trainer_checkpoints_write(checkpoints, trainer, &extra, sizeof extra, err);
    trainer_free(trainer); /* the state was copied */
    return r;
}

static struct trainer_checkpoint write_one(const struct fixture *fixture,
                                           struct trainer_checkpoints *checkpoints, uint64_t step)
{
    struct trainer_checkpoint checkpoint = {.step = 12345};
    struct mst_error err = MST_ERROR_INIT;

    if (begin(fixture, checkpoints, step, &err) != 0 ||
        trainer_checkpoints_result(checkpoints, true, &checkpoint, &err) != 1)
        fail_msg("%s", err.text);
    assert_int_equal(checkpoint.step, step);
    return checkpoint;
}

static void note_reason(void *context, const char *reason)
{
    struct fixture *fixture = context;
    const size_t used = strlen(fixture->reasons);

    (void)snprintf(fixture->reasons + used, sizeof fixture->reasons - used, "%s\n", reason);
}

/* What a worker that starts anew with this run finds: its step, or -1 and nothing has changed. */
static int64_t restored_step(struct fixture *fixture, const char *run)
{
    struct trainer_checkpoints *checkpoints = open_run(fixture, run);
    struct trainer *trainer = trainer_at(fixture, 1);
    struct trainer_checkpoint checkpoint = {.step = 12345};
    struct mst_error err = MST_ERROR_INIT;
    uint64_t extra = 3;

    fixture->reasons[0] = '\0';
    const int r = trainer_checkpoints_restore(checkpoints, trainer, &extra, sizeof extra, note_reason,
                                              fixture, &checkpoint, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    check_state(fixture, trainer, r == 1 ? checkpoint.step : 1, extra);
    assert_true(r == 1 || checkpoint.step == 12345);
    trainer_free(trainer);
    trainer_checkpoints_free(checkpoints);
    return r == 1 ? (int64_t)checkpoint.step : -1;
}

static char *path_of(const struct fixture *fixture, const char *name)
{
    char *path = mst_path_join(fixture->folder, name);

    assert_non_null(path);
    return path;
}

static bool is_there(const struct fixture *fixture, const char *name)
{
    mst_cleanup(mst_freep) char *path = path_of(fixture, name);
    return access(path, F_OK) == 0;
}

static void write_file(const struct fixture *fixture, const char *name, const void *bytes, size_t count)
{
    mst_cleanup(mst_freep) char *path = path_of(fixture, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* ---- as it should be ----------------------------------------------------------------------------------- */

static void a_worker_that_starts_anew_finds_the_state_as_it_was(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "run 1");
    struct stat status;

    assert_int_equal(restored_step(fixture, "run 1"), -1);
    const struct trainer_checkpoint checkpoint = write_one(fixture, checkpoints, 70);
    assert_string_equal(checkpoint.name, "checkpoint-70.safetensors");
    mst_cleanup(mst_freep) char *path = path_of(fixture, checkpoint.name);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(checkpoint.bytes, status.st_size);
    assert_true(checkpoint.ms > 0);
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "run 1"), 70);
    assert_string_equal(fixture->reasons, "");
}

static void training_goes_on_from_a_checkpoint_to_the_same_bits(void **state)
{
    struct fixture *fixture = *state;
    struct trainer *straight = teams_trainer(&fixture->config), *other = teams_trainer(&fixture->config);
    struct trainer_checkpoints *checkpoints = open_run(fixture, "");
    struct trainer_checkpoint checkpoint;
    struct trainer_step_stats stats;

    for (int i = 0; i < 5; i++)
        assert_int_equal(trainer_step(straight, false, &stats, NULL), 0);
    assert_int_equal(trainer_checkpoints_write(checkpoints, straight, NULL, 0, NULL), 0);
    for (int i = 0; i < 5; i++) /* while it is written */
        assert_int_equal(trainer_step(straight, false, &stats, NULL), 0);
    assert_int_equal(trainer_checkpoints_restore(checkpoints, other, NULL, 0, NULL, NULL, &checkpoint, NULL),
                     1);
    assert_int_equal(trainer_steps_done(other), 5);
    assert_string_equal(checkpoint.name, "checkpoint-5.safetensors");
    for (int i = 0; i < 5; i++)
        assert_int_equal(trainer_step(other, false, &stats, NULL), 0);
    assert_true(teams_same_state(straight, other));
    trainer_checkpoints_free(checkpoints);
    trainer_free(straight);
    trainer_free(other);
}

static void the_last_two_stay_and_no_other_file_is_touched(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a"), *again;

    write_file(fixture, "vow", "v", 1);
    write_file(fixture, "checkpoint-9.safetensors", "damaged", 7);
    for (uint64_t step = 1; step <= 4; step++)
        (void)write_one(fixture, checkpoints, step);
    (void)write_one(fixture, checkpoints, 4); /* a second one of the same step is the same one */
    assert_true(is_there(fixture, "checkpoint-3.safetensors"));
    assert_true(is_there(fixture, "checkpoint-4.safetensors"));
    assert_false(is_there(fixture, "checkpoint-2.safetensors"));
    assert_false(is_there(fixture, "checkpoint-9.safetensors"));
    assert_true(is_there(fixture, "vow"));
    trainer_checkpoints_free(checkpoints);

    /* The one that was taken up counts as the one before. */
    again = open_run(fixture, "a");
    struct trainer *trainer = trainer_at(fixture, 0);
    struct trainer_checkpoint checkpoint;
    uint64_t extra;
    assert_int_equal(
        trainer_checkpoints_restore(again, trainer, &extra, sizeof extra, NULL, NULL, &checkpoint, NULL), 1);
    (void)write_one(fixture, again, 5);
    assert_true(is_there(fixture, "checkpoint-4.safetensors"));
    assert_false(is_there(fixture, "checkpoint-3.safetensors"));
    trainer_free(trainer);
    trainer_checkpoints_free(again);
}

static void clearing_removes_the_checkpoints_of_every_run(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");

    write_file(fixture, "vow", "v", 1);
    (void)write_one(fixture, checkpoints, 1);
    write_file(fixture, "checkpoint-9.safetensors", "another run's", 13);
    assert_int_equal(begin(fixture, checkpoints, 2, NULL), 0); /* perhaps not done yet */
    assert_int_equal(trainer_checkpoints_clear(checkpoints, NULL), 0);
    for (int step = 1; step < 10; step++) {
        char name[TRAINER_CHECKPOINT_NAME_BYTES];
        (void)snprintf(name, sizeof name, "checkpoint-%d.safetensors", step);
        assert_false(is_there(fixture, name));
    }
    assert_true(is_there(fixture, "vow"));
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "a"), -1);
}

static void momentum_is_loaded_from_a_checkpoint_but_not_into_a_trainer_without(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    const struct trainer_checkpoint checkpoint = write_one(fixture, checkpoints, 8);
    mst_cleanup(mst_freep) char *path = path_of(fixture, checkpoint.name);
    struct trainer_config plain = fixture->config;
    struct trainer *with = trainer_at(fixture, 1), *without;

    plain.momentum = 0;
    without = teams_trainer(&plain);
    assert_int_equal(trainer_load(with, path, NULL), 0);
    check_state(fixture, with, 8, 24);
    assert_int_equal(trainer_load(without, path, NULL), 0);
    assert_memory_equal(without->parameters[without->current], with->parameters[with->current],
                        with->count * sizeof(float));
    assert_int_equal(trainer_steps_done(without), 8);
    trainer_free(with);
    trainer_free(without);
    trainer_checkpoints_free(checkpoints);
}

/* ---- damage -------------------------------------------------------------------------------------------- */

static void damage_is_seen_wherever_it_is_and_the_older_one_is_taken(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    struct mst_buf file = MST_BUF_INIT(1000000);
    size_t harmless = 0;

    (void)write_one(fixture, checkpoints, 3);
    const struct trainer_checkpoint newest = write_one(fixture, checkpoints, 7);
    trainer_checkpoints_free(checkpoints);
    mst_cleanup(mst_freep) char *path = path_of(fixture, newest.name);
    assert_int_equal(mst_file_read(path, &file, NULL), 0);
    for (size_t bytes = 0; bytes < file.count; bytes += 1 + bytes % 7) {
        write_file(fixture, newest.name, file.bytes, bytes);
        assert_int_equal(restored_step(fixture, "a"), 3);
        assert_non_null(strstr(fixture->reasons, path));
    }
    for (size_t i = 0; i < file.count; i++) {
        file.bytes[i] = (char)(file.bytes[i] ^ 1 << i % 8);
        write_file(fixture, newest.name, file.bytes, file.count);
        /* Some texts of the header say nothing that matters; restored_step() has compared the state. */
        const int64_t step = restored_step(fixture, "a");
        assert_true(step == 3 || step == 7);
        harmless += step == 7;
        file.bytes[i] = (char)(file.bytes[i] ^ 1 << i % 8);
    }
    assert_true(harmless < 700);
    write_file(fixture, newest.name, file.bytes, file.count);
    assert_int_equal(restored_step(fixture, "a"), 7);
    mst_buf_release(&file);
}

static void what_does_not_belong_here_is_passed_over_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    struct fixture foreign = *fixture;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    struct trainer *trainer = trainer_at(fixture, 1);
    struct mst_buf file = MST_BUF_INIT(1000000);
    mst_cleanup(mst_freep) char *four = path_of(fixture, "checkpoint-4.safetensors");
    mst_cleanup(mst_freep) char *nine = path_of(fixture, "checkpoint-9.safetensors");
    mst_cleanup(mst_freep) char *folder = path_of(fixture, "checkpoint-12.safetensors");

    (void)write_one(fixture, checkpoints, 4);
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "b"), -1);
    assert_non_null(strstr(fixture->reasons, "is of run 'a', this is run 'b'"));

    foreign.job[5] ^= 1;
    assert_int_equal(restored_step(&foreign, "a"), -1);
    assert_non_null(strstr(foreign.reasons, "is of another job"));

    assert_int_equal(mst_file_read(four, &file, NULL), 0);
    write_file(fixture, "checkpoint-11.safetensors", file.bytes, file.count);
    assert_int_equal(restored_step(fixture, "a"), 4);
    assert_non_null(strstr(fixture->reasons, "checkpoint-11.safetensors' holds the state after step 4"));

    trainer->step = 9;
    assert_int_equal(trainer_save(trainer, nine, NULL, NULL), 0);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(restored_step(fixture, "a"), 4);
    assert_non_null(strstr(fixture->reasons, "checkpoint-9.safetensors' is no checkpoint: it has no seal"));
    assert_non_null(
        strstr(fixture->reasons, "checkpoint-12.safetensors': expected a file, and it is a folder"));
    assert_int_equal(rmdir(folder), 0);

    struct trainer_checkpoint checkpoint;
    uint8_t extra[9] = {7};
    checkpoints = open_run(fixture, "a");
    fixture->reasons[0] = '\0';
    assert_int_equal(trainer_checkpoints_restore(checkpoints, trainer, extra, sizeof extra, note_reason,
                                                 fixture, &checkpoint, NULL),
                     0);
    assert_non_null(strstr(fixture->reasons, "does not have the 9 bytes besides the state"));
    assert_int_equal(extra[0], 7);
    trainer_checkpoints_free(checkpoints);
    mst_buf_release(&file);
    trainer_free(trainer);
}

static void what_a_cut_write_left_is_removed_at_the_start(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");

    (void)write_one(fixture, checkpoints, 4);
    write_file(fixture, "checkpoint-5.safetensors.q1W2e3", "half", 4);
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "a"), 4);
    assert_string_equal(fixture->reasons, "");
    assert_false(is_there(fixture, "checkpoint-5.safetensors.q1W2e3"));
}

/* In a process of its own: write checkpoints until killed, and say so after each. */
_Noreturn static void write_for_ever(const struct fixture *fixture, int said_to)
{
    struct trainer_checkpoints *checkpoints = NULL;
    struct trainer_checkpoint checkpoint;

    if (trainer_checkpoints_open(fixture->folder, fixture->job, "a", &checkpoints, NULL) < 0)
        _exit(1);
    for (uint64_t step = 1;; step++) {
        if (begin(fixture, checkpoints, step, NULL) != 0 ||
            trainer_checkpoints_result(checkpoints, true, &checkpoint, NULL) != 1 ||
            write(said_to, &step, sizeof step) != sizeof step)
            _exit(1);
    }
}

static void a_kill_at_any_moment_leaves_a_whole_one(void **state)
{
    struct fixture *fixture = *state;

    for (uint64_t round = 0; round < 20; round++) {
        int fds[2];
        uint64_t said = 0;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(fixture, fds[1]);
        (void)close(fds[1]);
        while (said < 1 + round % 4)
            assert_int_equal(read(fds[0], &said, sizeof said), sizeof said);
        /* No sleep of a fixed length: only some work, so that kills fall into different places. */
        for (volatile uint64_t i = 0; i < round * 20000; i++)
            ;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        for (uint64_t step; read(fds[0], &step, sizeof step) == sizeof step;)
            said = step;
        (void)close(fds[0]);
        /* What was said to be there is there, or a newer one. */
        assert_true(restored_step(fixture, "a") >= (int64_t)said);
        struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
        assert_int_equal(trainer_checkpoints_clear(checkpoints, NULL), 0);
        trainer_checkpoints_free(checkpoints);
    }
}

/* ---- failing and waiting ---------------------------------------------------------------------------------
 */

static void a_full_disk_is_told_once_and_the_older_one_stays(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    struct trainer_checkpoint checkpoint = {.step = 12345};
    struct mst_error err = MST_ERROR_INIT;

    (void)write_one(fixture, checkpoints, 4);
    atomic_store(&disk_full, true);
    assert_int_equal(begin(fixture, checkpoints, 5, NULL), 0);
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "checkpoint-5.safetensors': No space left on device"));
    assert_int_equal(checkpoint.step, 12345);
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, &err), 0);
    assert_int_equal(restored_step(fixture, "a"), 4);
    /* Whoever does not ask is told at the next write, which then begins nothing. */
    assert_int_equal(begin(fixture, checkpoints, 6, NULL), 0);
    int r;
    while ((r = begin(fixture, checkpoints, 7, &err)) == 1)
        (void)sched_yield();
    assert_int_equal(r, -ENOSPC);
    atomic_store(&disk_full, false);
    assert_false(is_there(fixture, "checkpoint-7.safetensors"));
    (void)write_one(fixture, checkpoints, 8);
    assert_true(is_there(fixture, "checkpoint-4.safetensors"));
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "a"), 8);
}

/* The same with the system's own error, from a limit on a file's size. */
static void a_file_that_may_not_grow_is_told_too(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    struct trainer_checkpoint checkpoint;
    struct mst_error err = MST_ERROR_INIT;
    struct rlimit before;

    (void)write_one(fixture, checkpoints, 4);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(begin(fixture, checkpoints, 5, NULL), 0);
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, &err), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "a"), 4);
    assert_false(is_there(fixture, "checkpoint-5.safetensors"));
}

static void a_folder_that_cannot_be_written_is_told_at_the_start(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = NULL;
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_freep) char *below = path_of(fixture, "file/folder");

    write_file(fixture, "file", "", 0);
    assert_true(trainer_checkpoints_open(below, fixture->job, "", &checkpoints, &err) < 0);
    assert_non_null(strstr(err.text, below));
    /* Root may write anywhere; whoever it becomes may not. */
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    const uid_t user = geteuid();
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    const int r = trainer_checkpoints_open(fixture->folder, fixture->job, "", &checkpoints, &err);
    if (user == 0)
        assert_int_equal(seteuid(user), 0);
    assert_int_equal(chmod(fixture->folder, 0755), 0);
    assert_int_equal(r, -EACCES);
    assert_non_null(strstr(err.text, "keep checkpoints in '"));
    assert_null(checkpoints);
}

static void a_write_under_way_makes_the_next_one_be_skipped_and_holds_nobody_up(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
    struct trainer_checkpoint checkpoint;

    (void)pthread_mutex_lock(&gate);
    assert_int_equal(begin(fixture, checkpoints, 4, NULL), 0);
    for (uint64_t step = 5; step < 8; step++) {
        assert_int_equal(begin(fixture, checkpoints, step, NULL), 1);
        assert_int_equal(trainer_checkpoints_result(checkpoints, false, &checkpoint, NULL), 0);
    }
    assert_int_equal(trainer_checkpoints_skipped(checkpoints), 3);
    (void)pthread_mutex_unlock(&gate);
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, NULL), 1);
    assert_int_equal(checkpoint.step, 4);
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, NULL), 0);
    (void)write_one(fixture, checkpoints, 8);
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(restored_step(fixture, "a"), 8);
}

static void freeing_waits_for_the_write_under_way(void **state)
{
    struct fixture *fixture = *state;

    for (uint64_t step = 1; step < 20; step++) {
        struct trainer_checkpoints *checkpoints = open_run(fixture, "a");
        assert_int_equal(begin(fixture, checkpoints, step, NULL), 0);
        trainer_checkpoints_free(checkpoints);
        assert_int_equal(restored_step(fixture, "a"), step);
    }
    trainer_checkpoints_free(NULL);
}

static void odd_names_of_runs_and_large_extras_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_checkpoints *checkpoints = NULL;
    struct trainer *trainer = trainer_at(fixture, 1);
    struct trainer_checkpoint checkpoint;
    uint8_t extra[TRAINER_MAX_EXTRA_BYTES + 1] = {0};
    char name[TRAINER_RUN_MAX_BYTES + 2];

    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(trainer_checkpoints_open(fixture->folder, fixture->job, name, &checkpoints, NULL),
                     -EINVAL);
    assert_int_equal(trainer_checkpoints_open(fixture->folder, fixture->job, "a\nb", &checkpoints, NULL),
                     -EINVAL);
    assert_null(checkpoints);
    name[sizeof name - 2] = '\0';
    memcpy(name, "\"\\\xc3\xa4", 4);
    checkpoints = open_run(fixture, name);
    assert_int_equal(trainer_checkpoints_write(checkpoints, trainer, extra, sizeof extra, NULL), -EINVAL);
    assert_int_equal(
        trainer_checkpoints_restore(checkpoints, trainer, extra, sizeof extra, NULL, NULL, &checkpoint, NULL),
        -EINVAL);
    extra[sizeof extra - 2] = 9;
    assert_int_equal(trainer_checkpoints_write(checkpoints, trainer, extra, sizeof extra - 1, NULL), 0);
    extra[sizeof extra - 2] = 0;
    assert_int_equal(trainer_checkpoints_result(checkpoints, true, &checkpoint, NULL), 1);
    assert_int_equal(trainer_checkpoints_restore(checkpoints, trainer, extra, sizeof extra - 1, note_reason,
                                                 fixture, &checkpoint, NULL),
                     1);
    assert_string_equal(fixture->reasons, "");
    assert_int_equal(extra[sizeof extra - 2], 9);
    trainer_checkpoints_free(checkpoints);
    trainer_free(trainer);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_worker_that_starts_anew_finds_the_state_as_it_was),
        IN_FOLDER(training_goes_on_from_a_checkpoint_to_the_same_bits),
        IN_FOLDER(the_last_two_stay_and_no_other_file_is_touched),
        IN_FOLDER(clearing_removes_the_checkpoints_of_every_run),
        IN_FOLDER(momentum_is_loaded_from_a_checkpoint_but_not_into_a_trainer_without),
        IN_FOLDER(damage_is_seen_wherever_it_is_and_the_older_one_is_taken),
        IN_FOLDER(what_does_not_belong_here_is_passed_over_with_the_reason),
        IN_FOLDER(what_a_cut_write_left_is_removed_at_the_start),
        IN_FOLDER(a_kill_at_any_moment_leaves_a_whole_one),
        IN_FOLDER(a_full_disk_is_told_once_and_the_older_one_stays),
        IN_FOLDER(a_file_that_may_not_grow_is_told_too),
        IN_FOLDER(a_folder_that_cannot_be_written_is_told_at_the_start),
        IN_FOLDER(a_write_under_way_makes_the_next_one_be_skipped_and_holds_nobody_up),
        IN_FOLDER(freeing_waits_for_the_write_under_way),
        IN_FOLDER(odd_names_of_runs_and_large_extras_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
