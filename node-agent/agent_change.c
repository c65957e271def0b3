/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRUITLESS_MAX 20 /* views in a row in which no step came about */

void agent_change_release(struct change *change)
{
    free(change->members);
    *change = (struct change){0};
}

/* The first notice counts: a second loss on the way to the next view belongs to the same change. */
static void notice_change(struct agent *agent)
{
    struct change *change = &agent->change;
    if (change->noticed_ns != 0 || agent->view == 0)
        return;
    change->noticed_ns = mst_now_ns();
    change->members = calloc(agent->world, sizeof *change->members);
    if (!change->members)
        return; /* the event will name nobody */
    memcpy(change->members, agent->members, agent->world * sizeof *change->members);
    change->world = agent->world;
}

static struct member *find_in_change(const struct change *change, const uint8_t *incarnation)
{
    for (size_t m = 0; m < change->world; m++)
        if (memcmp(change->members[m].identity.incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return &change->members[m];
    return NULL;
}

/* ---- stopping the job ---- */

void agent_stop_job(void *context, bool at_once, const char *reason)
{
    struct agent *agent = context;
    notice_change(agent);
    mst_log_debug("agent", "view %" PRIu64 " is left%s: %s", agent->view, at_once ? " at once" : "", reason);
    if (agent->state == AGENT_RUNNING)
        agent->state = AGENT_CHANGING;
    if (!agent->runner)
        agent->stop_due = true; /* not from within the membership's own call */
    else if (at_once)
        runner_cancel(agent->runner);
    else
        runner_pause(agent->runner);
}

void agent_job_stopped(struct agent *agent, uint64_t begun)
{
    struct mst_error err = MST_ERROR_INIT;
    notice_change(agent);
    if (begun > agent->change.begun)
        agent->change.begun = begun;
    if (agent->state == AGENT_RUNNING)
        agent->state = AGENT_CHANGING;
    /* From here on it waits. Not since it ran last: a process that was frozen for long has only now heard. */
    agent->form_deadline_ns = mst_now_ns() + agent->config->wait_ns;
    if (++agent->fruitless > FRUITLESS_MAX) {
        agent_fail(agent, MST_EXIT_FAILED, true, "%d views in a row without a step", FRUITLESS_MAX);
        return;
    }
    agent_set_searching(agent);
    if (membership_stopped(agent->membership, agent->job.kind->position(agent->job.state), mst_now_ns(),
                           &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

/* ---- who is lost, who leaves ---- */

void agent_note_leaving(struct agent *agent, const uint8_t *incarnation)
{
    struct member *const members[] = {agent_find_member(agent, incarnation),
                                      find_in_change(&agent->change, incarnation)};
    for (size_t m = 0; m < MST_ARRAY_COUNT(members); m++)
        if (members[m])
            members[m]->leaving = true;
}

void agent_lost_member(struct agent *agent, struct member *member, const char *reason)
{
    const bool said_bye = member->gone;
    const uint64_t silence_ns = mst_now_ns() - member->heard_ns;
    member->gone = true;
    if (said_bye || member->leaving || agent->state == AGENT_FAREWELL || agent->state == AGENT_ENDED)
        return;
    if (agent->change.noticed_ns == 0 || agent->change.silence_ns == 0)
        agent->change.silence_ns = silence_ns;
    char address[MST_IPV4_TEXT_BYTES];
    struct report report = report_begin(&agent->station.events, "lost");
    report_number(&report, "view", (double)agent->view);
    report_text(&report, "lost", member->identity.slot);
    report_text(&report, "address", mst_ipv4_text(member->identity.ipv4, address));
    report_text(&report, "reason", reason);
    report_number(&report, "step", (double)agent_progress(agent).step);
    report_number(&report, "silence_ms", (double)silence_ns / 1e6);
    report_send(&report);
}

void agent_leave(struct agent *agent, int exit_status, const char *signal_name)
{
    struct mst_error err = MST_ERROR_INIT;
    const bool may_wait = agent->membership && agent->leave_deadline_ns == 0 &&
                          (agent->state == AGENT_RUNNING || agent->state == AGENT_CHANGING);
    const int r = may_wait ? membership_leave(agent->membership, mst_now_ns(), &err) : 1;
    if (r < 0)
        mst_log_warn("agent", "leaving without a word: %s", err.text);
    if (!agent->membership) {
        char reason[64];
        (void)snprintf(reason, sizeof reason, "told to stop (%s)", signal_name);
        agent_end(agent, exit_status, "left", reason);
        return;
    }
    if (r != 0) { /* nobody to take leave of, or told for the second time */
        agent_fail(agent, exit_status, true, "%s was told to stop (%s)", agent->station.slot, signal_name);
        return;
    }
    agent->leave_deadline_ns = mst_now_ns() + AGENT_LEAVE_NS;
    agent->leave_status = exit_status;
    struct report report = report_begin(&agent->station.events, "leaving");
    report_number(&report, "view", (double)agent->view);
    report_text(&report, "reason", signal_name);
    report_send(&report);
}

void agent_has_left(void *context, uint64_t view)
{
    struct agent *agent = context;
    (void)view;
    agent_end(agent, agent->leave_status, "left", "the others go on without it");
}

/* ---- the next view ---- */

void agent_change_agreed(struct agent *agent)
{
    if (agent->change.noticed_ns != 0)
        agent->change.agreed_ns = mst_now_ns();
}

/* Who was in the view before and is not in this one (or the other way round), by incarnation. */
static size_t count_lost(const struct agent *agent, bool leaving)
{
    size_t count = 0;
    for (size_t m = 0; m < agent->change.world; m++) {
        const struct member *member = &agent->change.members[m];
        count += member->leaving == leaving && !agent_find_member(agent, member->identity.incarnation);
    }
    return count;
}

static size_t count_joined(const struct agent *agent)
{
    size_t count = 0;
    for (size_t m = 0; m < agent->world; m++)
        count += !find_in_change(&agent->change, agent->members[m].identity.incarnation);
    return count;
}

const char *agent_change_cause(const struct agent *agent)
{
    if (agent->change.noticed_ns == 0)
        return "first";
    if (count_lost(agent, false) > 0)
        return "lost";
    if (count_lost(agent, true) > 0)
        return "left";
    return count_joined(agent) > 0 ? "joined" : "retry";
}

static void name_lost(const struct agent *agent, struct report *report, const char *key, bool leaving)
{
    cJSON *slots = report_array(report, key);
    for (size_t m = 0; m < agent->change.world; m++) {
        const struct member *member = &agent->change.members[m];
        if (member->leaving == leaving && !agent_find_member(agent, member->identity.incarnation))
            report_append_text(report, slots, member->identity.slot);
    }
}

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

void agent_check_recovered(struct agent *agent)
{
    struct change *change = &agent->change;
    if (!agent->runner)
        return;
    const struct job_progress progress = runner_progress(agent->runner);
    if (progress.stepped_ns == 0)
        return;
    agent->fruitless = 0; /* also where the view is about to be left: it was good for a step */
    if (agent->state != AGENT_RUNNING || change->noticed_ns == 0)
        return;
    struct report report = report_begin(&agent->station.events, "recovered");
    report_number(&report, "view", (double)agent->view);
    report_number(&report, "rank", (double)agent->rank);
    report_number(&report, "world", (double)agent->world);
    name_lost(agent, &report, "lost", false);
    name_lost(agent, &report, "left", true);
    cJSON *joined = report_array(&report, "joined");
    for (size_t m = 0; m < agent->world; m++)
        if (!find_in_change(change, agent->members[m].identity.incarnation))
            report_append_text(&report, joined, agent->members[m].identity.slot);
    report_number(&report, "detected_ms", (double)change->silence_ns / 1e6);
    report_number(&report, "agreed_ms", ms_between(change->noticed_ns, change->agreed_ns));
    report_number(&report, "ready_ms", ms_between(change->agreed_ns, progress.entered_ns));
    report_number(&report, "ms", ms_between(change->noticed_ns, progress.stepped_ns));
    report_number(&report, "steps_repeated",
                  change->begun > agent->view_step ? (double)(change->begun - agent->view_step) : 0);
    report_send(&report);
    agent_change_release(change);
}
