/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as they are put together, and the texts of refusals; what goes over a socket is tried in
 * tests/faults. */
#include "../common/test.h"
#include "transfer.h"

static void a_request_is_labelled_with_what_it_is_about(void **state)
{
    static const struct {
        struct engine_call call;
        unsigned minor;
        const char *label;
    } cases[] = {
        {{.method = "POST", .path = "/services/create", .about = "service 'web'"},
         43,
         "POST /v1.43/services/create (service 'web')"},
        {{.method = "GET", .path = "/tasks", .query = "filters=secret"}, 41, "GET /v1.41/tasks"},
        {{.method = "GET", .path = "/_ping"}, 0, "GET /_ping"},
    };
    const struct engine_options options = {.connect_timeout_ms = 1};
    struct engine_endpoint endpoint;

    (void)state;
    assert_int_equal(endpoint_init(&endpoint, "unix:///x", NULL, NULL), 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct engine_transfer transfer;
        assert_int_equal(transfer_init(&transfer, &endpoint, &options, cases[i].minor, &cases[i].call, NULL),
                         0);
        assert_string_equal(transfer.label, cases[i].label);
        transfer_release(&transfer);
        transfer_release(&transfer); /* twice is fine */
    }
    endpoint_release(&endpoint);
}

static void a_body_is_printed_without_spaces(void **state)
{
    const struct engine_options options = {.connect_timeout_ms = 1};
    struct engine_call call = {.method = "POST", .path = "/x"};
    struct engine_endpoint endpoint;
    struct engine_transfer transfer;
    cJSON *body = cJSON_Parse("{\"a\": [1, 2]}");

    (void)state;
    call.body = body;
    assert_int_equal(endpoint_init(&endpoint, "unix:///x", NULL, NULL), 0);
    assert_int_equal(transfer_init(&transfer, &endpoint, &options, 43, &call, NULL), 0);
    assert_string_equal(transfer.body, "{\"a\":[1,2]}");
    transfer_release(&transfer);
    endpoint_release(&endpoint);
    cJSON_Delete(body);
}

static void refusals_fit_one_line(void **state)
{
    static const struct {
        int status;
        const char *json, *text;
    } cases[] = {
        {409, "{\"message\":\"name conflicts\"}", "L: 409 Conflict: name conflicts"},
        {503, "{\"message\":\"a\\nb\\t\\u0007c\\n\"}", "L: 503 Service Unavailable: a b  c"},
        {418, "{}", "L: 418 refused: the engine gave no reason"},
        {500, "[1]", "L: 500 Internal Server Error: the engine gave no reason"},
        {404, "{\"message\":5}", "L: 404 Not Found: the engine gave no reason"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_error err = MST_ERROR_INIT;
        cJSON *json = cJSON_Parse(cases[i].json);
        assert_int_equal(transfer_refused("L", cases[i].status, json, &err), -EREMOTEIO);
        assert_string_equal(err.text, cases[i].text);
        cJSON_Delete(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_labelled_with_what_it_is_about),
        cmocka_unit_test(a_body_is_printed_without_spaces),
        cmocka_unit_test(refusals_fit_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
