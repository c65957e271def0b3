/* SPDX-License-Identifier: Apache-2.0 */
/* For muster-launch: glibc looks services up through modules that it loads, which a static program must not.
 * c-ares would ask for them when a service's name is given, or wanted back; it never is. */
#include <errno.h>
#include <netdb.h>
#include <stddef.h>

struct servent *getservbyname(const char *name, const char *protocol)
{
    (void)name, (void)protocol;
    return NULL;
}

int getservbyport_r(int port, const char *protocol, struct servent *buffer, char *text, size_t bytes,
                    struct servent **ret_service)
{
    (void)port, (void)protocol, (void)buffer, (void)text, (void)bytes;
    *ret_service = NULL;
    return ENOENT;
}
