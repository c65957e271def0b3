/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_use.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "source.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MOUNTS_MAX_BYTES ((size_t)4 << 20) /* some 200 bytes each, and each container has a few */
#define SECTOR_BYTES     512U              /* whatever the disk's own are */
#define MOUNTS_EVERY_NS  (30 * MST_NS_PER_S)
#define LOAD_SECONDS     10.0

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : "";
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- disks ---- */

/* Partitions and devices without a request queue are not in there. */
static bool is_whole_disk(const char *sysfs, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/block/%s", sysfs, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;
    for (char *c = path + length - strlen(name); *c; c++) /* sysfs' way to write "cciss/c0d0" */
        *c = *c == '/' ? '!' : *c;
    return access(path, F_OK) == 0;
}

size_t machine_disks(const char *text, const char *sysfs,
                     struct monitor_device list[static MONITOR_DEVICES_MAX])
{
    size_t count = 0;
    for (const char *line = text; *line && count < MONITOR_DEVICES_MAX; line = next_line(line)) {
        struct monitor_device disk = {0};
        char name[MONITOR_DEVICE_BYTES - sizeof "/dev/" + 1];
        uint64_t sectors_read, sectors_written;
        if (sscanf(line,
                   "%" SCNu32 " %" SCNu32 " %26s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                   &disk.major, &disk.minor, name, &disk.reads, &disk.reads_merged, &sectors_read,
                   &disk.read_ms, &disk.writes, &disk.writes_merged, &sectors_written, &disk.write_ms,
                   &disk.in_flight, &disk.busy_ms, &disk.weighted_ms) != 14)
            continue;
        if (starts_with(name, "loop") || starts_with(name, "ram") || starts_with(name, "sr") ||
            starts_with(name, "fd") || strpbrk(name, "\"\\") || !is_whole_disk(sysfs, name))
            continue;
        disk.read_bytes = sectors_read * SECTOR_BYTES;
        disk.write_bytes = sectors_written * SECTOR_BYTES;
        (void)snprintf(disk.name, sizeof disk.name, "/dev/%s", name);
        list[count++] = disk;
    }
    return count;
}

static void sample_disks(struct machine_use *use, const char *text, struct monitor_sample *sample)
{
    const size_t count = machine_disks(text, use->paths.sysfs, use->devices);
    if (count == 0)
        return;
    sample->devices = use->devices;
    sample->device_count = count;
    sample->io_read_bytes = sample->io_write_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        sample->io_read_bytes += use->devices[i].read_bytes;
        sample->io_write_bytes += use->devices[i].write_bytes;
    }
    sample->groups |= MONITOR_IO | MONITOR_IO_COUNTS | MONITOR_IO_TIMES;
}

/* ---- filesystems ---- */

bool machine_source_is_plain(const char *source)
{
    for (const char *c = source; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f || *c == '"' || *c == '\\')
            return false;
    }
    return *source != '\0';
}

/* Blanks and the like are written as \040. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1 && code < 256) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static struct machine_mount *find_mount(struct machine_mounts *mounts, const char *source, uint32_t major,
                                        uint32_t minor)
{
    for (size_t i = 0; i < mounts->count; i++) {
        struct machine_mount *mount = &mounts->list[i];
        if ((mount->major == major && mount->minor == minor) || strcmp(mount->source, source) == 0)
            return mount;
    }
    return NULL;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue". A place in a container
 * counts as well: /etc/hosts of each lies on the filesystem of the Engine's data. */
static void take_mount(char *line, bool (*can_be_seen)(const char *path), struct machine_mounts *mounts)
{
    uint32_t major, minor;
    int path_at = 0, path_end = 0, source_at = 0, source_end = 0;
    char kind[32];
    char *dash = strstr(line, " - ");
    if (!dash ||
        sscanf(line, "%*u %*u %" SCNu32 ":%" SCNu32 " %*s %n%*s%n", &major, &minor, &path_at, &path_end) <
            2 ||
        path_end == 0 || sscanf(dash, " - %31s %n%*s%n", kind, &source_at, &source_end) < 1 ||
        source_end == 0)
        return;
    char *path = line + path_at, *source = dash + source_at;
    if (!starts_with(source, "/dev/") && strcmp(kind, "zfs") != 0)
        return;
    line[path_end] = dash[source_end] = '\0';
    unescape(path);
    unescape(source);
    if (!machine_source_is_plain(source) || strlen(source) >= MONITOR_NAME_BYTES ||
        starts_with(source, "/dev/loop") || (can_be_seen && !can_be_seen(path)) ||
        find_mount(mounts, source, major, minor) || mounts->count == MONITOR_FILESYSTEMS_MAX)
        return;
    struct machine_mount *mount = &mounts->list[mounts->count];
    *mount = (struct machine_mount){.major = major, .minor = minor, .path = strdup(path)};
    (void)snprintf(mount->source, sizeof mount->source, "%s", source);
    mounts->count += mount->path != NULL;
}

void machine_mounts_read(const char *text, bool (*can_be_seen)(const char *path),
                         struct machine_mounts *mounts)
{
    machine_mounts_release(mounts);
    for (const char *line = text; *line; line = next_line(line)) {
        mst_cleanup(mst_freep) char *copy = strndup(line, strcspn(line, "\n"));
        if (copy)
            take_mount(copy, can_be_seen, mounts);
    }
}

void machine_mounts_release(struct machine_mounts *mounts)
{
    for (size_t i = 0; i < mounts->count; i++)
        free(mounts->list[i].path);
    mounts->count = 0;
}

static bool has_size(const char *path)
{
    struct statvfs about;
    return statvfs(path, &about) == 0 && about.f_blocks > 0;
}

static void look_up_mounts(struct machine_use *use, uint64_t now)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(MOUNTS_MAX_BYTES);
    mst_cleanup(mst_closep) int fd = source_open("/proc/self", "mountinfo"); /* ours: what we can reach */
    if (fd >= 0 && source_read(fd, &text) == 0)
        machine_mounts_read(mst_buf_text(&text), has_size, &use->mounts);
    use->mounts_ns = now;
}

static void sample_filesystems(struct machine_use *use, struct monitor_sample *sample)
{
    const uint64_t now = mst_now_ns();
    if (use->mounts_ns == 0 || now - use->mounts_ns >= MOUNTS_EVERY_NS)
        look_up_mounts(use, now);
    size_t count = 0;
    for (size_t i = 0; i < use->mounts.count; i++) {
        struct statvfs about;
        if (statvfs(use->mounts.list[i].path, &about) < 0)
            continue;
        struct monitor_filesystem *filesystem = &use->filesystems[count++];
        *filesystem = (struct monitor_filesystem){.limit_bytes = (uint64_t)about.f_blocks * about.f_frsize,
                                                  .used_bytes = (uint64_t)(about.f_blocks - about.f_bfree) *
                                                                about.f_frsize,
                                                  .inodes = about.f_files,
                                                  .inodes_free = about.f_ffree};
        memcpy(filesystem->source, use->mounts.list[i].source, sizeof filesystem->source);
    }
    if (count == 0)
        return;
    sample->filesystems = use->filesystems;
    sample->filesystem_count = count;
    sample->groups |= MONITOR_FILESYSTEMS;
}

/* ---- tasks ---- */

bool machine_tasks(const char *text, uint64_t *ret_running, uint64_t *ret_iowaiting)
{
    const char *running = strstr(text, "\nprocs_running "), *blocked = strstr(text, "\nprocs_blocked ");
    return running && blocked && sscanf(running, "\nprocs_running %" SCNu64, ret_running) == 1 &&
           sscanf(blocked, "\nprocs_blocked %" SCNu64, ret_iowaiting) == 1;
}

double machine_load(double load, double running, double seconds)
{
    const double decay = exp(-seconds / LOAD_SECONDS);
    return load * decay + running * (1 - decay);
}

static void sample_tasks(struct machine_use *use, const char *text, struct monitor_sample *sample)
{
    uint64_t running, iowaiting;
    if (!machine_tasks(text, &running, &iowaiting))
        return;
    running -= running > 0; /* whoever asks is running */
    use->load = use->load_ns == 0
                    ? (double)running
                    : machine_load(use->load, (double)running,
                                   (double)(sample->read_ns - use->load_ns) / (double)MST_NS_PER_S);
    use->load_ns = sample->read_ns;
    sample->tasks_running = running;
    sample->tasks_iowaiting = iowaiting;
    sample->load_milli = (uint64_t)(use->load * 1000);
    sample->groups |= MONITOR_TASKS;
}

/* ---- all of it ---- */

void machine_use_init(struct machine_use *use, const struct monitor_paths *paths)
{
    *use = (struct machine_use){.paths = *paths};
}

void machine_use_release(struct machine_use *use)
{
    machine_mounts_release(&use->mounts);
}

static const char *read_text(const char *folder, const char *name, struct mst_buf *scratch)
{
    mst_cleanup(mst_closep) int fd = source_open(folder, name);
    return fd >= 0 && source_read(fd, scratch) == 0 ? mst_buf_text(scratch) : "";
}

void machine_use_sample(struct machine_use *use, unsigned wanted, struct mst_buf *scratch,
                        struct monitor_sample *sample)
{
    if (wanted & (MONITOR_IO | MONITOR_IO_COUNTS | MONITOR_IO_TIMES))
        sample_disks(use, read_text(use->paths.procfs, "diskstats", scratch), sample);
    if (wanted & MONITOR_TASKS)
        sample_tasks(use, read_text(use->paths.procfs, "stat", scratch), sample);
    if (wanted & MONITOR_FILESYSTEMS)
        sample_filesystems(use, sample);
    sample->groups &= wanted | ~(unsigned)MACHINE_GROUPS;
}
