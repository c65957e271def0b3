/* SPDX-License-Identifier: Apache-2.0 */
/* The job in a view: several workers in threads of this process, joined in a ring of socket pairs, each with
 * a supervisor that the test plays. */
#include "../agent/test.h"
#include "environment.h"
#include "exec.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"
#include "round.h"
#include "wire.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define WORKERS_MAX 5
#define LIMIT_NS    (20 * MST_NS_PER_S)

/* What became of a command: by itself, or since it was told to stop. */
struct play {
    int status;       /* of its first command once `ends` */
    bool ends;        /* by itself; else it runs until it is stopped */
    bool leaves;      /* as if told to go: its end was asked for */
    bool never_stops; /* STOP is not answered */
};

struct worker {
    struct play play;
    struct exec_settings settings;
    struct discovery_self self;
    struct discovery_choice choice;
    struct mst_event_sink events;
    struct exec *exec;
    int wire; /* the supervisor's end */
    pthread_t job, supervisor;

    struct job_view view;
    int fds_in[WORKERS_MAX], fds_out[WORKERS_MAX];
    uint64_t steps[WORKERS_MAX];
    int cancel_fd, pause_fd;
    int result; /* of enter() or run() */
    struct mst_error err;
    struct job_result job_result;

    /* what the supervisor saw */
    pthread_mutex_t lock; /* guards these */
    unsigned starts, stops, ends;
    uint32_t end_status;
    struct exec_facts facts;
};

struct world {
    uint32_t count;
    struct worker workers[WORKERS_MAX];
};

/* ---- the supervisor's part ---- */

static void answer(struct worker *worker, enum exec_wire_type type, uint32_t status, uint32_t number)
{
    const struct exec_wire_message message = {.type = type, .status = status, .number = number};
    (void)exec_wire_send(worker->wire, &message, NULL); /* the worker may be gone */
}

static void take(struct worker *worker, const struct exec_wire_message *message, bool *running)
{
    pthread_mutex_lock(&worker->lock);
    switch (message->type) {
    case EXEC_WIRE_FACTS:
        exec_facts_release(&worker->facts);
        (void)exec_facts_unpack(message->facts, message->facts_bytes, &worker->facts, NULL);
        break;
    case EXEC_WIRE_START:
        worker->starts++;
        *running = true;
        answer(worker, EXEC_WIRE_STARTED, 0, 4711);
        if (worker->starts == 1 && (worker->play.ends || worker->play.leaves)) {
            *running = false;
            answer(worker, EXEC_WIRE_EXITED, (uint32_t)worker->play.status, worker->play.leaves);
        }
        break;
    case EXEC_WIRE_STOP:
        worker->stops++;
        if (*running && !worker->play.never_stops)
            answer(worker, EXEC_WIRE_EXITED, 143, 1);
        if (!worker->play.never_stops) {
            *running = false;
            answer(worker, EXEC_WIRE_STOPPED, 0, 0);
        }
        break;
    case EXEC_WIRE_END:
        worker->ends++;
        worker->end_status = message->status;
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&worker->lock);
}

static void *supervisor_main(void *context)
{
    struct worker *worker = context;
    struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    bool running = false;
    for (;;) {
        struct exec_wire_message message;
        const int r = exec_wire_receive(worker->wire, &buffer, &message, NULL);
        if (r < 0)
            break;
        if (r == 1)
            take(worker, &message, &running);
        else
            (void)mst_wait_fd(worker->wire, POLLIN, mst_now_ns() + LIMIT_NS);
    }
    mst_buf_release(&buffer);
    return NULL;
}

/* ---- the job's part ---- */

static void *job_main(void *context)
{
    struct worker *worker = context;
    const struct job job = exec_job(worker->exec);
    worker->result = job.kind->enter(job.state, &worker->view, &worker->err);
    if (worker->result == 0)
        worker->result = job.kind->run(job.state, &worker->view, &worker->job_result, &worker->err);
    job.kind->leave(job.state);
    return NULL;
}

static void worker_open(struct worker *worker, uint32_t index, const struct exec_settings *settings)
{
    char slot[16];
    int fds[2];
    *worker = (struct worker){.play = worker->play, .settings = *settings};
    (void)snprintf(slot, sizeof slot, "w%u", index);
    memcpy(worker->self.identity.slot, slot, sizeof slot);
    worker->self.identity.ipv4 = INADDR_LOOPBACK;
    worker->self.identity.port = (uint16_t)(7070 + index);
    worker->self.identity.incarnation[0] = (uint8_t)(index + 1);
    worker->choice.interface.ipv4 = INADDR_LOOPBACK;
    worker->choice.interface.prefix = 8;
    memcpy(worker->choice.interface.name, "lo", sizeof "lo");
    assert_int_equal(mst_event_sink_init(&worker->events, -1, slot, NULL), 0);
    assert_int_equal(exec_wire_pair(fds, NULL), 0);
    worker->wire = fds[0];
    const struct exec_options options = {
        .settings = &worker->settings,
        .self = &worker->self,
        .slot = worker->self.identity.slot,
        .choice = &worker->choice,
        .events = &worker->events,
        .wire_fd = fds[1],
        .uid = geteuid(),
    };
    assert_int_equal(exec_new(&options, &worker->exec, NULL), 0);
    /* The wire's other end belongs to the process in life; here to the worker. */
    worker->cancel_fd = fds[1];
    assert_int_equal(pthread_mutex_init(&worker->lock, NULL), 0);
    assert_int_equal(pthread_create(&worker->supervisor, NULL, supervisor_main, worker), 0);
}

static void worker_close(struct worker *worker, int wire_end)
{
    exec_free(worker->exec);
    close(wire_end);
    assert_int_equal(pthread_join(worker->supervisor, NULL), 0);
    close(worker->wire);
    exec_facts_release(&worker->facts);
    mst_event_sink_release(&worker->events);
    (void)pthread_mutex_destroy(&worker->lock);
}

static int wire_ends[WORKERS_MAX];

static void world_open(struct world *world, uint32_t count, const struct exec_settings *settings)
{
    static char word[] = "program";
    static char *const command[] = {word, NULL};
    struct exec_settings complete = *settings;
    complete.command = command;
    if (complete.grace_ns == 0)
        complete.grace_ns = MST_NS_PER_S;
    complete.ports = exec_ports_default();
    world->count = count;
    for (uint32_t w = 0; w < count; w++) {
        worker_open(&world->workers[w], w, &complete);
        wire_ends[w] = world->workers[w].cancel_fd;
    }
}

static void world_close(struct world *world)
{
    for (uint32_t w = 0; w < world->count; w++)
        worker_close(&world->workers[w], wire_ends[w]);
}

/* A view of workers `first` to `last`, begun in all of them. */
static void begin(struct world *world, uint64_t view, uint32_t first, uint32_t last)
{
    const uint32_t size = last - first + 1;
    for (uint32_t rank = 0; rank < size; rank++) {
        struct worker *worker = &world->workers[first + rank];
        worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        worker->pause_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        worker->view = (struct job_view){.view = view,
                                         .rank = rank,
                                         .world = size,
                                         .fds_in = worker->fds_in,
                                         .fds_out = worker->fds_out,
                                         .steps = worker->steps,
                                         .cancel_fd = worker->cancel_fd,
                                         .pause_fd = worker->pause_fd};
        worker->self.identity.view = view;
        for (size_t i = 0; i < WORKERS_MAX; i++)
            worker->fds_in[i] = worker->fds_out[i] = -1;
    }
    for (uint32_t rank = 0; size > 1 && rank < size; rank++) {
        const uint32_t next = (rank + 1) % size;
        int fds[2];
        assert_int_equal(mst_socket_pair(fds, NULL), 0);
        world->workers[first + rank].fds_out[next] = fds[0];
        world->workers[first + next].fds_in[rank] = fds[1];
    }
    for (uint32_t w = first; w <= last; w++)
        assert_int_equal(pthread_create(&world->workers[w].job, NULL, job_main, &world->workers[w]), 0);
}

static void join(struct world *world, uint32_t first, uint32_t last)
{
    for (uint32_t w = first; w <= last; w++) {
        struct worker *worker = &world->workers[w];
        assert_int_equal(pthread_join(worker->job, NULL), 0);
        close(worker->cancel_fd);
        close(worker->pause_fd);
    }
}

static unsigned counted(struct worker *worker, const unsigned *counter)
{
    pthread_mutex_lock(&worker->lock);
    const unsigned value = *counter;
    pthread_mutex_unlock(&worker->lock);
    return value;
}

static void await_count(struct worker *worker, const unsigned *counter, unsigned wanted)
{
    const uint64_t deadline_ns = mst_now_ns() + LIMIT_NS;
    while (counted(worker, counter) < wanted) {
        assert_true(mst_now_ns() < deadline_ns);
        (void)poll(NULL, 0, 2);
    }
}

static void notify(struct world *world, uint32_t first, uint32_t last, bool at_once)
{
    for (uint32_t w = first; w <= last; w++) {
        const int fd = at_once ? world->workers[w].cancel_fd : world->workers[w].pause_fd;
        assert_int_equal(eventfd_write(fd, 1), 0);
    }
}

/* ---- tests ---- */

static void all_start_with_the_same_facts_and_end_well(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= WORKERS_MAX; count++) {
        struct world world = {0};
        for (uint32_t w = 0; w < count; w++)
            world.workers[w].play = (struct play){.ends = true, .status = 0};
        world_open(&world, count, &(struct exec_settings){.frameworks = EXEC_ENV});
        begin(&world, 3, 0, count - 1);
        join(&world, 0, count - 1);
        for (uint32_t w = 0; w < count; w++) {
            struct worker *worker = &world.workers[w];
            await_count(worker, &worker->ends, 1);
            assert_int_equal(worker->result, 0);
            assert_int_equal(worker->end_status, 0);
            assert_int_equal(worker->starts, 1);
            assert_int_equal(worker->facts.world, count);
            assert_int_equal(worker->facts.rank, w);
            assert_string_equal(worker->facts.interface, "lo");
            for (uint32_t m = 0; m < count; m++) {
                assert_int_equal(worker->facts.members[m].port, world.workers[0].facts.members[m].port);
                assert_int_equal(worker->facts.members[m].agent_port, 7070 + m);
                for (uint32_t other = 0; other < m; other++) /* all at one address */
                    assert_int_not_equal(worker->facts.members[m].port, worker->facts.members[other].port);
            }
            assert_memory_equal(&worker->job_result, &world.workers[0].job_result, sizeof worker->job_result);
        }
        world_close(&world);
    }
}

static void one_failure_ends_the_others_and_each_returns_its_own(void **state)
{
    (void)state;
    struct world world = {0};
    world.workers[1].play = (struct play){.ends = true, .status = 3};
    world.workers[2].play = (struct play){.ends = true, .status = 0};
    world_open(&world, 4, &(struct exec_settings){.frameworks = EXEC_ENV, .on_change = EXEC_RESTART});
    begin(&world, 1, 0, 3);
    join(&world, 0, 3);
    static const uint32_t statuses[] = {1, 3, 0, 1};
    static const unsigned stops[] = {1, 0, 0, 1};
    for (uint32_t w = 0; w < 4; w++) {
        await_count(&world.workers[w], &world.workers[w].ends, 1);
        assert_int_equal(world.workers[w].result, 0);
        assert_int_equal(world.workers[w].end_status, statuses[w]);
        assert_int_equal(world.workers[w].stops, stops[w]);
        assert_memory_equal(&world.workers[w].job_result, &world.workers[0].job_result,
                            sizeof world.workers[w].job_result);
    }
    world_close(&world);
}

static void a_change_restarts_the_command_with_new_facts(void **state)
{
    (void)state;
    static const bool kinds[] = {true, false}; /* a loss, and a planned change */
    for (size_t k = 0; k < MST_ARRAY_COUNT(kinds); k++) {
        struct world world = {0};
        world_open(&world, 3, &(struct exec_settings){.frameworks = EXEC_ENV});
        begin(&world, 1, 0, 2);
        for (uint32_t w = 0; w < 3; w++)
            await_count(&world.workers[w], &world.workers[w].starts, 1);
        notify(&world, 0, 2, kinds[k]);
        join(&world, 0, 2);
        for (uint32_t w = 0; w < 3; w++) {
            assert_int_equal(world.workers[w].result, kinds[k] ? -ECANCELED : 1);
            assert_int_equal(counted(&world.workers[w], &world.workers[w].ends), 0);
        }
        begin(&world, 2, 1, 2);
        for (uint32_t w = 1; w <= 2; w++) {
            await_count(&world.workers[w], &world.workers[w].starts, 2);
            pthread_mutex_lock(&world.workers[w].lock);
            assert_int_equal(world.workers[w].stops, 1);
            assert_int_equal(world.workers[w].facts.world, 2);
            assert_int_equal(world.workers[w].facts.rank, w - 1);
            assert_int_equal(world.workers[w].facts.view, 2);
            pthread_mutex_unlock(&world.workers[w].lock);
        }
        notify(&world, 1, 2, true);
        join(&world, 1, 2);
        world_close(&world);
    }
}

/* A worker is lost, and the others' programs fail by that before anybody knows why. */
static void a_failure_before_a_loss_is_known_is_a_consequence(void **state)
{
    (void)state;
    struct world world = {0};
    world.workers[0].play = (struct play){.ends = true, .status = 1};
    world.workers[1].play = (struct play){.ends = true, .status = 1};
    world_open(&world, 3, &(struct exec_settings){.frameworks = EXEC_ENV});
    begin(&world, 1, 0, 2);
    for (uint32_t w = 0; w < 3; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 1);
    notify(&world, 0, 2, true); /* well before EXEC_VERDICT_MS */
    join(&world, 0, 2);
    begin(&world, 2, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 2);
    notify(&world, 0, 1, true);
    join(&world, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        assert_int_equal(counted(&world.workers[w], &world.workers[w].ends), 0);
    world_close(&world);
}

static void an_end_that_was_asked_for_fails_nobody(void **state)
{
    (void)state;
    struct world world = {0};
    world.workers[1].play = (struct play){.leaves = true, .status = 143};
    world_open(&world, 3, &(struct exec_settings){.frameworks = EXEC_ENV});
    begin(&world, 1, 0, 2);
    for (uint32_t w = 0; w < 3; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 1);
    notify(&world, 0, 2, false); /* the agents have agreed to go on without it */
    join(&world, 0, 2);
    for (uint32_t w = 0; w < 3; w++) {
        assert_int_equal(world.workers[w].result, 1);
        assert_int_equal(counted(&world.workers[w], &world.workers[w].ends), 0);
    }
    world_close(&world);
}

static void with_stop_a_change_ends_everything(void **state)
{
    (void)state;
    struct world world = {0};
    world_open(&world, 2, &(struct exec_settings){.frameworks = EXEC_ENV, .on_change = EXEC_STOP});
    begin(&world, 1, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 1);
    notify(&world, 0, 1, true);
    join(&world, 0, 1);
    for (uint32_t w = 0; w < 2; w++) {
        await_count(&world.workers[w], &world.workers[w].ends, 1);
        assert_int_equal(world.workers[w].result, -EPROTO); /* no change of membership helps */
        assert_int_equal(world.workers[w].end_status, 1);
        assert_int_equal(world.workers[w].stops, 1);
    }
    world_close(&world);
}

static void with_ignore_a_change_leaves_the_command_alone(void **state)
{
    (void)state;
    struct world world = {0};
    world.workers[1].play = (struct play){.ends = true, .status = 0};
    world_open(&world, 3, &(struct exec_settings){.frameworks = EXEC_ENV, .on_change = EXEC_IGNORE});
    begin(&world, 1, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 1);
    const uint16_t port = world.workers[0].facts.members[0].port;
    notify(&world, 0, 1, true);
    join(&world, 0, 1);
    begin(&world, 2, 0, 2); /* one more */
    await_count(&world.workers[2], &world.workers[2].starts, 1);
    assert_int_equal(world.workers[2].facts.members[0].port, port); /* where the others meet already */
    notify(&world, 0, 2, false);
    join(&world, 0, 2);
    for (uint32_t w = 0; w < 3; w++) {
        assert_int_equal(counted(&world.workers[w], &world.workers[w].starts), 1);
        assert_int_equal(counted(&world.workers[w], &world.workers[w].stops), 0);
    }
    world_close(&world);
}

static void only_the_chief_runs_the_command_when_so_asked(void **state)
{
    (void)state;
    static const int statuses[] = {0, 5};
    for (size_t s = 0; s < MST_ARRAY_COUNT(statuses); s++) {
        struct world world = {0};
        world.workers[0].play = (struct play){.ends = true, .status = statuses[s]};
        world_open(
            &world, 3,
            &(struct exec_settings){.frameworks = EXEC_ENV, .chief_only = true, .on_change = EXEC_STOP});
        begin(&world, 1, 0, 2);
        join(&world, 0, 2);
        for (uint32_t w = 0; w < 3; w++) {
            await_count(&world.workers[w], &world.workers[w].ends, 1);
            assert_int_equal(world.workers[w].result, 0);
            assert_int_equal(world.workers[w].starts, w == 0);
            assert_int_equal(world.workers[w].end_status, w == 0 ? statuses[s] : statuses[s] ? 1 : 0);
        }
        world_close(&world);
    }
}

/* One has heard of all ends and the other has not when the view is left: the next view begins nothing. */
static void what_is_over_for_one_is_over_for_all(void **state)
{
    (void)state;
    struct world world = {0};
    for (uint32_t w = 0; w < 2; w++)
        world.workers[w].play = (struct play){.ends = true, .status = 0};
    world_open(&world, 3, &(struct exec_settings){.frameworks = EXEC_ENV});
    begin(&world, 1, 0, 1);
    join(&world, 0, 1);
    begin(&world, 2, 0, 2); /* with one that was started in place of a third */
    join(&world, 0, 2);
    for (uint32_t w = 0; w < 3; w++) {
        await_count(&world.workers[w], &world.workers[w].ends, 1);
        assert_int_equal(world.workers[w].result, 0);
        /* Its supervisor may hear of the same end for the second time just now. */
        assert_int_equal(counted(&world.workers[w], &world.workers[w].end_status), 0);
        assert_int_equal(counted(&world.workers[w], &world.workers[w].starts), w < 2);
    }
    world_close(&world);
}

static void a_neighbour_that_is_gone_ends_the_view(void **state)
{
    (void)state;
    struct world world = {0};
    world_open(&world, 2, &(struct exec_settings){.frameworks = EXEC_ENV});
    begin(&world, 1, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        await_count(&world.workers[w], &world.workers[w].starts, 1);
    assert_int_equal(eventfd_write(world.workers[1].cancel_fd, 1), 0);
    join(&world, 0, 1);
    assert_int_equal(world.workers[1].result, -ECANCELED);
    assert_int_equal(world.workers[0].result, -EPIPE); /* the agent then proposes a new view */
    world_close(&world);
}

static void a_wait_for_the_others_can_be_cancelled(void **state)
{
    (void)state;
    struct world world = {0};
    world_open(&world, 2, &(struct exec_settings){.frameworks = EXEC_ENV});
    /* A ring whose other half never speaks. */
    int in[2], out[2];
    struct worker *worker = &world.workers[0];
    assert_int_equal(mst_socket_pair(in, NULL), 0);
    assert_int_equal(mst_socket_pair(out, NULL), 0);
    worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->pause_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->view = (struct job_view){.view = 1,
                                     .world = 2,
                                     .fds_in = worker->fds_in,
                                     .fds_out = worker->fds_out,
                                     .cancel_fd = worker->cancel_fd,
                                     .pause_fd = worker->pause_fd};
    worker->fds_in[1] = in[0];
    worker->fds_out[1] = out[0];
    assert_int_equal(eventfd_write(worker->cancel_fd, 1), 0);
    assert_int_equal(pthread_create(&worker->job, NULL, job_main, worker), 0);
    join(&world, 0, 0);
    assert_int_equal(worker->result, -ECANCELED);
    assert_int_equal(worker->starts, 0);
    assert_int_equal(worker->fds_in[1], -1); /* taken over, and closed */
    char byte;
    assert_int_equal(recv(in[1], &byte, 1, MSG_DONTWAIT), 0);
    close(in[1]);
    close(out[1]);
    world_close(&world);
}

static void a_neighbour_that_talks_nonsense_ends_this_worker(void **state)
{
    (void)state;
    struct world world = {0};
    world_open(&world, 1, &(struct exec_settings){.frameworks = EXEC_ENV});
    int in[2], out[2];
    struct worker *worker = &world.workers[0];
    uint8_t noise[EXEC_ROUND_BYTES];
    memset(noise, 0xa5, sizeof noise);
    assert_int_equal(mst_socket_pair(in, NULL), 0);
    assert_int_equal(mst_socket_pair(out, NULL), 0);
    worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->pause_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->view = (struct job_view){.view = 1,
                                     .world = 2,
                                     .fds_in = worker->fds_in,
                                     .fds_out = worker->fds_out,
                                     .cancel_fd = worker->cancel_fd,
                                     .pause_fd = worker->pause_fd};
    worker->fds_in[1] = in[0];
    worker->fds_out[1] = out[0];
    assert_int_equal(send(in[1], noise, sizeof noise, 0), sizeof noise);
    assert_int_equal(pthread_create(&worker->job, NULL, job_main, worker), 0);
    join(&world, 0, 0);
    assert_int_equal(worker->result, -EBADMSG);
    close(in[1]);
    close(out[1]);
    world_close(&world);
}

static void the_key_tells_commands_apart(void **state)
{
    (void)state;
    char a[] = "python3", b[] = "train.py", ab[] = "python3train.py", c[] = "other.py";
    char *const commands[][3] = {{a, b, NULL}, {ab, NULL, NULL}, {a, c, NULL}};
    uint8_t keys[8][MST_SHA256_BYTES];
    const struct exec_settings settings[] = {
        {.frameworks = EXEC_TORCH, .command = commands[0]},
        {.frameworks = EXEC_TORCH, .command = commands[1]},
        {.frameworks = EXEC_TORCH, .command = commands[2]},
        {.frameworks = EXEC_MPI, .command = commands[0]},
        {.frameworks = EXEC_TORCH, .command = commands[0], .chief_only = true},
        {.frameworks = EXEC_TORCH, .command = commands[0], .on_change = EXEC_STOP},
        {.frameworks = EXEC_TORCH, .command = commands[0], .any_command = true},
        {.frameworks = EXEC_TORCH, .command = commands[2], .any_command = true},
    };
    for (size_t s = 0; s < MST_ARRAY_COUNT(settings); s++)
        assert_int_equal(exec_key(&settings[s], keys[s], NULL), 0);
    for (size_t s = 0; s < MST_ARRAY_COUNT(settings); s++)
        for (size_t t = 0; t < s; t++)
            if (s == 7 && t == 6)
                assert_memory_equal(keys[s], keys[t], sizeof keys[s]);
            else
                assert_memory_not_equal(keys[s], keys[t], sizeof keys[s]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_start_with_the_same_facts_and_end_well),
        cmocka_unit_test(one_failure_ends_the_others_and_each_returns_its_own),
        cmocka_unit_test(a_change_restarts_the_command_with_new_facts),
        cmocka_unit_test(a_failure_before_a_loss_is_known_is_a_consequence),
        cmocka_unit_test(an_end_that_was_asked_for_fails_nobody),
        cmocka_unit_test(with_stop_a_change_ends_everything),
        cmocka_unit_test(with_ignore_a_change_leaves_the_command_alone),
        cmocka_unit_test(only_the_chief_runs_the_command_when_so_asked),
        cmocka_unit_test(what_is_over_for_one_is_over_for_all),
        cmocka_unit_test(a_neighbour_that_is_gone_ends_the_view),
        cmocka_unit_test(a_wait_for_the_others_can_be_cancelled),
        cmocka_unit_test(a_neighbour_that_talks_nonsense_ends_this_worker),
        cmocka_unit_test(the_key_tells_commands_apart),
    };
    mst_log_init("test", MST_LOG_INFO, MST_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
