/* SPDX-License-Identifier: Apache-2.0 */
/* One request to one host, and all hosts at once. */
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STRANGE_LINES_MAX 100 /* greetings of a shell, before ours */
#define ERRNO_MAX         4095
#define GRACE_MS          15000

cJSON *conduct_request(const char *verb, const struct conduct *conduct)
{
    cJSON *request = cJSON_CreateObject();

    if (cJSON_AddStringToObject(request, "do", verb) &&
        cJSON_AddStringToObject(request, "folder", conduct->host_folder))
        return request;
    cJSON_Delete(request);
    return NULL;
}

static int ask(struct conduct_call *call, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(call->request);

    if (!text || launch_send(call->launch, text, strlen(text)) < 0 || launch_send(call->launch, "\n", 1) < 0)
        return mst_error_set(err, -ENOMEM, "ask '%s': no memory", call->host);
    call->asked_ns = mst_now_ns();
    return call->on_asked ? call->on_asked(call, err) : 0;
}

static int take_json(struct conduct_call *call, const char *line, size_t count, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const char *kind;

    if (mst_json_parse(line, count, call->host, &json, err) < 0)
        return -EBADMSG;
    kind = mst_json_string_or(json, "host", "");
    if (strcmp(kind, "hello") == 0) {
        call->said_hello = true;
        return ask(call, err);
    }
    if (strcmp(kind, "end") == 0) {
        const double code = mst_json_double_or(json, "code", NAN);
        if (!(code >= -ERRNO_MAX && code <= 0) || code != trunc(code))
            return mst_error_set(err, -EBADMSG, "host '%s': ends without a code that is an error's number",
                                 call->host);
        call->said_end = true;
        call->code = (int)code;
        (void)snprintf(call->text, sizeof call->text, "%s", mst_json_string_or(json, "text", ""));
        launch_close(call->launch);
        return 0;
    }
    return call->on_json ? call->on_json(call, json, err) : 0;
}

static int take_line(void *context, struct launch *launch, const char *line, size_t count,
                     struct mst_error *err)
{
    struct conduct_call *call = context;

    (void)launch;
    if (strncmp(line, "{\"host\":", 8) == 0)
        return take_json(call, line, count, err);
    if (!call->said_hello) /* a shell's greeting */
        return ++call->strange_lines < STRANGE_LINES_MAX
                   ? 0
                   : mst_error_set(err, -EPROTO, "host '%s': what the launcher starts there is not muster",
                                   call->host);
    return call->on_event ? call->on_event(call, line, count, err) : 0;
}

static int take_file(void *context, struct launch *launch, const char *name, const void *bytes, size_t count,
                     struct mst_error *err)
{
    struct conduct_call *call = context;

    (void)launch;
    return call->on_file ? call->on_file(call, name, bytes, count, err) : 0;
}

static int take_complaint(void *context, struct launch *launch, const char *line, struct mst_error *err)
{
    struct conduct_call *call = context;

    (void)launch;
    return call->on_complaint ? call->on_complaint(call, line, err) : 0;
}

int conduct_call_start(struct conduct *conduct, struct launches *set, struct conduct_call *call,
                       struct mst_error *err)
{
    static const struct launch_handler handler = {
        .on_line = take_line, .on_complaint = take_complaint, .on_file = take_file};
    const char *const command[] = {conduct->options->muster, "compare-host", NULL};
    char **words;
    int r;

    if (!call->request)
        return mst_error_set(err, -ENOMEM, "ask '%s': no memory", call->host);
    r = launcher_words(&conduct->options->launcher, call->host, command, &words, err);
    if (r < 0)
        return r;
    r = launches_add(set, (const char *const *)words, call->host, NULL, &handler, call, &call->launch, err);
    launcher_words_free(words);
    return r < 0 ? mst_error_wrap(err, r, "host '%s'", call->host) : 0;
}

int conduct_call_result(const struct conduct_call *call, struct mst_error *err)
{
    const char *tail = call->launch ? launch_tail(call->launch) : "";

    if (call->said_end && call->code >= 0)
        return 0;
    if (call->said_end)
        return mst_error_set(err, call->code == -ECANCELED ? -EIO : call->code, "host '%s': %s", call->host,
                             call->text);
    if (!call->said_hello)
        return mst_error_set(err, -EHOSTUNREACH,
                             "host '%s' is not reached: the launcher ended with status %d%s%s", call->host,
                             call->launch ? launch_status(call->launch) : 0, tail[0] ? ": " : "", tail);
    return mst_error_set(
        err, -EPIPE, "host '%s': the connection broke in the middle of '%s' (launcher's status %d)%s%s",
        call->host, call->name, call->launch ? launch_status(call->launch) : 0, tail[0] ? ": " : "", tail);
}

/* 1: all have ended well; 0: not yet. */
static int judge(const struct conduct_call *calls, size_t count, struct mst_error *err)
{
    size_t ended = 0;

    for (size_t i = 0; i < count; i++) {
        if (!launch_has_ended(calls[i].launch))
            continue;
        const int r = conduct_call_result(&calls[i], err);
        if (r < 0)
            return r;
        ended++;
    }
    return ended == count;
}

int conduct_calls_await(struct launches *set, struct conduct_call *calls, size_t count, uint64_t deadline_ns,
                        struct mst_error *err)
{
    int r = 0, is_over = judge(calls, count, err);

    while (is_over == 0 && r >= 0) {
        r = launches_round(set, deadline_ns, err);
        is_over = r >= 0 ? judge(calls, count, err) : r;
    }
    if (r == -ETIMEDOUT) {
        for (size_t i = 0; i < count; i++) {
            if (!launch_has_ended(calls[i].launch))
                r = mst_error_set(err, -ETIMEDOUT, "host '%s': no answer to '%s' in time", calls[i].host,
                                  calls[i].name);
        }
    }
    if (r < 0 || is_over < 0)
        launches_end(set, GRACE_MS);
    return r < 0 ? r : is_over < 0 ? is_over : 0;
}
