/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a file of nmap's. */
#include "fuzz_file.h"
#include "muster/sweep.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct fuzz_file file = fuzz_file_open(bytes, count);
    struct discovery_host *hosts = NULL;
    size_t host_count = 0;
    struct mst_error err = MST_ERROR_INIT;
    const int r = discovery_ips_xml_read(file.path, 7070, &hosts, &host_count, &err);
    if (r < 0 && (hosts || !err.text[0]))
        abort();
    for (size_t h = 0; h < host_count; h++) {
        if (h > 0 && hosts[h - 1].ipv4 >= hosts[h].ipv4)
            abort(); /* in order, each once */
        for (const char *c = hosts[h].slot; *c; c++)
            if (*c <= ' ' || *c >= 127)
                abort();
    }
    free(hosts);
    fuzz_file_close(&file);
    return 0;
}
