/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "session.h"

#include <errno.h>
#include <stdlib.h>

static void a_context_that_is_not_there_is_a_wrong_option(void **state)
{
    struct session session;
    struct mst_error err = MST_ERROR_INIT;

    (void)state;
    assert_int_equal(setenv("DOCKER_CONFIG", "/nowhere", 1), 0);
    assert_int_equal(session_open(&session, NULL, "none", &err), -EINVAL);
    assert_int_equal(err.code, -EINVAL);
    assert_non_null(strstr(err.text, "docker context 'none': there is none in '/nowhere'"));
    session_close(&session);
    assert_int_equal(session_open(&session, "unix:///nowhere/s", NULL, &err), 0); /* not connected to */
    session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_that_is_not_there_is_a_wrong_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
