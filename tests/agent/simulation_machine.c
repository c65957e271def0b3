/* SPDX-License-Identifier: Apache-2.0 */
/* The machines: a disk that outlives what runs on it, and the state machine with its surroundings as an agent
 * would make them. A machine that dies in the middle of a call is dead from there on, whatever its code still
 * does: nothing that it sends or saves afterwards counts. */
#include "simulation_state.h"

#define RESTART_LEAST_NS (100 * MS)
#define RESTART_MOST_NS  (1500 * MS)

static const char *crash_name(enum simulation_crash where)
{
    static const char *const names[] = {"between events", "at a PROPOSE", "at a PROPOSE to leave",
                                        "at a COMMIT",    "at a HOLD",    "before its vow is saved",
                                        "after it is",    "as it holds",  "as its job is to stop",
                                        "as it may go"};
    return names[where];
}

/* Does the machine die at this point? */
static bool dies(struct machine *machine, enum simulation_crash where)
{
    struct simulation *simulation = machine->simulation;
    if (machine->crash_now)
        return true;
    for (size_t c = 0; c < simulation->crash_point_count; c++) {
        struct crash_point *point = &simulation->crash_points[c];
        if (point->where == where && point->countdown > 0 && --point->countdown == 0) {
            machine->crash_now = true;
            simulation->outcome->crashes[where]++;
            simulation_say(simulation, "m%zu dies %s", machine->index, crash_name(where));
        }
    }
    return machine->crash_now;
}

/* ---- the disk ---- */

void machine_forget_vow(struct kept_vow *kept)
{
    free(kept->places);
    *kept = (struct kept_vow){0};
}

static void keep_ballot(struct membership_ballot *ballot, struct membership_place **next)
{
    if (ballot->count > 0)
        memcpy(*next, ballot->places, ballot->count * sizeof **next);
    ballot->places = *next;
    *next += ballot->count;
}

void machine_keep_vow(struct kept_vow *kept, const struct membership_vow *vow)
{
    size_t count = 1 + vow->held.count;
    assert_true(vow->count <= MST_ARRAY_COUNT(vow->attempts));
    for (size_t a = 0; a < vow->count; a++)
        count += vow->attempts[a].count;
    struct membership_place *places = calloc(count, sizeof *places), *next = places;
    assert_non_null(places);
    struct membership_vow copy = *vow;
    keep_ballot(&copy.held, &next);
    for (size_t a = 0; a < vow->count; a++)
        keep_ballot(&copy.attempts[a], &next);
    machine_forget_vow(kept);
    *kept = (struct kept_vow){copy, places};
}

uint64_t machine_signed_view(const struct membership_vow *vow)
{
    uint64_t view = vow->held.view;
    for (size_t a = 0; a < vow->count; a++)
        if (vow->attempts[a].view > view)
            view = vow->attempts[a].view;
    return view;
}

static void lose_disk(struct machine *machine)
{
    machine_forget_vow(&machine->disk.kept);
    machine->disk = (struct disk){.generation = machine->disk.generation + 1};
    simulation_say(machine->simulation, "m%zu has lost its disk", machine->index);
}

static int on_save(void *context, const struct membership_vow *vow, struct mst_error *err)
{
    struct machine *machine = context;
    struct simulation *simulation = machine->simulation;
    if (dies(machine, SIMULATION_CRASH_BEFORE_SAVE))
        return 0;
    if (simulation->save_fails_one_in > 0 &&
        simulation_below(simulation, simulation->save_fails_one_in) == 0) {
        machine->save_failed = true;
        return mst_error_set(err, -ENOSPC, "no space left");
    }
    rules_saved(machine, vow);
    machine_keep_vow(&machine->disk.kept, vow);
    simulation->outcome->saves++;
    (void)dies(machine, SIMULATION_CRASH_AFTER_SAVE);
    return 0;
}

/* ---- what the state machine asks for ---- */

static enum simulation_crash crash_of(const struct membership_message *message)
{
    if (message->kind == MEMBERSHIP_COMMIT)
        return SIMULATION_CRASH_COMMIT;
    if (message->kind == MEMBERSHIP_HOLD)
        return SIMULATION_CRASH_HOLD;
    return message->leaving ? SIMULATION_CRASH_LEAVE : SIMULATION_CRASH_PROPOSE;
}

static void on_send(void *context, const struct membership_id *to, const struct membership_message *message)
{
    struct machine *machine = context;
    if (dies(machine, crash_of(message)))
        return;
    machine->simulation->outcome->messages++;
    if (message->kind == MEMBERSHIP_PROPOSE)
        rules_proposed(machine, message);
    else if (message->kind == MEMBERSHIP_COMMIT)
        rules_signed(machine, message);
    network_send(machine->simulation, machine->index, to, message);
}

static void on_stop(void *context, bool at_once, const char *reason)
{
    struct machine *machine = context;
    if (dies(machine, SIMULATION_CRASH_STOP))
        return;
    simulation_say(machine->simulation, "m%zu stops%s: %s", machine->index, at_once ? " at once" : "",
                   reason);
    job_stop(machine, at_once);
}

static void on_committed(void *context, const struct membership_view *view)
{
    struct machine *machine = context;
    if (dies(machine, SIMULATION_CRASH_COMMITTED))
        return;
    machine->simulation->outcome->commits++;
    job_enter(machine, rules_committed(machine, view));
}

/* Who goes without anybody's word may be missed, like one that died: somebody starts it again. */
static void go(struct machine *machine, bool agreed)
{
    machine->exit_now = true;
    machine->wanted = machine->wanted || (!agreed && machine_signed_view(&machine->disk.kept.vow) > 0);
}

static void on_left(void *context, uint64_t view)
{
    struct machine *machine = context;
    if (dies(machine, SIMULATION_CRASH_LEFT))
        return;
    simulation_say(machine->simulation, "m%zu may go: view %llu", machine->index, (unsigned long long)view);
    rules_left(machine, view);
    machine->simulation->outcome->left++;
    go(machine, view > 0);
}

static void on_refuse(void *context, const struct membership_id *peer, bool full)
{
    struct machine *machine = context;
    (void)full;
    if (!machine->crash_now)
        network_refuse(machine->simulation, machine->index, peer);
}

/* ---- life ---- */

/* What a call returned: only a disk that cannot be written to is a reason to fail. */
static void returned(struct machine *machine, int r, const struct mst_error *err)
{
    if (machine->save_failed)
        machine->crash_now = true;
    else if (r < 0 && !machine->crash_now)
        simulation_violate(machine->simulation, "m%zu failed: %s", machine->index, err->text);
}

void machine_start(struct machine *machine)
{
    struct simulation *simulation = machine->simulation;
    struct mst_error err = MST_ERROR_INIT;
    const struct membership_callbacks callbacks = {.context = machine,
                                                   .send = on_send,
                                                   .save_vow = on_save,
                                                   .stop = on_stop,
                                                   .committed = on_committed,
                                                   .left = on_left,
                                                   .refuse = on_refuse};
    const uint64_t noise = test_random(&simulation->random);
    if (machine->incarnation > 0 && simulation_below(simulation, 4) == 0)
        machine->ipv4 = 0x0a000100U + (uint32_t)simulation->next_incarnation;
    machine->incarnation = ++simulation->next_incarnation;
    machine->self = (struct membership_worker){.slot = machine->slot, .ipv4 = machine->ipv4, .port = 7070};
    memcpy(machine->self.id.bytes, &noise, sizeof noise); /* which of two is lower is up to the seed */
    memcpy(machine->self.id.bytes + 8, &machine->incarnation, sizeof machine->incarnation);
    const struct membership_options options = {
        .self = machine->self,
        .first = simulation->scenario->first,
        .least = simulation->scenario->least,
        .most = simulation->scenario->most,
        .allow_minority = simulation->scenario->flags & SCENARIO_MINORITY,
        .vow = machine->disk.kept.vow,
    };
    int r = membership_new(&options, &callbacks, &machine->membership, &err);
    assert_int_equal(r, 0);
    machine->stage = MACHINE_RUNNING;
    machine->hard = machine->leaving = false;
    machine->step = machine->disk.step;
    memcpy(machine->lineage, machine->disk.lineage, sizeof machine->lineage);
    machine->proposed_view = machine->committed_view = 0;
    simulation_say(simulation, "m%zu starts, step %llu, vow %llu", machine->index,
                   (unsigned long long)machine->step,
                   (unsigned long long)machine_signed_view(&machine->disk.kept.vow));
    network_started(simulation, machine->index);
    r = membership_start(machine->membership, machine->step, simulation->now_ns, &err);
    returned(machine, r, &err);
}

static void end(struct machine *machine, bool orderly)
{
    struct simulation *simulation = machine->simulation;
    job_lost(machine);
    membership_free(machine->membership);
    machine->membership = NULL;
    machine->stage = MACHINE_DOWN;
    machine->hard = !orderly && !simulation_is_quiet(simulation) && simulation_below(simulation, 4) == 0;
    machine->crash_now = machine->exit_now = machine->refused_now = machine->save_failed = false;
    memset(machine->beliefs, 0, sizeof machine->beliefs);
    network_machine_gone(simulation, machine->index, orderly, machine->hard);
    simulation_say(simulation, "m%zu %s", machine->index, orderly ? "ends" : "is dead");
    if (!machine->wanted)
        return;
    simulation->outcome->restarts++;
    const uint64_t away_ns = machine->down_ns > 0
                                 ? machine->down_ns
                                 : simulation_between(simulation, RESTART_LEAST_NS, RESTART_MOST_NS);
    machine->down_ns = 0;
    simulation_push(
        simulation,
        (struct event){.kind = EVENT_START, .time_ns = simulation->now_ns + away_ns, .to = machine->index});
}

void machine_settle(struct machine *machine)
{
    if (!machine->membership)
        return;
    if (machine->crash_now) {
        /* Whoever dies while it leaves is started again, as when a node is drained and the engine fails. */
        machine->wanted = machine->wanted || machine->leaving;
        end(machine, false);
    } else if (machine->exit_now) {
        end(machine, true);
    } else if (machine->refused_now) {
        machine->simulation->outcome->refused++;
        end(machine, true);
    }
}

void machine_release(struct machine *machine)
{
    membership_free(machine->membership);
    machine_forget_vow(&machine->disk.kept);
}

/* Whoever is about to leave comes back when it is gone. */
static void start(struct machine *machine, const struct event *event)
{
    struct event later = *event;
    later.time_ns += 100 * MS;
    machine->comes_back = event->flag && machine->leaving && machine->membership;
    if (machine->comes_back) {
        simulation_push(machine->simulation, later);
        return;
    }
    machine->wanted = machine->wanted || event->flag;
    if (machine->wanted && machine->stage == MACHINE_DOWN)
        machine_start(machine);
}

static void leave(struct machine *machine)
{
    struct simulation *simulation = machine->simulation;
    struct mst_error err = MST_ERROR_INIT;
    if (machine->stage == MACHINE_FROZEN) { /* a signal waits, too */
        simulation_push(simulation, (struct event){.kind = EVENT_LEAVE,
                                                   .time_ns = simulation->now_ns + 100 * MS,
                                                   .to = machine->index});
        return;
    }
    machine->wanted = false;
    if (machine->stage == MACHINE_DOWN)
        return;
    simulation_say(simulation, "m%zu is to leave", machine->index);
    machine->leaving = true;
    const int r = membership_leave(machine->membership, simulation->now_ns, &err);
    returned(machine, r, &err);
    if (r == 1)
        go(machine, false);
    simulation_push(simulation, (struct event){.kind = EVENT_GRACE,
                                               .time_ns = simulation->now_ns + GRACE_NS,
                                               .to = machine->index,
                                               .number = machine->incarnation});
}

static void lose_patience(struct machine *machine, uint64_t incarnation)
{
    struct simulation *simulation = machine->simulation;
    if (!machine->membership || machine->incarnation != incarnation)
        return;
    if (simulation->now_ns > simulation->quiet_ns + GRACE_NS)
        simulation_violate(simulation, "m%zu is not let go in a quiet network", machine->index);
    machine->crash_now = true;
}

static void freeze(struct machine *machine, uint64_t duration_ns)
{
    struct simulation *simulation = machine->simulation;
    if (machine->stage != MACHINE_RUNNING)
        return;
    machine->stage = MACHINE_FROZEN;
    simulation_say(simulation, "m%zu freezes", machine->index);
    machine->silence_first = duration_ns > SILENCE_NS && simulation_below(simulation, 2) == 0;
    network_frozen(simulation, machine->index);
    simulation_push(simulation, (struct event){.kind = EVENT_WAKE,
                                               .time_ns = simulation->now_ns + duration_ns,
                                               .to = machine->index,
                                               .number = machine->incarnation});
}

static void wake(struct machine *machine, uint64_t incarnation)
{
    if (machine->stage != MACHINE_FROZEN || machine->incarnation != incarnation)
        return;
    machine->stage = MACHINE_RUNNING;
    simulation_say(machine->simulation, "m%zu wakes", machine->index);
    if (simulation_below(machine->simulation, 2) == 0)
        machine_tick(machine); /* its timers first, then what has come */
    if (machine->membership)
        network_woken(machine->simulation, machine->index);
}

void machine_event(struct machine *machine, const struct event *event)
{
    struct simulation *simulation = machine->simulation;
    switch (event->kind) {
    case EVENT_START:
        start(machine, event);
        break;
    case EVENT_CRASH:
        if (event->flag)
            lose_disk(machine);
        if (!machine->membership)
            break;
        machine->crash_now = true;
        machine->down_ns = event->number;
        simulation->outcome->crashes[SIMULATION_CRASH_BETWEEN]++;
        break;
    case EVENT_LEAVE:
        leave(machine);
        break;
    case EVENT_GRACE:
        lose_patience(machine, event->number);
        break;
    case EVENT_FREEZE:
        freeze(machine, event->number);
        break;
    case EVENT_WAKE:
        wake(machine, event->number);
        break;
    default:
        assert_true(false);
    }
    machine_settle(machine);
}

/* ---- what happens to it ---- */

void machine_peer_up(struct machine *machine, size_t from, uint64_t connection,
                     const struct membership_worker *peer)
{
    struct mst_error err = MST_ERROR_INIT;
    simulation_say(machine->simulation, "m%zu: m%zu is up", machine->index, from);
    machine->beliefs[from] = (struct belief){connection, *peer};
    const int r = membership_peer_up(machine->membership, peer, machine->simulation->now_ns, &err);
    returned(machine, r, &err);
}

void machine_peer_down(struct machine *machine, size_t from)
{
    struct mst_error err = MST_ERROR_INIT;
    simulation_say(machine->simulation, "m%zu: m%zu is down", machine->index, from);
    machine->beliefs[from].connection = 0;
    const int r = membership_peer_down(machine->membership, &machine->beliefs[from].peer.id,
                                       machine->simulation->now_ns, &err);
    returned(machine, r, &err);
}

void machine_receive(struct machine *machine, size_t from, const struct membership_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    const int r = membership_receive(machine->membership, &machine->beliefs[from].peer.id, message,
                                     machine->simulation->now_ns, &err);
    returned(machine, r, &err);
}

/* No place left: the agent ends, unless it has a view of its own. */
void machine_refused(struct machine *machine)
{
    if (machine->job.stage != JOB_NONE || membership_view(machine->membership).view > 0)
        return;
    simulation_say(machine->simulation, "m%zu is refused", machine->index);
    machine->down_ns = S;
    machine->refused_now = true;
}

void machine_stopped(struct machine *machine)
{
    struct mst_error err = MST_ERROR_INIT;
    const int r = membership_stopped(machine->membership, machine->step, machine->simulation->now_ns, &err);
    returned(machine, r, &err);
    machine_settle(machine);
}

void machine_tick(struct machine *machine)
{
    struct mst_error err = MST_ERROR_INIT;
    const int r = membership_tick(machine->membership, machine->simulation->now_ns, &err);
    returned(machine, r, &err);
    machine_settle(machine);
}
