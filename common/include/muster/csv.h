/* SPDX-License-Identifier: Apache-2.0 */
/* CSV as muster writes it (RFC 4180; docs/run-folder.md), and the first lines of files that several programs
 * write. */
#ifndef MUSTER_CSV_H
#define MUSTER_CSV_H

#include "muster/buf.h"

#define MST_CSV_HISTORY_HEADER                                                                               \
    "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,bytes_"     \
    "sent\n"
#define MST_CSV_STATS_HEADER                                                                                 \
    "time,node,stack,service,slot,container,name,cpu_percent,cpu_seconds_total,memory_bytes,memory_limit_"   \
    "bytes,rx_bytes,tx_bytes,rx_packets,tx_packets\n"

/* Append one field and `end` (a comma, or the line's end). Control characters become blanks; quotes where a
 * comma or a quote asks for them; a text that begins as a formula gets a "'" in front, for names are
 * anybody's, and no spreadsheet should compute them. 0, -EFBIG or -ENOMEM. */
int mst_csv_append(struct mst_buf *row, const char *text, char end);

#endif
