/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the kernel's counter files to numbers. Strict on purpose: a read that was cut or mixed up must
 * give no sample at all, for a wrong counter is a spike in every graph. All take exactly `bytes` bytes (no
 * NUL needed), return 0 or -EBADMSG, and leave their outputs untouched on an error. */
#ifndef MONITORING_COUNTERS_H
#define MONITORING_COUNTERS_H

#include "muster/monitor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One number and the line's end: cpuacct.usage, memory.current. */
int counters_number(const char *text, size_t bytes, uint64_t *ret_value);
/* The same, or "max", which is UINT64_MAX: memory.max. */
int counters_limit(const char *text, size_t bytes, uint64_t *ret_value);

struct counters_key {
    const char *name;
    uint64_t value;
    bool found;
};

/* Lines of "name value": cpu.stat, cpuacct.stat, memory.stat. Only the asked-for names' values must be
 * numbers; `keys` come with value 0 and found false, and hold what was found even after an error. */
int counters_keyed(const char *text, size_t bytes, struct counters_key *keys, size_t count);

/* What each device has moved; those that find no more room are in the sums alone. */
struct counters_io {
    uint64_t read_bytes, write_bytes;
    struct monitor_device *devices; /* borrowed; room for MONITOR_DEVICES_MAX, NULL: only the sums */
    size_t device_count;
};

/* The entry for a device, added if need be; NULL when there is no room. */
struct monitor_device *counters_device(struct counters_io *io, uint32_t major, uint32_t minor);

/* v1, "8:0 Read 4096" for each device and operation, then "Total 4096": blkio.throttle.io_service_bytes. A
 * device that is known already keeps the larger values: two layers of the kernel count the same bytes. */
int counters_blkio(const char *text, size_t bytes, struct counters_io *ret_io);
/* The same for blkio.throttle.io_serviced: into the devices' `reads` and `writes`, and the sums here count
 * operations. */
int counters_blkio_counts(const char *text, size_t bytes, struct counters_io *ret_io);
/* v2, "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 ...": io.stat. */
int counters_io_stat(const char *text, size_t bytes, struct counters_io *ret_io);

struct counters_net {
    uint64_t interfaces; /* without lo, of which the sums below know nothing either */
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped;
    uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
    struct monitor_interface *list; /* borrowed; room for MONITOR_INTERFACES_MAX, NULL: only the sums */
    size_t list_count;
};

/* /proc/PID/net/dev. `of_host`: what carries containers' traffic a second time (docker*, veth*, nerdctl*, and
 * bridges that Docker made) is left out. */
int counters_net_dev(const char *text, size_t bytes, bool of_host, struct counters_net *ret_net);

/* v2, "some avg10=0.00 avg60=0.00 avg300=0.00 total=12", and "full ...": cpu.pressure. In us. */
int counters_pressure(const char *text, size_t bytes, uint64_t *ret_waiting_us, uint64_t *ret_stalled_us);
/* v2, "50000 100000" or "max 100000": cpu.max. Quota 0: none. */
int counters_cpu_max(const char *text, size_t bytes, uint64_t *ret_quota_us, uint64_t *ret_period_us);

#endif
