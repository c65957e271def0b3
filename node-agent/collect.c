/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include "control.h"
#include "health.h"
#include "mesh.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "process.h"
#include "report.h"
#include "station.h"
#include "store.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define SENDERS_MAX     MEMBERSHIP_MAX_WORKERS /* open at once: bounds files and descriptors */
#define SENDER_QUIET_NS (120 * MST_NS_PER_S)   /* a worker may wait that long for the slowest one */
#define LOOP_LONGEST_NS MST_NS_PER_S

struct sender {
    uint8_t incarnation[DISCOVERY_INCARNATION_BYTES];
    struct store *store; /* owned; NULL: the place is free */
};

struct collector {
    const struct agent_config *config;
    struct station station;
    struct loop *loop;
    struct mesh *mesh;
    struct health *health;
    int signal_fd;
    char *folder; /* owned: --out plus the cluster's name */
    struct sender senders[SENDERS_MAX];
    uint64_t files, bytes;
    bool complete, stop;
};

static struct sender *find_sender(struct collector *collector, const uint8_t *incarnation)
{
    for (size_t s = 0; s < SENDERS_MAX; s++)
        if (collector->senders[s].store &&
            memcmp(collector->senders[s].incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return &collector->senders[s];
    return NULL;
}

static void seen(void *context, const struct discovery_identity *who)
{
    (void)context;
    mst_log_debug("collect", "hello from %s", who->slot);
}

static void peer_up(void *context, const struct discovery_identity *peer)
{
    struct collector *collector = context;
    struct mst_error err = MST_ERROR_INIT;
    for (size_t s = 0; s < SENDERS_MAX; s++) {
        struct sender *sender = &collector->senders[s];
        if (sender->store)
            continue;
        if (store_new(collector->folder, &sender->store, &err) < 0)
            break; /* its first frame is refused below */
        memcpy(sender->incarnation, peer->incarnation, sizeof sender->incarnation);
        return;
    }
    mst_log_warn("collect", "%s is not served: %s", peer->slot,
                 err.code ? err.text : "too many workers send at once");
}

static void peer_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct collector *collector = context;
    struct sender *sender = find_sender(collector, peer->incarnation);
    mst_log_debug("collect", "%s is gone: %s", peer->slot, reason);
    if (!sender)
        return;
    store_free(sender->store);
    sender->store = NULL;
}

/* Every worker tells; the first one counts. */
static void report_complete(struct collector *collector)
{
    if (collector->complete)
        return;
    struct report report = report_begin(&collector->station.events, "collected");
    report_number(&report, "files", (double)collector->files);
    report_number(&report, "bytes", (double)collector->bytes);
    report_text(&report, "folder", collector->folder);
    report_send(&report);
    collector->complete = true;
}

static int frame(void *context, const struct discovery_identity *from, uint16_t type, const uint8_t *payload,
                 size_t count, struct mst_error *err)
{
    struct collector *collector = context;
    const struct mst_buf nothing = MST_BUF_INIT(0);
    struct sender *sender = find_sender(collector, from->incarnation);
    if (!sender)
        return mst_error_set(err, -ENOBUFS, "too many workers send at once");
    if (type == CONTROL_HEARTBEAT)
        return 0;
    int r = 1;
    if (type == CONTROL_COMPLETE)
        report_complete(collector);
    else
        r = store_frame(sender->store, type, payload, count, err);
    if (r < 0) {
        mst_log_warn("collect", "files of %s refused: %s", from->slot, err->text);
        return r;
    }
    if (r == 0)
        return 0;
    if (type != CONTROL_COMPLETE) {
        collector->complete = false; /* another run begins to deliver */
        collector->files++;
        collector->bytes += store_last_bytes(sender->store);
    }
    return mesh_send(collector->mesh, from->incarnation, CONTROL_STORED, &nothing, err);
}

static void signalled(void *context, uint32_t events)
{
    struct collector *collector = context;
    (void)events;
    if (process_signals_read(collector->signal_fd) != 0)
        collector->stop = true;
}

static void describe(void *context, char text[static HEALTH_TEXT_BYTES])
{
    const struct collector *collector = context;
    (void)snprintf(text, HEALTH_TEXT_BYTES,
                   "{\"slot\":\"%s\",\"state\":\"%s\",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
                   collector->station.slot, collector->complete ? "complete" : "collecting", collector->files,
                   collector->bytes);
}

static void report_listening(struct collector *collector)
{
    char address[MST_IPV4_TEXT_BYTES];
    struct report report = report_begin(&collector->station.events, "listening");
    report_text(&report, "address", mst_ipv4_text(collector->station.self.identity.ipv4, address));
    report_text(&report, "folder", collector->folder);
    report_send(&report);
}

static int open_rest(struct collector *collector, struct mst_error *err)
{
    const struct agent_config *config = collector->config;
    const struct mesh_callbacks callbacks = {
        .context = collector, .seen = seen, .peer_up = peer_up, .peer_down = peer_down, .frame = frame};
    collector->folder = mst_path_join(config->out, config->cluster);
    if (!collector->folder)
        return mst_error_set(err, -ENOMEM, "no memory");
    int r = mst_make_folders(collector->folder, 0755, err);
    if (r == 0)
        r = loop_new(&collector->loop, err);
    if (r == 0)
        r = loop_add(collector->loop, collector->signal_fd, EPOLLIN, signalled, collector, err);
    if (r == 0)
        r = health_new(collector->loop, config->port, describe, collector, &collector->health, err);
    if (r < 0)
        return r;
    uint32_t also[DISCOVERY_CHOICES_MAX];
    const struct mesh_options options = {.loop = collector->loop,
                                         .self = &collector->station.self,
                                         .expected = SENDERS_MAX,
                                         .silence_ns = SENDER_QUIET_NS,
                                         .also = also,
                                         .also_count = station_others(&collector->station, also)};
    collector->station.self.identity.state = DISCOVERY_STATE_COLLECTING;
    r = mesh_new(&options, &callbacks, &collector->mesh, err);
    if (r == 0)
        mesh_set_dialling(collector->mesh, false); /* it is found; it does not look for anybody */
    return r;
}

static int serve(struct collector *collector, struct mst_error *err)
{
    int r = open_rest(collector, err);
    if (r == 0)
        report_listening(collector);
    while (r == 0 && !collector->stop) {
        uint64_t deadline_ns = mst_now_ns() + LOOP_LONGEST_NS;
        loop_sooner(&deadline_ns, mesh_deadline_ns(collector->mesh));
        r = loop_run_once(collector->loop, deadline_ns, err);
        mesh_tick(collector->mesh, mst_now_ns());
    }
    return r;
}

int agent_collect(const struct agent_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    struct collector *collector = calloc(1, sizeof *collector);
    if (!collector) {
        (void)mst_error_set(&err, -ENOMEM, "start: no memory");
        return mst_fail(MST_EXIT_FAILED, &err);
    }
    collector->config = config;
    collector->signal_fd = -1;
    int status = MST_EXIT_DONE;
    int r = process_signals_open(&collector->signal_fd, &err);
    if (r < 0) {
        status = mst_fail(MST_EXIT_FAILED, &err);
        goto out;
    }
    r = station_open(&collector->station, config, DISCOVERY_ROLE_COLLECTOR, STATION_LISTENS, &err);
    if (r < 0) {
        status = mst_fail(station_exit_status(r), &err);
        goto out;
    }
    r = station_settle(&collector->station, UINT64_MAX, 0, collector->signal_fd, &err);
    if (r == -ECANCELED || r == -EINTR) { /* told to stop: nobody wanted it */
        station_close(&collector->station);
        status = MST_EXIT_DONE;
        goto out;
    }
    if (r < 0) {
        station_close(&collector->station);
        status = mst_fail(station_exit_status(r), &err);
        goto out;
    }
    if (!mst_name_is_plain(config->cluster)) {
        (void)mst_error_set(&err, -EINVAL, "option '--cluster': '%s' cannot be a folder's name",
                            config->cluster);
        status = mst_fail(MST_EXIT_USAGE, &err);
    } else if (serve(collector, &err) < 0) {
        status = mst_fail(MST_EXIT_FAILED, &err);
    }
    mesh_free(collector->mesh);
    for (size_t s = 0; s < SENDERS_MAX; s++)
        store_free(collector->senders[s].store);
    health_free(collector->health);
    loop_free(collector->loop);
    free(collector->folder);
    station_close(&collector->station);
out:
    mst_closep(&collector->signal_fd);
    free(collector);
    return status;
}
