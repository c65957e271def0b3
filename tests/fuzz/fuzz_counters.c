/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as each of the kernel's files, as the Engine's stats and as a worker's events. */
#include "api.h"
#include "cgroup_files.h"
#include "counters.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct monitor_interface interfaces[MONITOR_INTERFACES_MAX];
    static struct monitor_device devices[MONITOR_DEVICES_MAX];
    const char *text = (const char *)bytes;
    for (size_t i = 0; i < cgroup_file_count; i++) {
        struct monitor_sample sample = {.devices = devices};
        if (cgroup_files[i].read(text, count, &sample) < 0 && sample.groups != 0)
            abort(); /* announced, and then refused */
        if (sample.device_count > MONITOR_DEVICES_MAX)
            abort();
    }
    struct counters_net net = {.list = interfaces};
    if (counters_net_dev(text, count, false, &net) == 0 &&
        (net.list_count > MONITOR_INTERFACES_MAX || net.list_count > net.interfaces))
        abort();
    struct monitor_sample sample = {.devices = devices, .interfaces = interfaces};
    (void)api_sample(text, count, &sample, NULL);
    if (sample.interface_count > MONITOR_INTERFACES_MAX || sample.device_count > MONITOR_DEVICES_MAX)
        abort();
    struct monitor_training training = {0};
    training_line(&training, text, count);
    return 0;
}
