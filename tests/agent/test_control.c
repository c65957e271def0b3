/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"
#include "test.h"

#define WORKER_BYTES (MEMBERSHIP_ID_BYTES + 4 + 2)

/* One of each kind of payload, filled with bytes that differ. */
enum kind { HEARTBEAT, PROPOSE, COMMIT, TEXT, DONE, FILE_BEGIN, KINDS };

static int unpack(enum kind kind, const uint8_t *payload, size_t count, struct mst_error *err)
{
    struct control_heartbeat heartbeat;
    struct membership_message message;
    struct membership_worker *workers = NULL;
    struct control_done done;
    struct control_file file;
    uint64_t view;
    char text[CONTROL_TEXT_BYTES];
    int r;
    switch (kind) {
    case HEARTBEAT:
        return control_unpack_heartbeat(payload, count, &heartbeat, err);
    case PROPOSE:
    case COMMIT:
        r = control_unpack_membership(kind == PROPOSE ? CONTROL_PROPOSE : CONTROL_COMMIT, payload, count,
                                      &message, &workers, err);
        if (r == 0)
            assert_true(message.count <= MEMBERSHIP_MAX_WORKERS && message.workers == workers);
        else
            assert_null(workers);
        free(workers);
        return r;
    case TEXT:
        r = control_unpack_text(payload, count, &view, text, err);
        if (r == 0)
            for (const char *c = text; *c; c++)
                assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
        return r;
    case DONE:
        return control_unpack_done(payload, count, &done, err);
    default:
        r = control_unpack_file(payload, count, &file, err);
        if (r == 0)
            assert_null(strchr(file.name, '/'));
        return r;
    }
}

static void fill(void *bytes, size_t count, uint8_t first)
{
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(first + i);
}

static void pack(enum kind kind, struct mst_buf *payload)
{
    struct membership_worker workers[3];
    struct membership_message message = {.view = 0x0102030405060708ULL, .count = 3, .workers = workers};
    struct control_done done = {.view = 3, .step = 4};
    struct control_file file = {.name = "model.safetensors", .bytes = 5};
    fill(workers, sizeof workers, 1);
    fill(message.digest, sizeof message.digest, 100);
    fill(done.digest, sizeof done.digest, 50);
    fill(file.sha256, sizeof file.sha256, 60);
    message.kind = kind == PROPOSE ? MEMBERSHIP_PROPOSE : MEMBERSHIP_COMMIT;
    int r = 0;
    switch (kind) {
    case HEARTBEAT:
        r = control_pack_heartbeat(payload, &(struct control_heartbeat){.view = 1, .step = 2});
        break;
    case PROPOSE:
    case COMMIT:
        r = control_pack_membership(payload, &message);
        break;
    case TEXT:
        r = control_pack_text(payload, 9, "w2 was told to stop");
        break;
    case DONE:
        r = control_pack_done(payload, &done);
        break;
    default:
        r = control_pack_file(payload, &file);
    }
    assert_int_equal(r, 0);
}

static void what_is_packed_comes_out_again(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
    struct control_heartbeat heartbeat;
    pack(HEARTBEAT, &payload);
    assert_int_equal(payload.count, 16);
    assert_int_equal(payload.bytes[7], 1); /* big-endian */
    assert_int_equal(control_unpack_heartbeat((const uint8_t *)payload.bytes, 16, &heartbeat, NULL), 0);
    assert_int_equal(heartbeat.view, 1);
    assert_int_equal(heartbeat.step, 2);

    for (int proposal = 0; proposal < 2; proposal++) {
        struct membership_message message;
        struct membership_worker *workers = NULL, expected[3];
        uint8_t digest[MST_SHA256_BYTES];
        fill(expected, sizeof expected, 1);
        fill(digest, sizeof digest, 100);
        mst_buf_clear(&payload);
        pack(proposal ? PROPOSE : COMMIT, &payload);
        assert_int_equal(control_unpack_membership(proposal ? CONTROL_PROPOSE : CONTROL_COMMIT,
                                                   (const uint8_t *)payload.bytes, payload.count, &message,
                                                   &workers, NULL),
                         0);
        assert_int_equal(message.kind, proposal ? MEMBERSHIP_PROPOSE : MEMBERSHIP_COMMIT);
        assert_int_equal(message.view, 0x0102030405060708ULL);
        assert_memory_equal(message.digest, digest, sizeof digest);
        assert_int_equal(message.count, proposal ? 3 : 0);
        for (size_t w = 0; w < message.count; w++) {
            assert_true(membership_id_equal(&workers[w].id, &expected[w].id));
            assert_int_equal(workers[w].ipv4, expected[w].ipv4);
            assert_int_equal(workers[w].port, expected[w].port);
        }
        free(workers);
    }

    struct control_done done;
    mst_buf_clear(&payload);
    pack(DONE, &payload);
    assert_int_equal(control_unpack_done((const uint8_t *)payload.bytes, payload.count, &done, NULL), 0);
    assert_int_equal(done.view, 3);
    assert_int_equal(done.step, 4);
    assert_int_equal(done.digest[31], 81);

    struct control_file file;
    mst_buf_clear(&payload);
    pack(FILE_BEGIN, &payload);
    assert_int_equal(control_unpack_file((const uint8_t *)payload.bytes, payload.count, &file, NULL), 0);
    assert_string_equal(file.name, "model.safetensors");
    assert_int_equal(file.bytes, 5);
    assert_int_equal(file.sha256[31], 91);
}

/* Exactly as long as said, so that the address sanitizer sees a byte too far. */
static int unpack_copy(enum kind kind, const void *payload, size_t count, struct mst_error *err)
{
    mst_cleanup(mst_freep) uint8_t *copy = malloc(count + (count == 0));
    assert_non_null(copy);
    memcpy(copy, payload, count);
    return unpack(kind, copy, count, err);
}

static void every_truncation_and_every_byte_too_many_is_refused(void **state)
{
    (void)state;
    for (enum kind kind = HEARTBEAT; kind < KINDS; kind++) {
        mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
        pack(kind, &payload);
        assert_int_equal(unpack_copy(kind, payload.bytes, payload.count, NULL), 0);
        /* Text and name take what is there behind the fixed fields; a name has at least a byte. */
        const size_t least = kind == TEXT ? 8 : kind == FILE_BEGIN ? 41 : payload.count;
        for (size_t count = 0; count < payload.count; count++) {
            struct mst_error err = MST_ERROR_INIT;
            const int r = unpack_copy(kind, payload.bytes, count, &err);
            assert_int_equal(r, count < least ? -EBADMSG : 0);
            if (r < 0)
                assert_true(strlen(err.text) > 0);
        }
        assert_int_equal(mst_buf_append(&payload, "", 1), 0); /* a NUL: no character of a name */
        assert_int_equal(unpack_copy(kind, payload.bytes, payload.count, NULL), kind == TEXT ? 0 : -EBADMSG);
    }
}

static void outputs_are_untouched_after_an_error(void **state)
{
    (void)state;
    const uint8_t short_payload[4] = {0};
    struct control_heartbeat heartbeat = {7, 7};
    struct control_done done = {.view = 7};
    struct control_file file = {.bytes = 7};
    struct membership_message message = {.view = 7};
    struct membership_worker *const untouched = (struct membership_worker *)&message, *workers = untouched;
    uint64_t view = 7;
    char text[CONTROL_TEXT_BYTES] = "untouched";
    assert_int_equal(control_unpack_heartbeat(short_payload, 4, &heartbeat, NULL), -EBADMSG);
    assert_int_equal(control_unpack_done(short_payload, 4, &done, NULL), -EBADMSG);
    assert_int_equal(control_unpack_file(short_payload, 4, &file, NULL), -EBADMSG);
    assert_int_equal(control_unpack_text(short_payload, 4, &view, text, NULL), -EBADMSG);
    for (int type = CONTROL_PROPOSE; type <= CONTROL_COMMIT; type++)
        assert_int_equal(
            control_unpack_membership((enum control_type)type, short_payload, 4, &message, &workers, NULL),
            -EBADMSG);
    assert_int_equal(heartbeat.view, 7);
    assert_int_equal(done.view, 7);
    assert_int_equal(file.bytes, 7);
    assert_int_equal(message.view, 7);
    assert_ptr_equal(workers, untouched);
    assert_int_equal(view, 7);
    assert_string_equal(text, "untouched");
}

static void a_count_is_believed_only_with_its_workers(void **state)
{
    (void)state;
    static const struct {
        unsigned count;
        size_t workers;
        int code;
    } cases[] = {
        {0, 0, -EBADMSG},       {1, 1, 0},
        {1, 0, -EBADMSG},       {1, 2, -EBADMSG},
        {2, 1, -EBADMSG},       {1024, 1024, 0},
        {1025, 1025, -EBADMSG}, {65535, 0, -EBADMSG},
        {65535, 1, -EBADMSG},   {65535, 2000, -EBADMSG},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        const size_t bytes = 8 + MST_SHA256_BYTES + 2 + cases[c].workers * WORKER_BYTES;
        mst_cleanup(mst_freep) uint8_t *payload = calloc(1, bytes);
        assert_non_null(payload);
        payload[40] = (uint8_t)(cases[c].count >> 8);
        payload[41] = (uint8_t)cases[c].count;
        assert_int_equal(unpack_copy(PROPOSE, payload, bytes, NULL), cases[c].code);
    }
}

static void texts_are_cut_and_cleaned(void **state)
{
    (void)state;
    char text[CONTROL_TEXT_BYTES], worst[1000];
    uint64_t view;
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
    memset(worst, 'x', sizeof worst);
    memcpy(worst, "a\nb\x1b[2J\x7f", 8);
    worst[sizeof worst - 1] = '\0';
    assert_int_equal(control_pack_text(&payload, 5, worst), 0);
    assert_int_equal(payload.count, 8 + CONTROL_TEXT_BYTES - 1);
    assert_int_equal(control_unpack_text((const uint8_t *)payload.bytes, payload.count, &view, text, NULL),
                     0);
    assert_int_equal(view, 5);
    assert_int_equal(strlen(text), CONTROL_TEXT_BYTES - 1);
    assert_memory_equal(text, "a?b?[2J?xx", 10);
    assert_int_equal(mst_buf_append(&payload, "y", 1), 0);
    assert_int_equal(unpack_copy(TEXT, payload.bytes, payload.count, NULL), -EBADMSG);
}

static void file_names_are_plain(void **state)
{
    (void)state;
    char longest[CONTROL_NAME_BYTES + 1];
    memset(longest, 'n', sizeof longest);
    longest[CONTROL_NAME_BYTES - 1] = '\0';
    const struct {
        const char *name;
        int code;
    } cases[] = {{"a", 0},           {longest, 0},          {"", -EBADMSG},     {".", -EBADMSG},
                 {"..", -EBADMSG},   {"../a", -EBADMSG},    {"/a", -EBADMSG},   {"a/b", -EBADMSG},
                 {"a\nb", -EBADMSG}, {"\x1b[2J", -EBADMSG}, {"a\x7f", -EBADMSG}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
        uint8_t fixed[40] = {0};
        assert_int_equal(mst_buf_append(&payload, fixed, sizeof fixed), 0);
        assert_int_equal(mst_buf_append_text(&payload, cases[c].name), 0);
        assert_int_equal(unpack_copy(FILE_BEGIN, payload.bytes, payload.count, NULL), cases[c].code);
    }
}

static void random_bytes_never_do_harm(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        const enum kind kind = (enum kind)test_below(&random, KINDS);
        mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
        if (round % 2 == 0) {
            pack(kind, &payload); /* nearly right */
            payload.bytes[test_below(&random, payload.count)] = (char)test_random(&random);
        } else {
            for (size_t left = test_below(&random, 300); left > 0; left--) {
                const char byte = (char)test_random(&random);
                assert_int_equal(mst_buf_append(&payload, &byte, 1), 0);
            }
        }
        const int r = unpack_copy(kind, mst_buf_text(&payload), payload.count, NULL);
        assert_true(r == 0 || r == -EBADMSG);
    }
}

static void a_full_payload_is_an_error(void **state)
{
    (void)state;
    for (enum kind kind = HEARTBEAT; kind < KINDS; kind++) {
        mst_cleanup(mst_buf_release) struct mst_buf whole = MST_BUF_INIT(4096);
        pack(kind, &whole);
        struct membership_worker workers[3] = {0};
        const struct membership_message message = {
            .kind = kind == PROPOSE ? MEMBERSHIP_PROPOSE : MEMBERSHIP_COMMIT, .count = 3, .workers = workers};
        const struct control_heartbeat heartbeat = {0};
        const struct control_done done = {0};
        const struct control_file file = {.name = "model.safetensors"};
        for (size_t limit = 0; limit < whole.count; limit++) {
            mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(limit);
            const int r = kind == HEARTBEAT    ? control_pack_heartbeat(&payload, &heartbeat)
                          : kind == TEXT       ? control_pack_text(&payload, 9, "w2 was told to stop")
                          : kind == DONE       ? control_pack_done(&payload, &done)
                          : kind == FILE_BEGIN ? control_pack_file(&payload, &file)
                                               : control_pack_membership(&payload, &message);
            assert_int_equal(r, -EFBIG);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_out_again),
        cmocka_unit_test(every_truncation_and_every_byte_too_many_is_refused),
        cmocka_unit_test(outputs_are_untouched_after_an_error),
        cmocka_unit_test(a_count_is_believed_only_with_its_workers),
        cmocka_unit_test(texts_are_cut_and_cleaned),
        cmocka_unit_test(file_names_are_plain),
        cmocka_unit_test(random_bytes_never_do_harm),
        cmocka_unit_test(a_full_payload_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
