/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on another worker: two agents' launches in threads of this process, joined over loopback by real
 * hellos, with `rsh` in processes of its own. */
#include "../agent/test.h"
#include "group.h"
#include "launch.h"
#include "launch_address.h"
#include "launch_channel.h"
#include "launch_stream.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"
#include "rsh.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define LIMIT_MS 20000
#define PROGRAMS 16

/* One worker: its launch with a loop in a thread, and a listener that does what the mesh does. */
struct agent {
    struct discovery_self self;
    struct loop *loop;
    struct exec_launch *launch;
    int listen_fd;
    pthread_t thread, listener;
    atomic_bool ends;
    struct exec_group programs[PROGRAMS]; /* of the launch's thread */
    uint32_t ids[PROGRAMS];
    atomic_int signals;  /* passed to programs */
    atomic_bool refuses; /* to start anything */
};

static struct agent agents[2];
static uint16_t agent_ports[2];

/* ---- what the supervisor does in life ---- */

static int spawn(void *context, uint32_t id, const char *command, const int fds[static 3],
                 struct mst_error *err)
{
    struct agent *agent = context;
    char shell[] = "/bin/sh", flag[] = "-c";
    char *text = strdup(command);
    char *const argv[] = {shell, flag, text, NULL};
    const struct exec_start start = {.argv = argv, .environment = environ, .fds = fds};
    int r = atomic_load(&agent->refuses) ? mst_error_set(err, -EPERM, "nothing is started here") : -ENOBUFS;
    for (size_t p = 0; p < PROGRAMS && r == -ENOBUFS; p++) {
        if (agent->programs[p].state != EXEC_GROUP_NONE)
            continue;
        agent->ids[p] = id;
        r = exec_group_start(&agent->programs[p], &start, err);
    }
    free(text);
    return r;
}

static void signal_program(void *context, uint32_t id, int number)
{
    struct agent *agent = context;
    for (size_t p = 0; p < PROGRAMS; p++)
        if (agent->programs[p].state != EXEC_GROUP_NONE && agent->ids[p] == id)
            exec_group_signal(&agent->programs[p], number);
    atomic_fetch_add(&agent->signals, 1);
}

static void reap(struct agent *agent)
{
    for (size_t p = 0; p < PROGRAMS; p++) {
        struct exec_group *group = &agent->programs[p];
        int status;
        if (group->state != EXEC_GROUP_RUNNING || waitpid(group->pid, &status, WNOHANG) != group->pid)
            continue;
        group->state = EXEC_GROUP_NONE;
        exec_launch_exited(agent->launch, agent->ids[p], exec_shell_status(status));
    }
}

static void *launch_main(void *context)
{
    struct agent *agent = context;
    while (!atomic_load(&agent->ends)) {
        uint64_t deadline_ns = mst_now_ns() + 10 * MST_NS_PER_MS; /* children end without a sign here */
        if (exec_launch_deadline_ns(agent->launch) < deadline_ns)
            deadline_ns = exec_launch_deadline_ns(agent->launch);
        assert_int_equal(loop_run_once(agent->loop, deadline_ns, NULL), 0);
        reap(agent);
        exec_launch_tick(agent->launch, mst_now_ns());
    }
    return NULL;
}

/* ---- what the mesh does in life ---- */

static enum discovery_reason judge(void *context, const struct discovery_session *session)
{
    (void)context;
    return session->peer.role == DISCOVERY_ROLE_LAUNCH && session->purpose == DISCOVERY_PURPOSE_CONTROL
               ? DISCOVERY_REASON_NONE
               : DISCOVERY_REASON_ROLE;
}

static void *listener_main(void *context)
{
    struct agent *agent = context;
    while (!atomic_load(&agent->ends)) {
        uint32_t ipv4;
        uint16_t port;
        struct mst_error err = MST_ERROR_INIT;
        if (mst_wait_fd(agent->listen_fd, POLLIN, mst_now_ns() + 10 * MST_NS_PER_MS) < 0)
            continue;
        int fd = mst_tcp_accept(agent->listen_fd, &ipv4, &port);
        if (fd < 0)
            continue;
        struct discovery_hello hello;
        int r = discovery_hello_listener(&hello, &agent->self, judge, NULL, ipv4, port, &err);
        if (r == 0)
            r = discovery_hello_run(&hello, fd, mst_now_ns() + MST_NS_PER_S, &err);
        if (r >= 0)
            exec_launch_give(agent->launch, &hello.session, fd);
        else
            close(fd);
        discovery_hello_release(&hello);
    }
    return NULL;
}

/* ---- the two of them ---- */

static void open_agent(struct agent *agent, uint8_t number)
{
    struct discovery_identity *identity = &agent->self.identity;
    *agent = (struct agent){.listen_fd = -1};
    (void)snprintf(identity->cluster, sizeof identity->cluster, "test");
    (void)snprintf(identity->slot, sizeof identity->slot, "w%u", (unsigned)number);
    identity->role = DISCOVERY_ROLE_WORKER;
    identity->incarnation[0] = number;
    identity->ipv4 = INADDR_LOOPBACK + number;
    agent->self.key_count = 1;
    agent->self.keys[0].count = 32;
    memset(agent->self.keys[0].bytes, 'k', 32);
    assert_int_equal(mst_tcp_listen(identity->ipv4, 0, 16, &agent->listen_fd, &identity->port, NULL), 0);
    agent_ports[number - 1] = identity->port;
    assert_int_equal(loop_new(&agent->loop, NULL), 0);
    const struct exec_launch_options options = {
        .loop = agent->loop,
        .self = &agent->self,
        .uid = geteuid(),
        .context = agent,
        .spawn = spawn,
        .signal = signal_program,
    };
    assert_int_equal(exec_launch_new(&options, &agent->launch, NULL), 0);
}

static void fill(struct exec_record *record, const struct agent *agent)
{
    const struct discovery_identity *identity = &agent->self.identity;
    *record =
        (struct exec_record){.member = {.ipv4 = identity->ipv4, .agent_port = identity->port, .port = 20000}};
    memcpy(record->incarnation, identity->incarnation, sizeof record->incarnation);
    memcpy(record->member.slot, identity->slot, sizeof record->member.slot);
}

static int set_up(char key_of_second)
{
    struct exec_record records[2];
    for (uint8_t a = 0; a < 2; a++)
        open_agent(&agents[a], (uint8_t)(a + 1));
    memset(agents[1].self.keys[0].bytes, key_of_second, 32);
    for (size_t a = 0; a < 2; a++)
        fill(&records[a], &agents[a]);
    for (size_t a = 0; a < 2; a++) {
        struct agent *agent = &agents[a];
        assert_int_equal(exec_launch_set_members(agent->launch, records, 2, NULL), 0);
        assert_int_equal(pthread_create(&agent->thread, NULL, launch_main, agent), 0);
        assert_int_equal(pthread_create(&agent->listener, NULL, listener_main, agent), 0);
    }
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return set_up('k');
}

static int setup_keys_differ(void **state)
{
    (void)state;
    return set_up('x');
}

static int teardown(void **state)
{
    (void)state;
    for (size_t a = 0; a < 2; a++) {
        struct agent *agent = &agents[a];
        atomic_store(&agent->ends, true);
        assert_int_equal(pthread_join(agent->thread, NULL), 0);
        assert_int_equal(pthread_join(agent->listener, NULL), 0);
        exec_launch_free(agent->launch);
        loop_free(agent->loop);
        close(agent->listen_fd);
        for (size_t p = 0; p < PROGRAMS; p++)
            if (agent->programs[p].state != EXEC_GROUP_NONE) {
                exec_group_signal(&agent->programs[p], SIGKILL);
                (void)waitpid(agent->programs[p].pid, NULL, 0);
            }
    }
    return 0;
}

/* ---- rsh in a process ---- */

struct remote {
    pid_t pid;
    int in, out, errors;
    char output[8192], error[2048];
    int status;
};

static void rsh_start(struct remote *remote, size_t from, const char *const *arguments)
{
    int in[2], out[2], errors[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
    char port[16];
    (void)snprintf(port, sizeof port, "%u", (unsigned)agent_ports[from]);
    remote->pid = fork();
    if (remote->pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(errors[1], 2) < 0)
            _exit(99);
        for (int fd = 3; fd < 256; fd++) /* ends of pipes would keep them open */
            close(fd);
        (void)setenv("MUSTER_PORT", port, 1);
        /* As a program of its own: after fork() alone, locks of the other threads may be held for ever. */
        const char *argv[16] = {"rsh"};
        for (size_t a = 0; arguments[a]; a++)
            argv[a + 1] = arguments[a];
        (void)execv("/proc/self/exe", (char **)(uintptr_t)argv);
        _exit(98);
    }
    assert_true(remote->pid > 0);
    close(in[0]);
    close(out[1]);
    close(errors[1]);
    remote->in = in[1];
    remote->out = out[0];
    remote->errors = errors[0];
}

static size_t read_all(int fd, char *text, size_t size)
{
    size_t count = 0;
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_MS * MST_NS_PER_MS;
    while (count < size - 1) {
        assert_int_equal(mst_wait_fd(fd, POLLIN, deadline_ns), 0);
        const ssize_t got = read(fd, text + count, size - 1 - count);
        if (got <= 0)
            break;
        count += (size_t)got;
    }
    text[count] = '\0';
    return count;
}

static void rsh_finish(struct remote *remote)
{
    if (remote->in >= 0)
        close(remote->in);
    (void)read_all(remote->out, remote->output, sizeof remote->output);
    (void)read_all(remote->errors, remote->error, sizeof remote->error);
    close(remote->out);
    close(remote->errors);
    int status;
    assert_int_equal(waitpid(remote->pid, &status, 0), remote->pid);
    remote->status = exec_shell_status(status);
}

static struct remote rsh(const char *const *arguments)
{
    struct remote remote = {0};
    rsh_start(&remote, 0, arguments);
    rsh_finish(&remote);
    return remote;
}

#define ARGS(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

/* ---- tests ---- */

static void a_program_runs_there_and_its_status_comes_back(void **state)
{
    (void)state;
    struct remote remote = rsh(ARGS("127.0.0.3", "echo out; echo err >&2; exit 7"));
    assert_string_equal(remote.output, "out\n");
    assert_string_equal(remote.error, "err\n");
    assert_int_equal(remote.status, 7);
    remote = rsh(ARGS("w2", "kill -KILL $$")); /* by slot, too */
    assert_int_equal(remote.status, 137);
    remote = rsh(ARGS("w2", "exit", "3")); /* words are joined */
    assert_int_equal(remote.status, 3);
    remote = rsh(ARGS("w2", "/no/such/program 2>/dev/null"));
    assert_int_equal(remote.status, 127);
}

static void options_of_ssh_are_read_over(void **state)
{
    (void)state;
    struct remote remote = rsh(ARGS("-x", "-o", "StrictHostKeyChecking=no", "-p22", "-tt", "-l", "root",
                                    "-np", "22", "root@127.0.0.3", "echo", "-n", "-x", "-o"));
    assert_int_equal(remote.status, 0);
    assert_string_equal(remote.output, "-x -o");
    remote = rsh(ARGS("--", "w2", "echo yes"));
    assert_string_equal(remote.output, "yes\n");
}

static void input_goes_there_and_ends_there(void **state)
{
    (void)state;
    struct remote remote = {0};
    rsh_start(&remote, 0, ARGS("w2", "read line; echo got $line; cat | wc -c"));
    assert_int_equal(write(remote.in, "hello\nthe rest", 14), 14);
    rsh_finish(&remote);
    assert_string_equal(remote.output, "got hello\n8\n");
    assert_int_equal(remote.status, 0);
}

/* More than all windows and buffers together, in both directions at once. */
static void much_goes_through_unaltered(void **state)
{
    (void)state;
    struct remote remote = {0};
    enum { BYTES = 8 << 20, PIECE = 65536 };
    rsh_start(&remote, 0, ARGS("w2", "sha256sum; head -c 8388608 /dev/zero >&2"));
    char *piece = calloc(1, PIECE);
    assert_non_null(piece);
    for (size_t sent = 0; sent < BYTES;) {
        const ssize_t written = write(remote.in, piece, PIECE);
        assert_true(written > 0);
        sent += (size_t)written;
    }
    close(remote.in);
    remote.in = -1;
    size_t errors = 0;
    for (ssize_t got = 1; got > 0; errors += (size_t)got) {
        got = read(remote.errors, piece, PIECE);
        assert_true(got >= 0);
    }
    free(piece);
    assert_int_equal(errors, BYTES);
    rsh_finish(&remote);
    assert_int_equal(remote.status, 0);
    assert_string_equal(remote.output,
                        "2daeb1f36095b44b318410b3f4e8b5d989dcc7bb023d1426c492dab0a3053e74  -\n");
}

/* Nobody reads the output: the program there is held up, and memory is not filled. */
static void a_slow_reader_holds_the_writer_up(void **state)
{
    (void)state;
    struct remote remote = {0};
    rsh_start(&remote, 0, ARGS("w2", "head -c 16777216 /dev/zero; echo written >&2"));
    struct pollfd ready = {.fd = remote.errors, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 300), 0);
    size_t bytes = 0;
    char piece[65536];
    for (ssize_t got = 1; got > 0; bytes += (size_t)got) {
        got = read(remote.out, piece, sizeof piece);
        assert_true(got >= 0);
    }
    assert_int_equal(bytes, 16777216);
    rsh_finish(&remote);
    assert_string_equal(remote.error, "written\n");
}

static void a_reader_that_goes_away_is_no_fault(void **state)
{
    (void)state;
    struct remote remote = {0};
    rsh_start(&remote, 0, ARGS("w2", "head -c 4194304 /dev/zero; exit 5"));
    close(remote.out);
    remote.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rsh_finish(&remote);
    assert_int_equal(remote.status, 5);
}

static void signals_go_there(void **state)
{
    (void)state;
    static const struct {
        int number, status;
        const char *name;
    } cases[] = {{SIGTERM, 21, "TERM"}, {SIGINT, 21, "INT"}, {SIGUSR1, 21, "USR1"}, {SIGHUP, 21, "HUP"}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        char script[200], first;
        struct remote remote = {0};
        (void)snprintf(script, sizeof script, "trap 'exit 21' %s; echo; while :; do sleep 0.05; done",
                       cases[c].name);
        rsh_start(&remote, 0, ARGS("w2", script));
        assert_int_equal(read(remote.out, &first, 1), 1);
        assert_int_equal(kill(remote.pid, cases[c].number), 0);
        rsh_finish(&remote);
        assert_int_equal(remote.status, cases[c].status);
    }
}

static void who_is_no_member_cannot_be_reached(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.9", "w3", "w1", "127.0.0.2", "localhost"};
    for (size_t h = 0; h < MST_ARRAY_COUNT(hosts); h++) {
        char host[32];
        (void)snprintf(host, sizeof host, "%s", hosts[h]);
        const struct remote remote = rsh(ARGS(host, "echo never"));
        assert_int_equal(remote.status, RSH_FAULT);
        assert_string_equal(remote.output, "");
        assert_non_null(strstr(remote.error, "is no other worker of this view: w1 127.0.0.2, w2 127.0.0.3"));
    }
}

static void bad_requests_are_refused_before_anything_is_sent(void **state)
{
    (void)state;
    assert_int_equal(rsh(ARGS("w2")).status, RSH_FAULT);
    assert_int_equal(rsh(ARGS("-x")).status, RSH_FAULT);
    assert_int_equal(rsh(ARGS("w2", "")).status, RSH_FAULT);
    assert_int_equal(rsh(ARGS("root@", "echo")).status, RSH_FAULT);
    char *huge = malloc(70000);
    assert_non_null(huge);
    memset(huge, 'x', 69999);
    huge[69999] = '\0';
    const struct remote remote = rsh(ARGS("w2", huge));
    free(huge);
    assert_int_equal(remote.status, RSH_FAULT);
    assert_non_null(strstr(remote.error, "65536"));
}

static void a_refusal_there_is_told_here(void **state)
{
    (void)state;
    atomic_store(&agents[1].refuses, true);
    const struct remote remote = rsh(ARGS("w2", "echo never"));
    assert_int_equal(remote.status, RSH_FAULT);
    assert_non_null(strstr(remote.error, "nothing is started here"));
    atomic_store(&agents[1].refuses, false);
}

static void an_agent_with_another_key_launches_nothing(void **state)
{
    (void)state;
    const struct remote remote = rsh(ARGS("w2", "echo never"));
    assert_int_equal(remote.status, RSH_FAULT);
    assert_string_equal(remote.output, "");
    assert_non_null(strstr(remote.error, "key"));
}

/* `rsh` is killed: nobody waits for the program there, so it is told to go, and made to. */
static void a_program_whose_launcher_is_gone_is_ended(void **state)
{
    (void)state;
    char first;
    struct remote remote = {0};
    rsh_start(&remote, 0, ARGS("w2", "trap '' HUP; echo; while :; do sleep 0.05; done"));
    assert_int_equal(read(remote.out, &first, 1), 1);
    const int before = atomic_load(&agents[1].signals);
    assert_int_equal(kill(remote.pid, SIGKILL), 0);
    rsh_finish(&remote);
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_MS * MST_NS_PER_MS;
    while (atomic_load(&agents[1].signals) < before + 2) { /* HUP, then TERM */
        assert_true(mst_now_ns() < deadline_ns);
        (void)poll(NULL, 0, 20);
    }
}

static void without_an_agent_there_is_a_clear_word(void **state)
{
    (void)state;
    const uint16_t port = agent_ports[0];
    agent_ports[0] = 1;
    const struct remote remote = rsh(ARGS("w2", "echo never"));
    agent_ports[0] = port;
    assert_int_equal(remote.status, RSH_FAULT);
    assert_non_null(strstr(remote.error, "no agent of port 1"));
}

/* Clients that say nothing, or nonsense, or leave at once: the others are served all the same. */
static void clients_that_make_no_sense_harm_nobody(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
    } cases[] = {{"", 0},
                 {"\0\0\0\5\0\2\0hell", 11},  /* data before a request */
                 {"\xff\xff\xff\xff\0\1", 6}, /* a length beyond all limits */
                 {"\0\0\0\0\0\1", 6},         /* an empty request */
                 {"\0\0\0\4\0\1\x7f"
                  "abc",
                  10},                          /* a host that is not there */
                 {"\0\0\0\6\0\1\2w2a\0b", 12}}; /* a NUL in the command */
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct sockaddr_un address;
        const socklen_t bytes = launch_address(agent_ports[0], &address);
        mst_cleanup(mst_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, bytes), 0);
        assert_int_equal(send(fd, cases[c].bytes, cases[c].count, 0), cases[c].count);
        if (cases[c].count > 0) {
            char byte;
            struct pollfd ready = {.fd = fd, .events = POLLIN};
            assert_int_equal(poll(&ready, 1, LIMIT_MS), 1);
            assert_int_equal(recv(fd, &byte, 1, 0), 0); /* closed without a word */
        }
        assert_int_equal(rsh(ARGS("w2", "exit 4")).status, 4);
    }
}

static void many_at_once_do_not_mix(void **state)
{
    (void)state;
    struct remote remotes[PROGRAMS] = {0};
    for (size_t r = 0; r < PROGRAMS; r++) {
        char command[64];
        (void)snprintf(command, sizeof command, "read x; echo %zu $x; exit %zu", r, r);
        rsh_start(&remotes[r], 0, ARGS("w2", command));
    }
    for (size_t r = PROGRAMS; r-- > 0;)
        assert_int_equal(dprintf(remotes[r].in, "line%zu\n", r) > 0, 1);
    for (size_t r = 0; r < PROGRAMS; r++) {
        char expected[64];
        rsh_finish(&remotes[r]);
        (void)snprintf(expected, sizeof expected, "%zu line%zu\n", r, r);
        assert_string_equal(remotes[r].output, expected);
        assert_int_equal(remotes[r].status, r);
    }
}

/* ---- frames and streams alone ---- */

static void frames_are_checked_by_side(void **state)
{
    (void)state;
    static const struct {
        bool asks, fits;
        enum launch_frame type;
        const char *bytes;
        size_t count;
    } cases[] = {
        {true, true, LAUNCH_OPEN, "\2w2ls", 5},
        {true, false, LAUNCH_OPEN, "\2w2", 3},
        {false, false, LAUNCH_OPEN, "\2w2ls", 5},
        {true, true, LAUNCH_DATA, "\0x", 2},
        {true, false, LAUNCH_DATA, "\1x", 2},
        {true, false, LAUNCH_DATA, "\0", 1},
        {false, true, LAUNCH_DATA, "\2x", 2},
        {false, false, LAUNCH_DATA, "\3x", 2},
        {false, false, LAUNCH_DATA, "\0x", 2},
        {true, true, LAUNCH_EOF, "\0", 1},
        {true, false, LAUNCH_EOF, "\0\0", 2},
        {true, true, LAUNCH_CREDIT, "\1\0\0\1\0", 5},
        {true, false, LAUNCH_CREDIT, "\0\0\0\1\0", 5},
        {true, true, LAUNCH_SIGNAL, "\xf", 1},
        {true, false, LAUNCH_SIGNAL, "\0", 1},
        {true, false, LAUNCH_SIGNAL, "\xff", 1},
        {false, false, LAUNCH_SIGNAL, "\xf", 1},
        {false, true, LAUNCH_EXIT, "\7", 1},
        {true, false, LAUNCH_EXIT, "\7", 1},
        {false, true, LAUNCH_ERROR, "no", 2},
        {true, false, LAUNCH_ERROR, "no", 2},
        {true, false, 0, "", 0},
        {false, false, 8, "", 0},
        {true, false, LAUNCH_OPEN, "", 0},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++)
        assert_int_equal(launch_frame_is_fit(cases[c].asks, cases[c].type, (const uint8_t *)cases[c].bytes,
                                             cases[c].count),
                         cases[c].fits);
}

static void nobody_may_send_more_than_a_window(void **state)
{
    (void)state;
    struct launch_sink sink;
    struct launch_source source;
    char *bytes = calloc(1, LAUNCH_WINDOW_BYTES);
    assert_non_null(bytes);
    launch_sink_init(&sink, 1, 1);
    sink.borrowed = true;
    assert_int_equal(launch_sink_take(&sink, bytes, LAUNCH_WINDOW_BYTES, NULL), 0);
    assert_int_equal(launch_sink_take(&sink, bytes, 1, NULL), -EBADMSG);
    launch_sink_release(&sink);
    launch_sink_init(&sink, 1, 1);
    sink.borrowed = sink.ended = true;
    assert_int_equal(launch_sink_take(&sink, bytes, 1, NULL), -EBADMSG);
    launch_sink_release(&sink);
    launch_source_init(&source, -1, 0);
    assert_int_equal(launch_source_credit(&source, 1, NULL), -EBADMSG); /* nothing was sent */
    source.credit = 10;
    assert_int_equal(launch_source_credit(&source, LAUNCH_WINDOW_BYTES - 10, NULL), 0);
    assert_int_equal(launch_source_credit(&source, UINT32_MAX, NULL), -EBADMSG);
    free(bytes);
}

#define WITH_AGENTS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void *agent_goes_on(void *context)
{
    struct agent *agent = context;
    while (!atomic_load(&agent->ends)) {
        agent->self.identity.view++;
        agent->self.identity.step++;
        agent->self.identity.state ^= 1;
    }
    return NULL;
}

/* In life this is called by the job's thread; the thread sanitizer is the judge. */
static void members_are_set_while_the_agent_goes_on(void **state)
{
    (void)state;
    struct agent *agent = &agents[0];
    struct exec_record record;
    pthread_t thread;
    open_agent(agent, 1);
    fill(&record, agent);
    assert_int_equal(pthread_create(&thread, NULL, agent_goes_on, agent), 0);
    for (int views = 0; views < 100; views++)
        assert_int_equal(exec_launch_set_members(agent->launch, &record, 1, NULL), 0);
    atomic_store(&agent->ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    exec_launch_free(agent->launch);
    loop_free(agent->loop);
    close(agent->listen_fd);
}

/* With no descriptor left, nobody can be accepted: the loop must not turn at full speed, and whoever waits is
 * heard once there is one. */
static void a_shortage_of_descriptors_is_waited_out(void **state)
{
    (void)state;
    struct agent *agent = &agents[0];
    struct sockaddr_un address;
    struct rlimit before;
    open_agent(agent, 1);
    const socklen_t address_bytes = launch_address(agent->self.identity.port, &address);
    mst_cleanup(mst_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, address_bytes), 0);
    assert_int_equal(write(fd, "no request", 10), 10);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    size_t turns = 0;
    for (const uint64_t until_ns = mst_now_ns() + 400 * MST_NS_PER_MS; mst_now_ns() < until_ns; turns++) {
        const uint64_t next_ns = exec_launch_deadline_ns(agent->launch);
        assert_int_equal(loop_run_once(agent->loop, next_ns < until_ns ? next_ns : until_ns, NULL), 0);
        exec_launch_tick(agent->launch, mst_now_ns());
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(turns < 10);
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    char byte;
    while (recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN && mst_now_ns() < deadline_ns) {
        assert_int_equal(loop_run_once(agent->loop, mst_now_ns() + 50 * MST_NS_PER_MS, NULL), 0);
        exec_launch_tick(agent->launch, mst_now_ns());
    }
    assert_true(mst_now_ns() < deadline_ns); /* it was accepted, and closed for what it asked */
    exec_launch_free(agent->launch);
    loop_free(agent->loop);
    close(agent->listen_fd);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[0], "rsh") == 0)
        return exec_rsh(argc, argv);
    const struct CMUnitTest tests[] = {
        WITH_AGENTS(a_program_runs_there_and_its_status_comes_back),
        WITH_AGENTS(options_of_ssh_are_read_over),
        WITH_AGENTS(input_goes_there_and_ends_there),
        WITH_AGENTS(much_goes_through_unaltered),
        WITH_AGENTS(a_slow_reader_holds_the_writer_up),
        WITH_AGENTS(a_reader_that_goes_away_is_no_fault),
        WITH_AGENTS(signals_go_there),
        WITH_AGENTS(who_is_no_member_cannot_be_reached),
        WITH_AGENTS(bad_requests_are_refused_before_anything_is_sent),
        WITH_AGENTS(a_refusal_there_is_told_here),
        cmocka_unit_test_setup_teardown(an_agent_with_another_key_launches_nothing, setup_keys_differ,
                                        teardown),
        WITH_AGENTS(a_program_whose_launcher_is_gone_is_ended),
        WITH_AGENTS(without_an_agent_there_is_a_clear_word),
        WITH_AGENTS(clients_that_make_no_sense_harm_nobody),
        WITH_AGENTS(many_at_once_do_not_mix),
        cmocka_unit_test(members_are_set_while_the_agent_goes_on),
        cmocka_unit_test(a_shortage_of_descriptors_is_waited_out),
        cmocka_unit_test(frames_are_checked_by_side),
        cmocka_unit_test(nobody_may_send_more_than_a_window),
    };
    mst_log_init("test", MST_LOG_WARN, MST_LOG_TEXT);
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
