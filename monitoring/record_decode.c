/* SPDX-License-Identifier: Apache-2.0 */
#include "record_decode.h"

#include "container.h"
#include "machine_use.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct record_seen {
    struct monitor_container info;
    struct monitor_sample sample;
    struct monitor_interface interfaces[MONITOR_INTERFACES_MAX];
    struct monitor_device devices[MONITOR_DEVICES_MAX];
    struct monitor_filesystem *filesystems; /* NULL until there are any */
    bool has_sample, is_in_pass;
};

void record_decoder_start(struct record_decoder *decoder, const void *payload, size_t bytes)
{
    for (size_t i = 0; i < decoder->seen_count; i++) {
        free(decoder->seen[i]->filesystems);
        free(decoder->seen[i]);
    }
    decoder->seen_count = 0;
    decoder->at = payload;
    decoder->end = decoder->at + bytes;
    decoder->has_machine = false;
    decoder->pass.self = (struct monitor_self){0};
    decoder->pass.read_ns = 0;
}

void record_decoder_release(struct record_decoder *decoder)
{
    record_decoder_start(decoder, "", 0);
    free(decoder->seen);
    free(decoder->samples);
    free(decoder->before);
    free(decoder->trainings);
    *decoder = (struct record_decoder){0};
}

/* ---- pieces ---- */

static int take_varint(struct record_decoder *decoder, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (decoder->at == decoder->end)
            return -EBADMSG;
        const uint8_t byte = *decoder->at++;
        if (shift == 63 && byte > 1)
            return -EBADMSG;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return value > max ? -EBADMSG : 0;
        }
    }
    return -EBADMSG;
}

static int take_bool(struct record_decoder *decoder, bool *ret_value)
{
    uint64_t value;
    const int r = take_varint(decoder, 1, &value);
    if (r == 0)
        *ret_value = value == 1;
    return r;
}

/* Times: finite, and within what dates can be made of. */
static int take_time(struct record_decoder *decoder, double *ret_value)
{
    if (decoder->end - decoder->at < 8)
        return -EBADMSG;
    const double value = record_double(record_get64(decoder->at));
    decoder->at += 8;
    if (!isfinite(value) || value < 0 || value > 1e11)
        return -EBADMSG;
    *ret_value = value;
    return 0;
}

int record_take_text(const uint8_t **at, const uint8_t *end, char *ret_text, size_t capacity)
{
    struct record_decoder decoder = {.at = *at, .end = end};
    uint64_t bytes;
    const int r = take_varint(&decoder, capacity - 1, &bytes);
    if (r < 0 || (uint64_t)(end - decoder.at) < bytes || memchr(decoder.at, 0, bytes))
        return -EBADMSG;
    memcpy(ret_text, decoder.at, bytes);
    ret_text[bytes] = '\0';
    *at = decoder.at + bytes;
    return 0;
}

static int take_text(struct record_decoder *decoder, char *ret_text, size_t capacity)
{
    return record_take_text(&decoder->at, decoder->end, ret_text, capacity);
}

static int take_fields(struct record_decoder *decoder, const struct record_fields *fields, void *object)
{
    uint64_t changed, code;
    const uint64_t known = fields->count == 64 ? UINT64_MAX : (UINT64_C(1) << fields->count) - 1;
    int r = take_varint(decoder, known, &changed);
    for (size_t i = 0; r == 0 && i < fields->count; i++) {
        if (!(changed & (UINT64_C(1) << i)))
            continue;
        r = take_varint(decoder, UINT64_MAX, &code);
        if (r == 0)
            record_set_field(object, fields->offsets[i],
                             record_unzigzag(code, record_field(object, fields->offsets[i])));
    }
    return r;
}

static int take_machine(struct record_decoder *decoder)
{
    struct monitor_machine machine = {0};
    const struct {
        char *text;
        size_t capacity;
    } texts[] = {{machine.boot_id, sizeof machine.boot_id},
                 {machine.machine_id, sizeof machine.machine_id},
                 {machine.system_uuid, sizeof machine.system_uuid},
                 {machine.kernel, sizeof machine.kernel},
                 {machine.os, sizeof machine.os},
                 {machine.engine, sizeof machine.engine}};
    bool is_new;
    int r = take_bool(decoder, &is_new);
    if (r < 0 || (!is_new && !decoder->has_machine))
        return -EBADMSG;
    if (!is_new)
        return 0;
    r = take_fields(decoder, &record_machine_fields, &machine);
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = take_text(decoder, texts[i].text, texts[i].capacity);
    if (r == 0) {
        decoder->pass.machine = machine;
        decoder->has_machine = true;
    }
    return r;
}

/* Label text goes into pages as it is, so it must be label text: name="value", with nothing unescaped. */
static bool is_label_text(const char *text)
{
    while (*text) {
        const size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (name == 0 || strncmp(text, "container_", 10) != 0 || text[name] != '=' || text[name + 1] != '"')
            return false;
        for (text += name + 2; *text != '"'; text++) {
            if (*text == '\\' && (text[1] == '\\' || text[1] == '"' || text[1] == 'n'))
                text++;
            else if (*text == '\\' || *text == '\n' || *text == '\0')
                return false;
        }
        if (text[1] != ',')
            return false;
        text += 2;
    }
    return true;
}

static int take_container(struct record_decoder *decoder, struct monitor_container *info)
{
    const struct {
        char *text;
        size_t capacity;
    } texts[] = {{info->id, sizeof info->id},
                 {info->name, sizeof info->name},
                 {info->image, sizeof info->image},
                 {info->stack, sizeof info->stack},
                 {info->service, sizeof info->service},
                 {info->slot, sizeof info->slot},
                 {info->started_at, sizeof info->started_at},
                 {info->cgroup, sizeof info->cgroup},
                 {info->labels, sizeof info->labels}};
    uint64_t health, network, flags;
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = take_text(decoder, texts[i].text, texts[i].capacity);
    if (r == 0)
        r = take_time(decoder, &info->started_s);
    if (r == 0)
        r = take_time(decoder, &info->created_s);
    if (r == 0)
        r = take_varint(decoder, 2, &health);
    if (r == 0)
        r = take_varint(decoder, MONITOR_NETWORK_SHARED, &network);
    if (r == 0)
        r = take_varint(decoder, 3, &flags);
    if (r < 0)
        return r;
    info->health = (int)health - 1;
    info->network = (enum monitor_network)network;
    info->is_machine = flags & 1;
    info->is_agent = flags & 2;
    const bool is_good_id = info->is_machine ? strcmp(info->id, "/") == 0 : container_id_is_valid(info->id);
    return is_good_id && is_label_text(info->labels) ? 0 : -EBADMSG;
}

/* ---- samples ---- */

static int add_seen(struct record_decoder *decoder)
{
    if (decoder->seen_count == decoder->seen_room) {
        const size_t room = decoder->seen_room ? decoder->seen_room * 2 : 64;
        void *seen = reallocarray(decoder->seen, room, sizeof *decoder->seen);
        if (!seen)
            return -ENOMEM;
        decoder->seen = seen;
        decoder->seen_room = room;
    }
    struct record_seen *added = calloc(1, sizeof *added);
    if (!added)
        return -ENOMEM;
    decoder->seen[decoder->seen_count++] = added;
    const int r = take_container(decoder, &added->info);
    added->sample.container = &added->info;
    return r;
}

static int take_interfaces(struct record_decoder *decoder, struct record_seen *seen)
{
    uint64_t count;
    int r = take_varint(decoder, MONITOR_INTERFACES_MAX, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        bool is_known;
        r = take_bool(decoder, &is_known);
        if (r == 0 && !is_known)
            r = take_text(decoder, seen->interfaces[i].name, sizeof seen->interfaces[i].name);
        if (r == 0)
            r = take_fields(decoder, &record_interface_fields, &seen->interfaces[i]);
    }
    seen->sample.interfaces = seen->interfaces;
    seen->sample.interface_count = r == 0 ? count : 0;
    return r;
}

/* Device names stand in labels without being escaped. */
static bool is_device_name(const char *name)
{
    return !*name || (strncmp(name, "/dev/", 5) == 0 && !strpbrk(name, "\"\\\n"));
}

static int take_devices(struct record_decoder *decoder, struct record_seen *seen)
{
    uint64_t count, major, minor;
    int r = take_varint(decoder, MONITOR_DEVICES_MAX, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct monitor_device *device = &seen->devices[i];
        bool is_known;
        r = take_bool(decoder, &is_known);
        if (r == 0 && !is_known) {
            r = take_varint(decoder, UINT32_MAX, &major);
            if (r == 0)
                r = take_varint(decoder, UINT32_MAX, &minor);
            if (r == 0)
                r = take_text(decoder, device->name, sizeof device->name);
            if (r == 0 && !is_device_name(device->name))
                r = -EBADMSG;
            device->major = (uint32_t)major;
            device->minor = (uint32_t)minor;
        }
        if (r == 0)
            r = take_fields(decoder, &record_device_fields, device);
    }
    seen->sample.devices = seen->devices;
    seen->sample.device_count = r == 0 ? count : 0;
    return r;
}

static int take_filesystems(struct record_decoder *decoder, struct record_seen *seen)
{
    uint64_t count;
    if (!(seen->sample.groups & MONITOR_FILESYSTEMS))
        return 0;
    if (!seen->filesystems)
        seen->filesystems = calloc(MONITOR_FILESYSTEMS_MAX, sizeof *seen->filesystems);
    int r = seen->filesystems ? take_varint(decoder, MONITOR_FILESYSTEMS_MAX, &count) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct monitor_filesystem *filesystem = &seen->filesystems[i];
        bool is_known;
        r = take_bool(decoder, &is_known);
        if (r == 0 && !is_known)
            r = take_text(decoder, filesystem->source, sizeof filesystem->source);
        if (r == 0 && !machine_source_is_plain(filesystem->source))
            r = -EBADMSG;
        if (r == 0)
            r = take_fields(decoder, &record_filesystem_fields, filesystem);
    }
    seen->sample.filesystems = seen->filesystems;
    seen->sample.filesystem_count = r == 0 ? count : 0;
    return r;
}

static int make_room(struct record_decoder *decoder, size_t needed)
{
    if (needed <= decoder->room)
        return 0;
    void *samples = reallocarray(decoder->samples, needed, sizeof *decoder->samples);
    decoder->samples = samples ? samples : decoder->samples;
    void *before = samples ? reallocarray(decoder->before, needed, sizeof *decoder->before) : NULL;
    decoder->before = before ? before : decoder->before;
    if (!before)
        return -ENOMEM;
    decoder->room = needed;
    return 0;
}

static int take_sample(struct record_decoder *decoder)
{
    uint64_t index, groups;
    int r = take_varint(decoder, RECORD_CONTAINERS_MAX - 1, &index);
    if (r == 0 && index > decoder->seen_count)
        r = -EBADMSG;
    if (r == 0 && index == decoder->seen_count)
        r = add_seen(decoder);
    if (r < 0)
        return r;
    struct record_seen *seen = decoder->seen[index];
    if (seen->is_in_pass) /* twice in one pass: a duplicate series */
        return -EBADMSG;
    seen->is_in_pass = true;
    r = make_room(decoder, decoder->pass.count + 1);
    if (r < 0)
        return r;
    decoder->before[decoder->pass.count] = seen->has_sample ? seen->sample : (struct monitor_sample){0};
    seen->has_sample = true;
    r = take_varint(decoder, MONITOR_GROUPS_ALL, &groups);
    seen->sample.groups = (unsigned)groups;
    if (r == 0)
        r = take_time(decoder, &seen->sample.wall_s);
    if (r == 0)
        r = take_fields(decoder, &record_sample_fields, &seen->sample);
    if (r == 0)
        r = take_interfaces(decoder, seen);
    if (r == 0)
        r = take_devices(decoder, seen);
    if (r == 0)
        r = take_filesystems(decoder, seen);
    if (r == 0)
        decoder->samples[decoder->pass.count++] = seen->sample;
    return r;
}

static int take_gauges(struct record_decoder *decoder, struct monitor_training *training)
{
    uint64_t count;
    int r = take_varint(decoder, MONITOR_GAUGES_MAX, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct monitor_gauge *gauge = &training->gauges[i];
        uint64_t bits;
        r = take_text(decoder, gauge->name, sizeof gauge->name);
        if (r == 0)
            r = take_varint(decoder, UINT64_MAX, &bits);
        if (r == 0)
            r = take_varint(decoder, UINT64_MAX, &gauge->reports);
        if (r == 0)
            gauge->value = record_double(bits);
    }
    training->gauge_count = r == 0 ? (size_t)count : 0;
    return r;
}

static int take_training(struct record_decoder *decoder, struct monitor_training *training)
{
    const struct {
        char *text;
        size_t capacity;
    } texts[] = {{training->slot, sizeof training->slot},
                 {training->stack, sizeof training->stack},
                 {training->service, sizeof training->service},
                 {training->container, sizeof training->container}};
    uint64_t groups, flags;
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = take_text(decoder, texts[i].text, texts[i].capacity);
    if (r == 0)
        r = take_varint(decoder, 7, &groups);
    if (r == 0)
        r = take_varint(decoder, 15, &flags);
    if (r < 0)
        return r;
    training->groups = (unsigned)groups;
    training->is_done = flags & 1;
    training->has_failed = flags & 2;
    training->is_no_training = flags & 4;
    r = take_fields(decoder, &record_training_fields, training);
    return r == 0 && (flags & 8) ? take_gauges(decoder, training) : r;
}

static int take_trainings(struct record_decoder *decoder)
{
    uint64_t count;
    int r = take_varint(decoder, 1024, &count);
    if (r < 0)
        return r;
    if (count > decoder->training_room) {
        void *trainings = reallocarray(decoder->trainings, count, sizeof *decoder->trainings);
        if (!trainings)
            return -ENOMEM;
        decoder->trainings = trainings;
        decoder->training_room = count;
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        decoder->trainings[i] = (struct monitor_training){0};
        r = take_training(decoder, &decoder->trainings[i]);
    }
    decoder->pass.trainings = decoder->trainings;
    decoder->pass.training_count = r == 0 ? count : 0;
    return r;
}

int record_decode(struct record_decoder *decoder)
{
    struct monitor_pass *pass = &decoder->pass;
    uint64_t step_ns, count;
    if (decoder->at == decoder->end)
        return 0;
    for (size_t i = 0; i < decoder->seen_count; i++)
        decoder->seen[i]->is_in_pass = false;
    pass->count = pass->training_count = 0;
    int r = take_time(decoder, &pass->wall_s);
    if (r == 0)
        r = take_varint(decoder, UINT64_MAX, &step_ns);
    if (r == 0)
        r = take_varint(decoder, UINT64_MAX, &pass->took_ns);
    if (r == 0)
        r = take_varint(decoder, UINT64_MAX, &pass->faults);
    if (r == 0)
        r = take_bool(decoder, &pass->has_source);
    if (r == 0)
        r = take_machine(decoder);
    if (r == 0)
        r = take_fields(decoder, &record_self_fields, &pass->self);
    if (r == 0)
        r = take_varint(decoder, RECORD_CONTAINERS_MAX, &count);
    for (uint64_t i = 0; r == 0 && i < count; i++)
        r = take_sample(decoder);
    if (r == 0)
        r = take_trainings(decoder);
    if (r < 0)
        return r;
    pass->read_ns += step_ns;
    pass->samples = decoder->samples;
    pass->before = decoder->before;
    return 1;
}
