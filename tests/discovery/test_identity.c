/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <unistd.h>

static void names_that_could_do_harm_elsewhere_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *slot;
        int code;
    } cases[] = {
        {"w1.1", 0},         {"job_w1.12", 0},     {"node-1", 0},    {"", -EINVAL},
        {"../etc", -EINVAL}, {"a/b", -EINVAL},     {"a b", -EINVAL}, {"a\nb", -EINVAL},
        {"a<b>", -EINVAL},   {".hidden", -EINVAL}, {"-rf", -EINVAL}, {"caf\xc3\xa9", -EINVAL},
        {"a\"b", -EINVAL},
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct discovery_identity identity = make_self(cases[i].slot, 1, 7).identity;
        assert_int_equal(discovery_identity_check(&identity, NULL), cases[i].code);
        identity = make_self("w", 1, 7).identity;
        (void)snprintf(identity.cluster, sizeof identity.cluster, "%s", cases[i].slot);
        assert_int_equal(discovery_identity_check(&identity, NULL), cases[i].code);
    }
}

static void a_name_that_fills_its_field_has_no_end_and_is_refused(void **state)
{
    (void)state;
    struct discovery_identity identity = make_self("w", 1, 7).identity;
    memset(identity.slot, 'x', sizeof identity.slot);
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(discovery_identity_check(&identity, &err), -EINVAL);
    identity.slot[sizeof identity.slot - 1] = '\0';
    assert_int_equal(discovery_identity_check(&identity, &err), 0);
}

static void a_worker_needs_an_address_and_a_probe_does_not(void **state)
{
    (void)state;
    struct discovery_identity identity = make_self("w", 1, 7).identity;
    identity.ipv4 = 0;
    assert_int_equal(discovery_identity_check(&identity, NULL), -EINVAL);
    identity.role = DISCOVERY_ROLE_PROBE;
    assert_int_equal(discovery_identity_check(&identity, NULL), 0);
    identity.role = 0;
    assert_int_equal(discovery_identity_check(&identity, NULL), -EINVAL);
    identity.role = DISCOVERY_ROLE_PROBE + 1;
    assert_int_equal(discovery_identity_check(&identity, NULL), -EINVAL);
}

static void a_key_file_is_read_whole_and_within_its_limits(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        int code;
    } cases[] = {{0, -EINVAL}, {31, -EINVAL}, {32, 0}, {33, 0}, {1024, 0}, {1025, -EFBIG}, {5000, -EFBIG}};
    char path[] = "/tmp/muster-test-key-XXXXXX", bytes[5000];
    mst_cleanup(mst_closep) int fd = mkstemp(path);
    assert_true(fd >= 0);
    memset(bytes, '\n', sizeof bytes); /* a newline is as good a byte as any */
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct discovery_key key = {.count = 7};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(mst_file_write_atomic(path, bytes, cases[i].bytes, 0600, NULL), 0);
        assert_int_equal(discovery_key_read(path, &key, &err), cases[i].code);
        assert_int_equal(key.count, cases[i].code == 0 ? cases[i].bytes : 7);
        if (cases[i].code < 0)
            assert_non_null(strstr(err.text, path));
        if (cases[i].code == -EFBIG)
            assert_non_null(strstr(err.text, "the limit of 1024 bytes"));
        discovery_key_forget(&key);
    }
    (void)unlink(path);
    struct discovery_key key = {0};
    assert_int_equal(discovery_key_read(path, &key, NULL), -ENOENT);
}

static void the_key_that_is_replaced_is_read_beside_the_new_one(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-key-XXXXXX", old_path[] = "/tmp/muster-test-old-XXXXXX";
    char bytes[64] = "0123456789abcdef0123456789abcdef";
    mst_cleanup(mst_closep) int fd = mkstemp(path), old_fd = mkstemp(old_path);
    struct discovery_self self = {0};
    struct mst_error err = MST_ERROR_INIT;
    assert_true(fd >= 0 && old_fd >= 0);
    assert_int_equal(mst_file_write_atomic(path, bytes, 33, 0600, NULL), 0);
    assert_int_equal(discovery_keys_read(&self, path, NULL, NULL), 0);
    assert_int_equal(self.key_count, 1);

    assert_int_equal(mst_file_write_atomic(old_path, bytes, 33, 0600, NULL), 0);
    assert_int_equal(discovery_keys_read(&self, path, old_path, NULL), 0);
    assert_int_equal(self.key_count, 1); /* the change has not begun, or is over */
    assert_int_equal(self.keys[1].count, 0);

    assert_int_equal(mst_file_write_atomic(old_path, bytes, 34, 0600, NULL), 0);
    assert_int_equal(discovery_keys_read(&self, path, old_path, NULL), 0);
    assert_int_equal(self.key_count, 2);
    assert_int_equal(self.keys[0].count, 33);
    assert_int_equal(self.keys[1].count, 34);

    assert_int_equal(mst_file_write_atomic(old_path, bytes, 3, 0600, NULL), 0);
    assert_int_equal(discovery_keys_read(&self, path, old_path, &err), -EINVAL);
    assert_non_null(strstr(err.text, "old key"));
    assert_non_null(strstr(err.text, old_path));
    (void)unlink(path);
    (void)unlink(old_path);
    assert_int_equal(discovery_keys_read(&self, path, old_path, NULL), -ENOENT);
}

static void states_and_roles_have_words_whatever_comes(void **state)
{
    (void)state;
    assert_string_equal(discovery_state_text(DISCOVERY_STATE_RUNNING), "running");
    assert_string_equal(discovery_state_text(DISCOVERY_STATE_COLLECTING), "collecting");
    assert_string_equal(discovery_state_text(200), "unknown");
    assert_string_equal(discovery_role_text(DISCOVERY_ROLE_WORKER), "worker");
    assert_string_equal(discovery_role_text(0), "unknown");
    assert_string_equal(discovery_role_text(77), "unknown");
}

static void every_reason_has_its_own_words(void **state)
{
    (void)state;
    static const enum discovery_reason reasons[] = {DISCOVERY_REASON_VERSION,  DISCOVERY_REASON_CLUSTER,
                                                    DISCOVERY_REASON_KEY,      DISCOVERY_REASON_INSECURE,
                                                    DISCOVERY_REASON_SELF,     DISCOVERY_REASON_FULL,
                                                    DISCOVERY_REASON_FORMAT,   DISCOVERY_REASON_ROLE,
                                                    DISCOVERY_REASON_JOB,      DISCOVERY_REASON_BUSY,

                                                    DISCOVERY_REASON_FOREIGN,  DISCOVERY_REASON_CLOSED,
                                                    DISCOVERY_REASON_TAMPERED, 31};
    for (size_t i = 0; i < MST_ARRAY_COUNT(reasons); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(discovery_reason_text(reasons[i]), discovery_reason_text(reasons[j]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_could_do_harm_elsewhere_are_refused),
        cmocka_unit_test(a_name_that_fills_its_field_has_no_end_and_is_refused),
        cmocka_unit_test(a_worker_needs_an_address_and_a_probe_does_not),
        cmocka_unit_test(a_key_file_is_read_whole_and_within_its_limits),
        cmocka_unit_test(the_key_that_is_replaced_is_read_beside_the_new_one),
        cmocka_unit_test(states_and_roles_have_words_whatever_comes),
        cmocka_unit_test(every_reason_has_its_own_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
