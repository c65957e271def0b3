/* SPDX-License-Identifier: Apache-2.0 */
/* What lies between machines. Each direction of a pair is one queue, in the order of arrival, over all of
 * the pair's connections one after the other. A cut stops a direction without losing anything: TCP sends it
 * again when the cut is healed, unless one side has given up by then. */
#include "simulation_state.h"

#define CONNECT_WITHIN_NS (200 * MS) /* a new connection stands within this */

static struct direction *direction_of(struct simulation *simulation, size_t from, size_t to)
{
    return &simulation->directions[from][to];
}

/* ---- packets and items ---- */

static void packet_free(struct packet *packet)
{
    if (!packet)
        return;
    machine_forget_vow(&packet->vow);
    free(packet->workers);
    free(packet);
}

static struct packet *packet_new(const struct membership_message *message)
{
    struct packet *packet = calloc(1, sizeof *packet);
    assert_non_null(packet);
    packet->message = *message;
    machine_keep_vow(&packet->vow, &message->vow);
    packet->message.vow = packet->vow.vow;
    packet->workers = calloc(message->count + 1, sizeof *packet->workers);
    assert_non_null(packet->workers);
    if (message->count > 0)
        memcpy(packet->workers, message->workers, message->count * sizeof *packet->workers);
    packet->message.workers = packet->workers;
    return packet;
}

static void item_free(struct item *item)
{
    packet_free(item->packet);
    free(item);
}

static void clear(struct direction *direction)
{
    while (direction->first) {
        struct item *item = direction->first;
        direction->first = item->next;
        item_free(item);
    }
    direction->last = NULL;
}

void network_release(struct simulation *simulation)
{
    for (size_t from = 0; from < MACHINES; from++)
        for (size_t to = 0; to < MACHINES; to++)
            clear(direction_of(simulation, from, to));
}

/* Put something behind what is under way in this direction. */
static struct item *put(struct simulation *simulation, size_t from, size_t to, enum item_kind kind,
                        uint64_t connection)
{
    struct direction *direction = direction_of(simulation, from, to);
    struct item *item = calloc(1, sizeof *item);
    assert_non_null(item);
    item->kind = kind;
    item->connection = connection;
    item->time_ns = simulation->now_ns + 1 + simulation_below(simulation, simulation->delay_ns);
    if (item->time_ns <= direction->last_ns)
        item->time_ns = direction->last_ns + 1;
    direction->last_ns = item->time_ns;
    if (direction->last)
        direction->last->next = item;
    else
        direction->first = item;
    direction->last = item;
    simulation_push(simulation,
                    (struct event){.kind = EVENT_DELIVER, .time_ns = item->time_ns, .from = from, .to = to});
    return item;
}

static const char *kind_name(enum membership_kind kind)
{
    return kind == MEMBERSHIP_PROPOSE ? "PROPOSE" : kind == MEMBERSHIP_COMMIT ? "COMMIT" : "HOLD";
}

static size_t machine_of(const struct simulation *simulation, const struct membership_id *id)
{
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (simulation->machines[m].membership && membership_id_equal(&simulation->machines[m].self.id, id))
            return m;
    return SIZE_MAX;
}

/* Is there a connection on which `from` may write to this incarnation? */
static bool can_write(const struct simulation *simulation, size_t from, size_t to)
{
    const uint64_t connection = simulation->machines[from].beliefs[to].connection;
    return connection != 0 && connection == simulation->directions[from][to].connection;
}

void network_send(struct simulation *simulation, size_t from, const struct membership_id *to,
                  const struct membership_message *message)
{
    const size_t target = machine_of(simulation, to);
    if (target == SIZE_MAX || !can_write(simulation, from, target))
        return; /* written into the void */
    simulation_say(simulation, "m%zu > m%zu %s %llu", from, target, kind_name(message->kind),
                   (unsigned long long)message->view);
    put(simulation, from, target, ITEM_MESSAGE, simulation->directions[from][target].connection)->packet =
        packet_new(message);
}

void network_refuse(struct simulation *simulation, size_t from, const struct membership_id *to)
{
    const size_t target = machine_of(simulation, to);
    if (target != SIZE_MAX && can_write(simulation, from, target))
        put(simulation, from, target, ITEM_REFUSAL, simulation->directions[from][target].connection);
}

/* ---- silence ---- */

/* Nothing is heard from `from`: since when? */
static void note_silence(struct simulation *simulation, size_t from, size_t to)
{
    struct direction *direction = direction_of(simulation, from, to);
    const struct machine *machine = &simulation->machines[from];
    const bool silent = direction->blocks > 0 || machine->stage == MACHINE_FROZEN;
    if (silent && !direction->silent) {
        direction->silent_since_ns = simulation->now_ns;
        simulation_push(simulation, (struct event){.kind = EVENT_SILENCE,
                                                   .time_ns = simulation->now_ns + SILENCE_NS +
                                                              simulation_below(simulation, 200 * MS),
                                                   .from = from,
                                                   .to = to});
    }
    direction->silent = silent;
}

static void note_silences_of(struct simulation *simulation, size_t from)
{
    for (size_t to = 0; to < simulation->machine_count; to++)
        if (to != from)
            note_silence(simulation, from, to);
}

/* ---- connections ---- */

bool network_passes(const struct simulation *simulation, size_t a, size_t b)
{
    return simulation->machines[a].stage == MACHINE_RUNNING &&
           simulation->machines[b].stage == MACHINE_RUNNING && simulation->directions[a][b].blocks == 0 &&
           simulation->directions[b][a].blocks == 0;
}

void network_try_connect(struct simulation *simulation, size_t a, size_t b)
{
    bool *trying = &direction_of(simulation, a < b ? a : b, a < b ? b : a)->trying;
    if (*trying)
        return;
    *trying = true;
    simulation_push(simulation, (struct event){.kind = EVENT_CONNECT,
                                               .time_ns = simulation->now_ns + 1 +
                                                          simulation_below(simulation, CONNECT_WITHIN_NS),
                                               .from = a,
                                               .to = b});
}

static void connect_pair(struct simulation *simulation, size_t a, size_t b)
{
    const struct machine *left = &simulation->machines[a], *right = &simulation->machines[b];
    direction_of(simulation, a < b ? a : b, a < b ? b : a)->trying = false;
    if (!left->membership || !right->membership || simulation->directions[a][b].connection != 0)
        return; /* a start brings its own try */
    if (!network_passes(simulation, a, b)) {
        network_try_connect(simulation, a, b);
        return;
    }
    const uint64_t number = ++simulation->next_connection;
    direction_of(simulation, a, b)->connection = number;
    direction_of(simulation, b, a)->connection = number;
    put(simulation, a, b, ITEM_UP, number)->worker = left->self;
    put(simulation, b, a, ITEM_UP, number)->worker = right->self;
}

/* What is under way from a connection's end on: some of it still arrives. */
static void lose_some(struct simulation *simulation, struct direction *direction)
{
    const uint64_t cut_ns = simulation->now_ns + simulation_below(simulation, simulation->delay_ns);
    struct item **link = &direction->first;
    direction->last = NULL;
    while (*link) {
        struct item *item = *link;
        if (item->kind == ITEM_MESSAGE && item->time_ns > cut_ns) {
            *link = item->next;
            item_free(item);
            continue;
        }
        direction->last = item;
        link = &item->next;
    }
}

/* `from` has ended its side: `to` hears of it behind what still gets through. */
static void end_direction(struct simulation *simulation, size_t from, size_t to, bool orderly)
{
    struct direction *direction = direction_of(simulation, from, to);
    const uint64_t connection = direction->connection;
    direction->connection = 0;
    if (connection == 0)
        return;
    if (!orderly)
        lose_some(simulation, direction);
    put(simulation, from, to, ITEM_DOWN, connection);
}

/* A machine gives a connection up, and hears nothing more of it. */
static void give_up(struct simulation *simulation, size_t machine, size_t peer)
{
    simulation_say(simulation, "m%zu gives m%zu up", machine, peer);
    end_direction(simulation, machine, peer, false);
    clear(direction_of(simulation, peer, machine));
    direction_of(simulation, peer, machine)->connection = 0;
    if (simulation->machines[machine].beliefs[peer].connection != 0)
        machine_peer_down(&simulation->machines[machine], peer);
    network_try_connect(simulation, machine, peer);
}

/* Both sides hear that the connection has broken. */
static void reset_pair(struct simulation *simulation, size_t a, size_t b)
{
    if (direction_of(simulation, a, b)->connection == 0)
        return;
    simulation_say(simulation, "reset m%zu - m%zu", a, b);
    end_direction(simulation, a, b, false);
    end_direction(simulation, b, a, false);
    network_try_connect(simulation, a, b);
}

void network_machine_gone(struct simulation *simulation, size_t gone, bool orderly, bool hard)
{
    for (size_t m = 0; m < simulation->machine_count; m++) {
        if (m == gone)
            continue;
        clear(direction_of(simulation, m, gone));
        direction_of(simulation, m, gone)->connection = 0;
        if (hard) /* nobody is told: silence alone tells */
            simulation_push(simulation,
                            (struct event){.kind = EVENT_STALE,
                                           .time_ns = simulation->now_ns + SILENCE_NS +
                                                      simulation_below(simulation, 200 * MS),
                                           .from = gone,
                                           .to = m,
                                           .number = simulation->machines[m].beliefs[gone].connection});
        else
            end_direction(simulation, gone, m, orderly);
        direction_of(simulation, gone, m)->connection = 0;
    }
    note_silences_of(simulation, gone);
}

void network_started(struct simulation *simulation, size_t machine)
{
    note_silences_of(simulation, machine);
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (m != machine)
            network_try_connect(simulation, machine, m);
}

/* ---- delivery ---- */

static void deliver_up(struct simulation *simulation, const struct item *item, size_t from, size_t to)
{
    struct machine *machine = &simulation->machines[to];
    if (machine->beliefs[from].connection != 0)
        machine_peer_down(machine, from);
    if (machine->membership && !machine->crash_now)
        machine_peer_up(machine, from, item->connection, &item->worker);
}

static void deliver(struct simulation *simulation, const struct item *item, size_t from, size_t to)
{
    struct machine *machine = &simulation->machines[to];
    const bool known = machine->beliefs[from].connection == item->connection;
    switch (item->kind) {
    case ITEM_UP:
        deliver_up(simulation, item, from, to);
        break;
    case ITEM_DOWN:
        /* The other direction ends with it. */
        if (direction_of(simulation, to, from)->connection == item->connection)
            end_direction(simulation, to, from, true);
        if (known)
            machine_peer_down(machine, from);
        network_try_connect(simulation, from, to);
        break;
    case ITEM_MESSAGE:
        if (known)
            machine_receive(machine, from, &item->packet->message);
        break;
    case ITEM_REFUSAL:
        if (known)
            machine_refused(machine);
        break;
    }
}

/* What has arrived by now, unless a cut holds it back. A frozen machine's waits in the queue. */
static struct item *take_arrived(struct simulation *simulation, size_t from, size_t to)
{
    struct direction *direction = direction_of(simulation, from, to);
    struct item *item = direction->first;
    if (!item || item->time_ns > simulation->now_ns || direction->blocks > 0 ||
        direction->not_before_ns > simulation->now_ns || simulation->machines[to].stage != MACHINE_RUNNING)
        return NULL;
    direction->first = item->next;
    if (!direction->first)
        direction->last = NULL;
    return item;
}

static void deliver_arrived(struct simulation *simulation, size_t from, size_t to)
{
    for (;;) {
        struct item *item = take_arrived(simulation, from, to);
        if (!item)
            return;
        deliver(simulation, item, from, to);
        item_free(item);
        machine_settle(&simulation->machines[to]);
    }
}

/* ---- freezing, cutting ---- */

void network_frozen(struct simulation *simulation, size_t machine)
{
    note_silences_of(simulation, machine);
}

/* All that came meanwhile is there at once, in the order of arrival. What the machine's own clock says of
 * the others' silence comes before it, or after. */
void network_woken(struct simulation *simulation, size_t machine)
{
    struct machine *woken = &simulation->machines[machine];
    note_silences_of(simulation, machine);
    for (size_t m = 0; m < simulation->machine_count && woken->silence_first; m++)
        if (m != machine && woken->stage == MACHINE_RUNNING && woken->beliefs[m].connection != 0) {
            give_up(simulation, machine, m);
            machine_settle(woken);
        }
    for (;;) {
        size_t earliest = SIZE_MAX;
        for (size_t m = 0; m < simulation->machine_count; m++) {
            const struct direction *direction = direction_of(simulation, m, machine);
            if (m == machine || !direction->first || direction->first->time_ns > simulation->now_ns ||
                direction->blocks > 0 || direction->not_before_ns > simulation->now_ns)
                continue;
            if (earliest == SIZE_MAX ||
                direction->first->time_ns < direction_of(simulation, earliest, machine)->first->time_ns)
                earliest = m;
        }
        struct item *item = earliest == SIZE_MAX ? NULL : take_arrived(simulation, earliest, machine);
        if (!item)
            return;
        deliver(simulation, item, earliest, machine);
        item_free(item);
        machine_settle(woken);
    }
}

static void set_cut(struct simulation *simulation, size_t index, bool in_force)
{
    struct cut *cut = &simulation->cuts[index];
    if (cut->in_force == in_force)
        return;
    cut->in_force = in_force;
    for (size_t from = 0; from < simulation->machine_count; from++) {
        for (size_t to = 0; to < simulation->machine_count; to++) {
            struct direction *direction = direction_of(simulation, from, to);
            if (from == to || !(cut->rows[from] & 1U << to))
                continue;
            direction->blocks += in_force ? 1 : (size_t)-1;
            note_silence(simulation, from, to);
            if (in_force || direction->blocks > 0)
                continue;
            direction->not_before_ns =
                simulation->now_ns + 1 + simulation_below(simulation, simulation->delay_ns);
            if (direction->last_ns < direction->not_before_ns)
                direction->last_ns = direction->not_before_ns;
            simulation_push(simulation, (struct event){.kind = EVENT_DELIVER,
                                                       .time_ns = direction->not_before_ns,
                                                       .from = from,
                                                       .to = to});
        }
    }
}

void network_cut(struct simulation *simulation, size_t cut)
{
    simulation_say(simulation, "cut %zu", cut);
    set_cut(simulation, cut, true);
}

void network_heal(struct simulation *simulation, size_t cut)
{
    simulation_say(simulation, "heal %zu", cut);
    set_cut(simulation, cut, false);
}

static void check_silence(struct simulation *simulation, size_t from, size_t to)
{
    const struct direction *direction = direction_of(simulation, from, to);
    const struct machine *machine = &simulation->machines[to];
    if (!direction->silent || direction->silent_since_ns + SILENCE_NS > simulation->now_ns)
        return; /* heard again since */
    if (machine->stage == MACHINE_FROZEN) {
        simulation_push(simulation, (struct event){.kind = EVENT_SILENCE,
                                                   .time_ns = simulation->now_ns + 100 * MS,
                                                   .from = from,
                                                   .to = to});
        return;
    }
    if (machine->stage == MACHINE_RUNNING && machine->beliefs[from].connection != 0)
        give_up(simulation, to, from);
}

/* The other end is long gone. */
static void check_stale(struct simulation *simulation, const struct event *event)
{
    struct machine *machine = &simulation->machines[event->to];
    struct event later = *event;
    if (event->number == 0 || machine->beliefs[event->from].connection != event->number)
        return;
    later.time_ns += 100 * MS;
    if (machine->stage == MACHINE_FROZEN)
        simulation_push(simulation, later);
    else
        give_up(simulation, event->to, event->from);
}

bool network_is_calm(const struct simulation *simulation, size_t from, size_t to)
{
    const struct direction *direction = &simulation->directions[from][to];
    if (from == to)
        return true;
    for (const struct item *item = direction->first; item; item = item->next)
        if (item->kind == ITEM_DOWN)
            return false;
    return direction->connection != 0 &&
           direction->connection == simulation->machines[to].beliefs[from].connection;
}

void network_event(struct simulation *simulation, const struct event *event)
{
    switch (event->kind) {
    case EVENT_CONNECT:
        connect_pair(simulation, event->from, event->to);
        break;
    case EVENT_DELIVER:
        deliver_arrived(simulation, event->from, event->to);
        break;
    case EVENT_SILENCE:
        check_silence(simulation, event->from, event->to);
        machine_settle(&simulation->machines[event->to]);
        break;
    case EVENT_STALE:
        check_stale(simulation, event);
        machine_settle(&simulation->machines[event->to]);
        break;
    case EVENT_RESET:
        reset_pair(simulation, event->from, event->to);
        break;
    default:
        assert_true(false);
    }
}
