/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine and this process are, and the names of block devices. */
#ifndef MONITORING_MACHINE_H
#define MONITORING_MACHINE_H

#include "muster/buf.h"
#include "muster/monitor.h"

/* What does not change while the machine runs, but for its memory and swap. What cannot be read stays
 * unknown. `rootfs`: where the host's root is mounted ("/etc/os-release" below it), NULL: here. */
void machine_read(const struct monitor_paths *paths, const char *rootfs, struct monitor_machine *ret_machine);

void machine_self(struct monitor_self *ret_self);

/* From texts; what the functions above are made of. */
void machine_cpuinfo(const char *text, struct monitor_machine *machine);
void machine_meminfo(const char *text, struct monitor_machine *machine);

#define MACHINE_DEVICES_MAX 256

/* Names by number, from /proc/diskstats, which every container can read; read anew when a number is not
 * known.
 */
struct machine_devices {
    struct monitor_device known[MACHINE_DEVICES_MAX];
    size_t count;
};

void machine_devices_name(struct machine_devices *devices, const char *procfs, struct mst_buf *scratch,
                          struct monitor_device *named, size_t count);

#endif
