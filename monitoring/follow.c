/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/log.h"

#include <inttypes.h>
#include <string.h>

#define FOLLOW_CONNECT_MS 2000
#define FOLLOW_REQUEST_MS 10000
#define FOLLOW_LIST_MAX_BYTES                                                                                \
    ((size_t)32 << 20) /* about 2 KiB a container, of which ROSTER_MAX are taken                             \
                        */
#define FOLLOW_ITEM_MAX_BYTES ((size_t)1 << 20)
#define FOLLOW_DELAY_MIN_NS   (250 * MST_NS_PER_MS)
#define FOLLOW_DELAY_MAX_NS   (5 * MST_NS_PER_S)
#define FOLLOW_LIST_EVERY_NS  (60 * MST_NS_PER_S) /* should an event ever be lost, this mends it */
#define FOLLOW_PATH_MAX_BYTES 4096
#define FOLLOW_OVERLAP_S      2 /* events are asked for from a little before, the list comes after */

int follow_init(struct follow *follow, struct roster *roster, const char *host, const char *stack,
                int stop_fd, struct mst_error *err)
{
    const struct engine_options options = {
        .host = host, .connect_timeout_ms = FOLLOW_CONNECT_MS, .request_timeout_ms = FOLLOW_REQUEST_MS};
    unsigned minor;
    *follow = (struct follow){
        .roster = roster, .stack = stack, .lines = ENGINE_LINES_INIT, .delay_ns = FOLLOW_DELAY_MIN_NS};
    for (size_t i = 0; i < FOLLOW_ASKS; i++) {
        follow->asks[i].follow = follow;
        follow->asks[i].reply.max_bytes = i == 0 ? FOLLOW_LIST_MAX_BYTES : FOLLOW_ITEM_MAX_BYTES;
    }
    int r = engine_new(&options, &follow->engine, err);
    if (r < 0)
        return r;
    engine_set_cancel_fd(follow->engine, stop_fd);
    r = engine_api_minor(follow->engine, &minor, err);
    return r < 0 ? r : engine_streams_new(follow->engine, &follow->streams, err);
}

void follow_release(struct follow *follow)
{
    engine_streams_freep(&follow->streams);
    engine_freep(&follow->engine);
    engine_lines_release(&follow->lines);
    for (size_t i = 0; i < FOLLOW_ASKS; i++)
        mst_buf_release(&follow->asks[i].reply);
}

/* ---- failures ---- */

static void failed(struct follow *follow, int code, const char *text)
{
    if (!follow->has_listed)
        (void)mst_error_set(&follow->first_error, code, "%s", text);
    else if (!follow->is_down)
        mst_log_warn("monitor", "the engine is away, sampling goes on with what is known: %s", text);
    follow->is_down = true;
    follow->retry_ns = mst_now_ns() + follow->delay_ns;
    follow->delay_ns =
        follow->delay_ns > FOLLOW_DELAY_MAX_NS / 2 ? FOLLOW_DELAY_MAX_NS : follow->delay_ns * 2;
}

static void recovered(struct follow *follow)
{
    if (follow->is_down && follow->has_listed)
        mst_log_info("monitor", "the engine is back");
    follow->is_down = false;
    follow->delay_ns = FOLLOW_DELAY_MIN_NS;
}

/* ---- events ---- */

static int on_event_line(void *context, const char *line, size_t count, struct mst_error *err)
{
    struct follow *follow = context;
    return count == 0 ? 0 : roster_event(follow->roster, line, count, err);
}

static int on_event_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct follow *follow = context;
    return engine_lines_feed(&follow->lines, bytes, count, on_event_line, follow, err);
}

static void on_events_end(void *context, int code, int status, const struct mst_error *err)
{
    struct follow *follow = context;
    (void)status;
    follow->has_events = false;
    follow->was_cut_off = true;
    follow->roster->needs_list = true;
    follow->asks[0].is_stale = true;
    mst_buf_clear(&follow->lines.line);
    failed(follow, code < 0 ? code : -EPIPE, code < 0 ? err->text : "the events stream has ended");
}

static int events_query(const struct follow *follow, struct mst_buf *query)
{
    mst_cleanup(mst_json_deletep) cJSON *filters = cJSON_CreateObject();
    static const char *const actions[] = {"start", "die", "destroy", "rename", "health_status", "oom"};
    cJSON *types = cJSON_AddArrayToObject(filters, "type"),
          *events = cJSON_AddArrayToObject(filters, "event");
    bool is_done = types && events && cJSON_AddItemToArray(types, cJSON_CreateString("container"));
    for (size_t i = 0; i < MST_ARRAY_COUNT(actions); i++)
        is_done = is_done && cJSON_AddItemToArray(events, cJSON_CreateString(actions[i]));
    if (is_done && follow->stack) {
        mst_cleanup(mst_buf_release) struct mst_buf label = MST_BUF_INIT(FOLLOW_PATH_MAX_BYTES);
        cJSON *labels = cJSON_AddArrayToObject(filters, "label");
        is_done = labels && mst_buf_printf(&label, "com.docker.stack.namespace=%s", follow->stack) == 0 &&
                  cJSON_AddItemToArray(labels, cJSON_CreateString(mst_buf_text(&label)));
    }
    mst_cleanup(mst_freep) char *text = is_done ? cJSON_PrintUnformatted(filters) : NULL;
    if (!text)
        return -ENOMEM;
    /* The engine sends its header before it subscribes, so no answer proves that events flow. Asking for
     * those since a moment ago closes the gap: it keeps the last 256. */
    int r = mst_buf_printf(query, "since=%" PRIu64, (uint64_t)mst_wall_s() - FOLLOW_OVERLAP_S);
    return r < 0 ? r : engine_query_add(query, "filters", text);
}

static void open_events(struct follow *follow)
{
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(FOLLOW_PATH_MAX_BYTES);
    struct mst_error err = MST_ERROR_INIT;
    int r = events_query(follow, &query);
    if (r < 0)
        (void)mst_error_errno(&err, r, "ask for events");
    const struct engine_call call = {.method = "GET", .path = "/events", .query = mst_buf_text(&query)};
    if (r == 0)
        r = engine_stream_open(follow->streams, &call, on_event_bytes, on_events_end, follow, NULL, &err);
    if (r < 0)
        failed(follow, r, err.text);
    follow->has_events = r == 0;
}

/* ---- list and inspect ---- */

static int on_reply_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct follow_ask *ask = context;
    const int r = mst_buf_append(&ask->reply, bytes, count);
    return r < 0 ? mst_error_errno(err, r, "reply of the engine about %s",
                                   *ask->wish.id ? ask->wish.id : "containers")
                 : 0;
}

static int take_list(struct follow *follow, const struct mst_buf *reply, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *list = NULL;
    int r = mst_json_parse(mst_buf_text(reply), reply->count, "GET /containers/json", &list, err);
    if (r == 0)
        r = roster_list(follow->roster, list, follow->was_cut_off, err);
    if (r < 0)
        return r;
    follow->has_listed = true;
    if (follow->asks[0].is_stale) {
        follow->roster->needs_list = true; /* better than nothing meanwhile */
        return 0;
    }
    recovered(follow);
    follow->was_cut_off = false;
    follow->list_ns = mst_now_ns() + FOLLOW_LIST_EVERY_NS;
    return 0;
}

/* Ask for the list earlier than planned. */
static void list_soon(struct follow *follow)
{
    const uint64_t soon_ns = mst_now_ns() + FOLLOW_DELAY_MAX_NS;
    follow->list_ns = soon_ns < follow->list_ns ? soon_ns : follow->list_ns;
}

static void take_inspect(struct follow *follow, const struct follow_ask *ask)
{
    mst_cleanup(mst_json_deletep) cJSON *inspect = NULL;
    struct mst_error err = MST_ERROR_INIT;
    int r = mst_json_parse(mst_buf_text(&ask->reply), ask->reply.count, "inspect", &inspect, &err);
    if (r == 0)
        r = roster_inspected(follow->roster, &ask->wish, inspect, &err);
    if (r == -ENOENT && strcmp(follow->unseen, ask->wish.id) != 0) {
        /* Most likely it ended a moment ago. If not, the next list names it again. */
        mst_log_debug("monitor", "not sampled: %s", err.text);
        memcpy(follow->unseen, ask->wish.id, sizeof follow->unseen);
        list_soon(follow);
    } else if (r < 0) {
        mst_log_warn("monitor", "not sampled: %s", err.text);
    }
}

static void on_reply_end(void *context, int code, int status, const struct mst_error *err)
{
    struct follow_ask *ask = context;
    struct follow *follow = ask->follow;
    struct mst_error list_error = MST_ERROR_INIT;
    const bool is_list = !*ask->wish.id;
    (void)status;
    ask->is_busy = false;
    if (code == 0 && is_list)
        code = take_list(follow, &ask->reply, &list_error);
    else if (code == 0)
        take_inspect(follow, ask);
    if (!is_list)
        roster_unanswered(follow->roster, &ask->wish);
    if (code == -EREMOTEIO && !is_list) {
        list_soon(follow); /* it has gone, most likely; if not, the list names it again */
    } else if (code < 0) {
        follow->roster->needs_list = true;
        failed(follow, code, list_error.code ? list_error.text : err->text);
    }
}

static void ask(struct follow *follow, struct follow_ask *ask)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(FOLLOW_PATH_MAX_BYTES);
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(FOLLOW_PATH_MAX_BYTES);
    mst_cleanup(mst_buf_release) struct mst_buf label = MST_BUF_INIT(FOLLOW_PATH_MAX_BYTES);
    struct mst_error err = MST_ERROR_INIT;
    int r;
    mst_buf_clear(&ask->reply);
    if (*ask->wish.id) {
        r = engine_path(&path, "/containers/", ask->wish.id, "/json");
    } else {
        r = mst_buf_append_text(&path, "/containers/json");
        if (r == 0 && follow->stack)
            r = mst_buf_printf(&label, "com.docker.stack.namespace=%s", follow->stack);
        if (r == 0 && follow->stack)
            r = engine_query_filter(&query, "label", mst_buf_text(&label));
    }
    if (r < 0)
        (void)mst_error_errno(&err, r, "ask for containers");
    const struct engine_call call = {.method = "GET",
                                     .path = mst_buf_text(&path),
                                     .query = query.count > 0 ? mst_buf_text(&query) : NULL,
                                     .timeout_ms = FOLLOW_REQUEST_MS};
    if (r == 0)
        r = engine_stream_open(follow->streams, &call, on_reply_bytes, on_reply_end, ask, NULL, &err);
    ask->is_busy = r == 0;
    ask->is_stale = false;
    if (r < 0) {
        if (*ask->wish.id)
            roster_unanswered(follow->roster, &ask->wish);
        follow->roster->needs_list = true;
        failed(follow, r, err.text);
    }
}

/* ---- what is due ---- */

static void start_what_is_due(struct follow *follow)
{
    const uint64_t now = mst_now_ns();
    if (now < follow->retry_ns)
        return;
    if (!follow->has_events)
        open_events(follow);
    struct follow_ask *list = &follow->asks[0];
    if (follow->has_events && !list->is_busy && (follow->roster->needs_list || now >= follow->list_ns))
        ask(follow, list);
    for (size_t i = 1; i < FOLLOW_ASKS; i++) {
        if (!follow->asks[i].is_busy && roster_next_wish(follow->roster, &follow->asks[i].wish))
            ask(follow, &follow->asks[i]);
    }
}

/* The next moment at which something may become due without a byte from the engine. */
static uint64_t next_ns(const struct follow *follow, uint64_t deadline_ns)
{
    uint64_t next = deadline_ns;
    const uint64_t due =
        !follow->has_events || follow->roster->needs_list ? follow->retry_ns : follow->list_ns;
    if (!follow->asks[0].is_busy && due < next)
        next = due;
    return next;
}

int follow_run(struct follow *follow, uint64_t deadline_ns, struct mst_error *err)
{
    do {
        start_what_is_due(follow);
        if (!follow->has_listed && follow->first_error.code < 0)
            return mst_error_set(err, follow->first_error.code, "%s", follow->first_error.text);
        const int wait_ms = mst_ms_until(next_ns(follow, deadline_ns), 1000);
        const int r = engine_streams_run(follow->streams, wait_ms, NULL, err);
        if (r < 0)
            return r;
    } while (mst_now_ns() < deadline_ns);
    return 0;
}

bool follow_is_settled(const struct follow *follow)
{
    return follow->has_listed && follow->roster->wish_count == 0 && !follow->asks[0].is_busy;
}
