/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <errno.h>
#include <string.h>

struct slice {
    const char *at, *end;
};

static bool slice_is(struct slice slice, const char *text)
{
    const size_t bytes = (size_t)(slice.end - slice.at);
    return bytes == strlen(text) && memcmp(slice.at, text, bytes) == 0;
}

/* The next line without its end. The kernel ends every line, so text that stops elsewhere was cut. */
static int take_line(struct slice *text, struct slice *ret_line)
{
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    if (!newline)
        return -EBADMSG;
    *ret_line = (struct slice){text->at, newline};
    text->at = newline + 1;
    return 0;
}

/* Up to the next blank or the end; blanks before it are skipped. Empty when there is no more. */
static struct slice take_word(struct slice *line)
{
    while (line->at < line->end && *line->at == ' ')
        line->at++;
    struct slice word = {line->at, line->at};
    while (word.end < line->end && *word.end != ' ')
        word.end++;
    line->at = word.end;
    return word;
}

static int to_number(struct slice digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (digits.at == digits.end)
        return -EBADMSG;
    for (const char *c = digits.at; c < digits.end; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
            return -EBADMSG;
    }
    *ret_value = value;
    return 0;
}

static int add(uint64_t *sum, uint64_t value)
{
    return __builtin_add_overflow(*sum, value, sum) ? -EBADMSG : 0;
}

int counters_number(const char *text, size_t bytes, uint64_t *ret_value)
{
    struct slice rest = {text, text + bytes}, line;
    if (take_line(&rest, &line) < 0 || rest.at != rest.end)
        return -EBADMSG;
    return to_number(line, ret_value);
}

int counters_limit(const char *text, size_t bytes, uint64_t *ret_value)
{
    if (slice_is((struct slice){text, text + bytes}, "max\n")) {
        *ret_value = UINT64_MAX;
        return 0;
    }
    return counters_number(text, bytes, ret_value);
}

static int keyed_line(struct slice line, struct counters_key *keys, size_t count)
{
    const struct slice name = take_word(&line), value = take_word(&line);
    if (name.at == name.end || value.at == value.end || line.at != line.end)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        if (!slice_is(name, keys[i].name))
            continue;
        if (keys[i].found) /* two reads run together */
            return -EBADMSG;
        keys[i].found = true;
        return to_number(value, &keys[i].value);
    }
    return 0;
}

int counters_keyed(const char *text, size_t bytes, struct counters_key *keys, size_t count)
{
    struct slice rest = {text, text + bytes}, line;
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || keyed_line(line, keys, count) < 0)
            return -EBADMSG;
    }
    return 0;
}

/* "8:0": of no further use here, but what a line about a device starts with. */
static bool is_device(struct slice word)
{
    const char *colon = memchr(word.at, ':', (size_t)(word.end - word.at));
    uint64_t number;
    return colon && to_number((struct slice){word.at, colon}, &number) == 0 &&
           to_number((struct slice){colon + 1, word.end}, &number) == 0;
}

static int blkio_line(struct slice line, struct counters_io *io)
{
    const struct slice device = take_word(&line), operation = take_word(&line);
    uint64_t value;
    if (slice_is(device, "Total")) /* of all operations, also those not counted here */
        return to_number(operation, &value);
    if (!is_device(device) || to_number(take_word(&line), &value) < 0)
        return -EBADMSG;
    /* Sync, Async and Total count the same bytes again; Discard moves none. */
    if (slice_is(operation, "Read"))
        return add(&io->read_bytes, value);
    if (slice_is(operation, "Write"))
        return add(&io->write_bytes, value);
    return 0;
}

int counters_blkio(const char *text, size_t bytes, struct counters_io *ret_io)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_io io = {0};
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || blkio_line(line, &io) < 0)
            return -EBADMSG;
    }
    *ret_io = io;
    return 0;
}

static int io_stat_line(struct slice line, struct counters_io *io)
{
    if (!is_device(take_word(&line)))
        return -EBADMSG;
    /* A word without '=' is another device: kernels before 5.17 forget the line's end after an idle one. */
    for (struct slice word = take_word(&line); word.at != word.end; word = take_word(&line)) {
        const char *equals = memchr(word.at, '=', (size_t)(word.end - word.at));
        if (!equals)
            continue;
        const struct slice key = {word.at, equals}, number = {equals + 1, word.end};
        uint64_t *sum = slice_is(key, "rbytes")   ? &io->read_bytes
                        : slice_is(key, "wbytes") ? &io->write_bytes
                                                  : NULL;
        uint64_t value;
        if (sum && (to_number(number, &value) < 0 || add(sum, value) < 0))
            return -EBADMSG;
    }
    return 0;
}

int counters_io_stat(const char *text, size_t bytes, struct counters_io *ret_io)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_io io = {0};
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || io_stat_line(line, &io) < 0)
            return -EBADMSG;
    }
    *ret_io = io;
    return 0;
}

/* Columns of /proc/net/dev after the interface's name: 8 for receiving, 8 for sending. */
#define NET_COLUMNS 16

static int net_line(struct slice line, struct counters_net *net)
{
    /* Kernels used to write "eth0:1234" when the number is wide, so the name ends at the colon, which no
     * interface may have in its name. */
    const char *colon = memchr(line.at, ':', (size_t)(line.end - line.at));
    if (!colon)
        return -EBADMSG;
    struct slice before = {line.at, colon}, columns = {colon + 1, line.end};
    const struct slice name = take_word(&before);
    uint64_t values[NET_COLUMNS];
    for (size_t i = 0; i < NET_COLUMNS; i++) {
        if (to_number(take_word(&columns), &values[i]) < 0)
            return -EBADMSG;
    }
    if (name.at == name.end || before.at != before.end)
        return -EBADMSG;
    if (slice_is(name, "lo"))
        return 0;
    net->interfaces++;
    return add(&net->rx_bytes, values[0]) < 0 || add(&net->rx_packets, values[1]) < 0 ||
                   add(&net->rx_errors, values[2]) < 0 || add(&net->rx_dropped, values[3]) < 0 ||
                   add(&net->tx_bytes, values[8]) < 0 || add(&net->tx_packets, values[9]) < 0 ||
                   add(&net->tx_errors, values[10]) < 0 || add(&net->tx_dropped, values[11]) < 0
               ? -EBADMSG
               : 0;
}

int counters_net_dev(const char *text, size_t bytes, struct counters_net *ret_net)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_net net = {0};
    for (int i = 0; i < 2; i++) { /* "Inter-|   Receive ..." and " face |bytes ..." */
        if (take_line(&rest, &line) < 0 || !memchr(line.at, '|', (size_t)(line.end - line.at)))
            return -EBADMSG;
    }
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || net_line(line, &net) < 0)
            return -EBADMSG;
    }
    *ret_net = net;
    return 0;
}
