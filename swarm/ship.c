/* SPDX-License-Identifier: Apache-2.0 */
#include "ship.h"

#include "image.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/json.h"
#include "spec.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define ARCHIVE_MAX_BYTES ((size_t)64 << 30)
#define LOAD_TIMEOUT_MS   3600000U
#define SHOW_MS           200
#define PATH_MAX_BYTES    2048

int ship_find(struct engine *engine, const char *image, char ret_id[static ENGINE_NAME_MAX_BYTES],
              bool *ret_is_local, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    struct engine_call call = {.method = "GET", .any_status = true};
    int r = image_path("/images", image, &path);

    if (r < 0)
        return mst_error_set(err, r, "image '%.128s': the name is too long", image);
    call.path = mst_buf_text(&path);
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    ret_id[0] = '\0';
    if (reply.status == 404)
        return 0;
    if (reply.status >= 400)
        return engine_refused(engine, &call, &reply, err);
    (void)snprintf(ret_id, ENGINE_NAME_MAX_BYTES, "%s", mst_json_string_or(reply.json, "Id", ""));
    if (ret_is_local)
        *ret_is_local = cJSON_GetArraySize(mst_json_at(reply.json, "RepoDigests", NULL)) == 0;
    return 0;
}

/* ---- one image ---- */

struct cargo {
    struct session *session;
    const char *image; /* with its tag */
    char id[ENGINE_NAME_MAX_BYTES];
    int fd; /* the archive, fetched when the first node lacks it; -1: not so far */
    uint64_t bytes;
    const char *target;
    uint64_t shown_ns, begun_ns;
};

static void show(struct cargo *cargo, const char *verb, uint64_t bytes)
{
    mst_cleanup(mst_freep) char *text = NULL;

    if (mst_ms_since(cargo->shown_ns) < SHOW_MS)
        return;
    cargo->shown_ns = mst_now_ns();
    text = cargo->bytes > 0
               ? mst_format("  %s %s %s  %.1f of %.1f MB\n", verb, cargo->image, cargo->target,
                            (double)bytes / 1e6, (double)cargo->bytes / 1e6)
               : mst_format("  %s %s %s  %.1f MB\n", verb, cargo->image, cargo->target, (double)bytes / 1e6);
    if (text)
        report_block(&cargo->session->report, text);
}

struct fetch {
    struct cargo *cargo;
    uint64_t bytes;
};

static int take_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct fetch *fetch = context;
    const int r = mst_write_all(fetch->cargo->fd, bytes, count);

    fetch->bytes += count;
    show(fetch->cargo, "fetch", fetch->bytes);
    return r < 0 ? mst_error_errno(err, r, "keep the archive of '%s'", fetch->cargo->image) : 0;
}

/* Under a name that vanishes with the descriptor. */
static int open_archive(int *ret_fd, struct mst_error *err)
{
    const char *folder = getenv("TMPDIR");
    mst_cleanup(mst_freep) char *path =
        mst_path_join(folder && folder[0] != '\0' ? folder : "/var/tmp", "muster-image-XXXXXX");

    if (!path)
        return mst_error_set(err, -ENOMEM, "archive: no memory");
    *ret_fd = mkostemp(path, O_CLOEXEC);
    if (*ret_fd < 0)
        return mst_error_errno(err, -errno, "make '%s'", path);
    (void)unlink(path);
    return 0;
}

static int fetch_archive(struct cargo *cargo, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(PATH_MAX_BYTES);
    struct engine_call call = {
        .method = "GET",
        .path = "/images/get",
        .timeout_ms = LOAD_TIMEOUT_MS,
        .max_reply_bytes = ARCHIVE_MAX_BYTES,
        .about = cargo->image,
    };
    struct fetch fetch = {.cargo = cargo};
    int r = engine_query_add(&query, "names", cargo->image);

    if (r < 0)
        return mst_error_set(err, r, "image '%.128s': the name is too long", cargo->image);
    call.query = mst_buf_text(&query);
    r = open_archive(&cargo->fd, err);
    cargo->target = "from the engine that is talked to";
    if (r >= 0)
        r = engine_download(cargo->session->engine, &call, take_bytes, &fetch, err);
    cargo->bytes = fetch.bytes;
    return r;
}

static void on_progress(void *context, uint64_t sent)
{
    show(context, "ship", sent);
}

/* A load that fails says so in its reply, whose status is 200 all the same: one JSON value a line. */
struct loading {
    struct engine_lines lines;
    char error[512];
};

static int take_line(void *context, const char *line, size_t count, struct mst_error *err)
{
    struct loading *loading = context;
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;

    (void)err;
    if (mst_json_parse(line, count, "reply", &json, NULL) == 0)
        (void)snprintf(loading->error, sizeof loading->error, "%s",
                       mst_json_string_or(json, "error", loading->error));
    return 0;
}

static int take_reply(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct loading *loading = context;

    return engine_lines_feed(&loading->lines, bytes, count, take_line, loading, err);
}

static int send_archive(struct engine *target, struct cargo *cargo, struct mst_error *err)
{
    const struct engine_upload upload = {
        .fd = cargo->fd,
        .count = cargo->bytes,
        .content_type = "application/x-tar",
        .on_progress = on_progress,
        .context = cargo,
    };
    const struct engine_call call = {
        .method = "POST",
        .path = "/images/load",
        .query = "quiet=1",
        .upload = &upload,
        .timeout_ms = LOAD_TIMEOUT_MS,
        .about = cargo->image,
    };
    struct loading loading = {ENGINE_LINES_INIT, ""};
    char id[ENGINE_NAME_MAX_BYTES];
    int r;

    if (lseek(cargo->fd, 0, SEEK_SET) < 0)
        return mst_error_errno(err, -errno, "archive of '%s'", cargo->image);
    r = engine_download(target, &call, take_reply, &loading, err);
    if (r >= 0)
        r = take_reply(&loading, "\n", 1, err);
    engine_lines_release(&loading.lines);
    if (r >= 0 && loading.error[0] != '\0')
        return mst_error_set(err, -EREMOTEIO, "POST /images/load (%s): %s", cargo->image, loading.error);
    if (r >= 0)
        r = ship_find(target, cargo->image, id, NULL, err);
    if (r >= 0 && id[0] == '\0')
        r = mst_error_set(err, -EREMOTEIO, "the engine took the archive, and has no image '%s' all the same",
                          cargo->image);
    return r;
}

static int ship_to(struct cargo *cargo, const struct swarm_node *node, const char *host, bool is_dry,
                   size_t *sent, struct mst_error *err)
{
    const struct engine_options options = {.host = host};
    mst_cleanup(engine_freep) struct engine *target = NULL;
    char id[ENGINE_NAME_MAX_BYTES];
    int r = engine_new(&options, &target, err);

    if (r < 0)
        return r;
    engine_set_cancel_fd(target, cargo->session->signal_fd);
    r = ship_find(target, cargo->image, id, NULL, err);
    if (r < 0 || strcmp(id, cargo->id) == 0)
        return r;
    if (is_dry) {
        report_line(&cargo->session->report, "would ship %s to %s", cargo->image, node->hostname);
        return 0;
    }
    if (cargo->fd < 0)
        r = fetch_archive(cargo, err);
    cargo->target = node->hostname;
    cargo->begun_ns = mst_now_ns();
    if (r >= 0)
        r = send_archive(target, cargo, err);
    if (r < 0)
        return r;
    (*sent)++;
    report_line(&cargo->session->report, "shipped %s to %s (%.1f MB in %.1f s)", cargo->image, node->hostname,
                (double)cargo->bytes / 1e6, mst_ms_since(cargo->begun_ns) / 1000);
    return 0;
}

/* May a task of a service with this image run there? */
static bool may_run(const struct compose_project *project, const char *image, const struct swarm_node *node)
{
    for (size_t s = 0; node->is_usable && s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        const struct compose_deploy *deploy = &service->deploy;
        bool is_allowed =
            strcmp(service->image, image) == 0 && !(deploy->mode == COMPOSE_MODE_REPLICATED &&
                                                    deploy->replicas.is_set && deploy->replicas.value == 0);
        for (size_t i = 0; is_allowed && i < deploy->constraints.count; i++) {
            struct constraint constraint;
            is_allowed = constraint_parse(deploy->constraints.items[i], &constraint, NULL) == 0 &&
                         constraint_allows(&constraint, node);
        }
        if (is_allowed)
            return true;
    }
    return false;
}

/* A node other than the engine's own that needs the image. */
static bool is_target(const struct compose_project *project, const char *named, const char *own_node_id,
                      const struct swarm_node *node)
{
    return strcmp(node->id, own_node_id) != 0 && may_run(project, named, node);
}

static int check_hosts(const struct session *session, const struct compose_project *project,
                       const char *named, const struct swarm_nodes *nodes, const char *own_node_id,
                       const struct nodesfile *file, struct mst_error *err)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct swarm_node *node = &nodes->items[i];
        if (is_target(project, named, own_node_id, node) && !nodesfile_host(file, node->hostname))
            return mst_error_set(
                err, -ENOENT,
                "image '%s' is on the engine at %s only, and node '%s', which may run it, is "
                "not in the nodes file",
                named, engine_host(session->engine), node->hostname);
    }
    return 0;
}

static int ship_image(struct cargo *cargo, const struct compose_project *project, const char *named,
                      const struct swarm_nodes *nodes, const char *own_node_id, const struct nodesfile *file,
                      bool is_dry, size_t *sent, struct mst_error *err)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct swarm_node *node = &nodes->items[i];
        int r;
        if (!is_target(project, named, own_node_id, node))
            continue;
        r = ship_to(cargo, node, nodesfile_host(file, node->hostname), is_dry, sent, err);
        if (r < 0)
            return mst_error_wrap(err, r, "ship '%s' to node '%s'", cargo->image, node->hostname);
    }
    return 0;
}

static bool is_first(const struct compose_project *project, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(project->services[i].image, project->services[index].image) == 0)
            return false;
    }
    return true;
}

/* Is the image local? Then it is noted, and the `id` with it. */
static int note_local(struct session *session, const char *named, struct ship *ship,
                      char id[static ENGINE_NAME_MAX_BYTES], struct mst_error *err)
{
    mst_cleanup(mst_freep) char *image = spec_image_with_tag(named);
    bool is_local = false;
    int r;

    if (!image)
        return mst_error_set(err, -ENOMEM, "ship: no memory");
    if (strchr(image, '@')) /* a digest is a registry's */
        return 0;
    r = ship_find(session->engine, image, id, &is_local, err);
    if (r < 0 || id[0] == '\0' || !is_local)
        return r;
    ship->local.items[ship->local.count] = strdup(named);
    if (!ship->local.items[ship->local.count])
        return mst_error_set(err, -ENOMEM, "ship: no memory");
    ship->local.count++;
    return 0;
}

static int ship_one(struct session *session, const struct compose_project *project, const char *named,
                    const char *id, const struct swarm_nodes *nodes, const char *own_node_id,
                    const struct nodesfile *file, bool is_dry, size_t *sent, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *image = spec_image_with_tag(named);
    struct cargo cargo = {.session = session, .image = image, .fd = -1};
    int r;

    if (!image)
        return mst_error_set(err, -ENOMEM, "ship: no memory");
    (void)snprintf(cargo.id, sizeof cargo.id, "%s", id);
    r = ship_image(&cargo, project, named, nodes, own_node_id, file, is_dry, sent, err);
    mst_closep(&cargo.fd);
    return r;
}

int ship_images(struct session *session, const struct compose_project *project, const struct nodesfile *file,
                bool is_dry, struct ship *ret_ship, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_freep) char(*ids)[ENGINE_NAME_MAX_BYTES] =
        calloc(project->service_count + 1, sizeof *ids);
    struct ship ship = {0};
    struct engine_info info;
    int r = session_info(session, &info, err);

    if (r >= 0)
        r = swarm_nodes_load(session->engine, &nodes, err);
    if (r < 0)
        return r;
    ship.local.items = calloc(project->service_count + 1, sizeof *ship.local.items);
    if (!ship.local.items || !ids) {
        ship_release(&ship);
        return mst_error_set(err, -ENOMEM, "ship: no memory");
    }
    for (size_t i = 0; i < project->service_count && r >= 0; i++) {
        if (is_first(project, i))
            r = note_local(session, project->services[i].image, &ship, ids[ship.local.count], err);
    }
    /* All of them before the first node gets anything. */
    for (size_t i = 0; i < ship.local.count && r >= 0; i++)
        r = check_hosts(session, project, ship.local.items[i], &nodes, info.node_id, file, err);
    for (size_t i = 0; i < ship.local.count && r >= 0; i++)
        r = ship_one(session, project, ship.local.items[i], ids[i], &nodes, info.node_id, file, is_dry,
                     &ship.sent, err);
    if (r < 0) {
        ship_release(&ship);
        return r;
    }
    *ret_ship = ship;
    return 0;
}

void ship_release(struct ship *ship)
{
    for (size_t i = 0; i < ship->local.count; i++)
        free((void *)(uintptr_t)ship->local.items[i]); /* ours, and const for readers only */
    free(ship->local.items);
    *ship = (struct ship){0};
}
