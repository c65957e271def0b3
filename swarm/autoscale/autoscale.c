/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/autoscale.h"

#include "autoscale/usage.h"
#include "autoscale/write.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/log.h"
#include "stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 5000 /* of a monitor, less when the rounds follow each other more closely */

struct autoscale {
    struct session *session;
    const struct autoscale_options *options;
    struct peers *peers;
    struct autoscale_usage usage;
    struct mst_event_sink sink;
    struct autoscale_known *known; /* owned, AUTOSCALE_SERVICES_MAX */
    size_t known_count;
    char trouble[MST_ERROR_TEXT_BYTES]; /* that was told of; "": none */
    char unreachable[512];              /* monitors, likewise */
};

/* What one round looks at. */
struct look {
    cJSON *services, *tasks;
    struct autoscale_view view;
    struct autoscale_row *rows;
    size_t row_count;
    char silent[256]; /* the first monitor that did not answer, and why; "" */
    size_t silent_count, asked_count;
};

static void look_release(struct look *look)
{
    autoscale_view_release(&look->view);
    cJSON_Delete(look->services);
    cJSON_Delete(look->tasks);
    free(look->rows);
    *look = (struct look){0};
}

/* ---- the manager ---- */

static int ask_manager(struct autoscale *scaler, struct look *look, struct mst_error *err)
{
    const char *stack = scaler->options->stack;
    int r = live_list(scaler->session->engine, ENGINE_SERVICE, stack, &look->services, err);

    if (r >= 0 && cJSON_GetArraySize(look->services) == 0)
        return mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
    if (r >= 0 && cJSON_GetArraySize(look->services) > AUTOSCALE_SERVICES_MAX)
        return mst_error_set(err, -E2BIG, "stack '%s' has more than %d services", stack,
                             AUTOSCALE_SERVICES_MAX);
    if (r >= 0)
        r = live_list(scaler->session->engine, ENGINE_TASK, stack, &look->tasks, err);
    if (r >= 0)
        r = autoscale_view_make(look->services, look->tasks, stack, &look->view, err);
    if (r < 0)
        return r;
    look->rows = calloc(look->view.count + 1, sizeof *look->rows);
    if (!look->rows)
        return mst_error_set(err, -ENOMEM, "%zu services: no memory", look->view.count);
    for (size_t i = 0; i < look->view.count; i++) {
        if (look->view.items[i].is_wanted)
            look->rows[look->row_count++].subject = &look->view.items[i];
    }
    return look->row_count > 0
               ? 0
               : mst_error_set(err, -ENOENT,
                               "no service of stack '%s' has a label '%smax' under deploy.labels", stack,
                               AUTOSCALE_PREFIX);
}

/* ---- the monitors ---- */

static void note_silent(struct look *look, const struct peers_node *node, const char *fault)
{
    if (look->silent_count++ == 0)
        (void)snprintf(look->silent, sizeof look->silent, "monitor %.80s: %.150s", node->name, fault);
}

/* Told when it changes, not in every round. */
static void tell_silent(struct autoscale *scaler, const struct look *look)
{
    char text[sizeof scaler->unreachable] = "";

    if (look->silent_count > 0)
        (void)snprintf(text, sizeof text, "%zu of %zu monitors do not answer: %s", look->silent_count,
                       look->asked_count, look->silent);
    if (strcmp(text, scaler->unreachable) == 0)
        return;
    if (text[0] != '\0')
        mst_log_warn("autoscale", "%s", text);
    else
        mst_log_info("autoscale", "all %zu monitors answer", look->asked_count);
    memcpy(scaler->unreachable, text, sizeof text);
}

static int ask_monitors(struct autoscale *scaler, struct look *look, struct mst_error *err)
{
    const uint64_t most_ms = scaler->options->interval_ns / MST_NS_PER_MS;
    const struct peers_node *nodes;
    struct peers_answer *answers = NULL;
    int r = autoscale_usage_begin(&scaler->usage, &look->view, err);

    if (r >= 0)
        r = peers_find(scaler->peers, err);
    if (r < 0)
        return r;
    nodes = peers_nodes(scaler->peers, &look->asked_count);
    r = peers_ask(scaler->peers, AUTOSCALE_QUESTION, most_ms < ANSWER_MS ? (uint32_t)most_ms : ANSWER_MS,
                  AUTOSCALE_ANSWER_MAX_BYTES, scaler->session->signal_fd, &answers, err);
    for (size_t i = 0; r >= 0 && i < look->asked_count; i++) {
        struct mst_error fault = MST_ERROR_INIT;
        if (answers[i].code < 0)
            note_silent(look, &nodes[i], answers[i].fault);
        else if (autoscale_usage_take(&scaler->usage, mst_buf_text(&answers[i].body), answers[i].at_ns,
                                      &fault) < 0)
            note_silent(look, &nodes[i], fault.text);
    }
    peers_release(answers, look->asked_count);
    if (r >= 0)
        tell_silent(scaler, look);
    return r;
}

/* ---- decisions ---- */

static struct autoscale_known *known_of(struct autoscale *scaler, const char *id)
{
    struct autoscale_known *known;

    for (size_t i = 0; i < scaler->known_count; i++) {
        if (strcmp(scaler->known[i].id, id) == 0)
            return &scaler->known[i];
    }
    if (scaler->known_count == AUTOSCALE_SERVICES_MAX)
        return NULL;
    known = &scaler->known[scaler->known_count++];
    *known = (struct autoscale_known){.replicas = 0};
    (void)snprintf(known->id, sizeof known->id, "%s", id);
    return known;
}

static void forget_gone(struct autoscale *scaler, const struct look *look)
{
    size_t kept = 0;

    for (size_t i = 0; i < scaler->known_count; i++) {
        bool is_there = false;
        for (size_t k = 0; k < look->row_count && !is_there; k++)
            is_there = strcmp(look->rows[k].subject->id, scaler->known[i].id) == 0;
        if (!is_there)
            continue;
        if (kept != i)
            scaler->known[kept] = scaler->known[i];
        kept++;
    }
    scaler->known_count = kept;
}

static void set_decision(struct autoscale_decision *decision, const struct autoscale_subject *subject,
                         enum autoscale_cause cause, const char *reason)
{
    *decision = (struct autoscale_decision){
        .action = AUTOSCALE_HOLD, .cause = cause, .from = subject->replicas, .to = subject->replicas};
    (void)snprintf(decision->reason, sizeof decision->reason, "%s", reason);
}

static void decide(struct autoscale *scaler, const struct look *look, const struct autoscale_subject *subject,
                   struct autoscale_known *known, struct autoscale_decision *ret_decision)
{
    char missing[200] = "", why[400];
    struct autoscale_input input = {
        .now_ns = mst_now_ns(),
        .interval_ns = scaler->options->interval_ns,
        .replicas = subject->replicas,
        .running = (uint32_t)subject->task_count,
        .without_room = subject->without_room,
        .rollout = subject->rollout[0] ? subject->rollout : NULL,
        .is_without_window = scaler->options->is_once,
    };

    if (subject->code < 0) {
        set_decision(ret_decision, subject,
                     subject->code == -ECANCELED ? AUTOSCALE_DISABLED : AUTOSCALE_BAD_LABELS,
                     subject->fault.text);
        return;
    }
    autoscale_known_update(known, subject, input.now_ns, mst_wall_s());
    if (!autoscale_usage_value(&scaler->usage, &look->view, subject, input.now_ns, &input.value, missing)) {
        (void)snprintf(why, sizeof why, "%s%s%s", missing, look->silent[0] ? "; " : "", look->silent);
        input.missing = why;
    }
    autoscale_decide(&subject->policy, &input, &known->memory, ret_decision);
}

/* A refusal is the service's own trouble: the others are still looked at. */
static int carry_out(struct autoscale *scaler, struct autoscale_row *row, struct mst_error *err)
{
    struct mst_error fault = MST_ERROR_INIT;
    int r;

    if (scaler->options->is_dry || row->decision.from == row->decision.to)
        return 0;
    r = autoscale_write(scaler->session, row->subject, &row->decision, &fault);
    if (r >= 0) {
        row->is_done = true;
        return 0;
    }
    if (r == -ESTALE) {
        set_decision(&row->decision, row->subject, AUTOSCALE_LOST_RACE, fault.text);
        return 0;
    }
    return mst_error_set(err, r, "%s", fault.text);
}

static int judge(struct autoscale *scaler, struct look *look, struct mst_error *err)
{
    int result = 0;

    forget_gone(scaler, look);
    for (size_t i = 0; i < look->row_count; i++) {
        struct autoscale_row *row = &look->rows[i];
        struct autoscale_known *known = known_of(scaler, row->subject->id);
        struct mst_error fault = MST_ERROR_INIT;
        int r;
        if (!known)
            return mst_error_set(err, -E2BIG, "more than %d services", AUTOSCALE_SERVICES_MAX);
        decide(scaler, look, row->subject, known, &row->decision);
        r = carry_out(scaler, row, &fault);
        if (r == -ECANCELED || r == -ENOMEM) {
            *err = fault;
            return r;
        }
        if (r < 0 && result < 0) { /* the first is the caller's to tell */
            mst_log_error("autoscale", "%s", fault.text);
        } else if (r < 0) {
            *err = fault;
            result = r;
        } else if (!scaler->options->is_once) {
            r = autoscale_tell(&scaler->sink, known, row, scaler->options->is_dry, err);
            if (r < 0)
                return r;
        }
    }
    return result;
}

static int round_of(struct autoscale *scaler, struct look *look, struct mst_error *err)
{
    int r = ask_manager(scaler, look, err);

    return r < 0 ? r : ask_monitors(scaler, look, err);
}

/* ---- once, and again and again ---- */

/* A rate needs two readings. */
static int run_once(struct autoscale *scaler, struct mst_error *err)
{
    mst_cleanup(look_release) struct look look = {0};
    struct mst_error refused = MST_ERROR_INIT;
    size_t bad = 0, unknown = 0;
    int written, r = round_of(scaler, &look, err);

    if (r >= 0)
        r = session_wait(scaler->session, (unsigned)(scaler->options->interval_ns / MST_NS_PER_MS), 0, err);
    look_release(&look);
    if (r >= 0)
        r = round_of(scaler, &look, err);
    if (r < 0)
        return r;
    written = judge(scaler, &look, &refused);
    r = autoscale_print(look.rows, look.row_count, scaler->options->format, err);
    for (size_t i = 0; i < look.row_count; i++) {
        unknown += look.rows[i].decision.cause == AUTOSCALE_NO_VALUE;
        if (look.rows[i].decision.cause != AUTOSCALE_BAD_LABELS)
            continue;
        mst_log_error("autoscale", "%s", look.rows[i].decision.reason);
        bad++;
    }
    if (r < 0)
        return r;
    if (written < 0)
        return mst_error_set(err, written, "%s", refused.text);
    if (bad > 0)
        return mst_error_set(err, -EBADMSG, "stack '%s': the labels of %zu of %zu services make no sense",
                             scaler->options->stack, bad, look.row_count);
    if (unknown > 0)
        return mst_error_set(err, -ENODATA, "stack '%s': no value for %zu of %zu services%s%s",
                             scaler->options->stack, unknown, look.row_count, look.silent[0] ? "; " : "",
                             look.silent);
    return 0;
}

/* The engine may be restarted, and the stack may be gone for a moment: told once, and tried again. */
static int bear(struct autoscale *scaler, bool is_first, int code, struct mst_error *err)
{
    if (code >= 0) {
        if (scaler->trouble[0] != '\0')
            mst_log_info("autoscale", "all is well again");
        scaler->trouble[0] = '\0';
        return 0;
    }
    if (is_first || code == -ECANCELED || code == -ENOMEM || code == SWARM_READER_LEFT)
        return code;
    if (strcmp(scaler->trouble, err->text) != 0)
        mst_log_warn("autoscale", "%s; trying again", err->text);
    memcpy(scaler->trouble, err->text, sizeof scaler->trouble);
    *err = (struct mst_error)MST_ERROR_INIT;
    return 0;
}

static int run_on(struct autoscale *scaler, struct mst_error *err)
{
    const uint64_t interval_ns = scaler->options->interval_ns;
    bool is_first = true;

    for (uint64_t next_ns = mst_now_ns();; is_first = false) {
        mst_cleanup(look_release) struct look look = {0};
        int r = round_of(scaler, &look, err);
        if (r >= 0)
            r = judge(scaler, &look, err);
        r = bear(scaler, is_first, r, err);
        if (r < 0)
            return r;
        next_ns += interval_ns;
        if (next_ns <= mst_now_ns()) /* rounds that could not be had are left out */
            next_ns = mst_now_ns() + interval_ns;
        r = session_wait(scaler->session,
                         (unsigned)mst_ms_until(next_ns, (int)(interval_ns / MST_NS_PER_MS) + 1), 0, err);
        if (r < 0)
            return r;
    }
}

int autoscale_run(struct session *session, const struct autoscale_options *options, struct mst_error *err)
{
    struct autoscale scaler = {.session = session, .options = options};
    int r = mst_event_sink_init(&scaler.sink, STDOUT_FILENO, options->slot, err);

    if (r < 0)
        return r;
    scaler.known = calloc(AUTOSCALE_SERVICES_MAX, sizeof *scaler.known);
    r = scaler.known ? peers_new(&options->peers, &scaler.peers, err)
                     : mst_error_set(err, -ENOMEM, "no memory");
    if (r >= 0)
        r = options->is_once ? run_once(&scaler, err) : run_on(&scaler, err);
    peers_free(scaler.peers);
    autoscale_usage_release(&scaler.usage);
    free(scaler.known);
    mst_event_sink_release(&scaler.sink);
    return r;
}
