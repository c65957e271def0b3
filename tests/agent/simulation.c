/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation.h"

#include "membership.h"
#include "test.h"

#define MS                1000000ULL
#define EVENTS_MAX        16384
#define RECORDS_MAX       4096
#define CONNECT_ONE_IN_NS (200 * MS) /* a new connection stands within this */
#define RESTART_NS        (500 * MS)
#define STALL_NS          (5000 * MS) /* the agent's patience with members that do not join in */

enum event_kind {
    EVENT_VOID, /* was lost under way */
    EVENT_START,
    EVENT_CONNECT,
    EVENT_UP,
    EVENT_DOWN,
    EVENT_MESSAGE,
    EVENT_LOSS,
    EVENT_CRASH,
    EVENT_STALL,
};

struct event {
    uint64_t time_ns, order; /* equal times happen in the order of their making */
    enum event_kind kind;
    size_t from, to; /* machines; `to` is where it happens */
    uint64_t connection;
    enum membership_kind message_kind;
    uint64_t view;
    size_t count;
    struct membership_worker workers[SIMULATION_MACHINES_MAX];
    uint8_t digest[MST_SHA256_BYTES];
};

/* One direction of a pair: `from` writes, `to` reads. */
struct direction {
    uint64_t connection; /* number of the connection that stands, 0: none */
    uint64_t last_ns;    /* when the last thing arrives: order is kept */
};

/* What a machine believes of another one. */
struct belief {
    uint64_t connection; /* 0: not connected */
    struct membership_worker peer;
};

struct machine {
    struct simulation *simulation;
    size_t index;
    struct membership_worker self;
    struct membership *membership; /* NULL: not running */
    bool crash_now, ended;
    uint64_t committed_view;
    size_t committed_count;
    struct membership_worker committed[SIMULATION_MACHINES_MAX];
    struct belief beliefs[SIMULATION_MACHINES_MAX];
};

/* What was ever signed or committed, by whom. */
struct record {
    struct membership_id by;
    bool commit;
    uint64_t view;
    uint8_t digest[MST_SHA256_BYTES];
    size_t count; /* commits only */
    struct membership_worker workers[SIMULATION_MACHINES_MAX];
};

struct simulation {
    struct simulation_options options;
    struct simulation_outcome *outcome;
    uint64_t random, now_ns, next_order, next_connection, next_incarnation;
    struct machine machines[SIMULATION_MACHINES_MAX];
    struct direction directions[SIMULATION_MACHINES_MAX][SIMULATION_MACHINES_MAX];
    struct event *heap; /* owned: the earliest first */
    size_t heap_count;
    struct record *records; /* owned */
    size_t record_count;
    uint64_t crash_at_message[8];
};

static void violate(struct simulation *simulation, const char *rule)
{
    if (!simulation->outcome->violated)
        simulation->outcome->violated = rule;
}

/* ---- events by time ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void push(struct simulation *simulation, struct event event)
{
    assert_true(simulation->heap_count < EVENTS_MAX);
    event.order = simulation->next_order++;
    size_t at = simulation->heap_count++;
    for (; at > 0 && is_before(&event, &simulation->heap[(at - 1) / 2]); at = (at - 1) / 2)
        simulation->heap[at] = simulation->heap[(at - 1) / 2];
    simulation->heap[at] = event;
}

static struct event pop(struct simulation *simulation)
{
    const struct event first = simulation->heap[0];
    const struct event last = simulation->heap[--simulation->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= simulation->heap_count)
            break;
        if (child + 1 < simulation->heap_count &&
            is_before(&simulation->heap[child + 1], &simulation->heap[child]))
            child++;
        if (!is_before(&simulation->heap[child], &last))
            break;
        simulation->heap[at] = simulation->heap[child];
        at = child;
    }
    if (simulation->heap_count > 0)
        simulation->heap[at] = last;
    return first;
}

static uint64_t some_delay(struct simulation *simulation)
{
    return 1 + test_below(&simulation->random, simulation->options.delay_ns);
}

/* ---- connections ---- */

/* Put something behind what is under way in this direction. */
static void put(struct simulation *simulation, struct event event)
{
    struct direction *direction = &simulation->directions[event.from][event.to];
    event.time_ns = simulation->now_ns + some_delay(simulation);
    if (event.time_ns <= direction->last_ns)
        event.time_ns = direction->last_ns + 1;
    direction->last_ns = event.time_ns;
    event.connection = direction->connection;
    push(simulation, event);
}

static void connect_pair(struct simulation *simulation, size_t a, size_t b)
{
    if (!simulation->machines[a].membership || !simulation->machines[b].membership ||
        simulation->directions[a][b].connection != 0)
        return; /* a start brings its own try */
    const uint64_t number = ++simulation->next_connection;
    simulation->directions[a][b].connection = number;
    simulation->directions[b][a].connection = number;
    for (int turn = 0; turn < 2; turn++) {
        const size_t from = turn ? a : b, to = turn ? b : a;
        struct event event = {.kind = EVENT_UP, .from = from, .to = to};
        event.workers[0] = simulation->machines[from].self;
        put(simulation, event);
    }
}

static void try_connect(struct simulation *simulation, size_t a, size_t b)
{
    push(simulation, (struct event){.kind = EVENT_CONNECT,
                                    .time_ns = simulation->now_ns + 1 +
                                               test_below(&simulation->random, CONNECT_ONE_IN_NS),
                                    .from = a,
                                    .to = b});
}

/* The connection of a pair ends: each side hears of it after what still gets through to it. */
static void lose_pair(struct simulation *simulation, size_t a, size_t b)
{
    const uint64_t number = simulation->directions[a][b].connection;
    if (number == 0)
        return;
    for (int turn = 0; turn < 2; turn++) {
        const size_t from = turn ? a : b, to = turn ? b : a;
        const uint64_t cut_ns =
            simulation->now_ns + test_below(&simulation->random, simulation->options.delay_ns);
        for (size_t e = 0; e < simulation->heap_count; e++) {
            struct event *event = &simulation->heap[e];
            if (event->connection == number && event->to == to && event->time_ns > cut_ns)
                event->kind = EVENT_VOID;
        }
        push(simulation,
             (struct event){
                 .kind = EVENT_DOWN, .time_ns = cut_ns + 1, .from = from, .to = to, .connection = number});
        simulation->directions[from][to].connection = 0;
    }
    try_connect(simulation, a, b);
}

/* ---- machines ---- */

/* It comes back as a new incarnation after a while. */
static void stop_machine(struct simulation *simulation, struct machine *machine)
{
    membership_free(machine->membership);
    machine->membership = NULL;
    machine->committed_view = 0;
    machine->crash_now = false;
    machine->ended = false;
    memset(machine->beliefs, 0, sizeof machine->beliefs);
    for (size_t m = 0; m < simulation->options.machines; m++)
        if (m != machine->index)
            lose_pair(simulation, machine->index, m);
    simulation->outcome->restarts++;
    push(simulation,
         (struct event){.kind = EVENT_START,
                        .time_ns = simulation->now_ns + 1 + test_below(&simulation->random, RESTART_NS),
                        .to = machine->index});
}

static struct machine *machine_of(struct simulation *simulation, const struct membership_id *id)
{
    for (size_t m = 0; m < simulation->options.machines; m++)
        if (simulation->machines[m].membership && membership_id_equal(&simulation->machines[m].self.id, id))
            return &simulation->machines[m];
    return NULL;
}

static bool holds(const struct machine *machine, const struct membership_id *id)
{
    for (size_t w = 0; w < machine->committed_count && machine->committed_view > 0; w++)
        if (membership_id_equal(&machine->committed[w].id, id))
            return true;
    return false;
}

static struct record *new_record(struct simulation *simulation, const struct machine *machine, uint64_t view)
{
    assert_true(simulation->record_count < RECORDS_MAX);
    struct record *record = &simulation->records[simulation->record_count++];
    *record = (struct record){.by = machine->self.id, .view = view};
    return record;
}

/* One digest signed a number, by one incarnation. */
static void note_signature(struct simulation *simulation, const struct machine *machine, uint64_t view,
                           const uint8_t *digest)
{
    for (size_t r = 0; r < simulation->record_count; r++) {
        const struct record *record = &simulation->records[r];
        if (record->commit || record->view != view || !membership_id_equal(&record->by, &machine->self.id))
            continue;
        if (memcmp(record->digest, digest, MST_SHA256_BYTES) != 0)
            violate(simulation, "two lists signed under one number");
        return;
    }
    struct record *record = new_record(simulation, machine, view);
    memcpy(record->digest, digest, MST_SHA256_BYTES);
    simulation->outcome->signatures++;
}

static bool has_signed(const struct simulation *simulation, const struct membership_id *id, uint64_t view,
                       const uint8_t *digest)
{
    for (size_t r = 0; r < simulation->record_count; r++) {
        const struct record *record = &simulation->records[r];
        if (!record->commit && record->view == view && membership_id_equal(&record->by, id) &&
            memcmp(record->digest, digest, MST_SHA256_BYTES) == 0)
            return true;
    }
    return false;
}

static bool share_a_member(const struct record *a, const struct record *b)
{
    for (size_t i = 0; i < a->count; i++)
        for (size_t j = 0; j < b->count; j++)
            if (membership_id_equal(&a->workers[i].id, &b->workers[j].id))
                return true;
    return false;
}

static void check_commit(struct simulation *simulation, const struct machine *machine,
                         const struct record *commit)
{
    bool self = false;
    for (size_t w = 0; w < commit->count; w++) {
        self = self || membership_id_equal(&commit->workers[w].id, &machine->self.id);
        if (commit->count > 1 &&
            !has_signed(simulation, &commit->workers[w].id, commit->view, commit->digest))
            violate(simulation, "committed without the signature of a member");
        if (w > 0 && commit->workers[w - 1].ipv4 >= commit->workers[w].ipv4)
            violate(simulation, "not in the order of addresses");
    }
    if (!self)
        violate(simulation, "committed a view that does not name the worker itself");
    if (commit->count != simulation->options.wanted)
        violate(simulation, "committed another number of workers than wanted");
    for (size_t r = 0; r < simulation->record_count; r++) {
        const struct record *other = &simulation->records[r];
        if (!other->commit || other == commit)
            continue;
        if (membership_id_equal(&other->by, &commit->by))
            violate(simulation, "committed twice");
        if (other->view == commit->view && memcmp(other->digest, commit->digest, MST_SHA256_BYTES) != 0 &&
            share_a_member(other, commit))
            violate(simulation, "two lists that share a member committed under one number");
    }
}

static void on_committed(void *context, uint64_t view, const struct membership_worker *workers, size_t count)
{
    struct machine *machine = context;
    struct simulation *simulation = machine->simulation;
    if (machine->crash_now)
        return;
    struct record *record = new_record(simulation, machine, view);
    record->commit = true;
    record->count = count;
    memcpy(record->workers, workers, count * sizeof *workers);
    assert_int_equal(membership_digest(view, workers, count, record->digest, NULL), 0);
    machine->committed_view = view;
    machine->committed_count = count;
    memcpy(machine->committed, workers, count * sizeof *workers);
    simulation->outcome->commits++;
    check_commit(simulation, machine, record);
    push(simulation, (struct event){.kind = EVENT_STALL,
                                    .time_ns = simulation->now_ns + STALL_NS,
                                    .to = machine->index,
                                    .workers = {machine->self}});
}

static void on_send(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct machine *machine = context;
    struct simulation *simulation = machine->simulation;
    for (size_t c = 0; c < simulation->options.crashes_in_a_send; c++)
        if (simulation->outcome->messages == simulation->crash_at_message[c])
            machine->crash_now = true;
    simulation->outcome->messages++;
    if (machine->crash_now)
        return; /* dead from here on, whatever its code still does in this call */
    if (message->kind == MEMBERSHIP_COMMIT)
        note_signature(simulation, machine, message->view, message->digest);
    const struct machine *target = machine_of(simulation, to);
    if (!target || machine->beliefs[target->index].connection == 0 ||
        machine->beliefs[target->index].connection !=
            simulation->directions[machine->index][target->index].connection)
        return; /* written into the void */
    struct event event = {.kind = EVENT_MESSAGE,
                          .from = machine->index,
                          .to = target->index,
                          .message_kind = message->kind,
                          .view = message->view,
                          .count = message->kind == MEMBERSHIP_PROPOSE ? message->count : 0};
    assert_true(event.count <= SIMULATION_MACHINES_MAX);
    if (event.count > 0)
        memcpy(event.workers, message->workers, event.count * sizeof *event.workers);
    memcpy(event.digest, message->digest, sizeof event.digest);
    put(simulation, event);
}

static void start_machine(struct simulation *simulation, struct machine *machine)
{
    if (machine->membership)
        return;
    const struct membership_callbacks callbacks = {
        .context = machine, .send = on_send, .committed = on_committed};
    const uint64_t incarnation = ++simulation->next_incarnation;
    const uint64_t noise = test_random(&simulation->random);
    machine->self = (struct membership_worker){.ipv4 = 0x0a000001U + (uint32_t)machine->index, .port = 7070};
    memcpy(machine->self.id.bytes, &noise, sizeof noise); /* which of two is lower is up to the seed */
    memcpy(machine->self.id.bytes + 8, &incarnation, sizeof incarnation);
    assert_int_equal(
        membership_new(&machine->self, simulation->options.wanted, &callbacks, &machine->membership, NULL),
        0);
    assert_int_equal(membership_start(machine->membership, simulation->now_ns, NULL), 0);
    for (size_t m = 0; m < simulation->options.machines; m++)
        if (m != machine->index)
            try_connect(simulation, machine->index, m);
}

static void peer_up(struct simulation *simulation, struct machine *machine, const struct event *event)
{
    struct belief *belief = &machine->beliefs[event->from];
    const struct belief older = *belief;
    *belief = (struct belief){event->connection, event->workers[0]};
    if (older.connection != 0) {
        machine->ended = machine->ended || holds(machine, &older.peer.id);
        assert_int_equal(membership_peer_down(machine->membership, &older.peer.id, simulation->now_ns, NULL),
                         0);
    }
    assert_int_equal(membership_peer_up(machine->membership, &belief->peer, simulation->now_ns, NULL), 0);
}

static void peer_down(struct simulation *simulation, struct machine *machine, const struct event *event)
{
    struct belief *belief = &machine->beliefs[event->from];
    if (belief->connection != event->connection)
        return;
    belief->connection = 0;
    machine->ended = machine->ended || holds(machine, &belief->peer.id);
    assert_int_equal(membership_peer_down(machine->membership, &belief->peer.id, simulation->now_ns, NULL),
                     0);
}

static void receive(struct simulation *simulation, struct machine *machine, const struct event *event)
{
    const struct belief *belief = &machine->beliefs[event->from];
    struct membership_message message = {
        .kind = event->message_kind, .view = event->view, .count = event->count, .workers = event->workers};
    memcpy(message.digest, event->digest, sizeof message.digest);
    if (belief->connection != event->connection)
        return;
    if (machine->committed_view == 0 || holds(machine, &belief->peer.id)) {
        assert_int_equal(
            membership_receive(machine->membership, &belief->peer.id, &message, simulation->now_ns, NULL), 0);
        return;
    }
    /* No place left: the agent refuses, and the sender ends unless it has a view of its own. */
    struct machine *sender = machine_of(simulation, &belief->peer.id);
    if (sender && sender->committed_view == 0) {
        sender->ended = true;
        simulation->outcome->refused++;
    }
}

/* A job whose members do not all hold the view cannot begin, and ends. */
static void check_stall(struct simulation *simulation, struct machine *machine, const struct event *event)
{
    if (machine->committed_view == 0 || !membership_id_equal(&machine->self.id, &event->workers[0].id))
        return;
    for (size_t w = 0; w < machine->committed_count; w++) {
        const struct machine *other = machine_of(simulation, &machine->committed[w].id);
        if (other && other->committed_view == machine->committed_view)
            continue;
        machine->ended = true;
        simulation->outcome->stalls++;
        return;
    }
}

static void happen(struct simulation *simulation, const struct event *event)
{
    struct machine *machine = &simulation->machines[event->to];
    if (event->kind == EVENT_START)
        start_machine(simulation, machine);
    else if (event->kind == EVENT_CONNECT)
        connect_pair(simulation, event->from, event->to);
    else if (event->kind == EVENT_LOSS)
        lose_pair(simulation, event->from, event->to);
    if (!machine->membership)
        return;
    if (event->kind == EVENT_UP)
        peer_up(simulation, machine, event);
    else if (event->kind == EVENT_DOWN)
        peer_down(simulation, machine, event);
    else if (event->kind == EVENT_MESSAGE)
        receive(simulation, machine, event);
    else if (event->kind == EVENT_STALL)
        check_stall(simulation, machine, event);
    else if (event->kind == EVENT_CRASH)
        machine->ended = true;
}

/* What became of the machines by the last event. */
static void settle(struct simulation *simulation)
{
    for (size_t m = 0; m < simulation->options.machines; m++) {
        struct machine *machine = &simulation->machines[m];
        if (machine->membership && (machine->crash_now || machine->ended))
            stop_machine(simulation, machine);
    }
}

static bool check_agreed(struct simulation *simulation)
{
    const struct machine *first = NULL;
    size_t holders = 0;
    for (size_t m = 0; m < simulation->options.machines; m++) {
        const struct machine *machine = &simulation->machines[m];
        if (!machine->membership || machine->committed_view == 0)
            continue;
        if (!first)
            first = machine;
        if (machine->committed_view != first->committed_view ||
            memcmp(machine->committed, first->committed, sizeof first->committed) != 0)
            return false;
        holders++;
    }
    if (!first || holders != simulation->options.wanted)
        return false;
    for (size_t w = 0; w < first->committed_count; w++)
        if (!machine_of(simulation, &first->committed[w].id))
            return false;
    simulation->outcome->view = first->committed_view;
    simulation->outcome->agreed_ns = simulation->now_ns;
    return true;
}

static struct machine *next_to_tick(struct simulation *simulation, uint64_t *ret_ns)
{
    struct machine *next = NULL;
    *ret_ns = UINT64_MAX;
    for (size_t m = 0; m < simulation->options.machines; m++) {
        struct machine *machine = &simulation->machines[m];
        if (!machine->membership)
            continue;
        const uint64_t deadline_ns = membership_deadline_ns(machine->membership);
        if (deadline_ns < *ret_ns) {
            *ret_ns = deadline_ns;
            next = machine;
        }
    }
    return next;
}

static void schedule_faults(struct simulation *simulation)
{
    const struct simulation_options *options = &simulation->options;
    for (size_t m = 0; m < options->machines; m++)
        push(simulation, (struct event){.kind = EVENT_START,
                                        .time_ns = test_below(&simulation->random, options->start_spread_ns),
                                        .to = m});
    for (uint32_t l = 0; l < options->losses && options->machines > 1; l++) {
        const size_t a = test_below(&simulation->random, options->machines);
        const size_t b = (a + 1 + test_below(&simulation->random, options->machines - 1)) % options->machines;
        push(simulation, (struct event){.kind = EVENT_LOSS,
                                        .time_ns = test_below(&simulation->random, options->quiet_ns),
                                        .from = a,
                                        .to = b});
    }
    for (uint32_t c = 0; c < options->crashes; c++)
        push(simulation, (struct event){.kind = EVENT_CRASH,
                                        .time_ns = test_below(&simulation->random, options->quiet_ns),
                                        .to = test_below(&simulation->random, options->machines)});
    for (uint32_t c = 0; c < options->crashes_in_a_send; c++)
        simulation->crash_at_message[c] =
            test_below(&simulation->random, 6 * options->machines * options->machines);
}

void simulation_run(const struct simulation_options *options, uint64_t end_ns,
                    struct simulation_outcome *ret_outcome)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    assert_non_null(simulation);
    assert_true(options->machines <= SIMULATION_MACHINES_MAX);
    assert_true(options->crashes_in_a_send <= MST_ARRAY_COUNT(simulation->crash_at_message));
    simulation->options = *options;
    simulation->outcome = ret_outcome;
    *ret_outcome = (struct simulation_outcome){0};
    simulation->random = options->seed;
    simulation->heap = calloc(EVENTS_MAX, sizeof *simulation->heap);
    simulation->records = calloc(RECORDS_MAX, sizeof *simulation->records);
    assert_true(simulation->heap && simulation->records);
    for (size_t m = 0; m < options->machines; m++) {
        simulation->machines[m].simulation = simulation;
        simulation->machines[m].index = m;
    }
    schedule_faults(simulation);
    while (!ret_outcome->violated && !ret_outcome->agreed) {
        uint64_t tick_ns;
        struct machine *machine = next_to_tick(simulation, &tick_ns);
        const uint64_t event_ns = simulation->heap_count > 0 ? simulation->heap[0].time_ns : UINT64_MAX;
        if ((tick_ns < event_ns ? tick_ns : event_ns) > end_ns)
            break; /* too late, or nothing will ever happen again */
        if (tick_ns < event_ns) {
            simulation->now_ns = tick_ns;
            assert_int_equal(membership_tick(machine->membership, tick_ns, NULL), 0);
        } else {
            const struct event event = pop(simulation);
            simulation->now_ns = event.time_ns;
            happen(simulation, &event);
        }
        settle(simulation);
        ret_outcome->agreed = simulation->now_ns >= options->quiet_ns && check_agreed(simulation);
    }
    for (size_t m = 0; m < options->machines; m++)
        membership_free(simulation->machines[m].membership);
    free(simulation->heap);
    free(simulation->records);
    free(simulation);
}
