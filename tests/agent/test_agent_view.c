/* SPDX-License-Identifier: Apache-2.0 */
/* One agent of two without a network: its membership and its job's thread are real, and what the other worker
 * says is made up. */
#include "agent_state.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "test.h"

#include <poll.h>
#include <sys/socket.h>

#define LIMIT_NS (10 * MST_NS_PER_S)
#define VIEW     1

struct fixture {
    struct agent agent;
    struct agent_config config;
    struct agent_work work;
    struct discovery_identity other;
    struct mesh_callbacks says;       /* how the network speaks to the agent */
    uint8_t digest[MST_SHA256_BYTES]; /* that the agent has signed */
    int entering, result;             /* of the job */
    bool goes_on;                     /* it does not end before it is asked to */
    uint64_t position;                /* after it */
    struct pending_data pending[2];
    int events_fd; /* what the agent tells; -1: nobody listens */
};

/* ---- a job that ends at once, or when it is asked to ---- */

static int enter(void *job, struct job_view *view, struct mst_error *err)
{
    const struct fixture *fixture = job;
    (void)view;
    return fixture->entering < 0 ? mst_error_set(err, fixture->entering, "no byte came") : 0;
}

static int run(void *job, struct job_view *view, struct job_result *ret_result, struct mst_error *err)
{
    const struct fixture *fixture = job;
    struct pollfd asked[] = {{.fd = view->cancel_fd, .events = POLLIN},
                             {.fd = view->pause_fd, .events = POLLIN}};
    if (fixture->goes_on && poll(asked, 2, 10000) > 0)
        return asked[0].revents ? mst_error_set(err, -ECANCELED, "stopped") : 1;
    *ret_result = (struct job_result){.step = 3};
    return fixture->result < 0 ? mst_error_set(err, fixture->result, "the job's own fault") : 0;
}

static uint64_t position(void *job)
{
    const struct fixture *fixture = job;
    return fixture->position;
}

static void leave(void *job)
{
    (void)job;
}

static const struct job_kind kind = {
    .name = "test", .enter = enter, .run = run, .position = position, .leave = leave};

/* ---- the agent ---- */

static void take_sent(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct fixture *fixture = context; /* the agent is its first member */
    (void)to;
    if (message->kind == MEMBERSHIP_COMMIT)
        memcpy(fixture->digest, message->digest, sizeof fixture->digest);
}

static struct discovery_identity identity_of(uint8_t number)
{
    struct discovery_identity identity = {
        .role = DISCOVERY_ROLE_WORKER, .ipv4 = 0x0a000000U + number, .port = DISCOVERY_PORT};
    memset(identity.incarnation, number, sizeof identity.incarnation);
    (void)snprintf(identity.cluster, sizeof identity.cluster, "test");
    (void)snprintf(identity.slot, sizeof identity.slot, "w%u", (unsigned)number);
    return identity;
}

/* The other worker, w1, has the lower address and so rank 0: without it there is no quorum. */
static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    if (!fixture)
        return -1;
    struct agent *agent = &fixture->agent;
    fixture->config = (struct agent_config){.workers = 2, .workers_max = 2, .wait_ns = LIMIT_NS};
    fixture->other = identity_of(1);
    fixture->position = 3;
    agent->pending = fixture->pending;
    agent->config = &fixture->config;
    agent->work = &fixture->work;
    agent->job = (struct job){.kind = &kind, .state = fixture};
    agent->station.self.identity = identity_of(2);
    agent->station.self.key_count = 1;
    (void)snprintf(agent->station.slot, sizeof agent->station.slot, "w2");
    agent->start_ns = mst_now_ns();
    fixture->says = agent_mesh_callbacks(agent);
    const struct membership_options options = {
        .self = agent_as_worker(&agent->station.self.identity), .first = 2, .least = 1, .most = 2};
    struct membership_callbacks callbacks = agent_membership_callbacks(agent);
    callbacks.send = take_sent;
    return mst_event_sink_init(&agent->station.events, -1, "w2", NULL) == 0 &&
                   loop_new(&agent->loop, NULL) == 0 &&
                   membership_new(&options, &callbacks, &agent->membership, NULL) == 0 &&
                   membership_start(agent->membership, 3, mst_now_ns(), NULL) == 0
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    struct agent *agent = &fixture->agent;
    const int r = agent->runner ? runner_stop(agent->runner, 5000) : 0;
    membership_free(agent->membership);
    loop_free(agent->loop);
    discovery_workers_release(&agent->known);
    mst_event_sink_release(&agent->station.events);
    free(agent->members);
    agent_change_release(&agent->change);
    free(fixture);
    return r;
}

static void propose(struct fixture *fixture, uint64_t view)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct membership_worker workers[] = {agent_as_worker(&fixture->other),
                                                agent_as_worker(&fixture->agent.station.self.identity)};
    const struct membership_message message = {
        .kind = MEMBERSHIP_PROPOSE, .view = view, .step = 3, .count = 2, .workers = workers};
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
    assert_int_equal(control_pack_membership(&payload, &message), 0);
    assert_int_equal(fixture->says.frame(&fixture->agent, &fixture->other, CONTROL_PROPOSE,
                                         (const uint8_t *)payload.bytes, payload.count, &err),
                     0);
}

/* The two agree, and the job begins. */
static void begin_view(struct fixture *fixture)
{
    struct mst_error err = MST_ERROR_INIT;
    struct membership_message commit = {.kind = MEMBERSHIP_COMMIT, .view = VIEW};
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
    fixture->says.peer_up(&fixture->agent, &fixture->other);
    propose(fixture, VIEW);
    memcpy(commit.digest, fixture->digest, sizeof commit.digest);
    assert_int_equal(control_pack_membership(&payload, &commit), 0);
    assert_int_equal(fixture->says.frame(&fixture->agent, &fixture->other, CONTROL_COMMIT,
                                         (const uint8_t *)payload.bytes, payload.count, &err),
                     0);
    assert_int_equal(fixture->agent.state, AGENT_RUNNING);
    assert_int_equal(fixture->agent.rank, 1);
    assert_non_null(fixture->agent.runner);
}

static void other_is_done(struct fixture *fixture)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct control_done done = {.view = VIEW, .step = 3};
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(128);
    assert_int_equal(control_pack_done(&payload, &done), 0);
    assert_int_equal(fixture->says.frame(&fixture->agent, &fixture->other, CONTROL_DONE,
                                         (const uint8_t *)payload.bytes, payload.count, &err),
                     0);
}

#define UNTIL(fixture, condition)                                                                            \
    do {                                                                                                     \
        const uint64_t until_ns = mst_now_ns() + LIMIT_NS;                                                   \
        while (!(condition)) {                                                                               \
            if (mst_now_ns() > until_ns)                                                                     \
                fail_msg("waited in vain for: %s", #condition);                                              \
            assert_int_equal(loop_run_once((fixture)->agent.loop, mst_now_ns() + 10 * MST_NS_PER_MS, NULL),  \
                             0);                                                                             \
        }                                                                                                    \
    } while (0)

static void deliver_own(struct fixture *fixture)
{
    UNTIL(fixture, fixture->agent.members[fixture->agent.rank].done);
}

/* The job's thread has something to say that the agent has not heard yet. */
static void await_thread(const struct fixture *fixture)
{
    struct pollfd watched = {.fd = runner_fd(fixture->agent.runner), .events = POLLIN};
    assert_int_equal(poll(&watched, 1, 10000), 1);
}

/* ---- tests ---- */

static void all_are_done_and_take_leave(void **state)
{
    struct fixture *fixture = *state;
    begin_view(fixture);
    deliver_own(fixture);
    assert_int_equal(fixture->agent.state, AGENT_RUNNING);
    other_is_done(fixture);
    UNTIL(fixture, fixture->agent.state == AGENT_FAREWELL);
}

/* The chief may still be speaking with the collector while the others are gone. */
static void a_worker_that_goes_when_all_are_done_stops_nobody(void **state)
{
    struct fixture *fixture = *state;
    begin_view(fixture);
    deliver_own(fixture);
    other_is_done(fixture);
    await_thread(fixture);
    fixture->says.peer_down(&fixture->agent, &fixture->other, "it closed the connection");
    assert_int_equal(fixture->agent.state, AGENT_RUNNING);
    UNTIL(fixture, fixture->agent.state == AGENT_FAREWELL);
}

static void a_job_that_completed_before_it_heard_to_stop_is_done(void **state)
{
    struct fixture *fixture = *state;
    begin_view(fixture);
    deliver_own(fixture);
    other_is_done(fixture);
    await_thread(fixture);
    agent_stop_job(&fixture->agent, true, "a test");
    assert_int_equal(fixture->agent.state, AGENT_CHANGING);
    UNTIL(fixture, fixture->agent.state == AGENT_FAREWELL);
}

static void a_job_that_was_stopped_before_all_were_done_is_not_begun_again(void **state)
{
    struct fixture *fixture = *state;
    begin_view(fixture);
    deliver_own(fixture);
    fixture->says.peer_down(&fixture->agent, &fixture->other, "it closed the connection");
    await_thread(fixture);
    other_is_done(fixture); /* its last word, which was on its way */
    UNTIL(fixture, fixture->agent.state == AGENT_FAREWELL);
}

static void the_last_word_may_come_when_nothing_runs_any_more(void **state)
{
    struct fixture *fixture = *state;
    begin_view(fixture);
    deliver_own(fixture);
    fixture->says.peer_down(&fixture->agent, &fixture->other, "it closed the connection");
    UNTIL(fixture, !fixture->agent.runner);
    assert_int_equal(fixture->agent.state, AGENT_CHANGING);
    other_is_done(fixture);
    assert_int_equal(fixture->agent.state, AGENT_FAREWELL);
    other_is_done(fixture); /* said twice */
    assert_int_equal(fixture->agent.state, AGENT_FAREWELL);
}

/* Or the others would wait for a proposal that never comes, until its time to leave is over. */
static void a_fault_of_its_own_is_told_to_a_membership_that_waits_for_the_job_to_stop(void **state)
{
    struct fixture *fixture = *state;
    fixture->result = -EIO;
    begin_view(fixture);
    await_thread(fixture);
    propose(fixture, VIEW + 1);
    assert_int_equal(fixture->agent.state, AGENT_CHANGING);
    UNTIL(fixture, !fixture->agent.runner);
    assert_true(fixture->agent.failed);
    assert_true(fixture->agent.leave_deadline_ns > 0);
    assert_true(fixture->agent.stop_due);
}

/* Or many who join one after the other, each before the view has made its first step, would end the job. */
static void a_view_that_was_good_for_a_step_is_not_fruitless_though_it_is_about_to_be_left(void **state)
{
    struct fixture *fixture = *state;
    fixture->goes_on = true;
    begin_view(fixture);
    fixture->agent.fruitless = 7;
    agent_stop_job(&fixture->agent, false, "a test");
    assert_int_equal(fixture->agent.state, AGENT_CHANGING);
    UNTIL(fixture, !fixture->agent.runner);
    assert_int_equal(fixture->agent.fruitless, 1);
}

/* As after SIGSTOP for longer than `--wait`: when it goes on, it finds its connections closed. */
static void a_worker_that_was_frozen_for_long_has_all_its_time_to_wait_for_the_others(void **state)
{
    struct fixture *fixture = *state;
    fixture->goes_on = true;
    begin_view(fixture);
    fixture->agent.form_deadline_ns = 1; /* the clock stood still here, and nowhere else */
    fixture->says.peer_down(&fixture->agent, &fixture->other, "it closed the connection");
    UNTIL(fixture, !fixture->agent.runner);
    assert_int_equal(fixture->agent.state, AGENT_CHANGING);
    assert_true(fixture->agent.form_deadline_ns > mst_now_ns() + LIMIT_NS / 2);
}

static bool is_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void of_early_data_connections_of_a_peer_the_newest_waits_and_none_without_the_peer(void **state)
{
    struct fixture *fixture = *state;
    struct agent *agent = &fixture->agent;
    struct discovery_identity other = fixture->other;
    int near[3], pair[2];
    fixture->config.workers_max = 2;
    fixture->says.peer_up(agent, &fixture->other);
    other.view = VIEW;
    for (size_t c = 0; c < MST_ARRAY_COUNT(near); c++) {
        assert_int_equal(mst_socket_pair(pair, NULL), 0);
        near[c] = pair[0];
        fixture->says.data(agent, &other, pair[1]);
        assert_int_equal(agent->pending_count, 1);
    }
    assert_true(is_closed(near[0]) && is_closed(near[1]));
    assert_false(is_closed(near[2]));
    fixture->says.peer_down(agent, &fixture->other, "a test");
    assert_int_equal(agent->pending_count, 0);
    assert_true(is_closed(near[2]));
    for (size_t c = 0; c < MST_ARRAY_COUNT(near); c++)
        mst_closep(&near[c]);
}

static void steps_that_are_made_again_are_counted_from_where_the_next_view_begins(void **state)
{
    struct fixture *fixture = *state;
    struct agent *agent = &fixture->agent;
    char text[4096];
    int fds[2];
    assert_int_equal(mst_socket_pair(fds, NULL), 0);
    mst_event_sink_release(&agent->station.events);
    assert_int_equal(mst_event_sink_init(&agent->station.events, fds[1], "w2", NULL), 0);
    fixture->goes_on = true;
    begin_view(fixture);
    assert_true(recv(fds[0], text, sizeof text, 0) > 0); /* the view */
    agent_job_stopped(agent, 9); /* as where parameters were split: the state is that of step 3 again */
    agent->state = AGENT_RUNNING;
    UNTIL(fixture, runner_progress(agent->runner).stepped_ns != 0);
    agent_check_recovered(agent);
    const ssize_t got = recv(fds[0], text, sizeof text - 1, MSG_DONTWAIT);
    assert_true(got > 0);
    text[got] = '\0';
    assert_non_null(strstr(text, "\"recovered\""));
    assert_non_null(strstr(text, "\"steps_repeated\":6"));
    mst_closep(&fds[0]);
    mst_event_sink_release(&agent->station.events);
    agent->station.events.fd = -1;
    mst_closep(&fds[1]);
}

static void where_nothing_comes_about_though_all_are_here_segments_become_smaller(void **state)
{
    struct fixture *fixture = *state;
    fixture->entering = -ETIMEDOUT;
    begin_view(fixture);
    await_thread(fixture);
    fixture->agent.view_began_ns = 0; /* long ago */
    UNTIL(fixture, !fixture->agent.runner);
    assert_int_equal(fixture->agent.station.self.segment_bytes, 1160);
}

/* A first step may take long. */
static void a_loss_says_nothing_of_the_size_of_packets(void **state)
{
    struct fixture *fixture = *state;
    fixture->entering = -EPIPE;
    begin_view(fixture);
    await_thread(fixture);
    fixture->agent.view_began_ns = 0;
    fixture->says.peer_down(&fixture->agent, &fixture->other, "it closed the connection");
    UNTIL(fixture, !fixture->agent.runner);
    assert_int_equal(fixture->agent.station.self.segment_bytes, 0);
}

static void a_worker_that_cannot_keep_what_it_signs_ends_and_blames_nobody_else(void **state)
{
    struct fixture *fixture = *state;
    char missing[] = "/proc/no-such-folder";
    fixture->config.state = missing;
    fixture->says.peer_up(&fixture->agent, &fixture->other);
    propose(fixture, VIEW); /* its frame is a good one: so says the result */
    assert_int_equal(fixture->agent.state, AGENT_ENDED);
    assert_int_equal(fixture->agent.exit_status, MST_EXIT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_done_and_take_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_goes_when_all_are_done_stops_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_that_completed_before_it_heard_to_stop_is_done, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_job_that_was_stopped_before_all_were_done_is_not_begun_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_last_word_may_come_when_nothing_runs_any_more, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_fault_of_its_own_is_told_to_a_membership_that_waits_for_the_job_to_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_view_that_was_good_for_a_step_is_not_fruitless_though_it_is_about_to_be_left, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_worker_that_was_frozen_for_long_has_all_its_time_to_wait_for_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(
            of_early_data_connections_of_a_peer_the_newest_waits_and_none_without_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_that_are_made_again_are_counted_from_where_the_next_view_begins,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(where_nothing_comes_about_though_all_are_here_segments_become_smaller,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_says_nothing_of_the_size_of_packets, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_cannot_keep_what_it_signs_ends_and_blames_nobody_else,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
