/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"
#include "muster/clock.h"
#include "test.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* Ports nobody else's test uses: the names are those of this network namespace. */
#define PORT ((uint16_t)(20000 + getpid() % 20000))

static void describe(void *context, char text[static HEALTH_TEXT_BYTES])
{
    size_t *questions = context;
    (void)snprintf(text, HEALTH_TEXT_BYTES, "{\"question\":%zu}\n", ++*questions);
}

struct asker {
    uint16_t port;
    int code;
    char text[HEALTH_TEXT_BYTES];
    struct mst_error err;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    asker->code = health_ask(asker->port, asker->text, &asker->err);
    return NULL;
}

static void each_question_gets_the_state_of_its_time(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    struct health *health = NULL;
    size_t questions = 0;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(health_new(loop, PORT, describe, &questions, &health, NULL), 0);
    for (size_t round = 1; round <= 3; round++) {
        struct asker asker = {.port = PORT};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
        const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
        while (questions < round && mst_now_ns() < deadline_ns)
            assert_int_equal(loop_run_once(loop, mst_now_ns() + 50 * MST_NS_PER_MS, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(asker.code, 0);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "{\"question\":%zu}\n", round);
        assert_string_equal(asker.text, expected);
    }
    struct mst_error err = MST_ERROR_INIT;
    struct health *second = NULL;
    assert_int_equal(health_new(loop, PORT, describe, &questions, &second, &err), -EADDRINUSE);
    assert_true(strlen(err.text) > 0);
    assert_null(second);
    health_free(health);
    health_free(NULL);
    assert_int_equal(health_new(loop, PORT, describe, &questions, &health, NULL), 0); /* free again */
    health_free(health);
    loop_free(loop);
}

static void nobody_and_somebody_frozen_are_not_well(void **state)
{
    (void)state;
    struct asker asker = {.port = PORT, .text = "untouched"};
    (void)ask(&asker);
    assert_int_equal(asker.code, -ECONNREFUSED);
    assert_string_equal(asker.text, "untouched");

    struct loop *loop = NULL;
    struct health *health = NULL;
    size_t questions = 0;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(health_new(loop, PORT, describe, &questions, &health, NULL), 0);
    const uint64_t start_ns = mst_now_ns();
    (void)ask(&asker); /* the loop does not run */
    assert_int_equal(asker.code, -ETIMEDOUT);
    assert_true(mst_ms_since(start_ns) < 5000);
    health_free(health);
    loop_free(loop);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "muster-agent/%u", port);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
                     0);
    return fd;
}

/* With no descriptor left, nobody can be accepted: the loop must not turn at full speed, and whoever waits is
 * answered once there is one. */
static void a_shortage_of_descriptors_is_waited_out(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    struct health *health = NULL;
    size_t questions = 0;
    struct rlimit before, none;
    const uint16_t port = PORT;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(health_new(loop, port, describe, &questions, &health, NULL), 0);
    mst_cleanup(mst_closep) int fd = connect_to(port);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    size_t turns = 0;
    for (const uint64_t until_ns = mst_now_ns() + 400 * MST_NS_PER_MS; mst_now_ns() < until_ns; turns++)
        assert_int_equal(loop_run_once(loop, until_ns, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(turns < 10);
    assert_int_equal(questions, 0);
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    char text[HEALTH_TEXT_BYTES];
    ssize_t got = -1;
    while ((got = recv(fd, text, sizeof text, 0)) < 0 && mst_now_ns() < deadline_ns)
        assert_int_equal(loop_run_once(loop, mst_now_ns() + 50 * MST_NS_PER_MS, NULL), 0);
    assert_true(got > 0);
    assert_int_equal(questions, 1);
    health_free(health);
    loop_free(loop);
}

/* Or somebody who asks without end would keep the agent from its heartbeats. */
static void a_crowd_of_askers_is_answered_in_several_turns(void **state)
{
    (void)state;
    struct loop *loop = NULL;
    struct health *health = NULL;
    size_t questions = 0;
    int fds[8];
    const uint16_t port = PORT;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(health_new(loop, port, describe, &questions, &health, NULL), 0);
    for (size_t f = 0; f < MST_ARRAY_COUNT(fds); f++)
        fds[f] = connect_to(port);
    assert_int_equal(loop_run_once(loop, mst_now_ns() + 5 * MST_NS_PER_S, NULL), 0);
    assert_true(questions > 0 && questions < MST_ARRAY_COUNT(fds));
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    while (questions < MST_ARRAY_COUNT(fds) && mst_now_ns() < deadline_ns)
        assert_int_equal(loop_run_once(loop, mst_now_ns() + 50 * MST_NS_PER_MS, NULL), 0);
    assert_int_equal(questions, MST_ARRAY_COUNT(fds));
    for (size_t f = 0; f < MST_ARRAY_COUNT(fds); f++)
        mst_closep(&fds[f]);
    health_free(health);
    loop_free(loop);
}

static void another_user_gets_no_answer(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    struct loop *loop = NULL;
    struct health *health = NULL;
    size_t questions = 0;
    const uint16_t port = PORT;
    assert_int_equal(loop_new(&loop, NULL), 0);
    assert_int_equal(health_new(loop, port, describe, &questions, &health, NULL), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct asker asker = {.port = port};
        if (setuid(65532) < 0)
            _exit(2);
        (void)ask(&asker);
        _exit(asker.code == -EACCES ? 0 : 1);
    }
    assert_true(pid > 0);
    int status = -1;
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    pid_t ended = 0;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && mst_now_ns() < deadline_ns)
        assert_int_equal(loop_run_once(loop, mst_now_ns() + 20 * MST_NS_PER_MS, NULL), 0);
    assert_int_equal(ended, pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(questions, 0);
    health_free(health);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_question_gets_the_state_of_its_time),
        cmocka_unit_test(nobody_and_somebody_frozen_are_not_well),
        cmocka_unit_test(a_shortage_of_descriptors_is_waited_out),
        cmocka_unit_test(a_crowd_of_askers_is_answered_in_several_turns),
        cmocka_unit_test(another_user_gets_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
