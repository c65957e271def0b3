/* SPDX-License-Identifier: Apache-2.0 */
/* Images that no registry has go to the nodes that lack them: two scripted engines, the manager's and a
 * node's. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/json.h"
#include "program.h"

#define IMAGE(id) "{\"Id\":\"sha256:" id "\",\"RepoDigests\":[]}"

static const char nodes[] =
    "[{\"ID\":\"n1\",\"Spec\":{\"Role\":\"manager\",\"Availability\":\"active\"},\"Description\":{"
    "\"Hostname\":"
    "\"fake1\"},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.1.1\"}},"
    "{\"ID\":\"n2\",\"Spec\":{\"Role\":\"worker\",\"Availability\":\"active\"},\"Description\":{\"Hostname\":"
    "\"fake2\"},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.1.2\"}},"
    "{\"ID\":\"n3\",\"Spec\":{\"Role\":\"worker\",\"Availability\":\"drain\"},\"Description\":{\"Hostname\":"
    "\"fake3\"},\"Status\":{\"State\":\"ready\",\"Addr\":\"10.1.1.3\"}}]";
static const char file[] = "services: {a: {image: 'img:1', deploy: {mode: global}}, b: {image: 'img:1'}}\n";

struct harbour {
    struct fake_engine *manager, *node;
    struct fake_rule manager_rules[2], node_rules[2];
    char nodes_file[64];
};

/* `node_id`: what the node has before; `load`: what it says to an archive. */
static void open_harbour(struct harbour *h, unsigned has_from, const char *node_image, const char *load)
{
    char text[256];

    *h = (struct harbour){
        .manager_rules = {{"GET", "/nodes", 0, 0, FAKE_REPLY, 200, nodes, 0},
                          {"GET", "/images/img:1/json", 0, 0, FAKE_REPLY, 200, IMAGE("1"), 0}},
        .node_rules = {{"GET", "/images/img:1/json", has_from, 0, FAKE_REPLY, 200, node_image, 0},
                       {"POST", "/images/load", 0, 0, FAKE_REPLY, 200, load, 0}},
    };
    h->manager = fake_engine_start(h->manager_rules, 2);
    h->node = fake_engine_start(h->node_rules, 2);
    fake_engine_stream(h->manager, "/images/get", "ARCHIVE", 7);
    (void)snprintf(h->nodes_file, sizeof h->nodes_file, "/tmp/muster-nodes-%d", (int)getpid());
    (void)snprintf(text, sizeof text, "fake2 %s\n", fake_engine_host(h->node));
    assert_int_equal(mst_file_write_atomic(h->nodes_file, text, strlen(text), 0644, NULL), 0);
}

static void close_harbour(struct harbour *h)
{
    (void)unlink(h->nodes_file);
    fake_engine_stop(h->manager);
    fake_engine_stop(h->node);
}

static void expect(struct harbour *h, const char *option, int status, const char *text)
{
    const char *const arguments[] = {"deploy", "--detach", "--ship", "--nodes-file", h->nodes_file,
                                     "-c",     "-",        "st",     option,         NULL};
    struct program program;

    program_run(&program, h->manager, arguments, file);
    if (program.status != status || !strstr(mst_buf_text(&program.err), text))
        fail_msg("%d, '%s' instead of %d, '%s'", program.status, mst_buf_text(&program.err), status, text);
    program_release(&program);
}

static void a_node_that_lacks_the_image_gets_it_once(void **state)
{
    struct harbour h;
    mst_cleanup(mst_json_deletep) cJSON *service = NULL;

    (void)state;
    open_harbour(&h, 2, IMAGE("1"), "{\"stream\":\"Loaded image: img:1\"}\n");
    expect(&h, NULL, 0, "shipped img:1 to fake2 (0.0 MB in ");
    assert_int_equal(fake_engine_count(h.node, "POST /images/load"), 1);
    assert_int_equal(fake_engine_count(h.manager, "GET /images/get"), 1);
    /* No registry is asked for it, and it is named as it is. */
    assert_int_equal(fake_engine_count(h.manager, "GET /distribution"), 0);
    service = fake_engine_body(h.manager, "POST /services/create");
    assert_string_equal(
        mst_json_string_or(mst_json_at(service, "TaskTemplate", "ContainerSpec", NULL), "Image", ""),
        "img:1");
    /* The next time it has it. */
    expect(&h, NULL, 0, "nothing to change");
    assert_int_equal(fake_engine_count(h.node, "POST /images/load"), 1);
    close_harbour(&h);
}

static void a_dry_run_only_says_so(void **state)
{
    struct harbour h;

    (void)state;
    open_harbour(&h, 9, IMAGE("1"), "{}");
    expect(&h, "--dry-run", 0, "would ship img:1 to fake2");
    assert_int_equal(fake_engine_count(h.node, "POST "), 0);
    assert_int_equal(fake_engine_count(h.manager, "POST "), 0);
    close_harbour(&h);
}

static void another_image_of_that_name_is_replaced(void **state)
{
    struct harbour h;

    (void)state;
    open_harbour(&h, 1, IMAGE("old"), "{\"stream\":\"Loaded\"}\n");
    expect(&h, NULL, 0, "shipped img:1 to fake2");
    close_harbour(&h);
}

static void what_goes_wrong_over_there_is_said_before_anything_is_deployed(void **state)
{
    struct harbour h;

    (void)state;
    open_harbour(&h, 9, IMAGE("1"), "{\"error\":\"no space left on device\"}\n");
    expect(&h, NULL, 3, "ship 'img:1' to node 'fake2': POST /images/load (img:1): no space left on device");
    assert_int_equal(fake_engine_count(h.manager, "POST "), 0);
    close_harbour(&h);

    open_harbour(&h, 9, IMAGE("1"), "{\"stream\":\"Loaded\"}\n");
    expect(&h, NULL, 3, "has no image 'img:1' all the same");
    assert_int_equal(mst_file_write_atomic(h.nodes_file, "fake9 unix:///x\n", 16, 0644, NULL), 0);
    expect(&h, NULL, 1, "node 'fake2', which may run it, is not in the nodes file");
    assert_int_equal(mst_file_write_atomic(h.nodes_file, "fake2 unix:///nowhere/s\n", 24, 0644, NULL), 0);
    expect(&h, NULL, 1, "ship 'img:1' to node 'fake2': connect to the engine at unix:///nowhere/s");
    assert_int_equal(mst_file_write_atomic(h.nodes_file, "fake2\n", 6, 0644, NULL), 0);
    expect(&h, NULL, 2, ":1: expected a node's host name");
    assert_int_equal(fake_engine_count(h.manager, "POST "), 0);
    close_harbour(&h);
}

static void what_a_registry_has_is_not_shipped(void **state)
{
    static const char pulled[] = "{\"Id\":\"sha256:1\",\"RepoDigests\":[\"img@sha256:00\"]}";
    struct harbour h;

    (void)state;
    open_harbour(&h, 9, IMAGE("1"), "{}");
    h.manager_rules[1].text = pulled;
    expect(&h, NULL, 0, "st");
    assert_int_equal(fake_engine_count(h.node, ""), 0);
    assert_int_equal(fake_engine_count(h.manager, "GET /distribution"), 1);
    close_harbour(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_lacks_the_image_gets_it_once),
        cmocka_unit_test(a_dry_run_only_says_so),
        cmocka_unit_test(another_image_of_that_name_is_replaced),
        cmocka_unit_test(what_goes_wrong_over_there_is_said_before_anything_is_deployed),
        cmocka_unit_test(what_a_registry_has_is_not_shipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
