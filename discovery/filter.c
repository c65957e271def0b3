/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces a person means: names and subnets, wanted or not. */
#include "muster/discovery.h"

#include <stdio.h>
#include <string.h>

#define ENTRY_MAX_BYTES 64

static int bad_entry(const char *text, struct mst_error *err)
{
    return mst_error_set(err, -EINVAL,
                         "'%.64s' is neither an interface's name nor a subnet, such as eth0, !eth1, br-* or "
                         "10.0.0.0/8",
                         text);
}

static int parse_entry(const char *text, struct discovery_filter_entry *ret_entry, struct mst_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
    struct discovery_filter_entry entry = {.unwanted = *text == '!'};
    const char *name = text + entry.unwanted;
    entry.is_subnet = strchr(name, '/') != NULL;
    if (entry.is_subnet) {
        if (mst_parse_cidr(name, &entry.subnet, NULL) < 0)
            return bad_entry(text, err);
    } else {
        const size_t bytes = strspn(name, allowed);
        entry.is_prefix = name[bytes] == '*' && name[bytes + 1] == '\0';
        if ((name[bytes] != '\0' && !entry.is_prefix) || (bytes == 0 && !entry.is_prefix) ||
            bytes >= sizeof entry.name)
            return bad_entry(text, err);
        memcpy(entry.name, name, bytes);
    }
    *ret_entry = entry;
    return 0;
}

int discovery_filter_parse(const char *text, struct discovery_filter *ret_filter, struct mst_error *err)
{
    struct discovery_filter filter = {0};
    for (const char *next = text;; next++) {
        char entry[ENTRY_MAX_BYTES];
        const size_t bytes = strcspn(next, ",");
        if (bytes >= sizeof entry)
            return bad_entry(next, err);
        if (filter.count == DISCOVERY_FILTER_MAX)
            return mst_error_set(err, -EINVAL, "more than %d interfaces", DISCOVERY_FILTER_MAX);
        memcpy(entry, next, bytes);
        entry[bytes] = '\0';
        const int r = parse_entry(entry, &filter.entries[filter.count], err);
        if (r < 0)
            return r;
        filter.count++;
        next += bytes;
        if (*next == '\0')
            break;
    }
    *ret_filter = filter;
    return 0;
}

static bool entry_matches(const struct discovery_filter_entry *entry,
                          const struct discovery_interface *interface)
{
    if (entry->is_subnet)
        return mst_cidr_contains(entry->subnet, interface->ipv4);
    return entry->is_prefix ? strncmp(interface->name, entry->name, strlen(entry->name)) == 0
                            : strcmp(interface->name, entry->name) == 0;
}

enum discovery_filter_match discovery_filter_match(const struct discovery_filter *filter,
                                                   const struct discovery_interface *interface)
{
    bool named = false, names_any = false;
    for (size_t i = 0; filter && i < filter->count; i++) {
        const struct discovery_filter_entry *entry = &filter->entries[i];
        const bool matches = entry_matches(entry, interface);
        if (entry->unwanted && matches)
            return DISCOVERY_FILTER_OUT;
        names_any |= !entry->unwanted;
        named |= !entry->unwanted && matches;
    }
    if (named)
        return DISCOVERY_FILTER_NAMED;
    return names_any ? DISCOVERY_FILTER_OUT : DISCOVERY_FILTER_OPEN;
}
