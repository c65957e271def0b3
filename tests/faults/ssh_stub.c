/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for ssh, as `ssh` on PATH: writes its arguments to STUB_ARGUMENTS, complains as STUB_COMPLAINT
 * says, or is the connection to STUB_SOCKET. */
#include "pump.h"

#include <stdio.h>
#include <stdlib.h>

static void note_arguments(int argc, char **argv)
{
    const char *path = getenv("STUB_ARGUMENTS");
    FILE *file = path ? fopen(path, "a") : NULL;

    for (int i = 1; file && i < argc; i++)
        (void)fprintf(file, "%s%s", argv[i], i + 1 < argc ? " " : "\n");
    if (file)
        (void)fclose(file);
}

int main(int argc, char **argv)
{
    const char *complaint = getenv("STUB_COMPLAINT"), *path = getenv("STUB_SOCKET");
    struct pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {-1, POLLIN, 0}};

    note_arguments(argc, argv);
    if (complaint && complaint[0] != '\0') {
        (void)fprintf(stderr, "a banner\n%s\n", complaint);
        return 255;
    }
    fds[1].fd = path ? pump_connect(path) : -1;
    if (fds[1].fd < 0)
        return 255;
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            return 255;
        if (fds[0].revents && !pump_once(STDIN_FILENO, fds[1].fd))
            return 0;
        if (fds[1].revents && !pump_once(fds[1].fd, STDOUT_FILENO))
            return 0;
    }
}
