/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/digest.h"
#include "test.h"

/* FIPS 180-2, appendix B, and the empty message. */
static const struct {
    const char *text;
    size_t times;
    const char *hex;
} sha_cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void digests_are_those_of_the_standard(void **state)
{
    const struct test_folder *folder = *state;
    for (size_t c = 0; c < MST_ARRAY_COUNT(sha_cases); c++) {
        mst_cleanup(mst_buf_release) struct mst_buf bytes = MST_BUF_INIT(1 << 20);
        mst_cleanup(mst_sha256_release) struct mst_sha256 pieces = {0};
        uint8_t digest[MST_SHA256_BYTES];
        char hex[MST_SHA256_HEX_BYTES], path[320];
        assert_int_equal(mst_sha256_init(&pieces, NULL), 0);
        for (size_t t = 0; t < sha_cases[c].times; t++) {
            assert_int_equal(mst_buf_append_text(&bytes, sha_cases[c].text), 0);
            assert_int_equal(mst_sha256_update(&pieces, sha_cases[c].text, strlen(sha_cases[c].text), NULL),
                             0);
        }
        assert_int_equal(mst_sha256(mst_buf_text(&bytes), bytes.count, digest, NULL), 0);
        mst_hex(digest, sizeof digest, hex);
        assert_string_equal(hex, sha_cases[c].hex);

        assert_int_equal(mst_sha256_finish(&pieces, digest, NULL), 0);
        mst_hex(digest, sizeof digest, hex);
        assert_string_equal(hex, sha_cases[c].hex);

        test_write(test_path(folder, "file", path), mst_buf_text(&bytes), bytes.count);
        assert_int_equal(mst_sha256_file(path, digest, NULL), 0);
        mst_hex(digest, sizeof digest, hex);
        assert_string_equal(hex, sha_cases[c].hex);
    }
}

static void a_file_that_cannot_be_read_has_no_digest(void **state)
{
    const struct test_folder *folder = *state;
    char path[320];
    const struct {
        const char *path;
        int code;
    } cases[] = {{test_path(folder, "absent", path), -ENOENT}, {folder->path, -EISDIR}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct mst_error err = MST_ERROR_INIT;
        uint8_t digest[MST_SHA256_BYTES] = {7};
        assert_int_equal(mst_sha256_file(cases[c].path, digest, &err), cases[c].code);
        assert_non_null(strstr(err.text, cases[c].path));
        assert_int_equal(digest[0], 7);
    }
}

/* RFC 4231, test cases 1, 2, 3 and 6, and an empty key (openssl dgst -mac hmac). */
static void macs_are_those_of_the_standard(void **state)
{
    (void)state;
    static const struct {
        uint8_t key_byte;
        size_t key_bytes;
        const char *key, *text;
        uint8_t text_byte;
        size_t text_bytes;
        const char *hex;
    } cases[] = {
        {0x0b, 20, NULL, "Hi There", 0, 8,
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {0, 4, "Jefe", "what do ya want for nothing?", 0, 28,
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {0xaa, 20, NULL, NULL, 0xdd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First", 0, 54,
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {0, 0, NULL, "", 0, 0, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        uint8_t key[131], text[64], mac[MST_SHA256_BYTES];
        char hex[MST_SHA256_HEX_BYTES];
        memset(key, cases[c].key_byte, sizeof key);
        memset(text, cases[c].text_byte, sizeof text);
        if (cases[c].key)
            memcpy(key, cases[c].key, cases[c].key_bytes);
        if (cases[c].text)
            memcpy(text, cases[c].text, cases[c].text_bytes);
        assert_int_equal(mst_hmac_sha256(cases[c].key_bytes ? key : NULL, cases[c].key_bytes, text,
                                         cases[c].text_bytes, mac, NULL),
                         0);
        mst_hex(mac, sizeof mac, hex);
        assert_string_equal(hex, cases[c].hex);
    }
    uint8_t mac[MST_SHA256_BYTES] = {7};
    assert_int_equal(mst_hmac_sha256("k", (size_t)INT32_MAX + 1, "", 0, mac, NULL), -EINVAL);
    assert_int_equal(mac[0], 7);
}

static void hex_is_lower_case_with_all_zeros(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0x0f, 0xf0, 0xff, 0xa9};
    char text[2 * sizeof bytes + 1];
    mst_hex(bytes, sizeof bytes, text);
    assert_string_equal(text, "000ff0ffa9");
    mst_hex(bytes, 0, text);
    assert_string_equal(text, "");
}

static void equality_sees_every_byte(void **state)
{
    (void)state;
    uint8_t a[MST_SHA256_BYTES] = {0}, b[MST_SHA256_BYTES] = {0};
    assert_true(mst_equal_constant_time(a, b, sizeof a));
    assert_true(mst_equal_constant_time(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b[i] = (uint8_t)(1 << bit);
            assert_false(mst_equal_constant_time(a, b, sizeof a));
        }
        b[i] = 0;
    }
}

static void random_bytes_fill_what_is_asked_and_no_more(void **state)
{
    (void)state;
    uint8_t bytes[70000];
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(mst_random(bytes, 0, NULL), 0);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(mst_random(bytes + 1, sizeof bytes - 2, NULL),
                     0); /* more than one getrandom(2) may give */
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[sizeof bytes - 1], 0);
    size_t zeros = 0;
    for (size_t i = 1; i + 1 < sizeof bytes; i++)
        zeros += bytes[i] == 0;
    assert_in_range(zeros, 100, 500); /* 273 expected; 17 standard deviations would be 280 away */
    mst_forget(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0);
}

static void an_unfinished_digest_can_be_released_twice(void **state)
{
    (void)state;
    struct mst_sha256 sha = {0};
    mst_sha256_release(&sha);
    assert_int_equal(mst_sha256_init(&sha, NULL), 0);
    mst_sha256_release(&sha);
    mst_sha256_release(&sha);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(digests_are_those_of_the_standard, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_read_has_no_digest, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(macs_are_those_of_the_standard),
        cmocka_unit_test(hex_is_lower_case_with_all_zeros),
        cmocka_unit_test(equality_sees_every_byte),
        cmocka_unit_test(random_bytes_fill_what_is_asked_and_no_more),
        cmocka_unit_test(an_unfinished_digest_can_be_released_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
