/* SPDX-License-Identifier: Apache-2.0 */
#include "record_encode.h"

#include <errno.h>
#include <stdlib.h>

struct record_known {
    struct monitor_container info;
    struct monitor_sample sample;
    struct monitor_interface interfaces[MONITOR_INTERFACES_MAX];
    struct monitor_device devices[MONITOR_DEVICES_MAX];
    struct monitor_filesystem *filesystems; /* of the machine only: NULL for the others */
};

void record_encoder_init(struct record_encoder *encoder)
{
    *encoder = (struct record_encoder){.text = MST_BUF_INIT(RECORD_PAYLOAD_MAX)};
}

void record_encoder_reset(struct record_encoder *encoder)
{
    mst_buf_clear(&encoder->text);
    for (size_t i = 0; i < encoder->known_count; i++) {
        free(encoder->known[i]->filesystems);
        free(encoder->known[i]);
    }
    encoder->known_count = 0;
    encoder->has_machine = false;
    encoder->self = (struct monitor_self){0};
    encoder->read_ns = 0;
}

void record_encoder_release(struct record_encoder *encoder)
{
    record_encoder_reset(encoder);
    free(encoder->known);
    mst_buf_release(&encoder->text);
    *encoder = (struct record_encoder){0};
}

/* ---- pieces ---- */

static int put_varint(struct mst_buf *text, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[count] |= value ? 0x80 : 0;
        count++;
    } while (value);
    return mst_buf_append(text, bytes, count);
}

static int put_bits(struct mst_buf *text, uint64_t bits)
{
    uint8_t bytes[8];
    record_put64(bytes, bits);
    return mst_buf_append(text, bytes, sizeof bytes);
}

int record_put_text(struct mst_buf *text, const char *value)
{
    const size_t bytes = strlen(value);
    const int r = put_varint(text, bytes);
    return r < 0 ? r : mst_buf_append(text, value, bytes);
}

/* Which fields differ, one bit each, then the differences. */
static int put_fields(struct mst_buf *text, const struct record_fields *fields, const void *now,
                      const void *before)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < fields->count; i++) {
        if (record_field(now, fields->offsets[i]) != record_field(before, fields->offsets[i]))
            changed |= UINT64_C(1) << i;
    }
    int r = put_varint(text, changed);
    for (size_t i = 0; r == 0 && i < fields->count; i++) {
        if (changed & (UINT64_C(1) << i))
            r = put_varint(text, record_zigzag(record_field(now, fields->offsets[i]),
                                               record_field(before, fields->offsets[i])));
    }
    return r;
}

static int put_machine(struct record_encoder *encoder, const struct monitor_machine *machine)
{
    static const struct monitor_machine none = {0};
    const bool is_new =
        !encoder->has_machine || memcmp(&encoder->machine, machine, sizeof encoder->machine) != 0;
    int r = put_varint(&encoder->text, is_new);
    if (r < 0 || !is_new)
        return r;
    const char *const texts[] = {machine->boot_id, machine->machine_id, machine->system_uuid,
                                 machine->kernel,  machine->os,         machine->engine};
    r = put_fields(&encoder->text, &record_machine_fields, machine, &none);
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = record_put_text(&encoder->text, texts[i]);
    encoder->machine = *machine;
    encoder->has_machine = true;
    return r;
}

static int put_container(struct mst_buf *text, const struct monitor_container *info)
{
    const char *const texts[] = {info->id,   info->name,       info->image,  info->stack, info->service,
                                 info->slot, info->started_at, info->cgroup, info->labels};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = record_put_text(text, texts[i]);
    if (r == 0)
        r = put_bits(text, record_bits(info->started_s));
    if (r == 0)
        r = put_bits(text, record_bits(info->created_s));
    if (r == 0)
        r = put_varint(text, (uint64_t)(info->health + 1));
    if (r == 0)
        r = put_varint(text, (uint64_t)info->network);
    return r == 0 ? put_varint(text, (uint64_t)info->is_machine | ((uint64_t)info->is_agent << 1)) : r;
}

/* ---- samples ---- */

static bool is_same(const struct monitor_container *a, const struct monitor_container *b)
{
    return strcmp(a->id, b->id) == 0 && strcmp(a->started_at, b->started_at) == 0 &&
           strcmp(a->name, b->name) == 0 && a->health == b->health && strcmp(a->labels, b->labels) == 0;
}

/* `hint`: where it was the last time, for the order hardly ever changes. *ret_index beyond the last: a new
 * one, which was added. */
static int find_known(struct record_encoder *encoder, const struct monitor_container *info, size_t hint,
                      size_t *ret_index)
{
    if (hint < encoder->known_count && is_same(&encoder->known[hint]->info, info)) {
        *ret_index = hint;
        return 0;
    }
    for (size_t i = encoder->known_count; i-- > 0;) { /* a newer description hides an older one */
        if (is_same(&encoder->known[i]->info, info)) {
            *ret_index = i;
            return 0;
        }
    }
    if (encoder->known_count == RECORD_CONTAINERS_MAX)
        return -ENOBUFS;
    if (encoder->known_count == encoder->known_room) {
        const size_t room = encoder->known_room ? encoder->known_room * 2 : 64;
        void *known = reallocarray(encoder->known, room, sizeof *encoder->known);
        if (!known)
            return -ENOMEM;
        encoder->known = known;
        encoder->known_room = room;
    }
    struct record_known *added = calloc(1, sizeof *added);
    if (!added)
        return -ENOMEM;
    added->info = *info;
    *ret_index = encoder->known_count;
    encoder->known[encoder->known_count++] = added;
    int r = put_varint(&encoder->text, *ret_index);
    return r < 0 ? r : put_container(&encoder->text, info);
}

static int put_interfaces(struct mst_buf *text, const struct monitor_sample *sample,
                          struct record_known *known)
{
    const size_t count = sample->groups & MONITOR_NETWORK ? sample->interface_count : 0;
    int r = put_varint(text, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct monitor_interface *before = &known->interfaces[i];
        const bool is_known = strcmp(before->name, sample->interfaces[i].name) == 0;
        r = put_varint(text, is_known);
        if (r == 0 && !is_known)
            r = record_put_text(text, sample->interfaces[i].name);
        if (r == 0)
            r = put_fields(text, &record_interface_fields, &sample->interfaces[i], before);
        *before = sample->interfaces[i];
    }
    return r;
}

static int put_devices(struct mst_buf *text, const struct monitor_sample *sample, struct record_known *known)
{
    const size_t count = sample->groups & MONITOR_IO ? sample->device_count : 0;
    int r = put_varint(text, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct monitor_device *device = &sample->devices[i];
        struct monitor_device *before = &known->devices[i];
        const bool is_known = before->major == device->major && before->minor == device->minor &&
                              strcmp(before->name, device->name) == 0;
        r = put_varint(text, is_known);
        if (r == 0 && !is_known)
            r = put_varint(text, device->major);
        if (r == 0 && !is_known)
            r = put_varint(text, device->minor);
        if (r == 0 && !is_known)
            r = record_put_text(text, device->name);
        if (r == 0)
            r = put_fields(text, &record_device_fields, device, before);
        *before = *device;
    }
    return r;
}

/* Only where there is a group of them: recordings from before there were any have nothing here. */
static int put_filesystems(struct mst_buf *text, const struct monitor_sample *sample,
                           struct record_known *known)
{
    if (!(sample->groups & MONITOR_FILESYSTEMS))
        return 0;
    if (!known->filesystems)
        known->filesystems = calloc(MONITOR_FILESYSTEMS_MAX, sizeof *known->filesystems);
    int r = known->filesystems ? put_varint(text, sample->filesystem_count) : -ENOMEM;
    for (size_t i = 0; r == 0 && i < sample->filesystem_count; i++) {
        const struct monitor_filesystem *now = &sample->filesystems[i];
        struct monitor_filesystem *before = &known->filesystems[i];
        const bool is_known = *before->source && strcmp(before->source, now->source) == 0;
        r = put_varint(text, is_known);
        if (r == 0 && !is_known)
            r = record_put_text(text, now->source);
        if (r == 0)
            r = put_fields(text, &record_filesystem_fields, now, before);
        *before = *now;
    }
    return r;
}

static int put_sample(struct record_encoder *encoder, const struct monitor_sample *sample, size_t hint)
{
    size_t index;
    const size_t known_before = encoder->known_count;
    int r = find_known(encoder, sample->container, hint, &index);
    if (r == 0 && known_before == encoder->known_count)
        r = put_varint(&encoder->text, index);
    if (r < 0)
        return r;
    struct record_known *known = encoder->known[index];
    r = put_varint(&encoder->text, sample->groups);
    if (r == 0)
        r = put_bits(&encoder->text, record_bits(sample->wall_s));
    if (r == 0)
        r = put_fields(&encoder->text, &record_sample_fields, sample, &known->sample);
    if (r == 0)
        r = put_interfaces(&encoder->text, sample, known);
    if (r == 0)
        r = put_devices(&encoder->text, sample, known);
    if (r == 0)
        r = put_filesystems(&encoder->text, sample, known);
    known->sample = *sample;
    return r;
}

static int put_gauges(struct mst_buf *text, const struct monitor_training *training)
{
    int r = put_varint(text, training->gauge_count);
    for (size_t i = 0; r == 0 && i < training->gauge_count; i++) {
        r = record_put_text(text, training->gauges[i].name);
        if (r == 0)
            r = put_varint(text, record_bits(training->gauges[i].value));
        if (r == 0)
            r = put_varint(text, training->gauges[i].reports);
    }
    return r;
}

static int put_training(struct mst_buf *text, const struct monitor_training *training)
{
    static const struct monitor_training none = {0};
    const char *const texts[] = {training->slot, training->stack, training->service, training->container};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof texts / sizeof *texts; i++)
        r = record_put_text(text, texts[i]);
    if (r == 0)
        r = put_varint(text, training->groups);
    if (r == 0)
        r = put_varint(text, (uint64_t)training->is_done | ((uint64_t)training->has_failed << 1) |
                                 ((uint64_t)training->is_no_training << 2) |
                                 ((uint64_t)(training->gauge_count > 0) << 3));
    if (r == 0)
        r = put_fields(text, &record_training_fields, training, &none);
    return r == 0 && training->gauge_count > 0 ? put_gauges(text, training) : r;
}

int record_encode(struct record_encoder *encoder, const struct monitor_pass *pass)
{
    struct mst_buf *text = &encoder->text;
    int r = put_bits(text, record_bits(pass->wall_s));
    if (r == 0)
        r = put_varint(text, pass->read_ns - encoder->read_ns);
    if (r == 0)
        r = put_varint(text, pass->took_ns);
    if (r == 0)
        r = put_varint(text, pass->faults);
    if (r == 0)
        r = put_varint(text, pass->has_source);
    if (r == 0)
        r = put_machine(encoder, &pass->machine);
    if (r == 0)
        r = put_fields(text, &record_self_fields, &pass->self, &encoder->self);
    encoder->self = pass->self;
    encoder->read_ns = pass->read_ns;
    if (r == 0)
        r = put_varint(text, pass->count);
    for (size_t i = 0; r == 0 && i < pass->count; i++)
        r = put_sample(encoder, &pass->samples[i], i);
    if (r == 0)
        r = put_varint(text, pass->training_count);
    for (size_t i = 0; r == 0 && i < pass->training_count; i++)
        r = put_training(text, &pass->trainings[i]);
    return r;
}
