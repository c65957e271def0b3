/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"
#include "muster/clock.h"
#include "scripted_engine.h"

#define PATIENCE_NS (10 * MST_NS_PER_S) /* far more than any of this takes */

struct fixture {
    struct scripted_engine engine;
    struct roster roster;
    struct follow follow;
    struct mst_error err;
};

static int begin(struct fixture *f, scripted_reply_fn *events, scripted_reply_fn *list,
                 scripted_reply_fn *inspect, int stop_fd)
{
    *f = (struct fixture){.engine = {.events = events, .list = list, .inspect = inspect}};
    scripted_engine_start(&f->engine);
    roster_init(&f->roster, &v1_paths);
    return follow_init(&f->follow, &f->roster, f->engine.host, NULL, stop_fd, &f->err);
}

static void end(struct fixture *f)
{
    follow_release(&f->follow);
    roster_release(&f->roster);
    scripted_engine_stop(&f->engine);
}

/* Follows until the condition holds; leaves the enclosing test failed when it never does. */
#define FOLLOW_UNTIL(f, condition)                                                                           \
    do {                                                                                                     \
        const uint64_t deadline_ns = mst_now_ns() + PATIENCE_NS;                                             \
        while (!(condition)) {                                                                               \
            assert_true(mst_now_ns() < deadline_ns);                                                         \
            assert_int_equal(follow_run(&(f)->follow, mst_now_ns() + 10 * MST_NS_PER_MS, &(f)->err), 0);     \
        }                                                                                                    \
    } while (0)

static void the_list_and_an_inspect_lead_to_a_sampled_container(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_events_that_stay, reply_list_of_one, reply_inspect, -1), 0);
    assert_false(follow_is_settled(&f.follow));
    FOLLOW_UNTIL(&f, follow_is_settled(&f.follow));
    assert_int_equal(f.roster.count, 1);
    assert_string_equal(f.roster.targets[0]->info.service, "web_w");
    assert_int_equal(atomic_load(&f.engine.counts->lists), 1);
    assert_int_equal(atomic_load(&f.engine.counts->inspects), 1); /* never one for each sample */
    end(&f);
}

/* ---- events ---- */

#define EVENT(action)                                                                                        \
    "{\"Type\":\"container\",\"Action\":\"" action "\",\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}\n"

static void reply_die_when_told(struct scripted_counts *counts, int fd, int which)
{
    (void)which;
    say_events(fd);
    while (atomic_load(&counts->phase) == 0)
        (void)usleep(1000);
    say_chunk(fd, "{\"Type\":\"container\",\"Action\":\"die\","); /* a line may come in any portions */
    say_chunk(fd, "\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}\n");
    hold(fd);
}

static void a_die_event_ends_the_sampling(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_die_when_told, reply_list_of_one, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, f.roster.count == 1);
    atomic_store(&f.engine.counts->phase, 1);
    FOLLOW_UNTIL(&f, f.roster.count == 0);
    end(&f);
}

static void reply_start_after_an_empty_list(struct scripted_counts *counts, int fd, int which)
{
    (void)which;
    say_events(fd);
    while (atomic_load(&counts->lists) == 0)
        (void)usleep(1000);
    say_chunk(fd, EVENT("start"));
    hold(fd);
}

static void reply_empty_list(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say_json(fd, "[]");
}

static void a_start_event_begins_the_sampling(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_start_after_an_empty_list, reply_empty_list, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, f.roster.count == 1);
    end(&f);
}

static void reply_cut_events_twice(struct scripted_counts *counts, int fd, int which)
{
    say_events(fd);
    if (which <= 2) {
        while (atomic_load(&counts->inspects) < which)
            (void)usleep(1000);
        say(fd, "ff\r\n{\"Type\":\"contai"); /* a chunk of 255 bytes that is not to come */
        return;
    }
    hold(fd);
}

static void after_a_cut_events_stream_everything_is_asked_anew(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_cut_events_twice, reply_list_of_one, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, atomic_load(&f.engine.counts->events) >= 3 && follow_is_settled(&f.follow) &&
                         !f.roster.needs_list);
    assert_int_equal(f.roster.count, 1); /* and was sampled all the time */
    assert_true(atomic_load(&f.engine.counts->lists) >= 3);
    assert_true(atomic_load(&f.engine.counts->inspects) >= 3); /* it may have restarted unseen */
    assert_false(f.follow.is_down);
    end(&f);
}

static void reply_cut_while_the_list_is_under_way(struct scripted_counts *counts, int fd, int which)
{
    say_events(fd);
    if (which == 1) {
        while (atomic_load(&counts->phase) != 1)
            (void)usleep(1000);
        return;
    }
    hold(fd);
}

static void reply_second_list_late(struct scripted_counts *counts, int fd, int which)
{
    if (which == 2) {
        atomic_store(&counts->phase, 1);
        while (atomic_load(&counts->phase) != 2)
            (void)usleep(1000);
    }
    reply_list_of_one(counts, fd, which);
}

static void a_list_from_before_the_cut_does_not_count(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(
        begin(&f, reply_cut_while_the_list_is_under_way, reply_second_list_late, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, follow_is_settled(&f.follow));
    f.roster.needs_list = true;
    FOLLOW_UNTIL(&f, f.follow.was_cut_off);
    atomic_store(&f.engine.counts->phase, 2);
    FOLLOW_UNTIL(&f, !f.follow.was_cut_off && follow_is_settled(&f.follow));
    assert_int_equal(atomic_load(&f.engine.counts->lists), 3);
    assert_true(atomic_load(&f.engine.counts->inspects) >= 2);
    end(&f);
}

static void reply_nonsense_once(struct scripted_counts *counts, int fd, int which)
{
    say_events(fd);
    if (which == 1) {
        while (atomic_load(&counts->inspects) == 0)
            (void)usleep(1000);
        say_chunk(fd, "}{ this is no event\n");
    }
    hold(fd);
}

static void a_line_that_is_no_event_makes_it_begin_again(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_nonsense_once, reply_list_of_one, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, atomic_load(&f.engine.counts->events) == 2 && follow_is_settled(&f.follow) &&
                         !f.roster.needs_list);
    assert_int_equal(f.roster.count, 1);
    end(&f);
}

/* ---- lists and inspects ---- */

static void reply_refusal(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say(fd, "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: "
            "26\r\n\r\n{\"message\":\"out of order\"}");
}

static void reply_half_a_list(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say(fd,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[{\"Id\":\"26f9");
}

static void reply_no_list(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    say_json(fd, "{\"message\":\"hello\"}");
}

static void a_first_list_that_cannot_be_had_is_an_error(void **state)
{
    static const struct {
        scripted_reply_fn *list;
        int code;
        const char *text;
    } cases[] = {
        {reply_refusal, -EREMOTEIO, "out of order"},
        {reply_half_a_list, -EPROTO, "containers/json"},
        {reply_no_list, -EBADMSG, "not an array"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        int r = begin(&f, reply_events_that_stay, cases[i].list, reply_inspect, -1);
        const uint64_t deadline_ns = mst_now_ns() + PATIENCE_NS;
        while (r == 0 && mst_now_ns() < deadline_ns)
            r = follow_run(&f.follow, mst_now_ns() + 10 * MST_NS_PER_MS, &f.err);
        assert_int_equal(r, cases[i].code);
        assert_non_null(strstr(f.err.text, cases[i].text));
        end(&f);
    }
}

static void reply_list_then_refusals(struct scripted_counts *counts, int fd, int which)
{
    if (which == 2)
        reply_refusal(counts, fd, which);
    else
        reply_list_of_one(counts, fd, which);
}

static void a_later_list_that_cannot_be_had_is_survived(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_events_that_stay, reply_list_then_refusals, reply_inspect, -1), 0);
    FOLLOW_UNTIL(&f, f.roster.count == 1);
    f.roster.needs_list = true;
    FOLLOW_UNTIL(&f, atomic_load(&f.engine.counts->lists) == 3 && !f.roster.needs_list);
    assert_int_equal(f.roster.count, 1);
    end(&f);
}

static void reply_never(struct scripted_counts *counts, int fd, int which)
{
    (void)counts;
    (void)which;
    hold(fd);
}

static void an_engine_that_does_not_answer_holds_nothing_up(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_events_that_stay, reply_list_of_one, reply_never, -1), 0);
    FOLLOW_UNTIL(&f, atomic_load(&f.engine.counts->inspects) == 1);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(follow_run(&f.follow, start_ns + 50 * MST_NS_PER_MS, &f.err), 0);
    assert_true(mst_ms_since(start_ns) < 2000); /* its request may take 10 s, the tick may not */
    assert_false(follow_is_settled(&f.follow));
    end(&f);
}

static void an_inspect_that_is_refused_leaves_the_others_alone(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(begin(&f, reply_events_that_stay, reply_list_of_one, reply_refusal, -1), 0);
    FOLLOW_UNTIL(&f, follow_is_settled(&f.follow));
    assert_int_equal(f.roster.count, 0);
    assert_false(f.follow.is_down);
    end(&f);
}

/* ---- ends ---- */

static void an_engine_that_is_not_there_is_an_error_with_its_address(void **state)
{
    struct roster roster;
    struct follow follow;
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    roster_init(&roster, &v1_paths);
    assert_int_equal(follow_init(&follow, &roster, "unix:///nonexistent/engine.sock", NULL, -1, &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/engine.sock"));
    follow_release(&follow);
    roster_release(&roster);
}

static void the_stop_descriptor_ends_it_at_once(void **state)
{
    struct fixture f;
    int fds[2];
    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(begin(&f, reply_events_that_stay, reply_list_of_one, reply_inspect, fds[0]), 0);
    FOLLOW_UNTIL(&f, f.roster.count == 1);
    assert_int_equal(write(fds[1], "x", 1), 1);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(follow_run(&f.follow, start_ns + PATIENCE_NS, &f.err), -ECANCELED);
    assert_true(mst_ms_since(start_ns) < 1000);
    end(&f);
    assert_int_equal(close(fds[0]) + close(fds[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_and_an_inspect_lead_to_a_sampled_container),
        cmocka_unit_test(a_die_event_ends_the_sampling),
        cmocka_unit_test(a_start_event_begins_the_sampling),
        cmocka_unit_test(after_a_cut_events_stream_everything_is_asked_anew),
        cmocka_unit_test(a_list_from_before_the_cut_does_not_count),
        cmocka_unit_test(a_line_that_is_no_event_makes_it_begin_again),
        cmocka_unit_test(a_first_list_that_cannot_be_had_is_an_error),
        cmocka_unit_test(a_later_list_that_cannot_be_had_is_survived),
        cmocka_unit_test(an_engine_that_does_not_answer_holds_nothing_up),
        cmocka_unit_test(an_inspect_that_is_refused_leaves_the_others_alone),
        cmocka_unit_test(an_engine_that_is_not_there_is_an_error_with_its_address),
        cmocka_unit_test(the_stop_descriptor_ends_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
