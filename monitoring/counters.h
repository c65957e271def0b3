/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the kernel's counter files to numbers. Strict on purpose: a read that was cut or mixed up must
 * give no sample at all, for a wrong counter is a spike in every graph. All take exactly `bytes` bytes (no
 * NUL needed), return 0 or -EBADMSG, and leave their outputs untouched on an error. */
#ifndef MONITORING_COUNTERS_H
#define MONITORING_COUNTERS_H

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

struct counters_io {
    uint64_t read_bytes, write_bytes;
};

/* v1, "8:0 Read 4096" for each device and operation, then "Total 4096": blkio.throttle.io_service_bytes. */
int counters_blkio(const char *text, size_t bytes, struct counters_io *ret_io);
/* v2, "8:0 rbytes=4096 wbytes=0 ...": io.stat. */
int counters_io_stat(const char *text, size_t bytes, struct counters_io *ret_io);

struct counters_net {
    uint64_t interfaces; /* without lo, of which the sums below know nothing either */
    uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped;
    uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
};

/* /proc/PID/net/dev. */
int counters_net_dev(const char *text, size_t bytes, struct counters_net *ret_net);

#endif
