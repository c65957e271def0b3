/* SPDX-License-Identifier: Apache-2.0 */
/* Each fault that `node check` is there to find, made and found. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/json.h"
#include "muster/net.h"
#include "nodecheck.h"
#include "program.h"

#define NODE(id, name, address, role, state, availability, version)                                          \
    "{\"ID\":\"" id "\",\"Spec\":{\"Role\":\"" role "\",\"Availability\":\"" availability                    \
    "\"},\"Description\":{\"Hostname\":\"" name "\",\"Engine\":{\"EngineVersion\":\"" version                \
    "\"}},\"Status\":{\"State\":\"" state "\",\"Addr\":\"" address "\"}}"

static void take_nodes(struct swarm_nodes *nodes, const char *text)
{
    cJSON *list = cJSON_Parse(text);

    assert_non_null(list);
    assert_int_equal(swarm_nodes_take(list, nodes, NULL), 0);
}

static void assert_found(const struct findings *findings, const char *node, const char *check,
                         enum finding_result result, const char *detail)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->items[i];
        if (strcmp(f->node, node) == 0 && strcmp(f->check, check) == 0 && f->result == result &&
            strstr(f->detail, detail))
            return;
    }
    for (size_t i = 0; i < findings->count; i++)
        print_error("%s %s %s %s\n", findings->items[i].node, findings->items[i].check,
                    finding_result_text(findings->items[i].result), findings->items[i].detail);
    fail_msg("not found: %s %s %s '%s'", node, check, finding_result_text(result), detail);
}

static void faults_of_nodes_are_found(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(findings_release) struct findings findings = {0};

    (void)state;
    take_nodes(&nodes,
               "[" NODE("n1", "good", "10.0.0.1", "manager", "ready", "active", "28.2") "," NODE(
                   "n2", "down", "10.0.0.2", "worker", "down", "active",
                   "28.2") "," NODE("n3", "drained", "10.0.0.3", "worker", "ready", "drain",
                                    "28.2") "," NODE("n4", "twin", "10.0.0.4", "worker", "ready", "active",
                                                     "28.2") "," NODE("n5", "twin", "0.0.0.0", "worker",
                                                                      "ready", "active", "20.10") "]");
    nodecheck_nodes(&nodes, &findings);
    assert_found(&findings, "good", "state", FINDING_OK, "ready, active");
    assert_found(&findings, "down", "state", FINDING_FAILED, "down");
    assert_found(&findings, "drained", "state", FINDING_WARNING, "drain: it gets no tasks");
    assert_found(&findings, "twin", "name", FINDING_FAILED, "2 nodes have this host name");
    assert_found(&findings, "twin", "address", FINDING_FAILED, "0.0.0.0: other nodes do not reach it");
    assert_found(&findings, "twin", "version", FINDING_WARNING, "engine 20.10, the manager has 28.2");
    assert_int_equal(findings_count(&findings, FINDING_FAILED), 4);
}

static void pins_that_meet_no_node_are_found(void **state)
{
    static const char file[] =
        "services:\n"
        "  fits: {image: i, deploy: {placement: {constraints: [node.hostname == good]}}}\n"
        "  lost: {image: i, deploy: {placement: {constraints: [node.hostname == nowhere]}}}\n"
        "  odd: {image: i, deploy: {placement: {constraints: [node.hostnam == good]}}}\n";
    const struct compose_options options = {.stack = "st"};
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(findings_release) struct findings findings = {0};

    (void)state;
    take_nodes(&nodes, "[" NODE("n1", "good", "10.0.0.1", "manager", "ready", "active", "1") "]");
    assert_int_equal(compose_project_parse(file, sizeof file - 1, "st.yml", "/", &options, &project, NULL),
                     0);
    nodecheck_stack(project, &nodes, &findings);
    assert_found(&findings, "", "placement", FINDING_OK, "service 'fits': 1 nodes can run it");
    assert_found(&findings, "", "placement", FINDING_FAILED,
                 "services.lost: no node has node.hostname 'nowhere'");
    assert_found(&findings, "", "placement", FINDING_FAILED, "a node has no 'node.hostnam'");
}

static void ports_and_packet_sizes_are_looked_at(void **state)
{
    static const char file[] = "services: {a: {image: i, networks: [n]}}\n"
                               "networks: {n: {driver_opts: {com.docker.network.driver.mtu: '65535'}}}\n";
    const struct compose_options options = {.stack = "st"};
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(findings_release) struct findings findings = {0}, large = {0};
    mst_cleanup(mst_closep) int fd = -1;

    (void)state;
    /* Loopback addresses of our own choice: one listens. */
    take_nodes(&nodes, "[" NODE("n1", "open", "127.77.3.1", "worker", "ready", "active", "1") "," NODE(
                           "n2", "shut", "127.77.3.2", "manager", "ready", "active", "1") "]");
    assert_int_equal(mst_tcp_listen(0x7f4d0301, 7946, 4, &fd, NULL, NULL), 0);
    assert_int_equal(nodecheck_network(&nodes, NULL, "n1", -1, &findings, NULL), 0);
    assert_found(&findings, "open", "port 7946/tcp", FINDING_OK, "open");
    assert_found(&findings, "shut", "port 7946/tcp", FINDING_FAILED, "Connection refused");
    assert_found(&findings, "shut", "port 2377/tcp", FINDING_FAILED, "Connection refused");
    assert_found(&findings, "open", "mtu", FINDING_OK, "on the way");
    assert_int_equal(compose_project_parse(file, sizeof file - 1, "st.yml", "/", &options, &project, NULL),
                     0);
    assert_int_equal(nodecheck_network(&nodes, project, NULL, -1, &large, NULL), 0);
    assert_found(&large, "open", "mtu", FINDING_FAILED, "an overlay of 65535 needs 65585");
}

/* Documentation's addresses: they are nobody's, and not this machine's. */
static void nothing_is_sent_to_nodes_in_a_network_of_their_own(void **state)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(findings_release) struct findings findings = {0};

    (void)state;
    take_nodes(&nodes, "[" NODE("n1", "here", "192.0.2.1", "manager", "ready", "active", "1") "," NODE(
                           "n2", "there", "192.0.2.2", "worker", "ready", "active", "1") "]");
    assert_int_equal(nodecheck_network(&nodes, NULL, "n1", -1, &findings, NULL), 0);
    assert_found(&findings, "here", "network", FINDING_WARNING,
                 "this machine does not have that node's address");
    assert_int_equal(findings.count, 1);
}

/* ---- the whole of it ---- */

static const char image[] = "{\"Id\":\"sha256:1\",\"RepoDigests\":[]}";
static const char other[] = "{\"Id\":\"sha256:2\",\"RepoDigests\":[]}";
static const char nodes[] = "[" NODE("n1", "fake1", "10.1.1.1", "manager", "ready", "active", "1") "," NODE(
    "n2", "fake2", "10.1.1.2", "worker", "ready", "active", "1") "," NODE("n3", "fake3", "10.1.1.3", "worker",
                                                                          "ready", "active", "1") "]";
static const char info[] = "{\"Name\":\"fake2\",\"SystemTime\":\"2020-01-01T00:00:00+01:00\",\"Swarm\":{"
                           "\"NodeID\":\"%s\",\"LocalNodeState\":\"active\"}}";

static void check(const char *node_id, const char *its_image, const char *more, const char *const *texts,
                  int status)
{
    char info_text[256], file_name[64], file_text[512];
    struct fake_rule here[] = {{"GET", "/nodes", 0, 0, FAKE_REPLY, 200, nodes, 0},
                               {"GET", "/images/img:1/json", 0, 0, FAKE_REPLY, 200, image, 0}};
    struct fake_rule there[] = {{"GET", "/info", 0, 0, FAKE_REPLY, 200, info_text, 0},
                                {"GET", "/images/img:1/json", 0, 0, FAKE_REPLY, 200, its_image, 0}};
    struct fake_engine *manager = fake_engine_start(here, 2);
    struct fake_engine *node = fake_engine_start(there, its_image ? 2 : 1);
    const char *const arguments[] = {"node", "check", "--no-network", "--nodes-file", file_name, "-c", "-",
                                     "st",   NULL};
    struct program program;

    (void)snprintf(info_text, sizeof info_text, info, node_id);
    (void)snprintf(file_name, sizeof file_name, "/tmp/muster-nodes-%d", (int)getpid());
    (void)snprintf(file_text, sizeof file_text, "fake1 %s\nfake2 %s\n%s", fake_engine_host(manager),
                   fake_engine_host(node), more);
    assert_int_equal(mst_file_write_atomic(file_name, file_text, strlen(file_text), 0644, NULL), 0);
    program_run(&program, manager, arguments, "services: {a: {image: 'img:1', deploy: {mode: global}}}\n");
    for (size_t i = 0; texts[i]; i++) {
        if (!strstr(mst_buf_text(&program.out), texts[i]))
            fail_msg("no '%s' in '%s', '%s'", texts[i], mst_buf_text(&program.out),
                     mst_buf_text(&program.err));
    }
    assert_int_equal(program.status, status);
    program_release(&program);
    assert_int_equal(fake_engine_count(manager, "POST "), 0);
    assert_int_equal(fake_engine_count(node, "POST "), 0);
    (void)unlink(file_name);
    fake_engine_stop(manager);
    fake_engine_stop(node);
}

static void faults_of_engines_are_found(void **state)
{
    (void)state;
    check("n2", NULL, "",
          (const char *const[]){"fake1  reachable  ok", "fake1  image      ok       img:1",
                                "fake2  identity   ok       it is that node", "fake2  clock      failed   -",
                                "img:1 is missing, and no registry has it",
                                "fake3  reachable  warning  not in the nodes file", "-      placement  ok",
                                NULL},
          1);
    check("other", other, "fake3 unix:///nowhere/s\nfake9 unix:///x\n",
          (const char *const[]){"the engine is 'fake2', node 'other'",
                                "img:1 is another one than on the engine",
                                "fake3  reachable  failed  connect to the engine at unix:///nowhere/s",
                                "fake9  name       failed  the nodes file has it", NULL},
          1);
}

static void wrong_use_is_told(void **state)
{
    static const struct {
        const char *arguments[8];
        const char *err;
    } cases[] = {
        {{"node"}, "too few arguments"},
        {{"node", "chekc"}, "'node chekc': the only verb for nodes is 'check'"},
        {{"node", "check", "st"}, "a stack needs both its name and its file"},
        {{"node", "check", "-c", "x.yml"}, "a stack needs both its name and its file"},
    };
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct program program;
        program_run(&program, fake, cases[i].arguments, NULL);
        if (program.status != 2 || !strstr(mst_buf_text(&program.err), cases[i].err))
            fail_msg("case %zu: %d, '%s'", i, program.status, mst_buf_text(&program.err));
        program_release(&program);
    }
    fake_engine_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_nodes_are_found),
        cmocka_unit_test(pins_that_meet_no_node_are_found),
        cmocka_unit_test(ports_and_packet_sizes_are_looked_at),
        cmocka_unit_test(nothing_is_sent_to_nodes_in_a_network_of_their_own),
        cmocka_unit_test(faults_of_engines_are_found),
        cmocka_unit_test(wrong_use_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
