/* SPDX-License-Identifier: Apache-2.0 */
/* Where events come from: containers' logs that end and are followed again, and files that are replaced. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "scripted_engine.h"
#include "target.h"
#include "training.h"

#include <sys/stat.h>

#define PATIENCE_NS (30 * MST_NS_PER_S) /* far more than any of this takes */

enum { SAME_CLOCK, CLOCK_SET_BACK };

/* One message as the engine frames it. */
static void say_message(const struct scripted_counts *counts, int fd, const char *at, const char *text)
{
    char message[512];
    const bool has_timestamps = atomic_load(&counts->has_timestamps);
    const int bytes = snprintf(message, sizeof message, "%s%s%s", has_timestamps ? at : "",
                               has_timestamps ? " " : "", text);
    const unsigned char head[8] = {
        1, 0, 0, 0, 0, 0, (unsigned char)(bytes / 256), (unsigned char)(bytes % 256)};
    (void)!write(fd, head, sizeof head);
    (void)!write(fd, message, (size_t)bytes);
}

/* The first time it ends amid a line, which the engine has in two parts. */
static void reply_log(struct scripted_counts *counts, int fd, int which)
{
    say(fd,
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: close\r\n\r\n");
    say_message(counts, fd, "2026-01-01T00:00:01.000000000Z",
                "{\"event\":\"gauge\",\"name\":\"queue\",\"value\":1}\n");
    say_message(counts, fd, "2026-01-01T00:00:02.000000000Z", "{\"event\":\"lost\"}\n");
    say_message(counts, fd, "2026-01-01T00:00:03.000000000Z", "{\"event\":\"check");
    if (which == 1)
        return;
    say_message(counts, fd, "2026-01-01T00:00:03.000000000Z", "point\"}\n");
    say_message(counts, fd,
                atomic_load(&counts->phase) == CLOCK_SET_BACK ? "2025-01-01T00:00:00.000000000Z"
                                                              : "2026-01-01T00:00:04.000000000Z",
                "{\"event\":\"gauge\",\"name\":\"queue\",\"value\":2}\n");
    hold(fd);
}

struct fixture {
    struct scripted_engine scripted;
    struct engine *engine;
    struct engine_streams *streams;
    struct target target, *targets[1];
    struct roster roster;
    struct trainings trainings;
};

static void begin(struct fixture *f, const char *host, const char *const *files)
{
    const struct engine_options options = {.host = host};
    assert_int_equal(engine_new(&options, &f->engine, NULL), 0);
    assert_int_equal(engine_streams_new(f->engine, &f->streams, NULL), 0);
    (void)snprintf(f->target.info.id, sizeof f->target.info.id, "%s", CONTAINER_ID);
    (void)snprintf(f->target.info.name, sizeof f->target.info.name, "broker");
    f->target.info.has_events = true;
    f->targets[0] = &f->target;
    f->roster = (struct roster){.targets = f->targets, .count = 1};
    assert_int_equal(trainings_init(&f->trainings, files, NULL), 0);
}

static void end(struct fixture *f)
{
    trainings_release(&f->trainings);
    engine_streams_free(f->streams);
    engine_free(f->engine);
}

static void follow_again(int phase)
{
    static struct fixture f; /* a target is large */
    const struct monitor_training *list = NULL;
    const uint64_t deadline_ns = mst_now_ns() + PATIENCE_NS;
    f = (struct fixture){.scripted = {.logs = reply_log}};
    scripted_engine_start(&f.scripted);
    atomic_store(&f.scripted.counts->phase, phase);
    begin(&f, f.scripted.host, NULL);
    do {
        assert_true(mst_now_ns() < deadline_ns);
        assert_int_equal(trainings_follow(&f.trainings, &f.roster, f.streams, NULL), 0);
        assert_int_equal(engine_streams_run(f.streams, 50, NULL, NULL), 0);
        assert_int_equal(trainings_list(&f.trainings, &list), 1);
    } while (list->gauge_count == 0 || list->gauges[0].value < 1.5);
    assert_int_equal(atomic_load(&f.scripted.counts->logs), 2);
    assert_int_equal(list->gauges[0].reports, 2);
    assert_int_equal(list->lost, 1);
    assert_int_equal(list->checkpoints, 1);
    end(&f);
    scripted_engine_stop(&f.scripted);
}

static void what_a_log_tells_again_is_not_counted_again(void **state)
{
    (void)state;
    follow_again(SAME_CLOCK);
}

static void what_follows_the_last_line_is_new_whatever_time_it_bears(void **state)
{
    (void)state;
    follow_again(CLOCK_SET_BACK);
}

static void more_logs_than_are_followed_end_nothing(void **state)
{
    enum { MOST = 1024 };
    static const char *files[MOST + 1];
    static struct fixture f;
    (void)state;
    f = (struct fixture){.trainings = {.count = 0}};
    for (size_t i = 0; i < MOST; i++)
        files[i] = "/nowhere";
    begin(&f, "unix:///nowhere", files);
    for (int i = 0; i < 2; i++)
        assert_int_equal(trainings_follow(&f.trainings, &f.roster, f.streams, NULL), 0);
    assert_int_equal(f.trainings.count, MOST);
    end(&f);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void add_to_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static uint64_t step_of(struct trainings *trainings)
{
    const struct monitor_training *list = NULL;
    assert_int_equal(trainings_list(trainings, &list), 1);
    return list->step;
}

#define PROGRESS(step) "{\"event\":\"progress\",\"slot\":\"w1.1\",\"step\":" step "}\n"

static void a_file_that_was_replaced_or_cut_is_read_from_its_start(void **state)
{
    char folder[] = "/tmp/muster-training-XXXXXX", path[64], old[64], command[64];
    struct trainings trainings;
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/events", folder);
    (void)snprintf(old, sizeof old, "%s/events.1", folder);
    const char *const files[] = {path, NULL};
    assert_int_equal(trainings_init(&trainings, files, NULL), 0);
    write_file(path, PROGRESS("1") PROGRESS("2"));
    assert_int_equal(step_of(&trainings), 2);
    write_file(path, PROGRESS("3")); /* cut */
    assert_int_equal(step_of(&trainings), 3);
    assert_int_equal(rename(path, old), 0);
    add_to_file(old, PROGRESS("4")); /* its writer has not noticed yet */
    assert_int_equal(step_of(&trainings), 4);
    write_file(path, "");
    add_to_file(old, PROGRESS("5"));
    assert_int_equal(step_of(&trainings), 5);
    add_to_file(old, PROGRESS("6") "{\"event\":"); /* and it never ends this line */
    add_to_file(path, PROGRESS("7"));
    assert_int_equal(step_of(&trainings), 7);
    add_to_file(path, PROGRESS("8"));
    assert_int_equal(step_of(&trainings), 8);
    trainings_release(&trainings);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_log_tells_again_is_not_counted_again),
        cmocka_unit_test(what_follows_the_last_line_is_new_whatever_time_it_bears),
        cmocka_unit_test(more_logs_than_are_followed_end_nothing),
        cmocka_unit_test(a_file_that_was_replaced_or_cut_is_read_from_its_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
