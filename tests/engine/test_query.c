/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "muster/engine.h"

static void queries_are_encoded(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(4096);

    (void)state;
    assert_int_equal(engine_query_add(&query, "status", "true"), 0);
    assert_int_equal(engine_query_add(&query, "path", "/runs/a b&c=d#\xc3\xa9"), 0);
    assert_int_equal(engine_query_filter(&query, "label", "k=\"v\""), 0);
    assert_string_equal(mst_buf_text(&query), "status=true&path=%2Fruns%2Fa%20b%26c%3Dd%23%C3%A9&filters="
                                              "%7B%22label%22%3A%5B%22k%3D%5C%22v%5C%22%22%5D%7D");
}

static void names_cannot_leave_their_place_in_a_path(void **state)
{
    static const struct {
        const char *name, *path;
    } cases[] = {
        {"web_1.a-b~c", "/services/web_1.a-b~c/logs"}, {"../../info", "/services/..%2F..%2Finfo/logs"},
        {"a?b=c", "/services/a%3Fb%3Dc/logs"},         {"a\r\nHost: x", "/services/a%0D%0AHost:%20x/logs"},
        {"host:5000", "/services/host:5000/logs"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(256);
        assert_int_equal(engine_path(&path, "/services/", cases[i].name, "/logs"), 0);
        assert_string_equal(mst_buf_text(&path), cases[i].path);
    }
}

static void names_that_do_not_fit_are_an_error(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(16);

    (void)state;
    assert_int_equal(engine_path(&path, "/services/", "a-name-of-more-than-that", NULL), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_are_encoded),
        cmocka_unit_test(names_cannot_leave_their_place_in_a_path),
        cmocka_unit_test(names_that_do_not_fit_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
