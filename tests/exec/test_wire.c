/* SPDX-License-Identifier: Apache-2.0 */
#include "../agent/test.h"
#include "facts.h"
#include "muster/net.h"
#include "wire.h"

#include <signal.h>
#include <sys/socket.h>

static void open_pair(int fds[2])
{
    assert_int_equal(exec_wire_pair(fds, NULL), 0);
}

static void messages_arrive_as_they_were_sent(void **state)
{
    (void)state;
    int fds[2], files[2];
    open_pair(fds);
    assert_int_equal(pipe2(files, O_CLOEXEC), 0);
    mst_cleanup(mst_buf_release) struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    struct exec_wire_message got;
    assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), 0);

    const struct exec_wire_message spawn = {
        .type = EXEC_WIRE_SPAWN, .id = 7, .text = "echo hello", .fds = {files[0], files[1], files[1]}};
    const struct exec_wire_message exited = {.type = EXEC_WIRE_EXITED, .status = 137, .number = 1};
    assert_int_equal(exec_wire_send(fds[0], &spawn, NULL), 0);
    assert_int_equal(exec_wire_send(fds[0], &exited, NULL), 0);

    assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), 1);
    assert_int_equal(got.type, EXEC_WIRE_SPAWN);
    assert_int_equal(got.id, 7);
    assert_string_equal(got.text, "echo hello");
    assert_int_equal(write(got.fds[1], "x", 1), 1);
    char byte;
    assert_int_equal(read(files[0], &byte, 1), 1); /* it is the same pipe */
    assert_int_equal(byte, 'x');
    for (size_t f = 0; f < EXEC_WIRE_FDS; f++) {
        assert_true(fcntl(got.fds[f], F_GETFD) & FD_CLOEXEC);
        mst_closep(&got.fds[f]);
    }
    assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), 1);
    assert_int_equal(got.type, EXEC_WIRE_EXITED);
    assert_int_equal(got.status, 137);
    assert_int_equal(got.number, 1);
    assert_int_equal(got.fds[0], -1);

    mst_closep(&fds[0]);
    assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), -EPIPE);
    mst_closep(&fds[1]);
    mst_closep(&files[0]);
    mst_closep(&files[1]);
}

static void a_message_to_nobody_is_an_error(void **state)
{
    (void)state;
    int fds[2];
    open_pair(fds);
    mst_closep(&fds[1]);
    const struct exec_wire_message stop = {.type = EXEC_WIRE_STOP};
    assert_int_equal(exec_wire_send(fds[0], &stop, NULL), -EPIPE);
    mst_closep(&fds[0]);
}

/* Raw packets, as a network part that was taken over might send them. */
static void what_no_correct_side_sends_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
    } cases[] = {
        {"\0", 1},
        {"\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0", 15},      /* cut short */
        {"\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0", 17},  /* START with more */
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},    /* no such type */
        {"\0\0\0\63\0\0\0\0\0\0\0\0\0\0\0\0", 16},   /* nor this */
        {"\0\0\0\6\0\0\0\0\0\0\0\0\0\0\1\0", 16},    /* a status of 256 */
        {"\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0", 16},    /* no facts */
        {"\0\0\0\5\0\0\0\0\0\0\0\x9\0\0\0\0", 16},   /* a signal to number 0 */
        {"\0\0\0\5\0\0\0\1\0\0\0\0\0\0\0\0", 16},    /* signal 0 */
        {"\0\0\0\5\0\0\0\1\0\0\0\x80\0\0\0\0", 16},  /* signal 128 */
        {"\0\0\0\4\0\0\0\1\0\0\0\0\0\0\0\0x\0", 18}, /* SPAWN without descriptors */
    };
    mst_cleanup(mst_buf_release) struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        int fds[2];
        open_pair(fds);
        struct exec_wire_message got = {.type = EXEC_WIRE_END, .id = 99};
        assert_int_equal(send(fds[0], cases[c].bytes, cases[c].count, 0), cases[c].count);
        assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), -EBADMSG);
        assert_int_equal(got.id, 99);
        mst_closep(&fds[0]);
        mst_closep(&fds[1]);
    }
}

static size_t open_descriptors(void)
{
    return test_entries("/proc/self/fd");
}

static void descriptors_of_a_refused_message_are_closed(void **state)
{
    (void)state;
    int fds[2];
    open_pair(fds);
    mst_cleanup(mst_buf_release) struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    struct exec_wire_message got;
    const size_t before = open_descriptors();
    /* A command that is empty: the packet is well formed, the message is not. */
    const struct exec_wire_message bad = {.type = EXEC_WIRE_SPAWN, .id = 1, .text = "", .fds = {0, 1, 2}};
    assert_int_equal(exec_wire_send(fds[0], &bad, NULL), 0);
    assert_int_equal(exec_wire_receive(fds[1], &buffer, &got, NULL), -EBADMSG);
    assert_int_equal(open_descriptors(), before);
    mst_closep(&fds[0]);
    mst_closep(&fds[1]);
}

static struct exec_facts some_facts(size_t world)
{
    struct exec_facts facts = {.view = 1ULL << 40,
                               .rank = (uint32_t)world - 1,
                               .world = (uint32_t)world,
                               .interface = "eth0.12",
                               .subnet = {0x0a630000, 16},
                               .members = calloc(world, sizeof *facts.members)};
    assert_non_null(facts.members);
    for (size_t m = 0; m < world; m++) {
        facts.members[m] =
            (struct exec_member){.ipv4 = 0x0a630001 + (uint32_t)m, .agent_port = 7070, .port = 20000};
        (void)snprintf(
            facts.members[m].slot, sizeof facts.members[m].slot, "w.%zu%.*s", m,
            world == EXEC_MEMBERS_MAX ? 100 : 0,
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "xxxxxxxxxxxxxxxxxxx");
    }
    return facts;
}

static void facts_of_a_thousand_workers_fit_one_message(void **state)
{
    (void)state;
    static const size_t worlds[] = {1, 3, EXEC_MEMBERS_MAX};
    for (size_t w = 0; w < MST_ARRAY_COUNT(worlds); w++) {
        int fds[2];
        open_pair(fds);
        mst_cleanup(exec_facts_release) struct exec_facts facts = some_facts(worlds[w]), got = {0};
        mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
        mst_cleanup(mst_buf_release) struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
        struct exec_wire_message message;
        assert_int_equal(exec_facts_pack(&packed, &facts), 0);
        const struct exec_wire_message sent = {
            .type = EXEC_WIRE_FACTS, .facts = (const uint8_t *)packed.bytes, .facts_bytes = packed.count};
        assert_int_equal(exec_wire_send(fds[0], &sent, NULL), 0);
        assert_int_equal(exec_wire_receive(fds[1], &buffer, &message, NULL), 1);
        assert_int_equal(exec_facts_unpack(message.facts, message.facts_bytes, &got, NULL), 0);
        assert_int_equal(got.view, facts.view);
        assert_int_equal(got.world, facts.world);
        assert_string_equal(got.interface, facts.interface);
        assert_string_equal(got.members[got.rank].slot, facts.members[facts.rank].slot);
        exec_facts_release(&got);
        mst_closep(&fds[0]);
        mst_closep(&fds[1]);
    }
}

static void facts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int field;
    } cases[] = {{"rank", 0},    {"slot with a space", 1}, {"no slot", 2}, {"no address", 3},
                 {"no port", 4}, {"interface", 5},         {"subnet", 6},  {"shell in a slot", 7}};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(exec_facts_release) struct exec_facts facts = some_facts(3), got = {.world = 99};
        mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
        struct mst_error err = MST_ERROR_INIT;
        switch (cases[c].field) {
        case 0:
            facts.rank = 3;
            break;
        case 1:
            facts.members[1].slot[1] = ' ';
            break;
        case 2:
            facts.members[1].slot[0] = '\0';
            break;
        case 3:
            facts.members[0].ipv4 = 0;
            break;
        case 4:
            facts.members[0].port = 0;
            break;
        case 5:
            facts.interface[1] = ',';
            break;
        case 6:
            facts.subnet.network = 0x0b000000;
            break;
        default:
            (void)snprintf(facts.members[0].slot, sizeof facts.members[0].slot, "$(reboot)");
        }
        assert_int_equal(exec_facts_pack(&packed, &facts), 0);
        assert_int_equal(exec_facts_unpack((const uint8_t *)packed.bytes, packed.count, &got, &err),
                         -EBADMSG);
        assert_int_equal(got.world, 99);
        got.world = 0;
    }
    /* Cut anywhere, or with a byte too many. */
    mst_cleanup(exec_facts_release) struct exec_facts facts = some_facts(3), got = {0};
    mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    assert_int_equal(exec_facts_pack(&packed, &facts), 0);
    for (size_t count = 0; count < packed.count; count++)
        assert_int_equal(exec_facts_unpack((const uint8_t *)packed.bytes, count, &got, NULL), -EBADMSG);
    assert_int_equal(mst_buf_append(&packed, "x", 1), 0);
    assert_int_equal(exec_facts_unpack((const uint8_t *)packed.bytes, packed.count, &got, NULL), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_as_they_were_sent),
        cmocka_unit_test(a_message_to_nobody_is_an_error),
        cmocka_unit_test(what_no_correct_side_sends_is_refused),
        cmocka_unit_test(descriptors_of_a_refused_message_are_closed),
        cmocka_unit_test(facts_of_a_thousand_workers_fit_one_message),
        cmocka_unit_test(facts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
