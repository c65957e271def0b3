/* SPDX-License-Identifier: Apache-2.0 */
#include "nodecheck.h"

#include "check.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/net.h"
#include "muster/parse.h"
#include "probe.h"
#include "ship.h"
#include "spec.h"
#include "taskstate.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SKEW_MAX_S         1.0 /* Swarm's certificates and Raft bear more; events of several nodes do not order */
#define CONNECT_TIMEOUT_MS 2000
#define MANAGER_PORT       2377 /* managers */
#define GOSSIP_PORT        7946 /* all nodes */
#define VXLAN_PORT         4789
#define VXLAN_BYTES        50 /* what an overlay puts around each packet */
#define OVERLAY_MTU        1450
#define MTU_OPTION         "com.docker.network.driver.mtu"

const char *finding_result_text(enum finding_result result)
{
    static const char *const texts[] = {
        [FINDING_OK] = "ok", [FINDING_WARNING] = "warning", [FINDING_FAILED] = "failed"};

    return texts[result];
}

size_t findings_count(const struct findings *findings, enum finding_result result)
{
    size_t count = 0;

    for (size_t i = 0; i < findings->count; i++)
        count += findings->items[i].result == result;
    return count;
}

void findings_release(struct findings *findings)
{
    free(findings->items);
    *findings = (struct findings){0};
}

static void __attribute__((format(printf, 5, 6)))
add(struct findings *findings, const char *node, const char *check, enum finding_result result,
    const char *format, ...)
{
    struct finding *items = reallocarray(findings->items, findings->count + 1, sizeof *items);
    va_list arguments;

    if (!items) {
        findings->no_memory = true;
        return;
    }
    findings->items = items;
    items += findings->count++;
    *items = (struct finding){.result = result};
    (void)snprintf(items->node, sizeof items->node, "%s", node);
    (void)snprintf(items->check, sizeof items->check, "%s", check);
    va_start(arguments, format);
    (void)vsnprintf(items->detail, sizeof items->detail, format, arguments);
    va_end(arguments);
}

/* ---- what the manager says ---- */

static const char *version_of(const struct swarm_node *node)
{
    return mst_json_string_or(mst_json_at(node->json, "Description", "Engine", NULL), "EngineVersion", "");
}

static void check_state(const struct swarm_node *node, struct findings *findings)
{
    const char *state = mst_json_string_or(mst_json_at(node->json, "Status", NULL), "State", "unknown");
    const char *message = mst_json_string_or(mst_json_at(node->json, "Status", NULL), "Message", "");
    const char *availability = mst_json_string_or(mst_json_at(node->json, "Spec", NULL), "Availability", "");

    if (strcmp(state, "ready") != 0)
        add(findings, node->hostname, "state", FINDING_FAILED, "%s%s%s", state, message[0] ? ": " : "",
            message);
    else if (strcmp(availability, "active") != 0)
        add(findings, node->hostname, "state", FINDING_WARNING, "ready, but %s: it gets no tasks",
            availability);
    else
        add(findings, node->hostname, "state", FINDING_OK, "ready, active");
}

static void check_name(const struct swarm_nodes *nodes, const struct swarm_node *node,
                       struct findings *findings)
{
    size_t same = 0;

    for (size_t i = 0; i < nodes->count; i++)
        same += strcmp(nodes->items[i].hostname, node->hostname) == 0;
    if (same > 1)
        add(findings, node->hostname, "name", FINDING_FAILED,
            "%zu nodes have this host name: a pin to it is ambiguous (this one is %s)", same, node->id);
    else
        add(findings, node->hostname, "name", FINDING_OK, "no other node has it");
}

static void check_address(const struct swarm_node *node, struct findings *findings)
{
    uint32_t ipv4;

    if (mst_parse_ipv4(node->address, &ipv4, NULL) < 0)
        add(findings, node->hostname, "address", FINDING_WARNING, "'%s' is no IPv4 address", node->address);
    else if (ipv4 == 0 || ipv4 >> 24 == 127)
        add(findings, node->hostname, "address", FINDING_FAILED,
            "%s: other nodes do not reach it there; join again with --advertise-addr", node->address);
    else
        add(findings, node->hostname, "address", FINDING_OK, "%s", node->address);
}

void nodecheck_nodes(const struct swarm_nodes *nodes, struct findings *findings)
{
    const char *version = NULL;

    for (size_t i = 0; i < nodes->count && !version; i++) {
        if (nodes->items[i].is_manager)
            version = version_of(&nodes->items[i]);
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const struct swarm_node *node = &nodes->items[i];
        check_state(node, findings);
        check_name(nodes, node, findings);
        check_address(node, findings);
        if (version && strcmp(version_of(node), version) != 0)
            add(findings, node->hostname, "version", FINDING_WARNING, "engine %s, the manager has %s",
                version_of(node), version);
    }
}

void nodecheck_stack(const struct compose_project *project, const struct swarm_nodes *nodes,
                     struct findings *findings)
{
    for (size_t i = 0; i < project->service_count; i++) {
        struct compose_project one = *project;
        struct mst_error err = MST_ERROR_INIT;
        int r;
        one.services = &project->services[i];
        one.service_count = 1;
        r = check_project(&one, &err);
        if (r >= 0)
            r = check_pins(&one, nodes, &err);
        if (r < 0)
            add(findings, "", "placement", FINDING_FAILED, "%s", err.text);
        else
            add(findings, "", "placement", FINDING_OK, "service '%s': %zu nodes can run it",
                project->services[i].key,
                constraints_count_nodes(&project->services[i].deploy.constraints, nodes));
    }
}

/* ---- what each engine says ---- */

static void check_clock(const struct swarm_node *node, const cJSON *info, double before_s, double after_s,
                        struct findings *findings)
{
    const double its_s = taskstate_time_s(mst_json_string_or(info, "SystemTime", ""));
    /* It read its clock between the two. */
    const double skew_s = its_s < before_s ? its_s - before_s : its_s > after_s ? its_s - after_s : 0;

    if (its_s <= 0)
        return;
    if (fabs(skew_s) > SKEW_MAX_S)
        add(findings, node->hostname, "clock", FINDING_FAILED, "%+.1f s from this machine's", skew_s);
    else
        add(findings, node->hostname, "clock", FINDING_OK, "within %.0f ms of this machine's",
            fmax(fabs(skew_s), after_s - before_s) * 1000);
}

static void check_identity(const struct swarm_node *node, const cJSON *info, struct findings *findings)
{
    const cJSON *swarm = mst_json_at(info, "Swarm", NULL);
    const char *id = mst_json_string_or(swarm, "NodeID", "");
    const char *state = mst_json_string_or(swarm, "LocalNodeState", "");

    if (strcmp(id, node->id) != 0)
        add(findings, node->hostname, "identity", FINDING_FAILED,
            "the engine is '%s', node '%s': another entry in the nodes file is meant",
            mst_json_string_or(info, "Name", "?"), id[0] ? id : "of no swarm");
    else if (strcmp(state, "active") != 0)
        add(findings, node->hostname, "identity", FINDING_FAILED, "its state in the swarm is '%s'", state);
    else
        add(findings, node->hostname, "identity", FINDING_OK, "it is that node");
}

static bool wants_image(const struct compose_project *project, size_t index, const struct swarm_node *node)
{
    const struct compose_service *service = &project->services[index];
    const struct compose_strings *constraints = &service->deploy.constraints;

    for (size_t i = 0; i < index; i++) {
        if (strcmp(project->services[i].image, service->image) == 0)
            return false; /* looked at already */
    }
    for (size_t i = 0; i < constraints->count; i++) {
        struct constraint constraint;
        if (constraint_parse(constraints->items[i], &constraint, NULL) < 0 ||
            !constraint_allows(&constraint, node))
            return false;
    }
    return true;
}

static int check_images(struct session *session, struct engine *engine, const struct swarm_node *node,
                        const struct compose_project *project, struct findings *findings)
{
    for (size_t i = 0; i < project->service_count; i++) {
        mst_cleanup(mst_freep) char *image = spec_image_with_tag(project->services[i].image);
        char here[ENGINE_NAME_MAX_BYTES] = "", there[ENGINE_NAME_MAX_BYTES] = "";
        struct mst_error err = MST_ERROR_INIT;
        bool is_local = false;
        int r;
        if (!image || !wants_image(project, i, node))
            continue;
        r = ship_find(session->engine, image, here, &is_local, &err);
        if (r >= 0)
            r = ship_find(engine, image, there, NULL, &err);
        if (r == -ECANCELED)
            return r;
        if (r < 0)
            add(findings, node->hostname, "image", FINDING_FAILED, "%s: %s", image, err.text);
        else if (there[0] != '\0' && (!is_local || strcmp(here, there) == 0))
            add(findings, node->hostname, "image", FINDING_OK, "%s", image);
        else if (there[0] != '\0')
            add(findings, node->hostname, "image", FINDING_FAILED,
                "%s is another one than on the engine that is talked to (deploy --ship)", image);
        else if (is_local)
            add(findings, node->hostname, "image", FINDING_FAILED,
                "%s is missing, and no registry has it (deploy --ship)", image);
        else
            add(findings, node->hostname, "image", FINDING_WARNING,
                "%s is missing: it is pulled when a task starts", image);
    }
    return 0;
}

static int check_engine(struct session *session, const struct swarm_node *node, const char *host,
                        const struct compose_project *project, struct findings *findings)
{
    const struct engine_options options = {.host = host};
    const struct engine_call call = {.method = "GET", .path = "/info"};
    mst_cleanup(engine_freep) struct engine *engine = NULL;
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    struct mst_error err = MST_ERROR_INIT;
    double before_s = 0;
    unsigned minor;
    int r = engine_new(&options, &engine, &err);

    if (r >= 0) {
        engine_set_cancel_fd(engine, session->signal_fd);
        r = engine_api_minor(engine, &minor, &err); /* connects, so that the next reply comes at once */
    }
    before_s = mst_wall_s();
    if (r >= 0)
        r = engine_request(engine, &call, &reply, &err);
    if (r == -ECANCELED)
        return r;
    if (r < 0) {
        add(findings, node->hostname, "reachable", FINDING_FAILED, "%s", err.text);
        return 0;
    }
    add(findings, node->hostname, "reachable", FINDING_OK, "%s, API 1.%u", host, minor);
    check_identity(node, reply.json, findings);
    check_clock(node, reply.json, before_s, mst_wall_s(), findings);
    return project ? check_images(session, engine, node, project, findings) : 0;
}

int nodecheck_engines(struct session *session, const struct nodesfile *file, const struct swarm_nodes *nodes,
                      const struct compose_project *project, struct findings *findings, struct mst_error *err)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct swarm_node *node = &nodes->items[i];
        const char *host = nodesfile_host(file, node->hostname);
        if (!host)
            add(findings, node->hostname, "reachable", FINDING_WARNING, "not in the nodes file");
        else if (check_engine(session, node, host, project, findings) == -ECANCELED)
            return mst_error_set(err, -ECANCELED, "interrupted");
    }
    for (size_t i = 0; i < file->count; i++) {
        bool is_known = false;
        for (size_t n = 0; n < nodes->count; n++)
            is_known |= strcmp(nodes->items[n].hostname, file->items[i].hostname) == 0;
        if (!is_known)
            add(findings, file->items[i].hostname, "name", FINDING_FAILED,
                "the nodes file has it, and the swarm has no such node");
    }
    return 0;
}

/* ---- what the network says ---- */

static void check_port(const struct swarm_node *node, uint32_t ipv4, uint16_t port, struct findings *findings)
{
    char check[32];
    mst_cleanup(mst_closep) int fd = -1;
    int r;

    r = mst_tcp_connect(ipv4, port, mst_now_ns() + CONNECT_TIMEOUT_MS * MST_NS_PER_MS, &fd, NULL);
    (void)snprintf(check, sizeof check, "port %u/tcp", (unsigned)port);
    if (r < 0)
        add(findings, node->hostname, check, FINDING_FAILED, "%s from this machine: %s", node->address,
            strerror(-r));
    else
        add(findings, node->hostname, check, FINDING_OK, "open");
}

/* The largest MTU that the stack's networks ask for; the engine's own without one. */
static uint32_t overlay_mtu(const struct compose_project *project)
{
    uint32_t mtu = 0;

    for (size_t i = 0; project && i < project->network_count; i++) {
        const char *text = compose_pairs_find(&project->networks[i].driver_opts, MTU_OPTION);
        uint32_t value;
        if (text && mst_parse_u32(text, 68, 65535, &value, NULL) == 0 && value > mtu)
            mtu = value;
    }
    return mtu > 0 ? mtu : OVERLAY_MTU;
}

/* What the kernel knows of the way there: from its routes, and from what routers said so far. 0: no way. */
static uint32_t known_mtu(uint32_t ipv4)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(VXLAN_PORT), .sin_addr.s_addr = htonl(ipv4)};
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof(int);
    int mtu = 0;

    /* A connected datagram socket sends nothing by itself. */
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 ||
        getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &bytes) < 0)
        return 0;
    return (uint32_t)mtu;
}

/* A way that loses large packets without a word ("black hole") is seen by trying only. */
static int try_packets(const struct swarm_node *node, uint32_t ipv4, uint32_t mtu, uint32_t wanted,
                       int cancel_fd, struct findings *findings, struct mst_error *err)
{
    enum probe_answer large, small = PROBE_SILENT;
    int r = probe_echo(ipv4, wanted, cancel_fd, &large, err);

    if (r >= 0 && large == PROBE_SILENT)
        r = probe_echo(ipv4, PROBE_LEAST_BYTES, cancel_fd, &small, err);
    if (r < 0)
        return r;
    if (large == PROBE_ANSWERED)
        add(findings, node->hostname, "mtu", FINDING_OK, "%u on the way, packets of %u bytes come back",
            (unsigned)mtu, (unsigned)wanted);
    else if (large == PROBE_TOO_LARGE)
        add(findings, node->hostname, "mtu", FINDING_FAILED,
            "packets of %u bytes are too large for the way to %s, and an overlay sends them (network "
            "option " MTU_OPTION ")",
            (unsigned)wanted, node->address);
    else if (small == PROBE_ANSWERED)
        add(findings, node->hostname, "mtu", FINDING_FAILED,
            "packets of %u bytes are lost on the way to %s or back, small ones are not (network "
            "option " MTU_OPTION ")",
            (unsigned)wanted, node->address);
    else
        add(findings, node->hostname, "mtu", FINDING_OK, "%u on the way, as far as this machine knows: %s",
            (unsigned)mtu,
            large == PROBE_SILENT ? "nobody answers echoes there" : "to try it takes CAP_NET_RAW");
    return 0;
}

static int check_mtu(const struct swarm_node *node, uint32_t ipv4, uint32_t overlay, int cancel_fd,
                     struct findings *findings, struct mst_error *err)
{
    const uint32_t wanted = overlay + VXLAN_BYTES, mtu = known_mtu(ipv4);

    if (mtu == 0)
        return 0; /* no way there: the ports say so */
    if (mtu >= wanted && wanted <= PROBE_MOST_BYTES)
        return try_packets(node, ipv4, mtu, wanted, cancel_fd, findings, err);
    if (mtu < wanted)
        add(findings, node->hostname, "mtu", FINDING_FAILED,
            "%u on the way to %s, and an overlay of %u needs %u (network option " MTU_OPTION ")",
            (unsigned)mtu, node->address, (unsigned)overlay, (unsigned)wanted);
    else
        add(findings, node->hostname, "mtu", FINDING_OK, "%u on the way", (unsigned)mtu);
    return 0;
}

/* An address that is not this machine's cannot be bound; nothing is sent. */
static bool is_own_address(uint32_t ipv4)
{
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(ipv4)};
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 || errno != EADDRNOTAVAIL;
}

/* Where that node is, as it says itself; 0: it does not say. */
static uint32_t address_of(const struct swarm_nodes *nodes, const char *id, const char **ret_hostname)
{
    uint32_t ipv4 = 0;

    for (size_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->items[i].id, id) != 0)
            continue;
        *ret_hostname = nodes->items[i].hostname;
        return mst_parse_ipv4(nodes->items[i].address, &ipv4, NULL) < 0 ? 0 : ipv4;
    }
    return 0;
}

int nodecheck_network(const struct swarm_nodes *nodes, const struct compose_project *project,
                      const char *own_id, int cancel_fd, struct findings *findings, struct mst_error *err)
{
    const char *hostname = "";
    const uint32_t own = own_id ? address_of(nodes, own_id, &hostname) : 0;
    int r = 0;

    if (own != 0 && !is_own_address(own)) {
        add(findings, hostname, "network", FINDING_WARNING,
            "ports and packet sizes are left out: this machine does not have that node's address; run it on "
            "a node ('scripts/lab.sh exec node1 ...' for a lab)");
        return 0;
    }
    for (size_t i = 0; i < nodes->count && r >= 0; i++) {
        const struct swarm_node *node = &nodes->items[i];
        uint32_t ipv4;
        if (mst_parse_ipv4(node->address, &ipv4, NULL) < 0 || ipv4 == 0)
            continue;
        check_port(node, ipv4, GOSSIP_PORT, findings);
        if (node->is_manager)
            check_port(node, ipv4, MANAGER_PORT, findings);
        r = check_mtu(node, ipv4, overlay_mtu(project), cancel_fd, findings, err);
    }
    return r;
}
