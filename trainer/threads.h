/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_THREADS_H
#define TRAINER_THREADS_H

#include <stdint.h>

#define TRAINER_NO_QUOTA UINT32_MAX

/* CPUs by cgroup quota, rounded up, or TRAINER_NO_QUOTA. `root` stands for "/" (tests), so that
 * <root>/proc/self/cgroup and <root>/sys/fs/cgroup are read. */
uint32_t trainer_threads_quota(const char *root);

#endif
