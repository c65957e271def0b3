/* SPDX-License-Identifier: Apache-2.0 */
/* The job's thread and a collector that breaks off. */
#include "control.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "runner.h"
#include "test.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#define LIMIT_NS (10 * MST_NS_PER_S)

/* ---- a job that ends at once, and has no files ---- */

static int enter(void *job, struct job_view *view, struct mst_error *err)
{
    (void)job, (void)view, (void)err;
    return 0;
}

static int run(void *job, struct job_view *view, struct job_result *ret_result, struct mst_error *err)
{
    (void)job, (void)view, (void)err;
    *ret_result = (struct job_result){.step = 3};
    return 0;
}

static void leave(void *job)
{
    (void)job;
}

static int file(void *job, size_t index, struct job_file *ret_file, struct mst_error *err)
{
    (void)job, (void)index, (void)ret_file, (void)err;
    return 0;
}

static const struct job_kind kind = {
    .name = "test", .enter = enter, .run = run, .leave = leave, .file = file};

/* ---- a collector ---- */

struct collector {
    struct discovery_self self;
    int listen_fd;
    size_t breaks; /* so many connections are closed when they say that all is there */
    size_t told;   /* how often that was said */
};

static struct discovery_self self_of(uint8_t number, enum discovery_role role, uint16_t port)
{
    struct discovery_self self = {.key_count = 1};
    struct discovery_identity *identity = &self.identity;
    identity->role = role;
    identity->ipv4 = INADDR_LOOPBACK;
    identity->port = port;
    memset(identity->incarnation, number, sizeof identity->incarnation);
    (void)snprintf(identity->cluster, sizeof identity->cluster, "test");
    (void)snprintf(identity->slot, sizeof identity->slot, "w%u", (unsigned)number);
    return self;
}

/* To the word that all is there, or to the end: 1 or 0. */
static int await_complete(int fd, struct discovery_frames *frames)
{
    for (;;) {
        uint16_t type;
        const uint8_t *payload;
        size_t count, taken;
        char bytes[4096];
        while (discovery_frames_next(frames, &type, &payload, &count, NULL) == 1)
            if (type == CONTROL_COMPLETE)
                return 1;
        if (mst_wait_fd(fd, POLLIN, mst_now_ns() + LIMIT_NS) < 0)
            return 0;
        const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got <= 0 || discovery_frames_feed(frames, bytes, (size_t)got, &taken, NULL) < 0)
            return 0;
    }
}

static void serve(struct collector *collector, int fd, const struct discovery_session *session)
{
    struct discovery_frames frames;
    mst_cleanup(mst_buf_release) struct mst_buf out = MST_BUF_INIT(4096);
    assert_int_equal(discovery_frames_init(&frames, session, NULL), 0);
    if (await_complete(fd, &frames) && collector->told++ >= collector->breaks) {
        char byte;
        assert_int_equal(discovery_frames_pack(&frames, CONTROL_STORED, "", 0, &out, NULL), 0);
        assert_int_equal(mst_send_all(fd, out.bytes, out.count, mst_now_ns() + LIMIT_NS), 0);
        (void)mst_receive_all(fd, &byte, 1, mst_now_ns() + LIMIT_NS); /* until it closes */
    }
    discovery_frames_release(&frames);
}

static void *collector_main(void *context)
{
    struct collector *collector = context;
    while (collector->told <= collector->breaks) {
        uint32_t ipv4;
        uint16_t port;
        struct discovery_hello hello;
        if (mst_wait_fd(collector->listen_fd, POLLIN, mst_now_ns() + LIMIT_NS) < 0)
            return NULL;
        mst_cleanup(mst_closep) int fd = mst_tcp_accept(collector->listen_fd, &ipv4, &port);
        if (fd < 0 || discovery_hello_listener(&hello, &collector->self, NULL, NULL, ipv4, port, NULL) < 0)
            return NULL;
        if (discovery_hello_run(&hello, fd, mst_now_ns() + LIMIT_NS, NULL) == 0)
            serve(collector, fd, &hello.session);
        discovery_hello_release(&hello);
    }
    return NULL;
}

/* ---- tests ---- */

static enum runner_stage await_end(struct runner *runner, struct mst_error *ret_err)
{
    struct job_result result;
    const uint64_t until_ns = mst_now_ns() + 2 * LIMIT_NS;
    for (;;) {
        const enum runner_stage stage = runner_stage(runner, &result, ret_err);
        if (stage == RUNNER_COMPLETED || stage == RUNNER_FAILED)
            return stage;
        if (mst_wait_fd(runner_fd(runner), POLLIN, until_ns) < 0)
            return stage;
    }
}

static void a_collector_that_breaks_off_is_told_again_that_all_is_there(void **state)
{
    (void)state;
    static const struct {
        size_t breaks;
        enum runner_stage stage;
        int code;
    } cases[] = {{0, RUNNER_COMPLETED, 0}, {2, RUNNER_COMPLETED, 0}, {100, RUNNER_FAILED, -EREMOTEIO}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct collector collector = {.breaks = cases[c].breaks};
        uint16_t port;
        pthread_t thread;
        assert_int_equal(mst_tcp_listen(INADDR_LOOPBACK, 0, 8, &collector.listen_fd, &port, NULL), 0);
        collector.self = self_of(9, DISCOVERY_ROLE_COLLECTOR, port);
        assert_int_equal(pthread_create(&thread, NULL, collector_main, &collector), 0);

        const struct job job = {.kind = &kind};
        const uint64_t step = 3;
        const struct discovery_self self = self_of(1, DISCOVERY_ROLE_WORKER, DISCOVERY_PORT);
        const struct runner_options options = {.job = &job,
                                               .view = 1,
                                               .world = 1,
                                               .members = &self.identity,
                                               .steps = &step,
                                               .self = self,
                                               .collect = true};
        struct runner *runner = NULL;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(runner_start(&options, &runner, NULL), 0);
        runner_give_collector(runner, &collector.self.identity);
        runner_give_all_done(runner);
        assert_int_equal(await_end(runner, &err), cases[c].stage);
        assert_int_equal(err.code, cases[c].code);
        assert_int_equal(runner_lacks_collector(runner), cases[c].breaks > 0); /* told once */
        assert_false(runner_lacks_collector(runner));
        assert_int_equal(runner_stop(runner, 5000), 0);
        (void)shutdown(collector.listen_fd, SHUT_RDWR);
        assert_int_equal(pthread_join(thread, NULL), 0);
        mst_closep(&collector.listen_fd);
        assert_true(cases[c].code < 0 || collector.told == cases[c].breaks + 1);
    }
}

/* Or nobody would, where the chief is stopped in between. */
static void workers_that_are_not_the_chief_tell_that_all_is_there_as_well(void **state)
{
    (void)state;
    struct collector collector = {0};
    uint16_t port;
    pthread_t thread;
    assert_int_equal(mst_tcp_listen(INADDR_LOOPBACK, 0, 8, &collector.listen_fd, &port, NULL), 0);
    collector.self = self_of(9, DISCOVERY_ROLE_COLLECTOR, port);
    assert_int_equal(pthread_create(&thread, NULL, collector_main, &collector), 0);
    const struct job job = {.kind = &kind};
    const uint64_t steps[] = {3, 3};
    const struct discovery_identity members[] = {self_of(2, DISCOVERY_ROLE_WORKER, DISCOVERY_PORT).identity,
                                                 self_of(1, DISCOVERY_ROLE_WORKER, DISCOVERY_PORT).identity};
    const struct runner_options options = {.job = &job,
                                           .view = 1,
                                           .rank = 1,
                                           .world = 2,
                                           .members = members,
                                           .steps = steps,
                                           .self = self_of(1, DISCOVERY_ROLE_WORKER, DISCOVERY_PORT),
                                           .collect = true};
    struct runner *runner = NULL;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(runner_start(&options, &runner, NULL), 0);
    runner_give_collector(runner, &collector.self.identity);
    runner_give_all_done(runner);
    assert_int_equal(await_end(runner, &err), RUNNER_COMPLETED);
    assert_int_equal(runner_stop(runner, 5000), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mst_closep(&collector.listen_fd);
    assert_int_equal(collector.told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collector_that_breaks_off_is_told_again_that_all_is_there),
        cmocka_unit_test(workers_that_are_not_the_chief_tell_that_all_is_there_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
