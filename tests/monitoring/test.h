/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share: the stored trees and replies under data/, and cmocka's includes. */
#ifndef TEST_MONITORING_H
#define TEST_MONITORING_H

#include "muster/buf.h"
#include "muster/file.h"
#include "muster/monitor.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h wants these before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

#define CONTAINER_ID "26f91112ae3e4255a7947b0ade05533cd63a0651fb68ec92b13d44bf834ce41f"
#define OTHER_ID     "32b2c5b7373a1822fc4ba70bea364d79285e65d0cd02a03b39002cb22e0deb9c"
#define DATA(path)   MUSTER_TEST_DATA "/" path

static const struct monitor_paths v1_paths = {DATA("v1/proc"), DATA("v1/sys")};
static const struct monitor_paths v2_paths = {DATA("v2/proc"), DATA("v2/sys")};

/* The content of a file under data/; the caller releases it. */
static inline struct mst_buf load(const char *path)
{
    struct mst_buf content = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_file_read(path, &content, NULL), 0);
    return content;
}

static inline struct monitor_container container_with(pid_t pid)
{
    struct monitor_container info = {
        .id = CONTAINER_ID, .name = "web", .started_at = "2026-11-27T23:06:11Z", .pid = pid};
    return info;
}

#endif
