/* SPDX-License-Identifier: Apache-2.0 */
/* Where the monitors are: what is understood, and what is refused with which words. */
#include "../common/test.h"
#include "peers_private.h"

static void places_are_understood(void **state)
{
    static const struct {
        const char *text, *url;
        bool is_service;
    } cases[] = {
        {"http://node1:9100", "http://node1:9100", false},
        {"https://node1", "https://node1:443", false},
        {"http://node1/", "http://node1:80", false},
        {"http://10.0.0.3:8080/monitor/", "http://10.0.0.3:8080/monitor", false},
        {"tasks.monitor", "http://tasks.monitor:8080", true},
        {"tasks.monitor:9100", "http://tasks.monitor:9100", true},
        {"https://tasks.demo_monitor:8443/x", "https://tasks.demo_monitor:8443/x", true},
        {"http://[::1]:8080", "http://[::1]:8080", false},
        {"node1", "http://node1:8080", false},
        {"tasks.", "http://tasks.:8080", false},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct peers_place place;
        struct mst_error err = MST_ERROR_INIT;
        if (peers_place_parse(cases[i].text, &place, &err) < 0 || strcmp(place.url, cases[i].url) != 0 ||
            place.is_service != cases[i].is_service)
            fail_msg("'%s': '%s' '%s'", cases[i].text, place.url, err.text);
    }
}

static void other_places_are_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "expected http://HOST:PORT"},
        {"ftp://node1", "only http and https"},
        {"file:///etc/passwd", "expected http://HOST:PORT"},
        {"http://", "expected http://HOST:PORT"},
        {"http://node1:99999", "expected http://HOST:PORT"},
        {"http://user:secret@node1", "come from a file"},
        {"http://node1/?a=b", "without '?' and '#'"},
        {"http://node1/#a", "without '?' and '#'"},
        {"http://node 1", "expected http://HOST:PORT"},
        {"http://{node}:80", "expected http://HOST:PORT"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_error err = MST_ERROR_INIT;
        if (peers_check(cases[i].text, &err) != -EINVAL || !strstr(err.text, cases[i].why) ||
            strstr(err.text, "secret"))
            fail_msg("'%s': '%s'", cases[i].text, err.text);
    }
}

static const char *write_text(const struct test_folder *folder, const char *name, const char *text,
                              char path[static 320])
{
    test_write(test_path(folder, name, path), text, strlen(text));
    return path;
}

static void a_file_names_nodes(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *why;
    } cases[] = {
        {"# all\nnode1 http://node1:8080\n  node2\thttps://10.0.0.2 http://there/ \r\n", 0, ""},
        {"node1\n", -EBADMSG, ":1: expected a node's name and its monitor"},
        {"\nnode1 ftp://x\n", -EBADMSG, ":2: 'ftp://x': only http"},
        {"node1 http://a b\n", -EBADMSG, ":1: the link 'b' is no http://"},
        {"node1 http://a http://b c\n", -EBADMSG, ":1: a name, a monitor and perhaps a link"},
        {"node1 http://a\nnode1 http://b\n", -EBADMSG, ":2: node 'node1' stands twice"},
        {"# none\n", -EBADMSG, "it names no node"},
        {"", -EBADMSG, "it names no node"},
    };
    const struct test_folder *folder = *state;

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char path[320];
        mst_cleanup(peers_freep) struct peers *peers = NULL;
        const struct peers_options options = {.file = write_text(folder, "nodes", cases[i].text, path),
                                              .link = "http://{node}:80/"};
        struct mst_error err = MST_ERROR_INIT;
        const int r = peers_new(&options, &peers, &err);
        if (r != cases[i].code || !strstr(err.text, cases[i].why))
            fail_msg("case %zu: %d, '%s'", i, r, err.text);
        if (r == 0) {
            size_t count;
            const struct peers_node *nodes;
            assert_int_equal(peers_find(peers, NULL), 0);
            nodes = peers_nodes(peers, &count);
            assert_int_equal(count, 2);
            assert_string_equal(nodes[0].name, "node1");
            assert_string_equal(nodes[0].link, "http://node1:80/"); /* by the pattern */
            assert_string_equal(nodes[1].url, "https://10.0.0.2:443");
            assert_string_equal(nodes[1].link, "http://there/"); /* its own */
            assert_true(nodes[0].has_name);
        }
    }
}

static void credentials_are_one_line_and_never_shown(void **state)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"user:secret\n", 0},
        {"user:se:cret", 0},
        {"secret\n", -EBADMSG},
        {":secret\n", -EBADMSG},
        {"user:secret\nmore:secret\n", -EBADMSG},
        {"\nuser:secret", -EBADMSG},
        {"", -EBADMSG},
    };
    static const char *const where[] = {"node1", NULL};
    const struct test_folder *folder = *state;

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char path[320];
        mst_cleanup(peers_freep) struct peers *peers = NULL;
        const struct peers_options options = {.where = where,
                                              .credentials = write_text(folder, "user", cases[i].text, path)};
        struct mst_error err = MST_ERROR_INIT;
        const int r = peers_new(&options, &peers, &err);
        if (r != cases[i].code || strstr(err.text, "secret"))
            fail_msg("case %zu: %d, '%s'", i, r, err.text);
        if (r == 0)
            assert_string_equal(peers->user, "user");
    }
}

static void files_that_are_not_there_are_errors(void **state)
{
    static const char *const where[] = {"node1", NULL};
    static const struct peers_options cases[] = {
        {.where = where, .file = "/nowhere"},
        {.where = where, .credentials = "/nowhere"},
        {.where = where, .ca = "/nowhere"},
        {.where = where, .certificate = "/nowhere", .key = "/nowhere"},
        {.where = where, .certificate = "/etc/passwd"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct peers *peers = NULL;
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(peers_new(&cases[i], &peers, &err), i == 4 ? -EINVAL : -ENOENT);
        assert_non_null(strstr(err.text, i == 4 ? "together" : "/nowhere"));
        assert_null(peers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_understood),
        cmocka_unit_test(other_places_are_refused),
        cmocka_unit_test_setup_teardown(a_file_names_nodes, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(credentials_are_one_line_and_never_shown, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(files_that_are_not_there_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
