/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of exec read from each other: facts and messages of the network part, which may have been
 * taken over; messages around the ring; frames of programs on other workers, from clients and peers. The
 * first byte of the input chooses the parser. */
#include "environment.h"
#include "launch_channel.h"
#include "launch_stream.h"
#include "muster/cleanup.h"
#include "ports.h"
#include "round.h"
#include "wire.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Good facts with the input added to them: what is accepted must be fit for variables and files. */
static void feed_facts(const uint8_t *bytes, size_t count)
{
    struct exec_member members[3] = {{.slot = "a", .ipv4 = 0x0a000001, .agent_port = 1, .port = 2},
                                     {.slot = "b.1", .ipv4 = 0x0a000002, .agent_port = 1, .port = 3},
                                     {.slot = "c", .ipv4 = 0x0a000003, .agent_port = 1, .port = 4}};
    const struct exec_facts good = {.view = 1,
                                    .rank = 1,
                                    .world = 3,
                                    .interface = "eth0",
                                    .subnet = {0x0a000000, 24},
                                    .members = members};
    struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES), text = MST_BUF_INIT(1 << 20);
    struct exec_facts facts = {0};
    if (exec_facts_pack(&packed, &good) < 0)
        abort();
    for (size_t i = 0; i < packed.count && i < count; i++)
        packed.bytes[i] = (char)(packed.bytes[i] + (char)bytes[i]);
    if (exec_facts_unpack((const uint8_t *)packed.bytes, packed.count, &facts, NULL) == 0) {
        struct exec_strings environment = {0};
        const struct exec_tools tools = {.program = "/p", .folder = "/f", .host_file = "/f/h"};
        char *const base[] = {NULL};
        if (exec_facts_check(&facts, NULL) < 0)
            abort();
        if (exec_environment(31, &facts, &tools, base, &environment, NULL) < 0 ||
            exec_host_file(&facts, &text, NULL) < 0)
            abort();
        for (size_t i = 0; i < environment.count; i++)
            if (strpbrk(environment.items[i], "\n`;|&$"))
                abort();
        exec_strings_release(&environment);
    }
    exec_facts_release(&facts);
    if (exec_facts_unpack(bytes, count, &facts, NULL) == 0)
        exec_facts_release(&facts);
    mst_buf_release(&packed);
    mst_buf_release(&text);
}

static void feed_wire(const uint8_t *bytes, size_t count)
{
    int fds[2];
    struct mst_buf buffer = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    struct exec_wire_message message;
    if (exec_wire_pair(fds, NULL) < 0)
        return;
    if (send(fds[0], bytes, count, 0) >= 0 && exec_wire_receive(fds[1], &buffer, &message, NULL) == 1 &&
        message.type == EXEC_WIRE_SPAWN)
        abort(); /* no descriptors came along */
    mst_buf_release(&buffer);
    mst_closep(&fds[0]);
    mst_closep(&fds[1]);
}

static void feed_round(const uint8_t *bytes, size_t count)
{
    const struct exec_round round = {
        .rank = 1, .world = 4, .view = 7, .fd_in = -1, .fd_out = -1, .cancel_fd = -1};
    const struct exec_outcome outcome = {EXEC_OUTCOME_ENDED, 3};
    struct mst_buf message = MST_BUF_INIT(EXEC_ROUND_BYTES);
    struct exec_outcome got;
    uint32_t rank;
    if (exec_round_pack_outcome(&message, &round, 2, &outcome) < 0 || message.count != EXEC_ROUND_BYTES)
        abort();
    for (size_t i = 0; i < message.count && i < count; i++)
        message.bytes[i] = (char)(message.bytes[i] + (char)bytes[i]);
    if (exec_round_unpack_outcome((const uint8_t *)message.bytes, &round, &rank, &got, NULL) == 0 &&
        (rank >= round.world || rank == round.rank || got.kind == EXEC_OUTCOME_NONE))
        abort();
    mst_buf_release(&message);
}

/* As a client sends them, or a peer: then each frame that is fit goes to a stream, which keeps to its window.
 */
static void feed_channel(bool asks, const uint8_t *bytes, size_t count)
{
    int fds[2];
    struct launch_channel channel;
    struct launch_sink sink;
    struct launch_source source;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return;
    launch_channel_init(&channel, fds[0]);
    launch_sink_init(&sink, -1, 0);
    launch_source_init(&source, -1, 0);
    (void)!write(fds[1], bytes, count);
    mst_closep(&fds[1]);
    int r = 1;
    while (r > 0) {
        enum launch_frame type;
        const uint8_t *payload;
        size_t payload_bytes;
        r = launch_channel_read(&channel, NULL);
        while (r == 1 && (r = launch_channel_next(&channel, &type, &payload, &payload_bytes, NULL)) == 1) {
            if (!launch_frame_is_fit(asks, type, payload, payload_bytes))
                continue;
            if (type == LAUNCH_DATA)
                (void)launch_sink_take(&sink, payload + 1, payload_bytes - 1, NULL);
            if (type == LAUNCH_CREDIT)
                (void)launch_source_credit(&source, payload[1], NULL);
        }
        r = r == 0 ? 1 : r;
    }
    if (sink.owed > LAUNCH_WINDOW_BYTES || source.credit > LAUNCH_WINDOW_BYTES)
        abort();
    launch_sink_release(&sink);
    launch_source_release(&source);
    launch_channel_release(&channel);
}

static void feed_texts(const uint8_t *bytes, size_t count)
{
    char *text = strndup((const char *)bytes, count);
    struct exec_port_range range = {0};
    unsigned frameworks = 0;
    if (!text)
        return;
    if (exec_ports_parse(text, &range, NULL) == 0 && (range.first == 0 || range.last < range.first))
        abort();
    if (exec_frameworks_parse(text, &frameworks, NULL) == 0 && frameworks == 0)
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 1)
        return 0;
    switch (bytes[0] % 6) {
    case 0:
        feed_facts(bytes + 1, count - 1);
        break;
    case 1:
        feed_wire(bytes + 1, count - 1);
        break;
    case 2:
        feed_round(bytes + 1, count - 1);
        break;
    case 3:
        feed_texts(bytes + 1, count - 1);
        break;
    default:
        feed_channel(bytes[0] % 6 == 4, bytes + 1, count - 1);
    }
    return 0;
}
