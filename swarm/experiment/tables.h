/* SPDX-License-Identifier: Apache-2.0 */
/* Text and tables of the report's page. An error of the buffer sticks: callers look once at the end. */
#ifndef EXPERIMENT_TABLES_H
#define EXPERIMENT_TABLES_H

#include "muster/buf.h"
#include "muster/statistics.h"

#include <stdbool.h>

struct html {
    struct mst_buf text;
    int error; /* 0, -EFBIG or -ENOMEM: the first that happened */
};

void html_raw(struct html *html, const char *text); /* as it is */
void html_print(struct html *html, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* escaped */
/* <TAG>escaped text</TAG>, tag with its attributes. */
void html_element(struct html *html, const char *tag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A table in a frame that scrolls by itself. Headers that begin with '>' are of numbers; NULL ends the list.
 * With `groups` (texts and spans, ended by span 0) there is a row above them. */
struct html_group {
    const char *text;
    size_t span;
};
void table_begin(struct html *html, const char *caption, const struct html_group *groups,
                 const char *const *headers);
void table_end(struct html *html);
/* A row begins with its heading; its class may be NULL. */
void table_row(struct html *html, const char *row_class, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void table_row_end(struct html *html);
void table_text(struct html *html, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_number(struct html *html, double value, int digits); /* a dash when it is not finite */

/* "+6.3 %", "-0.2 %" of a ratio; "4.1 to 8.5 %". A dash where there is none. */
#define NUMBER_TEXT_BYTES 96
void number_signed(char *text, double value, int digits);
void number_percent(char *text, double ratio);
void number_percent_interval(char *text, const struct statistics_interval *ratio);
void number_interval(char *text, const struct statistics_interval *difference, int digits);

#endif
