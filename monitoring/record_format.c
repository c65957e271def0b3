/* SPDX-License-Identifier: Apache-2.0 */
#include "record_format.h"

#include "muster/cleanup.h"

#include <stddef.h>
#include <zlib.h>

void record_block_write(const struct record_block *block, uint8_t bytes[static RECORD_BLOCK_HEADER])
{
    record_put32(bytes, block->magic);
    record_put32(bytes + 4, block->stored_bytes);
    record_put32(bytes + 8, block->raw_bytes);
    record_put32(bytes + 12, block->passes);
    record_put64(bytes + 16, record_bits(block->first_s));
    record_put64(bytes + 24, record_bits(block->last_s));
    record_put64(bytes + 32, block->sequence);
    record_put32(bytes + 40, block->checksum);
    record_put32(bytes + 44, (uint32_t)crc32(0, bytes, RECORD_BLOCK_HEADER - 4));
}

bool record_block_read(const uint8_t bytes[static RECORD_BLOCK_HEADER], struct record_block *ret_block)
{
    if (record_get32(bytes + 44) != (uint32_t)crc32(0, bytes, RECORD_BLOCK_HEADER - 4))
        return false;
    *ret_block = (struct record_block){.magic = record_get32(bytes),
                                       .stored_bytes = record_get32(bytes + 4),
                                       .raw_bytes = record_get32(bytes + 8),
                                       .passes = record_get32(bytes + 12),
                                       .first_s = record_double(record_get64(bytes + 16)),
                                       .last_s = record_double(record_get64(bytes + 24)),
                                       .sequence = record_get64(bytes + 32),
                                       .checksum = record_get32(bytes + 40)};
    return ret_block->magic == RECORD_BLOCK_MAGIC || ret_block->magic == RECORD_INDEX_MAGIC;
}

#define S(member) offsetof(struct monitor_sample, member)
static const uint16_t sample_offsets[] = {
    S(read_ns),
    S(cpu_ns),
    S(cpu_user_ns),
    S(cpu_system_ns),
    S(cfs_periods),
    S(cfs_throttled),
    S(cfs_throttled_ns),
    S(memory_usage_bytes),
    S(memory_rss_bytes),
    S(memory_cache_bytes),
    S(memory_inactive_file_bytes),
    S(memory_limit_bytes),
    S(io_read_bytes),
    S(io_write_bytes),
    S(rx_bytes),
    S(rx_packets),
    S(rx_errors),
    S(rx_dropped),
    S(tx_bytes),
    S(tx_packets),
    S(tx_errors),
    S(tx_dropped),
    S(threads),
    S(threads_max),
    S(cfs_bursts),
    S(cfs_burst_ns),
    S(memory_peak_bytes),
    S(memory_failcnt),
    S(memory_swap_bytes),
    S(memory_kernel_bytes),
    S(page_faults),
    S(major_faults),
    S(memory_mapped_file_bytes),
    S(memory_active_file_bytes),
    S(file_dirty_bytes),
    S(file_writeback_bytes),
    S(pages_scanned),
    S(pages_stolen),
    S(refaults_file),
    S(refaults_anon),
    S(oom_kills),
    S(memory_events_high),
    S(memory_events_max),
    S(cpu_period_us),
    S(cpu_quota_us),
    S(cpu_shares),
    S(swap_limit_bytes),
    S(reservation_bytes),
    S(cpu_waiting_us),
    S(cpu_stalled_us),
    S(memory_waiting_us),
    S(memory_stalled_us),
    S(io_waiting_us),
    S(io_stalled_us),
    S(tasks_running),
    S(tasks_iowaiting),
    S(load_milli),
};
_Static_assert(MST_ARRAY_COUNT(sample_offsets) <= 64, "one bit each says which have changed");

#define I(member) offsetof(struct monitor_interface, member)
static const uint16_t interface_offsets[] = {I(rx_bytes), I(rx_packets), I(rx_errors), I(rx_dropped),
                                             I(tx_bytes), I(tx_packets), I(tx_errors), I(tx_dropped)};

#define D(member) offsetof(struct monitor_device, member)
static const uint16_t device_offsets[] = {D(read_bytes),   D(write_bytes),   D(reads),      D(writes),
                                          D(reads_merged), D(writes_merged), D(read_ms),    D(write_ms),
                                          D(in_flight),    D(busy_ms),       D(weighted_ms)};

#define F(member) offsetof(struct monitor_filesystem, member)
static const uint16_t filesystem_offsets[] = {F(limit_bytes), F(used_bytes), F(inodes), F(inodes_free)};

#define SELF(member) offsetof(struct monitor_self, member)
static const uint16_t self_offsets[] = {SELF(cpu_ns),   SELF(resident_bytes), SELF(virtual_bytes),
                                        SELF(open_fds), SELF(max_fds),        SELF(started_ms)};

/* Doubles travel as their bits. */
#define T(member) offsetof(struct monitor_training, member)
static const uint16_t training_offsets[] = {
    T(epoch),      T(epochs),      T(step),        T(steps),      T(rank),          T(loss),
    T(accuracy),   T(ms_per_step), T(view),        T(members),    T(test_accuracy), T(test_loss),
    T(recoveries), T(lost),        T(checkpoints), T(bytes_sent), T(epochs_done)};

#define M(member) offsetof(struct monitor_machine, member)
static const uint16_t machine_offsets[] = {M(cpus), M(cores), M(sockets), M(memory_bytes), M(swap_bytes)};

#define FIELDS(name)                                                                                         \
    const struct record_fields record_##name##_fields = {name##_offsets, MST_ARRAY_COUNT(name##_offsets)}
FIELDS(sample);
FIELDS(interface);
FIELDS(device);
FIELDS(filesystem);
FIELDS(self);
FIELDS(training);
FIELDS(machine);
