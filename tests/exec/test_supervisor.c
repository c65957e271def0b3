/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor in a process of its own, with a network part that plays a script. */
#include "../agent/test.h"
#include "environment.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"
#include "supervisor.h"
#include "wire.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define LIMIT_MS 20000

/* ---- the network part's side ---- */

static void say(int wire, enum exec_wire_type type, uint32_t status)
{
    const struct exec_wire_message message = {.type = type, .status = status};
    if (exec_wire_send(wire, &message, NULL) < 0)
        exit(99);
}

static void say_facts(int wire)
{
    struct exec_member members[2] = {{.slot = "a", .ipv4 = 0x7f000001, .agent_port = 7070, .port = 20000},
                                     {.slot = "b", .ipv4 = 0x7f000002, .agent_port = 7070, .port = 20001}};
    const struct exec_facts facts = {
        .view = 1, .rank = 0, .world = 2, .interface = "lo", .subnet = {0x7f000000, 8}, .members = members};
    struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    if (exec_facts_pack(&packed, &facts) < 0)
        exit(99);
    const struct exec_wire_message message = {
        .type = EXEC_WIRE_FACTS, .facts = (const uint8_t *)packed.bytes, .facts_bytes = packed.count};
    if (exec_wire_send(wire, &message, NULL) < 0)
        exit(99);
    mst_buf_release(&packed);
}

/* The next message, which must be of this type; its status. */
static uint32_t await(int wire, enum exec_wire_type type, uint32_t *ret_number)
{
    struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    struct exec_wire_message message;
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_MS * MST_NS_PER_MS;
    for (;;) {
        const int r = exec_wire_receive(wire, &buffer, &message, NULL);
        if (r < 0 || (r == 0 && mst_wait_fd(wire, POLLIN, deadline_ns) < 0))
            exit(98);
        if (r == 1 && message.type == type)
            break;
        if (r == 1 && message.type != EXEC_WIRE_STARTED)
            exit(97);
    }
    mst_buf_release(&buffer);
    if (ret_number)
        *ret_number = message.number;
    return message.status;
}

static void wait_for_a_signal(void)
{
    for (;;)
        (void)pause();
}

/* As an agent that is told to go: it takes its leave, and goes. */
static void leaves(int number)
{
    _exit(128 + number);
}

/* ---- the test's side ---- */

struct run {
    struct exec_settings settings;
    int (*network)(void *context, int wire_fd);
    int sent;          /* signal for the supervisor once the program says "ready"; 0: none */
    int status;        /* of the supervisor */
    char output[4096]; /* of it and of all that it started */
};

static void read_output(struct run *run, int fd, pid_t pid)
{
    size_t count = 0;
    bool sent = run->sent == 0;
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_MS * MST_NS_PER_MS;
    while (count < sizeof run->output - 1) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, mst_ms_until(deadline_ns, LIMIT_MS)) <= 0) {
            (void)kill(pid, SIGKILL);
            fail_msg("the supervisor does not end: %s", run->output);
        }
        const ssize_t got = read(fd, run->output + count, sizeof run->output - 1 - count);
        if (got <= 0)
            break;
        count += (size_t)got;
        run->output[count] = '\0';
        if (!sent && strstr(run->output, "ready")) {
            assert_int_equal(kill(pid, run->sent), 0);
            sent = true;
        }
    }
}

/* Runs `sh -c script` under a supervisor to the end of everything that holds the output open. */
static void supervise(struct run *run, const char *script)
{
    int fds[2];
    char shell[] = "/bin/sh", flag[] = "-c";
    char *text = strdup(script);
    assert_non_null(text);
    char *const command[] = {shell, flag, text, NULL};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    run->output[0] = '\0';
    run->settings.command = command;
    if (run->settings.grace_ns == 0)
        run->settings.grace_ns = 5 * MST_NS_PER_S;
    const pid_t pid = fork();
    if (pid == 0) {
        const struct exec_supervision supervision = {
            .settings = &run->settings, .environment = environ, .network = run->network};
        if (dup2(fds[1], 1) < 0 || dup2(fds[1], 2) < 0)
            _exit(99);
        close(fds[0]);
        close(fds[1]);
        _exit(exec_supervise(&supervision));
    }
    assert_true(pid > 0);
    close(fds[1]);
    read_output(run, fds[0], pid);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    free(text);
}

static void assert_says(const struct run *run, const char *text)
{
    if (!strstr(run->output, text))
        fail_msg("'%s' is not in: %s", text, run->output);
}

/* ---- what CMD returns ---- */

static int runs_once(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    say(wire, EXEC_WIRE_END, await(wire, EXEC_WIRE_EXITED, NULL));
    return 0;
}

static void the_status_of_the_command_is_returned(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int status;
    } cases[] = {{"exit 0", 0},     {"exit 3", 3},          {"exit 255", 255},      {"kill -KILL $$", 137},
                 {"exit 125", 125}, {"kill -TERM $$", 143}, {"/no/such/thing", 127}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run = {.network = runs_once};
        supervise(&run, cases[c].script);
        assert_int_equal(run.status, cases[c].status);
    }
}

static void a_command_that_cannot_be_started_is_as_in_a_shell(void **state)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/file", (const char *)*state);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    const struct {
        char *program;
        int status;
    } cases[] = {{path, 126}, {(char[]){"/no/such/program"}, 127}, {*state, 126}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        char *const command[] = {cases[c].program, NULL};
        const struct exec_settings settings = {.command = command, .grace_ns = MST_NS_PER_S};
        const pid_t pid = fork();
        if (pid == 0) {
            const struct exec_supervision supervision = {
                .settings = &settings, .environment = environ, .network = runs_once};
            const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
            (void)dup2(null, 2);
            _exit(exec_supervise(&supervision));
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), cases[c].status);
    }
}

static void the_command_gets_its_variables_and_nothing_else(void **state)
{
    (void)state;
    struct run run = {.network = runs_once, .settings.frameworks = EXEC_TORCH | EXEC_MPI};
    run.settings.program = "/opt/muster";
    supervise(&run,
              "echo rank=$RANK addr=$MASTER_ADDR rsh=$MUSTER_RSH; cat $MUSTER_HOSTFILE; "
              "dirname $MUSTER_HOSTFILE; ls /proc/self/fd | tr '\\n' ' '; grep -h SigBlk /proc/self/status");
    assert_int_equal(run.status, 0);
    assert_says(&run, "rank=0 addr=127.0.0.1 rsh=/opt/muster rsh\n");
    assert_says(&run, "127.0.0.1 slots=1\n127.0.0.2 slots=1\n");
    assert_says(&run, "0 1 2 3 SigBlk:\t0000000000000000"); /* 3 is the listing itself */
    char *folder = strstr(run.output, "/muster-exec.");
    assert_non_null(folder);
    while (folder > run.output && folder[-1] != '\n')
        folder--;
    *strchr(folder, '\n') = '\0';
    assert_int_equal(access(folder, F_OK), -1); /* removed */
}

/* ---- signals ---- */

static int runs_until_told(void *context, int wire)
{
    (void)context;
    (void)signal(SIGTERM, leaves);
    (void)signal(SIGINT, leaves);
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    (void)await(wire, EXEC_WIRE_EXITED, NULL);
    wait_for_a_signal();
    return 0;
}

static void signals_reach_the_command_and_its_own_status_counts(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *script;
        int status;
    } cases[] = {
        {SIGTERM, "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done", 7},
        {SIGTERM, "echo ready; exec sleep 60", 143},
        {SIGINT, "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done", 9},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run = {.network = runs_until_told, .sent = cases[c].number};
        supervise(&run, cases[c].script);
        assert_int_equal(run.status, cases[c].status);
    }
}

static int hears_nothing(void *context, int wire)
{
    (void)context;
    (void)signal(SIGTERM, SIG_IGN);
    (void)alarm(60); /* should nobody kill it */
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    (void)await(wire, EXEC_WIRE_EXITED, NULL);
    wait_for_a_signal();
    return 0;
}

static void a_network_part_that_does_not_leave_is_killed(void **state)
{
    (void)state;
    struct run run = {.network = hears_nothing, .sent = SIGTERM};
    supervise(&run, "echo ready; exec sleep 60");
    assert_int_equal(run.status, 143);
    assert_says(&run, "does not end: it is killed");
}

static void other_signals_are_passed_on_and_end_nothing_else(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *name;
    } cases[] = {{SIGHUP, "HUP"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGQUIT, "QUIT"}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        char script[200];
        struct run run = {.network = runs_once, .sent = cases[c].number};
        (void)snprintf(script, sizeof script,
                       "trap 'echo got %s; exit 4' %s; echo ready; while :; do sleep 0.05; done",
                       cases[c].name, cases[c].name);
        supervise(&run, script);
        assert_int_equal(run.status, 4);
        assert_says(&run, cases[c].name);
    }
}

static int waits_without_a_command(void *context, int wire)
{
    (void)context, (void)wire;
    (void)signal(SIGTERM, leaves);
    (void)signal(SIGINT, leaves);
    (void)!write(1, "ready\n", 6);
    wait_for_a_signal();
    return 0;
}

static void a_signal_before_the_command_has_started_ends_the_wait(void **state)
{
    (void)state;
    struct run run = {.network = waits_without_a_command, .sent = SIGTERM};
    supervise(&run, "echo never");
    assert_int_equal(run.status, 143);
    assert_null(strstr(run.output, "never"));
    run = (struct run){.network = waits_without_a_command, .sent = SIGINT};
    supervise(&run, "echo never");
    assert_int_equal(run.status, 130);
}

static int is_deaf(void *context, int wire)
{
    (void)context;
    (void)signal(SIGTERM, SIG_IGN);
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    uint32_t asked;
    const uint32_t status = await(wire, EXEC_WIRE_EXITED, &asked);
    return status == 143 && asked == 1 ? 0 : 55;
}

static void the_network_part_hears_that_an_end_was_asked_for(void **state)
{
    (void)state;
    struct run run = {.network = is_deaf, .sent = SIGTERM};
    supervise(&run, "echo ready; exec sleep 60");
    assert_int_equal(run.status, 143);
}

/* ---- stopping and starting again ---- */

static int runs_twice(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    /* Until the program has put its trap up. */
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_MS * MST_NS_PER_MS;
    while (access(getenv("MARK"), F_OK) < 0 && mst_now_ns() < deadline_ns)
        (void)poll(NULL, 0, 5);
    say(wire, EXEC_WIRE_STOP, 0);
    uint32_t asked;
    (void)await(wire, EXEC_WIRE_EXITED, &asked);
    (void)await(wire, EXEC_WIRE_STOPPED, NULL);
    if (asked != 1)
        return 1;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    say(wire, EXEC_WIRE_END, await(wire, EXEC_WIRE_EXITED, NULL));
    return 0;
}

static void run_twice(void **state, struct run *run, const char *script)
{
    char mark[300];
    (void)snprintf(mark, sizeof mark, "%s/mark", (const char *)*state);
    (void)unlink(mark);
    assert_int_equal(setenv("MARK", mark, 1), 0);
    run->network = runs_twice;
    supervise(run, script);
    assert_int_equal(unsetenv("MARK"), 0);
}

static void a_command_is_ended_with_all_that_it_started_and_begun_anew(void **state)
{
    /* A child of the same group, one in a session of its own, and a daemon whose parent is gone: all would
     * hold the output open, and the test would not end. */
    struct run run = {0};
    run_twice(state, &run,
              "if [ -e $MARK ]; then echo second; exit 0; fi; sleep 60 & setsid sleep 60 & "
              "(setsid sh -c 'sleep 60 & sleep 60' &) ; >$MARK; wait");
    assert_int_equal(run.status, 0);
    assert_says(&run, "second\n");
}

static void who_does_not_end_in_its_grace_is_killed(void **state)
{
    struct run run = {.settings.grace_ns = 100 * MST_NS_PER_MS};
    run_twice(state, &run,
              "if [ -e $MARK ]; then echo second; exit 0; fi; trap 'echo deaf' TERM; >$MARK; "
              "while :; do sleep 0.05; done");
    assert_int_equal(run.status, 0);
    assert_says(&run, "second\n");
}

static void a_stopped_process_is_ended_too(void **state)
{
    struct run run = {0};
    run_twice(state, &run, "if [ -e $MARK ]; then echo second; exit 0; fi; >$MARK; kill -STOP $$");
    assert_int_equal(run.status, 0);
}

static void what_a_command_leaves_behind_ends_with_it(void **state)
{
    (void)state;
    struct run run = {.network = runs_once};
    const uint64_t start_ns = mst_now_ns();
    supervise(&run, "sleep 60 & (setsid sleep 60 &) ; exit 5");
    assert_int_equal(run.status, 5);
    assert_true(mst_ms_since(start_ns) < LIMIT_MS);
}

/* ---- programs of other workers ---- */

static int spawn_fds(int wire, uint32_t id, const char *command, int out)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct exec_wire_message message = {
        .type = EXEC_WIRE_SPAWN, .id = id, .text = command, .fds = {null, out, out}};
    const int r = exec_wire_send(wire, &message, NULL);
    close(null);
    return r;
}

static int serves(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    if (spawn_fds(wire, 5, "echo spawned rank=$MUSTER_RANK; exit 6", 1) < 0)
        return 1;
    const uint32_t status = await(wire, EXEC_WIRE_SPAWN_EXITED, NULL);
    say(wire, EXEC_WIRE_END, status);
    return 0;
}

static void programs_of_others_run_where_a_framework_launches(void **state)
{
    (void)state;
    struct run run = {.network = serves, .settings.frameworks = EXEC_MPI};
    supervise(&run, "exit 0");
    assert_int_equal(run.status, 6);
    assert_says(&run, "spawned rank=0\n");

    run = (struct run){.network = serves, .settings.frameworks = EXEC_TORCH};
    supervise(&run, "exit 0");
    assert_int_equal(run.status, 255);
    assert_null(strstr(run.output, "spawned rank"));
    assert_says(&run, "--framework");
}

static int signals_one(void *context, int wire)
{
    (void)context;
    int fds[2];
    char byte;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return 1;
    say_facts(wire);
    if (spawn_fds(wire, 1, "trap 'exit 21' USR1; echo; while :; do sleep 0.05; done", fds[1]) < 0)
        return 1;
    (void)!read(fds[0], &byte, 1);
    const struct exec_wire_message message = {.type = EXEC_WIRE_SIGNAL, .id = 1, .number = SIGUSR1};
    if (exec_wire_send(wire, &message, NULL) < 0)
        return 1;
    say(wire, EXEC_WIRE_END, await(wire, EXEC_WIRE_SPAWN_EXITED, NULL));
    return 0;
}

static void programs_of_others_get_their_signals(void **state)
{
    (void)state;
    struct run run = {.network = signals_one, .settings.frameworks = EXEC_HOROVOD};
    supervise(&run, "exit 0");
    assert_int_equal(run.status, 21);
}

/* ---- a network part that fails, or lies ---- */

static int dies(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    (void)await(wire, EXEC_WIRE_STARTED, NULL);
    (void)kill(getpid(), SIGKILL);
    return 0;
}

static int gives_up(void *context, int wire)
{
    (void)context, (void)wire;
    return 4;
}

static int starts_without_facts(void *context, int wire)
{
    (void)context;
    say(wire, EXEC_WIRE_START, 0);
    wait_for_a_signal();
    return 0;
}

static int starts_twice(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    say(wire, EXEC_WIRE_START, 0);
    wait_for_a_signal();
    return 0;
}

static int speaks_for_the_other_side(void *context, int wire)
{
    (void)context;
    say(wire, EXEC_WIRE_EXITED, 0);
    wait_for_a_signal();
    return 0;
}

static int babbles(void *context, int wire)
{
    (void)context;
    (void)!write(wire, "what?", 5);
    wait_for_a_signal();
    return 0;
}

static void faults_of_the_network_part_end_the_command_with_125(void **state)
{
    (void)state;
    static const struct {
        int (*network)(void *context, int wire);
        const char *says;
    } cases[] = {{dies, "signal 9"},
                 {gives_up, ""},
                 {starts_without_facts, "not to be trusted"},
                 {starts_twice, "not to be trusted"},
                 {speaks_for_the_other_side, "not to be trusted"},
                 {babbles, "not to be trusted"}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct run run = {.network = cases[c].network};
        supervise(&run, "exec sleep 60");
        assert_int_equal(run.status, 125);
        assert_says(&run, cases[c].says);
    }
}

static int leaves_it_running(void *context, int wire)
{
    (void)context;
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    (void)await(wire, EXEC_WIRE_STARTED, NULL);
    return 4;
}

static void with_ignore_a_command_outlives_membership(void **state)
{
    (void)state;
    struct run run = {.network = leaves_it_running, .settings.on_change = EXEC_IGNORE};
    supervise(&run, "sleep 0.3; exit 6");
    assert_int_equal(run.status, 6);
    assert_says(&run, "goes on alone");
    run = (struct run){.network = leaves_it_running, .settings.on_change = EXEC_RESTART};
    supervise(&run, "exec sleep 60");
    assert_int_equal(run.status, 125);
    run = (struct run){.network = leaves_it_running, .settings.on_change = EXEC_IGNORE, .sent = SIGTERM};
    supervise(&run, "trap 'exit 7' TERM; sleep 0.5; echo ready; while :; do sleep 0.05; done");
    assert_int_equal(run.status, 7);
}

static int asks_whether_it_is_watched(void *context, int wire)
{
    (void)context;
    (void)wire;
    /* The supervisor is killed: then this process gets SIGTERM, and says so. */
    (void)signal(SIGTERM, leaves);
    say_facts(wire);
    say(wire, EXEC_WIRE_START, 0);
    (void)await(wire, EXEC_WIRE_STARTED, NULL);
    (void)!write(1, "ready\n", 6);
    wait_for_a_signal();
    return 0;
}

static void nothing_outlives_a_supervisor_that_is_killed(void **state)
{
    (void)state;
    struct run run = {.network = asks_whether_it_is_watched, .sent = SIGKILL};
    supervise(&run, "exec sleep 60"); /* ends only when nobody holds the output any more */
    assert_int_equal(run.status, 1000 + SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_status_of_the_command_is_returned),
        cmocka_unit_test_setup_teardown(a_command_that_cannot_be_started_is_as_in_a_shell, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(the_command_gets_its_variables_and_nothing_else),
        cmocka_unit_test(signals_reach_the_command_and_its_own_status_counts),
        cmocka_unit_test(a_network_part_that_does_not_leave_is_killed),
        cmocka_unit_test(other_signals_are_passed_on_and_end_nothing_else),
        cmocka_unit_test(a_signal_before_the_command_has_started_ends_the_wait),
        cmocka_unit_test(the_network_part_hears_that_an_end_was_asked_for),
        cmocka_unit_test_setup_teardown(a_command_is_ended_with_all_that_it_started_and_begun_anew,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(who_does_not_end_in_its_grace_is_killed, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_stopped_process_is_ended_too, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(what_a_command_leaves_behind_ends_with_it),
        cmocka_unit_test(programs_of_others_run_where_a_framework_launches),
        cmocka_unit_test(programs_of_others_get_their_signals),
        cmocka_unit_test(faults_of_the_network_part_end_the_command_with_125),
        cmocka_unit_test(with_ignore_a_command_outlives_membership),
        cmocka_unit_test(nothing_outlives_a_supervisor_that_is_killed),
    };
    for (int fd = 3; fd < 1024; fd++) /* what this test was started with is not the subject */
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    mst_log_init("test", MST_LOG_INFO, MST_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
