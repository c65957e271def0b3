/* SPDX-License-Identifier: Apache-2.0 */
/* Images on their way, before the first byte: two scripted engines, the manager's and the first node's. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/file.h"
#include "program.h"

#define NODE(id, name)                                                                                       \
    "{\"ID\":\"" id "\",\"Spec\":{\"Role\":\"manager\",\"Availability\":\"active\"},\"Description\":{"       \
    "\"Hostname\":\"" name "\"},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.1.1\"}}"

static const char nodes[] = "[" NODE("n1", "fake1") "," NODE("n2", "fake2") "," NODE("n3", "fake3") "]";
static const char image[] = "{\"Id\":\"sha256:1\",\"RepoDigests\":[]}";
static const char stack[] =
    "services: {first: {image: 'one:1', deploy: {placement: {constraints: "
    "[node.hostname == fake2]}}}, second: {image: 'two:1', deploy: {mode: global}}}\n";

static void a_nodes_file_that_lacks_a_node_is_found_before_anything_is_sent(void **state)
{
    struct fake_rule manager_rules[] = {{"GET", "/nodes", 0, 0, FAKE_REPLY, 200, nodes, 0},
                                        {"GET", "/images/one:1/json", 0, 0, FAKE_REPLY, 200, image, 0},
                                        {"GET", "/images/two:1/json", 0, 0, FAKE_REPLY, 200, image, 0}};
    struct fake_rule node_rules[] = {{"POST", "/images/load", 0, 0, FAKE_REPLY, 200, "{}", 0}};
    struct fake_engine *manager = fake_engine_start(manager_rules, MST_ARRAY_COUNT(manager_rules));
    struct fake_engine *node = fake_engine_start(node_rules, MST_ARRAY_COUNT(node_rules));
    char file[64], text[256];
    const char *const arguments[] = {"deploy", "--ship", "--nodes-file", file, "-c", "-", "st", NULL};
    struct program program;

    (void)state;
    fake_engine_stream(manager, "/images/get", "ARCHIVE", 7);
    (void)snprintf(file, sizeof file, "/tmp/muster-ship-%d", (int)getpid());
    (void)snprintf(text, sizeof text, "fake2 %s\n", fake_engine_host(node));
    assert_int_equal(mst_file_write_atomic(file, text, strlen(text), 0644, NULL), 0);
    program_run(&program, manager, arguments, stack);
    assert_int_not_equal(program.status, 0);
    assert_non_null(strstr(mst_buf_text(&program.err), "image 'two:1' is on the engine at unix://"));
    assert_non_null(
        strstr(mst_buf_text(&program.err), "node 'fake3', which may run it, is not in the nodes file"));
    assert_int_equal(fake_engine_count(node, ""), 0);
    assert_int_equal(fake_engine_count(manager, "GET /images/get"), 0);
    program_release(&program);
    (void)unlink(file);
    fake_engine_stop(manager);
    fake_engine_stop(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nodes_file_that_lacks_a_node_is_found_before_anything_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
