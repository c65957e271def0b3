/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"
#include "test.h"

#define WORKER_BYTES (MEMBERSHIP_ID_BYTES + MEMBERSHIP_SLOT_BYTES + 4 + 2)
#define PLACE_BYTES  (MEMBERSHIP_SLOT_BYTES + 1)
#define BALLOT_BYTES (8 + MEMBERSHIP_LINEAGE_BYTES + MST_SHA256_BYTES + 2) /* without places */

/* One of each kind of payload, filled with bytes that differ. */
enum kind { HEARTBEAT, PROPOSE, COMMIT, HOLD, TEXT, DONE, FILE_BEGIN, KINDS };

static enum control_type frame_type(enum kind kind)
{
    return kind == PROPOSE ? CONTROL_PROPOSE : kind == COMMIT ? CONTROL_COMMIT : CONTROL_HOLD;
}

static int unpack(enum kind kind, const uint8_t *payload, size_t count, struct mst_error *err)
{
    struct control_heartbeat heartbeat;
    struct control_membership membership = {0};
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
    case HOLD:
        r = control_unpack_membership(frame_type(kind), payload, count, &membership, err);
        if (r == 0)
            assert_true(membership.message.count <= MEMBERSHIP_MAX_WORKERS &&
                        membership.message.vow.count <= MEMBERSHIP_MAX_ATTEMPTS &&
                        membership.message.workers == membership.workers);
        else
            assert_null(membership.workers);
        control_membership_release(&membership);
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

/* A membership message with something in every field. Lives as long as the test. */
static struct membership_message a_message(enum kind kind)
{
    static struct membership_worker workers[3];
    static struct membership_place places[4];
    struct membership_message message = {.view = 0x0102030405060708ULL};
    fill(workers, sizeof workers, 1);
    for (size_t p = 0; p < MST_ARRAY_COUNT(places); p++) {
        fill(places[p].slot.bytes, sizeof places[p].slot.bytes, (uint8_t)(40 + p));
        places[p].part = (enum membership_part)(p % 3);
    }
    fill(message.digest, sizeof message.digest, kind == COMMIT ? 100 : 0);
    switch (kind) {
    case PROPOSE:
        message.kind = MEMBERSHIP_PROPOSE;
        message.leaving = true;
        message.step = 77;
        message.count = 3;
        message.workers = workers;
        message.vow.held = (struct membership_ballot){.view = 5, .count = 4, .places = places};
        message.vow.count = 2;
        message.vow.attempts[0] = (struct membership_ballot){.view = 6, .count = 2, .places = places};
        message.vow.attempts[1] = (struct membership_ballot){.view = 7, .count = 0, .places = places};
        fill(message.vow.held.digest, MST_SHA256_BYTES, 11);
        fill(message.vow.attempts[0].lineage, MEMBERSHIP_LINEAGE_BYTES, 12);
        break;
    case COMMIT:
        message.kind = MEMBERSHIP_COMMIT;
        break;
    default:
        message.kind = MEMBERSHIP_HOLD;
        message.step = 78;
        message.size = 3;
        fill(message.lineage, sizeof message.lineage, 13);
    }
    return message;
}

static void pack(enum kind kind, struct mst_buf *payload)
{
    const struct membership_message message = a_message(kind);
    struct control_done done = {.view = 3, .step = 4};
    struct control_file file = {.name = "model.safetensors", .bytes = 5};
    fill(done.digest, sizeof done.digest, 50);
    fill(file.sha256, sizeof file.sha256, 60);
    int r = 0;
    switch (kind) {
    case HEARTBEAT:
        r = control_pack_heartbeat(payload, &(struct control_heartbeat){.view = 1, .step = 2});
        break;
    case PROPOSE:
    case COMMIT:
    case HOLD:
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

static void assert_ballots_equal(const struct membership_ballot *a, const struct membership_ballot *b)
{
    assert_int_equal(a->view, b->view);
    assert_memory_equal(a->lineage, b->lineage, sizeof a->lineage);
    assert_memory_equal(a->digest, b->digest, sizeof a->digest);
    assert_int_equal(a->count, b->count);
    for (size_t p = 0; p < a->count; p++) {
        assert_memory_equal(a->places[p].slot.bytes, b->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES);
        assert_int_equal(a->places[p].part, b->places[p].part);
    }
}

static void membership_messages_come_out_again(void **state)
{
    (void)state;
    for (enum kind kind = PROPOSE; kind <= HOLD; kind++) {
        mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
        mst_cleanup(control_membership_release) struct control_membership membership = {0};
        const struct membership_message sent = a_message(kind), *got = &membership.message;
        pack(kind, &payload);
        assert_int_equal(control_unpack_membership(frame_type(kind), (const uint8_t *)payload.bytes,
                                                   payload.count, &membership, NULL),
                         0);
        assert_int_equal(got->kind, sent.kind);
        assert_int_equal(got->view, sent.view);
        assert_int_equal(got->leaving, sent.leaving);
        assert_int_equal(got->step, sent.step);
        assert_int_equal(got->size, sent.size);
        assert_memory_equal(got->lineage, sent.lineage, sizeof sent.lineage);
        assert_int_equal(got->count, sent.count);
        for (size_t w = 0; w < sent.count; w++) {
            assert_memory_equal(got->workers[w].id.bytes, sent.workers[w].id.bytes, MEMBERSHIP_ID_BYTES);
            assert_memory_equal(got->workers[w].slot.bytes, sent.workers[w].slot.bytes,
                                MEMBERSHIP_SLOT_BYTES);
            assert_int_equal(got->workers[w].ipv4, sent.workers[w].ipv4);
            assert_int_equal(got->workers[w].port, sent.workers[w].port);
        }
        assert_int_equal(got->vow.count, sent.vow.count);
        assert_ballots_equal(&got->vow.held, &sent.vow.held);
        for (size_t a = 0; a < sent.vow.count; a++)
            assert_ballots_equal(&got->vow.attempts[a], &sent.vow.attempts[a]);
        if (kind == COMMIT)
            assert_memory_equal(got->digest, sent.digest, sizeof sent.digest);
    }
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
    struct control_membership membership = {.message = {.view = 7}};
    uint64_t view = 7;
    char text[CONTROL_TEXT_BYTES] = "untouched";
    assert_int_equal(control_unpack_heartbeat(short_payload, 4, &heartbeat, NULL), -EBADMSG);
    assert_int_equal(control_unpack_done(short_payload, 4, &done, NULL), -EBADMSG);
    assert_int_equal(control_unpack_file(short_payload, 4, &file, NULL), -EBADMSG);
    assert_int_equal(control_unpack_text(short_payload, 4, &view, text, NULL), -EBADMSG);
    for (enum kind kind = PROPOSE; kind <= HOLD; kind++)
        assert_int_equal(control_unpack_membership(frame_type(kind), short_payload, 4, &membership, NULL),
                         -EBADMSG);
    assert_int_equal(heartbeat.view, 7);
    assert_int_equal(done.view, 7);
    assert_int_equal(file.bytes, 7);
    assert_int_equal(membership.message.view, 7);
    assert_int_equal(view, 7);
    assert_string_equal(text, "untouched");
}

/* A proposal with nothing in it, up to where a count stands. */
static void start_proposal(struct mst_buf *payload, uint8_t attempts, uint16_t places)
{
    const uint8_t head[8 + 1 + 8] = {0}, ballot[BALLOT_BYTES - 2] = {0};
    const uint8_t count[2] = {(uint8_t)(places >> 8), (uint8_t)places};
    mst_buf_clear(payload);
    assert_int_equal(mst_buf_append(payload, head, sizeof head), 0);
    assert_int_equal(mst_buf_append(payload, &attempts, 1), 0);
    assert_int_equal(mst_buf_append(payload, ballot, sizeof ballot), 0);
    assert_int_equal(mst_buf_append(payload, count, sizeof count), 0);
}

static void a_count_is_believed_only_with_what_it_counts(void **state)
{
    (void)state;
    static const uint8_t zeros[MEMBERSHIP_MAX_WORKERS * WORKER_BYTES];
    static const struct {
        uint8_t attempts;
        uint16_t places, workers;
        size_t bytes; /* behind the workers' count */
        int code;
    } cases[] = {
        {0, 0, 1, WORKER_BYTES, 0},
        {0, 0, 0, 0, -EBADMSG},
        {0, 0, 2, WORKER_BYTES, -EBADMSG},
        {0, 0, 1, WORKER_BYTES + 1, -EBADMSG},
        {0, 0, 0xffff, WORKER_BYTES, -EBADMSG},
        {0, 0, MEMBERSHIP_MAX_WORKERS, sizeof zeros, 0},
        {0, 0xffff, 1, WORKER_BYTES, -EBADMSG},
        {0, MEMBERSHIP_MAX_PLACES + 1, 1, sizeof zeros, -EBADMSG},
        {MEMBERSHIP_MAX_ATTEMPTS + 1, 0, 1, WORKER_BYTES, -EBADMSG},
        {255, 0, 1, sizeof zeros, -EBADMSG},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(1 << 20);
        const uint8_t count[2] = {(uint8_t)(cases[c].workers >> 8), (uint8_t)cases[c].workers};
        start_proposal(&payload, cases[c].attempts, cases[c].places);
        assert_int_equal(mst_buf_append(&payload, count, sizeof count), 0);
        assert_int_equal(mst_buf_append(&payload, zeros, cases[c].bytes), 0);
        assert_int_equal(unpack(PROPOSE, (const uint8_t *)payload.bytes, payload.count, NULL), cases[c].code);
    }
}

static void a_place_of_an_unknown_kind_is_refused(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(4096);
    pack(PROPOSE, &payload);
    payload.bytes[8 + 1 + 8 + 1 + BALLOT_BYTES + PLACE_BYTES - 1] = 3;
    assert_int_equal(unpack(PROPOSE, (const uint8_t *)payload.bytes, payload.count, NULL), -EBADMSG);
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
        const struct membership_message message = a_message(kind);
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
        cmocka_unit_test(membership_messages_come_out_again),
        cmocka_unit_test(every_truncation_and_every_byte_too_many_is_refused),
        cmocka_unit_test(outputs_are_untouched_after_an_error),
        cmocka_unit_test(a_count_is_believed_only_with_what_it_counts),
        cmocka_unit_test(a_place_of_an_unknown_kind_is_refused),
        cmocka_unit_test(texts_are_cut_and_cleaned),
        cmocka_unit_test(file_names_are_plain),
        cmocka_unit_test(random_bytes_never_do_harm),
        cmocka_unit_test(a_full_payload_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
