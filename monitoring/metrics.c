/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include "labels.h"
#include "metrics_private.h"
#include "muster/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_TEXT_MAX_BYTES ((size_t)16 << 10)

void metrics_line(struct metrics_page *page, const struct metrics_subject *subject,
                  const struct metrics_extra *extra, struct exposition_number number)
{
    static const struct metrics_extra none = {0};
    extra = extra ? extra : &none;
    const struct exposition_labels labels = {
        {subject->extra, extra->first, subject->identity, extra->second, subject->name, extra->third}};
    if (page->is_stamped)
        exposition_line_at(&page->out, &labels, number, (uint64_t)(subject->sample->wall_s * 1000));
    else
        exposition_line(&page->out, &labels, number);
}

static bool is_wanted(const struct metrics_options *options, const struct metrics_family *family)
{
    if (!(family->metrics & options->kinds))
        return false;
    if (!options->names)
        return true;
    for (const char *const *name = options->names; *name; name++) {
        if (strcmp(*name, family->name) == 0)
            return true;
    }
    return false;
}

static void write_family(struct metrics_page *page, const struct metrics_family *family)
{
    exposition_family(&page->out, family->name, family->kind, family->help);
    page->is_stamped = page->options->has_timestamps && !(family->metrics & METRICS_SPEC);
    if (family->whole) {
        family->whole(page);
        return;
    }
    for (size_t i = 0; i < page->count; i++) {
        const struct metrics_subject *subject = &page->subjects[i];
        uint64_t value;
        if ((subject->sample->groups & family->group) != family->group)
            continue;
        if (family->each) {
            family->each(page, subject);
            continue;
        }
        memcpy(&value, (const char *)subject->sample + family->offset, sizeof value);
        metrics_line(page, subject, NULL, (struct exposition_number){value, family->scale});
    }
}

/* Two sorted tables become one order. */
static void write_families(struct metrics_page *page)
{
    size_t a = 0, b = 0;
    while (a < metrics_of_containers_count || b < metrics_of_page_count) {
        const struct metrics_family *next;
        if (a == metrics_of_containers_count ||
            (b < metrics_of_page_count && strcmp(metrics_of_page[b].name, metrics_of_containers[a].name) < 0))
            next = &metrics_of_page[b++];
        else
            next = &metrics_of_containers[a++];
        if (is_wanted(page->options, next))
            write_family(page, next);
    }
}

static char *label_text(const char *const pairs[][2], size_t count)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(LABEL_TEXT_MAX_BYTES);
    for (size_t i = 0; i < count; i++) {
        if (labels_append(&text, pairs[i][0], pairs[i][1]) < 0)
            return NULL;
    }
    return strdup(mst_buf_text(&text));
}

static int add_subject(struct metrics_page *page, const struct monitor_sample *sample)
{
    const struct monitor_container *info = sample->container;
    struct metrics_subject *subject = &page->subjects[page->count++];
    /* Without a control group, as with the Engine's stats: what Docker's usual driver would call it. */
    char path[sizeof info->id + sizeof "/docker/"];
    (void)snprintf(path, sizeof path, "/docker/%s", info->id);
    const char *const identity[][2] = {{"id", *info->cgroup ? info->cgroup : path}, {"image", info->image}};
    const char *const name[][2] = {{"name", info->name}};
    *subject = (struct metrics_subject){.sample = sample, .extra = info->labels};
    subject->identity = label_text(identity, MST_ARRAY_COUNT(identity));
    subject->name = label_text(name, MST_ARRAY_COUNT(name));
    return subject->identity && subject->name ? 0 : -ENOMEM;
}

/* By name, then by id, so that a page does not depend on who was seen first; the machine leads. */
static int compare_subjects(const void *a, const void *b)
{
    const struct metrics_subject *left = a, *right = b;
    const struct monitor_container *l = left->sample->container, *r = right->sample->container;
    if (l->is_machine != r->is_machine)
        return l->is_machine ? -1 : 1;
    const int by_name = strcmp(l->name, r->name);
    return by_name ? by_name : strcmp(l->id, r->id);
}

static int prepare(struct metrics_page *page)
{
    const struct monitor_machine *machine = &page->pass->machine;
    const char *const pairs[][2] = {{"boot_id", machine->boot_id},
                                    {"machine_id", machine->machine_id},
                                    {"system_uuid", machine->system_uuid}};
    page->machine = label_text(pairs, MST_ARRAY_COUNT(pairs));
    page->subjects = calloc(page->pass->count + 1, sizeof *page->subjects);
    if (!page->machine || !page->subjects)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; r == 0 && i < page->pass->count; i++) {
        const struct monitor_sample *sample = &page->pass->samples[i];
        if (!(sample->container->is_machine && page->options->without_machine))
            r = add_subject(page, sample);
    }
    if (r == 0)
        qsort(page->subjects, page->count, sizeof *page->subjects, compare_subjects);
    return r;
}

int metrics_write(const struct monitor_pass *pass, const struct metrics_options *options,
                  struct mst_buf *text)
{
    struct metrics_page page = {.pass = pass, .options = options, .out = {.text = text}};
    const size_t before = text->count;
    int r = prepare(&page);
    if (r == 0) {
        write_families(&page);
        r = exposition_end(&page.out);
    }
    for (size_t i = 0; i < page.count; i++) {
        free(page.subjects[i].identity);
        free(page.subjects[i].name);
    }
    free(page.subjects);
    free(page.machine);
    if (r < 0 && text->bytes) {
        text->count = before;
        text->bytes[before] = '\0';
    }
    return r;
}
