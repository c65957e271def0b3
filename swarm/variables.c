/* SPDX-License-Identifier: Apache-2.0 */
#include "variables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int variables_add(struct variables *variables, const char *name, const char *value, struct mst_error *err)
{
    char **items = reallocarray(variables->items, variables->count + 2, sizeof *items);

    if (!items)
        return mst_error_set(err, -ENOMEM, "variables: no memory");
    variables->items = items;
    if (asprintf(&items[variables->count], "%s=%s", name, value) < 0) {
        items[variables->count] = NULL;
        return mst_error_set(err, -ENOMEM, "variables: no memory");
    }
    items[++variables->count] = NULL;
    return 0;
}

static int add_usable_nodes(const struct swarm_nodes *nodes, struct variables *variables,
                            struct mst_error *err)
{
    size_t at = 0;

    for (unsigned i = 1; i <= VARIABLES_NODES && nodes->usable_count > 0; i++) {
        char name[32];
        int r;
        while (!nodes->items[at].is_usable)
            at = (at + 1) % nodes->count;
        (void)snprintf(name, sizeof name, "MUSTER_NODE%u", i);
        r = variables_add(variables, name, nodes->items[at].hostname, err);
        if (r < 0)
            return r;
        at = (at + 1) % nodes->count;
    }
    return 0;
}

static int add_replicas(unsigned workers, struct variables *variables, struct mst_error *err)
{
    for (unsigned i = 0; i < VARIABLES_NODES; i++) {
        char name[32], value[16];
        int r;
        (void)snprintf(name, sizeof name, "MUSTER_REPLICAS%u", i + 1);
        (void)snprintf(value, sizeof value, "%u",
                       workers / VARIABLES_NODES + (i < workers % VARIABLES_NODES));
        r = variables_add(variables, name, value, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int variables_fill(const char *stack, const char *manager, const struct swarm_nodes *nodes, unsigned workers,
                   struct variables *variables, struct mst_error *err)
{
    int r = variables_add(variables, "MUSTER_STACK", stack, err);

    if (r >= 0 && manager)
        r = variables_add(variables, "MUSTER_MANAGER", manager, err);
    if (r >= 0 && nodes)
        r = add_usable_nodes(nodes, variables, err);
    if (r >= 0 && nodes)
        r = add_replicas(workers, variables, err);
    return r;
}

void variables_release(struct variables *variables)
{
    for (size_t i = 0; i < variables->count; i++)
        free(variables->items[i]);
    free(variables->items);
    *variables = (struct variables){0};
}

const char *variables_find(const char *name, const char *const *first, const char *const *second,
                           const char *const *third)
{
    const char *const *const lists[] = {first, second, third};
    const size_t bytes = strlen(name);

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (const char *const *item = lists[i]; item && *item; item++) {
            if (strncmp(*item, name, bytes) == 0 && (*item)[bytes] == '=')
                return *item + bytes + 1;
        }
    }
    return NULL;
}

int variables_check(const char *text, struct mst_error *err)
{
    size_t i = 0;

    while (isalnum((unsigned char)text[i]) || text[i] == '_')
        i++;
    if (i == 0 || isdigit((unsigned char)text[0]) || text[i] != '=')
        return mst_error_set(err, -EINVAL, "'%.64s': expected NAME=VALUE", text);
    return 0;
}

bool variables_is_private(const char *text)
{
    static const char *const words[] = {"KEY", "SECRET", "TOKEN", "PASS", "CREDENTIAL"};
    char name[128];

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasestr(name, words[i]))
            return true;
    }
    return false;
}
