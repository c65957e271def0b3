/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/csv.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/monitor.h"
#include "output.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CSV_TICK_MAX_BYTES ((size_t)16 << 20) /* 4096 containers with the longest names there are */
#define CSV_ROW_MAX_BYTES  4096

static const char header[] = MST_CSV_STATS_HEADER;

/* ---- opening ---- */

/* Where the last whole line ends: a row that a crash left half written would shift the columns of the next.
 */
static int cut_torn_line(int fd, off_t size)
{
    char tail[CSV_ROW_MAX_BYTES];
    const size_t wanted = (uintmax_t)size < sizeof tail ? (size_t)size : sizeof tail;
    const ssize_t got = pread(fd, tail, wanted, size - (off_t)wanted);
    if (got != (ssize_t)wanted)
        return got < 0 ? -errno : -EIO;
    const char *newline = memrchr(tail, '\n', wanted);
    if (!newline)
        return -EBADMSG;
    const off_t whole = size - (off_t)(tail + wanted - newline - 1);
    return whole < size && ftruncate(fd, whole) < 0 ? -errno : 0;
}

static int carry_on(int fd, const char *path, struct mst_error *err)
{
    char first[sizeof header];
    struct stat file;
    if (fstat(fd, &file) < 0)
        return mst_error_errno(err, -errno, "open '%s'", path);
    if (!S_ISREG(file.st_mode))
        return 0; /* /dev/stdout, a FIFO */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return mst_error_set(err, -EBUSY, "open '%s': another recorder writes to it", path);
        return mst_error_errno(err, -errno, "lock '%s'", path);
    }
    const ssize_t got = pread(fd, first, sizeof header - 1, 0);
    if (got < 0)
        return mst_error_errno(err, -errno, "read '%s'", path);
    /* A beginning of the header and nothing else is what a crash at the very start leaves. */
    if ((off_t)got == file.st_size && memcmp(first, header, (size_t)got) == 0 &&
        (size_t)got < sizeof header - 1)
        return ftruncate(fd, 0) < 0 ? mst_error_errno(err, -errno, "empty '%s'", path) : 0;
    if ((size_t)got != sizeof header - 1 || memcmp(first, header, sizeof header - 1) != 0)
        return mst_error_set(
            err, -EBADMSG, "'%s' is there already and does not begin with the line '%.20s...'", path, header);
    const int r = cut_torn_line(fd, file.st_size);
    return r < 0 ? mst_error_errno(err, r, "carry on '%s'", path) : 1;
}

int monitor_csv_open(struct monitor_csv *csv, const char *path, const char *node, int stop_fd,
                     struct mst_error *err)
{
    *csv = (struct monitor_csv){.fd = -1,
                                .stop_fd = stop_fd,
                                .node = node,
                                .machine_bytes = output_machine_bytes(),
                                .rows = MST_BUF_INIT(CSV_TICK_MAX_BYTES)};
    mst_cleanup(mst_closep) int fd = -1;
    int r = 0;
    if (strcmp(path, "-") != 0) {
        fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
        if (fd < 0 && (errno == EACCES || errno == EINVAL)) /* a FIFO or device that only takes */
            fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            return mst_error_errno(err, -errno, "open '%s' for writing", path);
        r = carry_on(fd, path, err);
        if (r < 0)
            return r;
    }
    if (r == 0 && mst_buf_append_text(&csv->rows, header) < 0) /* goes out with the first rows */
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", path);
    csv->fd = fd < 0 ? STDOUT_FILENO : fd;
    fd = -1;
    return 0;
}

void monitor_csv_release(struct monitor_csv *csv)
{
    if (csv->fd != STDOUT_FILENO)
        mst_closep(&csv->fd);
    mst_buf_release(&csv->rows);
}

/* ---- rows ---- */

/* Empty when it was not read. */
static int append_u64(struct mst_buf *rows, bool is_known, uint64_t value, char end)
{
    return is_known ? mst_buf_printf(rows, "%" PRIu64 "%c", value, end) : mst_buf_append(rows, &end, 1);
}

static int append_cpu(struct mst_buf *rows, const struct monitor_sample *sample,
                      const struct monitor_sample *before)
{
    double percent;
    int r = monitor_cpu_percent(before, sample, &percent) ? mst_buf_printf(rows, "%.2f,", percent)
                                                          : mst_buf_append_text(rows, ",");
    if (r < 0)
        return r;
    if (!(sample->groups & MONITOR_CPU))
        return mst_buf_append_text(rows, ",");
    /* From the integer: a double would lose nanoseconds after some months. */
    return mst_buf_printf(rows, "%" PRIu64 ".%09" PRIu64 ",", sample->cpu_ns / 1000000000,
                          sample->cpu_ns % 1000000000);
}

static int append_row(struct monitor_csv *csv, const struct monitor_sample *sample,
                      const struct monitor_sample *before)
{
    const struct monitor_container *container = sample->container;
    const char *const texts[] = {csv->node,       container->stack, container->service,
                                 container->slot, container->id,    container->name};
    struct mst_buf *rows = &csv->rows;
    uint64_t used = 0, limit = 0;
    const bool has_used = monitor_memory_used(sample, &used);
    const bool has_limit = monitor_memory_limit(sample, csv->machine_bytes, &limit);
    const bool has_network = sample->groups & MONITOR_NETWORK;

    int r = mst_buf_printf(rows, "%.3f,", sample->wall_s);
    for (size_t i = 0; i < MST_ARRAY_COUNT(texts) && r == 0; i++)
        r = mst_csv_append(rows, texts[i], ',');
    r = r < 0 ? r : append_cpu(rows, sample, before);
    r = r < 0 ? r : append_u64(rows, has_used, used, ',');
    r = r < 0 ? r : append_u64(rows, has_limit, limit, ',');
    r = r < 0 ? r : append_u64(rows, has_network, sample->rx_bytes, ',');
    r = r < 0 ? r : append_u64(rows, has_network, sample->tx_bytes, ',');
    r = r < 0 ? r : append_u64(rows, has_network, sample->rx_packets, ',');
    return r < 0 ? r : append_u64(rows, has_network, sample->tx_packets, '\n');
}

static int csv_sample(void *context, const struct monitor_sample *sample, const struct monitor_sample *before,
                      struct mst_error *err)
{
    struct monitor_csv *csv = context;
    const size_t count = csv->rows.count;
    const int r = append_row(csv, sample, before);
    if (r == 0)
        return 0;
    csv->rows.count = count; /* no half row */
    return mst_error_errno(err, r, "row of container '%s'", sample->container->name);
}

/* ---- writing ---- */

/* A file takes the whole tick in one append; a pipe gets what it is sure to take without blocking. */
static int write_rows(struct monitor_csv *csv)
{
    for (size_t written = 0; written < csv->rows.count;) {
        int r = output_wait(csv->fd, csv->stop_fd);
        const size_t left = csv->rows.count - written;
        const bool is_file = lseek(csv->fd, 0, SEEK_CUR) >= 0;
        const size_t count = is_file || left < PIPE_BUF ? left : PIPE_BUF;
        if (r == 0)
            r = mst_write_all(csv->fd, csv->rows.bytes + written, count);
        if (r < 0)
            return r;
        written += count;
    }
    return 0;
}

static int csv_flush(void *context, struct mst_error *err)
{
    struct monitor_csv *csv = context;
    struct stat before;
    const bool is_file = fstat(csv->fd, &before) == 0 && S_ISREG(before.st_mode);
    const int r = write_rows(csv);
    if (r == 0) {
        mst_buf_clear(&csv->rows);
        return 0;
    }
    /* A full disk takes half a row; what was whole before stays whole. Nothing can be done if this fails too.
     */
    if (is_file && ftruncate(csv->fd, before.st_size) < 0)
        return mst_error_errno(err, r, "write rows (and the last one is torn)");
    return r == -ECANCELED ? r : mst_error_errno(err, r, "write rows");
}

struct monitor_output monitor_csv_output(struct monitor_csv *csv)
{
    return (struct monitor_output){.sample = csv_sample, .flush = csv_flush, .context = csv};
}
