/* SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include "muster/cleanup.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DASH "\xe2\x80\x93"

static void keep(struct html *html, int r)
{
    if (html->error == 0)
        html->error = r;
}

void html_raw(struct html *html, const char *text)
{
    keep(html, mst_buf_append_text(&html->text, text));
}

/* "20 %" stays on one line. */
static void escape(struct html *html, const char *text)
{
    while (*text != '\0') {
        const size_t plain = strcspn(text, "&<>\"' ");
        keep(html, mst_buf_append(&html->text, text, plain));
        text += plain;
        if (*text == ' ')
            keep(html, mst_buf_append_text(&html->text, *++text == '%' ? "&#160;" : " "));
        else if (*text != '\0')
            keep(html, mst_buf_printf(&html->text, "&#%d;", *text++));
    }
}

__attribute__((format(printf, 2, 0))) static void escape_format(struct html *html, const char *format,
                                                                va_list arguments)
{
    mst_cleanup(mst_freep) char *text = NULL;

    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
        keep(html, -ENOMEM);
        return;
    }
    escape(html, text);
}

void html_print(struct html *html, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    escape_format(html, format, arguments);
    va_end(arguments);
}

void html_element(struct html *html, const char *tag, const char *format, ...)
{
    va_list arguments;

    keep(html, mst_buf_printf(&html->text, "<%s>", tag));
    va_start(arguments, format);
    escape_format(html, format, arguments);
    va_end(arguments);
    keep(html, mst_buf_printf(&html->text, "</%.*s>\n", (int)strcspn(tag, " "), tag));
}

void table_begin(struct html *html, const char *caption, const struct html_group *groups,
                 const char *const *headers)
{
    /* Not a <caption>: that would be as wide as the table and be cut where the table scrolls. */
    html_raw(html, "<div class=\"table\">");
    html_element(html, "p class=\"caption\"", "%s", caption);
    html_raw(html, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html_print(html, "%s", caption);
    html_raw(html, "\"><table><thead>");
    if (groups) {
        html_raw(html, "<tr>");
        for (; groups->span > 0; groups++) {
            keep(html, mst_buf_printf(&html->text, "<th colspan=\"%zu\" scope=\"colgroup\" class=\"group\">",
                                      groups->span));
            html_print(html, "%s", groups->text);
            html_raw(html, "</th>");
        }
        html_raw(html, "</tr>");
    }
    html_raw(html, "<tr>");
    for (; *headers; headers++) {
        const bool is_number = **headers == '>';
        html_element(html, is_number ? "th scope=\"col\" class=\"number\"" : "th scope=\"col\"", "%s",
                     *headers + is_number);
    }
    html_raw(html, "</tr></thead><tbody>\n");
}

void table_end(struct html *html)
{
    html_raw(html, "</tbody></table></div></div>\n");
}

void table_row(struct html *html, const char *row_class, const char *format, ...)
{
    va_list arguments;

    keep(html, row_class ? mst_buf_printf(&html->text, "<tr class=\"%s\">", row_class)
                         : mst_buf_append_text(&html->text, "<tr>"));
    html_raw(html, "<th scope=\"row\">");
    va_start(arguments, format);
    escape_format(html, format, arguments);
    va_end(arguments);
    html_raw(html, "</th>");
}

void table_row_end(struct html *html)
{
    html_raw(html, "</tr>\n");
}

void table_text(struct html *html, const char *format, ...)
{
    va_list arguments;

    html_raw(html, "<td>");
    va_start(arguments, format);
    escape_format(html, format, arguments);
    va_end(arguments);
    html_raw(html, "</td>");
}

void table_number(struct html *html, double value, int digits)
{
    html_raw(html, "<td class=\"number\">");
    if (isfinite(value))
        html_print(html, "%.*f", digits, value);
    else
        html_raw(html, DASH);
    html_raw(html, "</td>");
}

/* No "-0.0". */
static double rounded(double value, int digits)
{
    const double scale = pow(10, digits), result = round(value * scale) / scale;

    return result == 0 ? 0 : result;
}

void number_signed(char *text, double value, int digits)
{
    if (isfinite(value))
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%+.*f", digits, rounded(value, digits));
    else
        (void)snprintf(text, NUMBER_TEXT_BYTES, DASH);
}

void number_percent(char *text, double ratio)
{
    if (isfinite(ratio))
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%+.1f %%", rounded(100 * (ratio - 1), 1));
    else
        (void)snprintf(text, NUMBER_TEXT_BYTES, DASH);
}

void number_percent_interval(char *text, const struct statistics_interval *ratio)
{
    if (ratio->has_interval)
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%+.1f to %+.1f %%", rounded(100 * (ratio->low - 1), 1),
                       rounded(100 * (ratio->high - 1), 1));
    else
        (void)snprintf(text, NUMBER_TEXT_BYTES, DASH);
}

void number_interval(char *text, const struct statistics_interval *difference, int digits)
{
    if (difference->has_interval)
        (void)snprintf(text, NUMBER_TEXT_BYTES, "%+.*f to %+.*f", digits, rounded(difference->low, digits),
                       digits, rounded(difference->high, digits));
    else
        (void)snprintf(text, NUMBER_TEXT_BYTES, DASH);
}
