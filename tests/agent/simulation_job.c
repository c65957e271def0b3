/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous training, as far as membership sees it. In a view all members bring their states to the
 * furthest one, then make steps together: a step is complete once everybody's part is in, and is then taken
 * over by each at a time of its own. Nobody begins another one before all have taken over the last, so states
 * differ by one at most. Whoever stops closes its connections, which stops the others in the same view. */
#include "simulation_state.h"

#define STOP_WITHIN_NS (20 * MS)
#define ENTER_NS       (3 * S) /* then a member that is not there is given up */

static struct machine *machine_at(struct simulation *simulation, const struct session *session, size_t member)
{
    return &simulation->machines[session->machines[member]];
}

/* Is this member, the same incarnation, in the session, at this stage? */
static bool is_at(const struct machine *machine, size_t session, uint64_t incarnation, enum job_stage stage)
{
    return machine->incarnation == incarnation && machine->membership && machine->job.session == session &&
           machine->job.stage == stage;
}

static void push_job(struct machine *machine, enum event_kind kind, uint64_t within_ns)
{
    struct simulation *simulation = machine->simulation;
    simulation_push(simulation, (struct event){.kind = kind,
                                               .time_ns = simulation->now_ns + 1 +
                                                          simulation_below(simulation, within_ns),
                                               .to = machine->index,
                                               .number = machine->job.serial});
}

static void begin_to_stop(struct machine *machine)
{
    machine->job.stage = JOB_STOPPING;
    push_job(machine, EVENT_JOB_STOPPED, STOP_WITHIN_NS);
}

void job_enter(struct machine *machine, size_t index)
{
    struct simulation *simulation = machine->simulation;
    struct session *session = &simulation->sessions[index];
    machine->job = (struct job){.stage = JOB_ENTERING, .serial = machine->job.serial + 1, .session = index};
    simulation_push(simulation, (struct event){.kind = EVENT_JOB_LATE,
                                               .time_ns = simulation->now_ns + ENTER_NS,
                                               .to = machine->index,
                                               .number = machine->job.serial});
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *other = machine_at(simulation, session, m);
        if (session->gone & 1U << m || other->incarnation != session->incarnations[m] || !other->membership) {
            push_job(machine, EVENT_JOB_BROKEN, simulation->delay_ns);
            break;
        }
    }
    if (!session->pulsing)
        simulation_push(
            simulation,
            (struct event){.kind = EVENT_PULSE, .time_ns = simulation->now_ns + 10 * MS, .number = index});
    session->pulsing = true;
}

void job_stop(struct machine *machine, bool at_once)
{
    struct job *job = &machine->job;
    if (job->stage != JOB_ENTERING && job->stage != JOB_TRAINING)
        return;
    if (at_once)
        begin_to_stop(machine);
    else
        job->pause = true;
}

void job_lost(struct machine *machine)
{
    struct simulation *simulation = machine->simulation;
    if (machine->job.stage == JOB_NONE)
        return;
    machine->job.stage = JOB_NONE;
    struct session *session = &simulation->sessions[machine->job.session];
    for (size_t m = 0; m < session->count; m++) {
        struct machine *other = machine_at(simulation, session, m);
        if (other == machine)
            session->gone |= 1U << m;
        else if (other->job.stage != JOB_NONE && other->job.session == machine->job.session &&
                 simulation->directions[machine->index][other->index].blocks == 0)
            push_job(other, EVENT_JOB_BROKEN, simulation->delay_ns);
    }
}

static void broken(struct machine *machine)
{
    struct job *job = &machine->job;
    if (job->stage != JOB_ENTERING && job->stage != JOB_TRAINING)
        return;
    if (job->applying)
        job->broken = true; /* all parts of that step are in */
    else
        begin_to_stop(machine);
}

/* All members are in the session at this stage, and everybody reaches everybody. */
static bool all_at(struct simulation *simulation, size_t index, enum job_stage stage)
{
    const struct session *session = &simulation->sessions[index];
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *machine = machine_at(simulation, session, m);
        if (!is_at(machine, index, session->incarnations[m], stage) || machine->stage != MACHINE_RUNNING ||
            machine->job.broken)
            return false;
        for (size_t other = 0; other < m; other++)
            if (!network_passes(simulation, session->machines[m], session->machines[other]))
                return false;
    }
    return true;
}

static void synchronise(struct simulation *simulation, size_t index)
{
    struct session *session = &simulation->sessions[index];
    uint64_t furthest = 0;
    session->synchronising = false;
    if (!all_at(simulation, index, JOB_ENTERING))
        return;
    for (size_t m = 0; m < session->count; m++)
        if (session->members[m].step > furthest)
            furthest = session->members[m].step;
    rules_synchronised(simulation, index, furthest);
    session->synchronised = true;
    session->step = furthest;
    for (size_t m = 0; m < session->count; m++) {
        struct machine *machine = machine_at(simulation, session, m);
        machine->step = furthest;
        memcpy(machine->lineage, session->lineage, sizeof machine->lineage);
        machine->job.stage = JOB_TRAINING;
    }
    simulation_say(simulation, "view %llu trains from step %llu", (unsigned long long)session->view,
                   (unsigned long long)furthest);
}

/* Everybody's part of the next step is in. */
static void complete_step(struct simulation *simulation, size_t index)
{
    struct session *session = &simulation->sessions[index];
    bool pause = false;
    for (size_t m = 0; m < session->count; m++) {
        const struct job *job = &machine_at(simulation, session, m)->job;
        if (job->applying || machine_at(simulation, session, m)->step != session->step)
            return; /* somebody has not taken over the last one */
        pause = pause || job->pause;
    }
    rules_step(simulation, index);
    session->step++;
    session->steps_made++;
    for (size_t m = 0; m < session->count; m++) {
        struct machine *machine = machine_at(simulation, session, m);
        const uint64_t within_ns = simulation->delay_ns < 30 * MS ? simulation->delay_ns : 30 * MS;
        machine->job.applying = true;
        simulation_push(simulation, (struct event){.kind = EVENT_APPLY,
                                                   .time_ns = simulation->now_ns + 1 +
                                                              simulation_below(simulation, within_ns),
                                                   .to = machine->index,
                                                   .number = machine->job.serial,
                                                   .step = session->step,
                                                   .flag = pause});
    }
}

/* The end of a connection that a cut held back is heard of once it is healed. */
static void tell_late_ends(struct simulation *simulation, const struct session *session,
                           struct machine *machine)
{
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *other = machine_at(simulation, session, m);
        if (session->gone & 1U << m && !other->hard &&
            simulation->directions[other->index][machine->index].blocks == 0)
            push_job(machine, EVENT_JOB_BROKEN, simulation->delay_ns);
    }
}

static void pulse(struct simulation *simulation, size_t index)
{
    struct session *session = &simulation->sessions[index];
    bool any = false;
    for (size_t m = 0; m < session->count; m++) {
        struct machine *machine = machine_at(simulation, session, m);
        if (machine->incarnation != session->incarnations[m] || machine->job.session != index ||
            machine->job.stage == JOB_NONE)
            continue;
        any = true;
        tell_late_ends(simulation, session, machine);
    }
    session->pulsing = any;
    if (!any)
        return;
    if (session->synchronised) {
        if (all_at(simulation, index, JOB_TRAINING))
            complete_step(simulation, index);
    } else if (!session->synchronising && all_at(simulation, index, JOB_ENTERING)) {
        session->synchronising = true;
        simulation_push(simulation, (struct event){.kind = EVENT_SYNCHRONISED,
                                                   .time_ns = simulation->now_ns + 10 * MS,
                                                   .number = index});
    }
    simulation_push(simulation, (struct event){.kind = EVENT_PULSE,
                                               .time_ns = simulation->now_ns + simulation->step_ns,
                                               .number = index});
}

static void apply(struct machine *machine, const struct event *event)
{
    struct job *job = &machine->job;
    if (job->stage != JOB_TRAINING && job->stage != JOB_STOPPING)
        return;
    machine->step = event->step;
    job->applying = false;
    if (machine->step % CHECKPOINT_STEPS == 0) {
        machine->disk.step = machine->step;
        memcpy(machine->disk.lineage, machine->lineage, sizeof machine->lineage);
    }
    if (job->stage == JOB_TRAINING && (event->flag || job->broken))
        begin_to_stop(machine);
}

static void break_data(struct simulation *simulation, size_t a, size_t b)
{
    struct machine *left = &simulation->machines[a], *right = &simulation->machines[b];
    if (left->job.stage == JOB_NONE || right->job.stage == JOB_NONE ||
        left->job.session != right->job.session)
        return;
    simulation_say(simulation, "data connection m%zu - m%zu breaks", a, b);
    push_job(left, EVENT_JOB_BROKEN, simulation->delay_ns);
    push_job(right, EVENT_JOB_BROKEN, simulation->delay_ns);
}

/* Of one machine's job. */
static void machine_job_event(struct machine *machine, const struct event *event)
{
    if (!machine->membership || machine->job.serial != event->number)
        return; /* of an older job */
    if (machine->stage == MACHINE_FROZEN) {
        struct event later = *event;
        later.time_ns += 20 * MS;
        simulation_push(machine->simulation, later);
        return;
    }
    switch (event->kind) {
    case EVENT_JOB_STOPPED:
        if (machine->job.stage != JOB_STOPPING)
            break;
        job_lost(machine);
        machine_stopped(machine);
        break;
    case EVENT_JOB_BROKEN:
        broken(machine);
        break;
    case EVENT_JOB_LATE:
        if (machine->job.stage == JOB_ENTERING)
            broken(machine);
        break;
    case EVENT_APPLY:
        apply(machine, event);
        break;
    default:
        assert_true(false);
    }
}

void job_event(struct simulation *simulation, const struct event *event)
{
    switch (event->kind) {
    case EVENT_PULSE:
        pulse(simulation, event->number);
        break;
    case EVENT_SYNCHRONISED:
        synchronise(simulation, event->number);
        break;
    case EVENT_BREAK_DATA:
        break_data(simulation, event->from, event->to);
        break;
    default:
        machine_job_event(&simulation->machines[event->to], event);
    }
}
