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

/* ---- block devices ---- */

static int take_device(struct slice word, uint32_t *ret_major, uint32_t *ret_minor)
{
    const char *colon = memchr(word.at, ':', (size_t)(word.end - word.at));
    uint64_t major, minor;
    if (!colon || to_number((struct slice){word.at, colon}, &major) < 0 ||
        to_number((struct slice){colon + 1, word.end}, &minor) < 0 || major > UINT32_MAX ||
        minor > UINT32_MAX)
        return -EBADMSG;
    *ret_major = (uint32_t)major;
    *ret_minor = (uint32_t)minor;
    return 0;
}

struct monitor_device *counters_device(struct counters_io *io, uint32_t major, uint32_t minor)
{
    if (!io->devices)
        return NULL;
    for (size_t i = 0; i < io->device_count; i++) {
        if (io->devices[i].major == major && io->devices[i].minor == minor)
            return &io->devices[i];
    }
    if (io->device_count == MONITOR_DEVICES_MAX)
        return NULL;
    struct monitor_device *added = &io->devices[io->device_count++];
    *added = (struct monitor_device){.major = major, .minor = minor};
    return added;
}

static void keep_larger(uint64_t *value, uint64_t other)
{
    if (other > *value)
        *value = other;
}

static int blkio_line(struct slice line, bool is_counts, struct counters_io *io)
{
    const struct slice first = take_word(&line), operation = take_word(&line);
    uint64_t value;
    uint32_t major, minor;
    if (slice_is(first, "Total")) /* of all operations, also those not counted here */
        return to_number(operation, &value);
    if (take_device(first, &major, &minor) < 0 || to_number(take_word(&line), &value) < 0)
        return -EBADMSG;
    /* Sync, Async and Total count the same bytes again; Discard moves none. */
    const bool is_read = slice_is(operation, "Read");
    if (!is_read && !slice_is(operation, "Write"))
        return 0;
    struct monitor_device *device = counters_device(io, major, minor);
    if (device && is_counts)
        keep_larger(is_read ? &device->reads : &device->writes, value);
    else if (device)
        keep_larger(is_read ? &device->read_bytes : &device->write_bytes, value);
    return add(is_read ? &io->read_bytes : &io->write_bytes, value);
}

static int blkio(const char *text, size_t bytes, bool is_counts, struct counters_io *ret_io)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_io io = {.devices = ret_io->devices, .device_count = ret_io->device_count};
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || blkio_line(line, is_counts, &io) < 0)
            return -EBADMSG;
    }
    *ret_io = io;
    return 0;
}

int counters_blkio(const char *text, size_t bytes, struct counters_io *ret_io)
{
    return blkio(text, bytes, false, ret_io);
}

int counters_blkio_counts(const char *text, size_t bytes, struct counters_io *ret_io)
{
    return blkio(text, bytes, true, ret_io);
}

static int io_stat_line(struct slice line, struct counters_io *io)
{
    uint32_t major, minor;
    struct monitor_device *device = NULL, spare;
    if (take_device(take_word(&line), &major, &minor) < 0)
        return -EBADMSG;
    for (struct slice word = take_word(&line); word.at != word.end; word = take_word(&line)) {
        const char *equals = memchr(word.at, '=', (size_t)(word.end - word.at));
        /* A word without '=' is another device: kernels before 5.17 forget the line's end after an idle one.
         */
        if (!equals && take_device(word, &major, &minor) == 0)
            device = NULL;
        if (!equals)
            continue;
        if (!device) {
            device = counters_device(io, major, minor);
            device = device ? device : &spare;
        }
        const struct slice key = {word.at, equals}, number = {equals + 1, word.end};
        uint64_t *sum = slice_is(key, "rbytes")   ? &io->read_bytes
                        : slice_is(key, "wbytes") ? &io->write_bytes
                                                  : NULL;
        uint64_t *value = sum == &io->read_bytes    ? &device->read_bytes
                          : sum == &io->write_bytes ? &device->write_bytes
                          : slice_is(key, "rios")   ? &device->reads
                          : slice_is(key, "wios")   ? &device->writes
                                                    : NULL;
        if (value && (to_number(number, value) < 0 || (sum && add(sum, *value) < 0)))
            return -EBADMSG;
    }
    return 0;
}

int counters_io_stat(const char *text, size_t bytes, struct counters_io *ret_io)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_io io = {.devices = ret_io->devices};
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || io_stat_line(line, &io) < 0)
            return -EBADMSG;
    }
    *ret_io = io;
    return 0;
}

/* ---- network ---- */

/* Columns of /proc/net/dev after the interface's name: 8 for receiving, 8 for sending. */
#define NET_COLUMNS 16

static bool starts_with(struct slice name, const char *start)
{
    const size_t bytes = strlen(start);
    return (size_t)(name.end - name.at) >= bytes && memcmp(name.at, start, bytes) == 0;
}

static bool is_left_out(struct slice name, bool of_host)
{
    return slice_is(name, "lo") || (of_host && (starts_with(name, "veth") || starts_with(name, "docker") ||
                                                starts_with(name, "br-") || starts_with(name, "nerdctl")));
}

static int net_line(struct slice line, bool of_host, struct counters_net *net)
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
    const size_t name_bytes = (size_t)(name.end - name.at);
    if (name_bytes == 0 || before.at != before.end || memchr(name.at, '\0', name_bytes))
        return -EBADMSG;
    if (is_left_out(name, of_host))
        return 0;
    net->interfaces++;
    if (net->list && net->list_count < MONITOR_INTERFACES_MAX && name_bytes < MONITOR_INTERFACE_BYTES) {
        struct monitor_interface *entry = &net->list[net->list_count++];
        *entry = (struct monitor_interface){.rx_bytes = values[0],
                                            .rx_packets = values[1],
                                            .rx_errors = values[2],
                                            .rx_dropped = values[3],
                                            .tx_bytes = values[8],
                                            .tx_packets = values[9],
                                            .tx_errors = values[10],
                                            .tx_dropped = values[11]};
        memcpy(entry->name, name.at, name_bytes);
    }
    return add(&net->rx_bytes, values[0]) < 0 || add(&net->rx_packets, values[1]) < 0 ||
                   add(&net->rx_errors, values[2]) < 0 || add(&net->rx_dropped, values[3]) < 0 ||
                   add(&net->tx_bytes, values[8]) < 0 || add(&net->tx_packets, values[9]) < 0 ||
                   add(&net->tx_errors, values[10]) < 0 || add(&net->tx_dropped, values[11]) < 0
               ? -EBADMSG
               : 0;
}

int counters_net_dev(const char *text, size_t bytes, bool of_host, struct counters_net *ret_net)
{
    struct slice rest = {text, text + bytes}, line;
    struct counters_net net = {.list = ret_net->list};
    for (int i = 0; i < 2; i++) { /* "Inter-|   Receive ..." and " face |bytes ..." */
        if (take_line(&rest, &line) < 0 || !memchr(line.at, '|', (size_t)(line.end - line.at)))
            return -EBADMSG;
    }
    while (rest.at < rest.end) {
        if (take_line(&rest, &line) < 0 || net_line(line, of_host, &net) < 0)
            return -EBADMSG;
    }
    *ret_net = net;
    return 0;
}

/* ---- the smaller files of v2 ---- */

/* The number behind "total=" in a line that begins with `kind`. */
static int pressure_total(struct slice *rest, const char *kind, uint64_t *ret_us)
{
    struct slice line;
    if (take_line(rest, &line) < 0 || !slice_is(take_word(&line), kind))
        return -EBADMSG;
    for (struct slice word = take_word(&line); word.at != word.end; word = take_word(&line)) {
        if (starts_with(word, "total="))
            return to_number((struct slice){word.at + strlen("total="), word.end}, ret_us);
    }
    return -EBADMSG;
}

int counters_pressure(const char *text, size_t bytes, uint64_t *ret_waiting_us, uint64_t *ret_stalled_us)
{
    struct slice rest = {text, text + bytes};
    uint64_t waiting, stalled;
    if (pressure_total(&rest, "some", &waiting) < 0 || pressure_total(&rest, "full", &stalled) < 0)
        return -EBADMSG;
    *ret_waiting_us = waiting;
    *ret_stalled_us = stalled;
    return 0;
}

int counters_cpu_max(const char *text, size_t bytes, uint64_t *ret_quota_us, uint64_t *ret_period_us)
{
    struct slice rest = {text, text + bytes}, line;
    if (take_line(&rest, &line) < 0 || rest.at != rest.end)
        return -EBADMSG;
    const struct slice quota = take_word(&line), period = take_word(&line);
    uint64_t quota_us = 0, period_us;
    if ((!slice_is(quota, "max") && to_number(quota, &quota_us) < 0) || to_number(period, &period_us) < 0)
        return -EBADMSG;
    *ret_quota_us = quota_us;
    *ret_period_us = period_us;
    return 0;
}
