/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the page share: the families as tables, in the order of their names. */
#ifndef MONITORING_METRICS_PRIVATE_H
#define MONITORING_METRICS_PRIVATE_H

#include "exposition.h"
#include "metrics.h"

/* Labels of one container, ready to be copied into each of its lines. */
struct metrics_subject {
    const struct monitor_sample *sample;
    const char *extra; /* container_label_..., borrowed */
    char *identity;    /* id, image */
    char *name;        /* name */
};

struct metrics_page {
    const struct monitor_pass *pass;
    const struct metrics_options *options;
    struct metrics_subject *subjects;
    size_t count;
    bool is_stamped; /* the samples of the current family: those of limits and starts never are */
    char *machine;   /* the labels boot_id, machine_id and system_uuid */
    struct exposition out;
};

/* Labels that only some families have, by their place in the order of names. */
struct metrics_extra {
    const char *first;  /* before id: cpu, device, failure_type */
    const char *second; /* between image and name: interface, major, minor */
    const char *third;  /* behind name: operation, scope */
};

struct metrics_family {
    const char *name, *help;
    enum exposition_kind kind;
    unsigned metrics; /* enum metrics_kind */
    /* Of each container... */
    unsigned group; /* the groups that the sample must have */
    size_t offset;  /* of a u64 in struct monitor_sample, if there is no `each` */
    unsigned scale;
    void (*each)(struct metrics_page *page, const struct metrics_subject *subject);
    /* ... or once for the page. */
    void (*whole)(struct metrics_page *page);
};

/* One line for a container; what is stamped is said by the options. */
void metrics_line(struct metrics_page *page, const struct metrics_subject *subject,
                  const struct metrics_extra *extra, struct exposition_number number);

extern const struct metrics_family metrics_of_containers[], metrics_of_page[];
extern const size_t metrics_of_containers_count, metrics_of_page_count;

#endif
