/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "source.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MACHINE_FILE_MAX_BYTES ((size_t)4 << 20) /* /proc/cpuinfo of 1000 CPUs is 1.5 MiB */

/* The rest of the first line that begins with `key`, without blanks around it; false when there is none. */
static bool line_value(const char *text, const char *key, char *ret_value, size_t capacity)
{
    for (const char *line = text; *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = line + strlen(key);
        value += strspn(value, " \t:");
        size_t bytes = strcspn(value, "\n");
        while (bytes > 0 && (value[bytes - 1] == ' ' || value[bytes - 1] == '\t'))
            bytes--;
        (void)snprintf(ret_value, capacity, "%.*s", (int)(bytes < capacity ? bytes : capacity - 1), value);
        return true;
    }
    return false;
}

void machine_meminfo(const char *text, struct monitor_machine *machine)
{
    char value[64];
    uint64_t kib;
    if (line_value(text, "MemTotal", value, sizeof value) && sscanf(value, "%" SCNu64, &kib) == 1)
        machine->memory_bytes = kib * 1024;
    if (line_value(text, "SwapTotal", value, sizeof value) && sscanf(value, "%" SCNu64, &kib) == 1)
        machine->swap_bytes = kib * 1024;
}

/* Distinct pairs of package and core. A table is enough: a package has at most some hundred cores. */
void machine_cpuinfo(const char *text, struct monitor_machine *machine)
{
    enum { PAIRS_MAX = 4096 };
    mst_cleanup(mst_freep) uint32_t *pairs = calloc(PAIRS_MAX, sizeof *pairs);
    uint32_t package = 0, core;
    size_t count = 0;
    uint64_t packages = 0, cpus = 0;
    for (const char *line = text; pairs && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        if (strncmp(line, "processor\t", 10) == 0)
            cpus++;
        (void)sscanf(line, "physical id : %" SCNu32, &package);
        if (sscanf(line, "core id : %" SCNu32, &core) != 1)
            continue;
        const uint32_t pair = (package << 16) | (core & 0xffffU);
        bool is_known = false, has_package = false;
        for (size_t i = 0; i < count; i++) {
            is_known = is_known || pairs[i] == pair;
            has_package = has_package || pairs[i] >> 16 == (package & 0xffffU);
        }
        packages += !has_package;
        if (!is_known && count < PAIRS_MAX)
            pairs[count++] = pair;
    }
    machine->cpus = cpus;
    machine->cores = count ? count : cpus; /* ARM's cpuinfo has no such lines */
    machine->sockets = packages ? packages : cpus > 0;
}

static void read_file(const char *folder, const char *name, struct mst_buf *text)
{
    mst_buf_clear(text);
    mst_cleanup(mst_closep) int fd = source_open(folder, name);
    if (fd < 0 || source_read(fd, text) < 0)
        mst_buf_clear(text);
}

static void read_line(const char *folder, const char *name, struct mst_buf *scratch, char *ret_text,
                      size_t capacity)
{
    read_file(folder, name, scratch);
    (void)line_value(mst_buf_text(scratch), "", ret_text, capacity);
}

void machine_read(const struct monitor_paths *paths, const char *rootfs, struct monitor_machine *ret_machine)
{
    mst_cleanup(mst_buf_release) struct mst_buf scratch = MST_BUF_INIT(MACHINE_FILE_MAX_BYTES);
    struct monitor_machine machine = {0};
    struct utsname names;
    const char *root = rootfs ? rootfs : "/";
    read_file(paths->procfs, "cpuinfo", &scratch);
    machine_cpuinfo(mst_buf_text(&scratch), &machine);
    read_file(paths->procfs, "meminfo", &scratch);
    machine_meminfo(mst_buf_text(&scratch), &machine);
    read_line(paths->procfs, "sys/kernel/random/boot_id", &scratch, machine.boot_id, sizeof machine.boot_id);
    read_line(root, "etc/machine-id", &scratch, machine.machine_id, sizeof machine.machine_id);
    read_line(paths->sysfs, "class/dmi/id/product_uuid", &scratch, machine.system_uuid,
              sizeof machine.system_uuid);
    read_file(root, "etc/os-release", &scratch);
    if (line_value(mst_buf_text(&scratch), "PRETTY_NAME=", machine.os, sizeof machine.os) &&
        machine.os[0] == '"') {
        memmove(machine.os, machine.os + 1, strlen(machine.os));
        machine.os[strcspn(machine.os, "\"")] = '\0';
    }
    if (uname(&names) == 0)
        (void)snprintf(machine.kernel, sizeof machine.kernel, "%s", names.release);
    *ret_machine = machine;
}

/* ---- this process ---- */

static uint64_t count_descriptors(void)
{
    uint64_t count = 0;
    struct stat about;
    /* Linux 6.2 and later tell by the folder's size; with thousands of them counting would cost most of a
     * pass. */
    if (stat("/proc/self/fd", &about) == 0 && about.st_size > 0)
        return (uint64_t)about.st_size;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count > 0 ? count - 1 : 0; /* without the one that counts */
}

/* Field 22 of /proc/self/stat, in ticks since the machine started. */
static uint64_t start_ms(const char *stat)
{
    const char *at = strrchr(stat, ')'); /* names may hold blanks and brackets */
    uint64_t ticks;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    struct timespec up, wall;
    if (!at || sscanf(at, " %" SCNu64, &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &up) < 0 ||
        clock_gettime(CLOCK_REALTIME, &wall) < 0)
        return 0;
    const int64_t boot_ms =
        (int64_t)(wall.tv_sec - up.tv_sec) * 1000 + (int64_t)(wall.tv_nsec - up.tv_nsec) / 1000000;
    return (uint64_t)boot_ms + ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

void machine_self(struct monitor_self *ret_self)
{
    struct monitor_self self = {.started_ms = ret_self->started_ms};
    char buffer[1024];
    struct rlimit limit;
    struct timespec cpu;
    unsigned long pages, resident;
    mst_cleanup(mst_closep) int fd = source_open("/proc/self", "statm");
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
    if (got > 0) {
        buffer[got] = '\0';
        if (sscanf(buffer, "%lu %lu", &pages, &resident) == 2) {
            const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
            self.virtual_bytes = pages * page_bytes;
            self.resident_bytes = resident * page_bytes;
        }
    }
    if (self.started_ms == 0) {
        mst_cleanup(mst_closep) int stat_fd = source_open("/proc/self", "stat");
        got = stat_fd < 0 ? -1 : read(stat_fd, buffer, sizeof buffer - 1);
        buffer[got > 0 ? got : 0] = '\0';
        self.started_ms = start_ms(buffer);
    }
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        self.cpu_ns = (uint64_t)cpu.tv_sec * MST_NS_PER_S + (uint64_t)cpu.tv_nsec;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        self.max_fds = limit.rlim_cur;
    self.open_fds = count_descriptors();
    *ret_self = self;
}

/* ---- block devices ---- */

static const struct monitor_device *find_device(const struct machine_devices *devices,
                                                const struct monitor_device *wanted)
{
    for (size_t i = 0; i < devices->count; i++) {
        if (devices->known[i].major == wanted->major && devices->known[i].minor == wanted->minor)
            return &devices->known[i];
    }
    return NULL;
}

static void read_devices(struct machine_devices *devices, const char *procfs, struct mst_buf *scratch)
{
    devices->count = 0;
    read_file(procfs, "diskstats", scratch);
    for (const char *line = mst_buf_text(scratch); *line && devices->count < MACHINE_DEVICES_MAX;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        struct monitor_device *device = &devices->known[devices->count];
        char name[MONITOR_DEVICE_BYTES - sizeof "/dev/" + 1];
        *device = (struct monitor_device){0};
        if (sscanf(line, "%" SCNu32 " %" SCNu32 " %26s", &device->major, &device->minor, name) != 3)
            continue;
        (void)snprintf(device->name, sizeof device->name, "/dev/%s", name);
        devices->count++;
    }
}

void machine_devices_name(struct machine_devices *devices, const char *procfs, struct mst_buf *scratch,
                          struct monitor_device *named, size_t count)
{
    bool is_fresh = false;
    for (size_t i = 0; i < count; i++) {
        const struct monitor_device *found = find_device(devices, &named[i]);
        if (!found && !is_fresh && devices->count < MACHINE_DEVICES_MAX) {
            read_devices(devices, procfs, scratch);
            is_fresh = true;
            found = find_device(devices, &named[i]);
        }
        if (!found && devices->count < MACHINE_DEVICES_MAX) { /* so that it is not looked for each time */
            devices->known[devices->count] = named[i];
            devices->known[devices->count].name[0] = '\0';
            found = &devices->known[devices->count++];
        }
        if (found)
            memcpy(named[i].name, found->name, sizeof named[i].name);
    }
}
