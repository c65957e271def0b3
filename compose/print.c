/* SPDX-License-Identifier: Apache-2.0 */
/* A project as YAML again, in the order of keys that `docker stack config` has, so that the two can be
 * compared. */
#include "print.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_network(struct yaml_out *out, const struct compose_network *network)
{
    yaml_out_text(out, "name", network->name);
    if (network->external) {
        yaml_out_raw(out, "external", "true");
        return;
    }
    yaml_out_text(out, "driver", network->driver);
    print_pairs(out, "driver_opts", &network->driver_opts);
    size_t ipam = yaml_out_open(out, "ipam");
    yaml_out_text(out, "driver", network->ipam_driver);
    if (network->subnet_count > 0) {
        size_t list = yaml_out_open_list(out, "config");
        for (size_t i = 0; i < network->subnet_count; i++) {
            yaml_out_item(out);
            yaml_out_text(out, "subnet", network->subnets[i].subnet);
            yaml_out_text(out, "gateway", network->subnets[i].gateway);
            yaml_out_text(out, "ip_range", network->subnets[i].ip_range);
            yaml_out_item_end(out);
        }
        yaml_out_close_list(out, list);
    }
    yaml_out_close_optional(out, ipam);
    print_flag(out, "internal", network->internal);
    print_flag(out, "attachable", network->attachable);
    if (network->enable_ipv6.is_set)
        yaml_out_raw(out, "enable_ipv6", "%s", network->enable_ipv6.value ? "true" : "false");
    print_pairs(out, "labels", &network->labels);
}

static void print_volume(struct yaml_out *out, const struct compose_volume *volume)
{
    yaml_out_text(out, "name", volume->name);
    yaml_out_text(out, "driver", volume->driver);
    print_pairs(out, "driver_opts", &volume->driver_opts);
    print_flag(out, "external", volume->external);
    print_pairs(out, "labels", &volume->labels);
}

static void print_content(struct yaml_out *out, const struct compose_content *content)
{
    yaml_out_text(out, "name", content->name);
    yaml_out_text(out, "file", content->path);
    print_flag(out, "external", content->external);
    print_pairs(out, "labels", &content->labels);
    yaml_out_text(out, "driver", content->driver);
    print_pairs(out, "driver_opts", &content->driver_opts);
    yaml_out_text(out, "template_driver", content->template_driver);
    if (content->generate_bytes > 0)
        yaml_out_raw(out, "x-muster-generate", "%" PRIu32, content->generate_bytes);
}

/* All structs of the top have their key at some offset: print them in the order of it. */
struct top_list {
    const char *key;
    const void *items;
    size_t count, item_bytes, key_offset;
};

static const char *key_of(const struct top_list *list, size_t index)
{
    const char *item = (const char *)list->items + index * list->item_bytes;
    return *(const char *const *)(const void *)(item + list->key_offset);
}

static int compare_keys(const void *a, const void *b, void *list)
{
    const size_t *left = a, *right = b;
    return strcmp(key_of(list, *left), key_of(list, *right));
}

static void print_object(struct yaml_out *out, const char *top, const void *item)
{
    if (strcmp(top, "services") == 0)
        print_service(out, item);
    else if (strcmp(top, "networks") == 0)
        print_network(out, item);
    else if (strcmp(top, "volumes") == 0)
        print_volume(out, item);
    else
        print_content(out, item);
}

static void print_list(struct yaml_out *out, struct top_list *list)
{
    mst_cleanup(mst_freep) size_t *order = calloc(list->count + 1, sizeof *order);
    if (!order) {
        out->result = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < list->count; i++)
        order[i] = i;
    qsort_r(order, list->count, sizeof *order, compare_keys, list);
    size_t mark = yaml_out_open(out, list->key);
    for (size_t i = 0; i < list->count; i++) {
        const void *item = (const char *)list->items + order[i] * list->item_bytes;
        size_t object = yaml_out_open(out, key_of(list, order[i]));
        print_object(out, list->key, item);
        yaml_out_close(out, object);
    }
    yaml_out_close_optional(out, mark);
}

#define TOP_LIST(name, list, number, type)                                                                   \
    {                                                                                                        \
        name, list, number, sizeof(struct type), offsetof(struct type, key)                                  \
    }

int compose_project_print(const struct compose_project *project, struct mst_buf *text)
{
    size_t networks = project->network_count;
    if (networks > 0 && !project->networks[networks - 1].place.file)
        networks--; /* the default one that no file mentions */
    struct top_list lists[] = {
        TOP_LIST("services", project->services, project->service_count, compose_service),
        TOP_LIST("networks", project->networks, networks, compose_network),
        TOP_LIST("volumes", project->volumes, project->volume_count, compose_volume),
        TOP_LIST("secrets", project->secrets, project->secret_count, compose_content),
        TOP_LIST("configs", project->configs, project->config_count, compose_content),
    };
    struct yaml_out out;
    yaml_out_init(&out, text);
    yaml_out_text(&out, "version", "3.13");
    for (size_t i = 0; i < MST_ARRAY_COUNT(lists); i++)
        print_list(&out, &lists[i]);
    return yaml_out_finish(&out);
}
