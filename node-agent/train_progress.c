/* SPDX-License-Identifier: Apache-2.0 */
#include "train_progress.h"

#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DRAW_EVERY_NS   (MST_NS_PER_S / 10)
#define BAR_CELLS       14
#define DEFAULT_COLUMNS 80
#define LONGEST_S       (100 * 86400) /* an end that is further away is not told */
#define MEMORY          0.8           /* of the pace so far, at each drawing */
#define TIME_BYTES      16

void progress_begin(struct train_progress *progress, const struct agent_config *config, int fd)
{
    const char *term = getenv("TERM");

    *progress = (struct train_progress){
        .fd = fd,
        .shows = config->progress != CONFIG_PROGRESS_NONE && config->standalone,
        .is_terminal = config->progress == CONFIG_PROGRESS_AUTO && config->log_format == MST_LOG_TEXT &&
                       isatty(fd) && term && strcmp(term, "dumb") != 0,
    };
}

/* "1:05", "2:03:04". */
static void time_text(double seconds, char text[static TIME_BYTES])
{
    const unsigned s = seconds < LONGEST_S ? (unsigned)(seconds + 0.5) : 0;

    if (!(seconds >= 0 && seconds < LONGEST_S))
        (void)snprintf(text, TIME_BYTES, "?");
    else if (s < 3600)
        (void)snprintf(text, TIME_BYTES, "%u:%02u", s / 60, s % 60);
    else
        (void)snprintf(text, TIME_BYTES, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
}

static double left_s(const struct train_place *place, double steps_per_s)
{
    return steps_per_s > 0 ? (double)(place->all - place->done) / steps_per_s : -1;
}

/* One more part of the bar's line, whole or not at all; the first is cut. */
static bool add_part(char text[static PROGRESS_LINE_BYTES], size_t columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool add_part(char text[static PROGRESS_LINE_BYTES], size_t columns, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + used, PROGRESS_LINE_BYTES - used, format, arguments);
    va_end(arguments);
    if (strlen(text) <= columns)
        return true;
    text[used > 0 ? used : columns] = '\0';
    return false;
}

void progress_text(const struct train_place *place, double steps_per_s, size_t columns,
                   char text[static PROGRESS_LINE_BYTES])
{
    const double part = place->steps > 0 ? (double)place->step / (double)place->steps : 0;
    const size_t full = (size_t)((part < 1 ? part : 1) * BAR_CELLS + 0.5);
    char bar[BAR_CELLS + 1], left[TIME_BYTES];

    for (size_t i = 0; i < BAR_CELLS; i++)
        bar[i] = i < full ? '#' : '-';
    bar[BAR_CELLS] = '\0';
    time_text(left_s(place, steps_per_s), left);
    text[0] = '\0';
    bool fits = add_part(text, columns, "%" PRIu32 "/%" PRIu32 " [%s] %" PRIu64 "/%" PRIu64, place->epoch,
                         place->epochs, bar, place->step, place->steps) &&
                add_part(text, columns, "  ETA %s", left) &&
                add_part(text, columns, "  loss %.4f", place->loss);
    if (fits && place->has_accuracy)
        fits = add_part(text, columns, " acc %.3f", place->accuracy);
    if (fits && steps_per_s > 0) /* else none is known yet */
        fits = add_part(text, columns, "  %.0f samples/s", (double)place->samples * steps_per_s);
    if (fits)
        (void)add_part(text, columns, "  %.1f ms/step", place->ms_per_step);
}

/* A terminal that went away is nothing to end a training for. */
static void put(const struct train_progress *progress, const char *text)
{
    (void)mst_write_all(progress->fd, text, strlen(text));
}

static size_t columns_of(const struct train_progress *progress)
{
    struct winsize size = {0};

    return ioctl(progress->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : DEFAULT_COLUMNS;
}

static void measure(struct train_progress *progress, uint64_t now_ns, uint64_t done)
{
    if (progress->mark_ns != 0 && done > progress->mark_step && now_ns > progress->mark_ns) {
        const double pace = (double)(done - progress->mark_step) * 1e9 / (double)(now_ns - progress->mark_ns);
        const double before = progress->steps_per_s;
        progress->steps_per_s = before > 0 ? MEMORY * before + (1 - MEMORY) * pace : pace;
    }
    progress->mark_ns = now_ns;
    progress->mark_step = done;
}

void progress_step(struct train_progress *progress, const struct train_place *place)
{
    const uint64_t now_ns = progress->shows ? mst_now_ns() : 0;
    char text[PROGRESS_LINE_BYTES], line[PROGRESS_LINE_BYTES + 8];

    if (!progress->shows || now_ns < progress->next_ns)
        return;
    progress->next_ns = now_ns + DRAW_EVERY_NS;
    measure(progress, now_ns, place->done);
    if (!progress->is_terminal)
        return;
    progress_text(place, progress->steps_per_s, columns_of(progress) - 1, text);
    (void)snprintf(line, sizeof line, "\r%s\033[K", text);
    put(progress, line);
    progress->drawn = true;
}

void progress_clear(struct train_progress *progress)
{
    if (progress->drawn)
        put(progress, "\r\033[K");
    progress->drawn = false;
}

static void line(struct train_progress *progress, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void line(struct train_progress *progress, const char *format, va_list arguments)
{
    char text[1024];

    (void)vsnprintf(text, sizeof text - 1, format, arguments);
    if (!progress->shows || !progress->is_terminal) {
        mst_log_info("train", "%s", text);
        return;
    }
    progress_clear(progress);
    for (char *c = text; *c; c++) /* paths may hold anything */
        *c = (char)((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c);
    const size_t length = strlen(text);
    text[length] = '\n'; /* takes the NUL's place */
    (void)mst_write_all(progress->fd, text, length + 1);
}

void progress_line(struct train_progress *progress, const char *format, ...)
{
    va_list arguments;

    if (!progress->shows)
        return;
    va_start(arguments, format);
    line(progress, format, arguments);
    va_end(arguments);
}

void progress_say(struct train_progress *progress, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    line(progress, format, arguments);
    va_end(arguments);
}

void progress_epoch(struct train_progress *progress, const struct train_place *place, double seconds,
                    const struct trainer_evaluation *validation)
{
    /* The epoch's own pace: that of the bar needs a tenth of a second, and this may be the last there is. */
    const double steps_per_s = seconds > 0 ? (double)place->made / seconds : 0;
    char time[TIME_BYTES], left[TIME_BYTES + 8] = "", accuracy[32] = "", validated[96] = "";

    if (!progress->shows)
        return;
    time_text(left_s(place, steps_per_s), time);
    if (place->done < place->all)
        (void)snprintf(left, sizeof left, ", %s left", time);
    if (place->has_accuracy)
        (void)snprintf(accuracy, sizeof accuracy, ", accuracy %.4f", place->accuracy);
    if (validation && place->has_accuracy)
        (void)snprintf(validated, sizeof validated, "; validation: loss %.4f, accuracy %.4f",
                       validation->loss, validation->accuracy);
    else if (validation)
        (void)snprintf(validated, sizeof validated, "; validation: loss %.4f", validation->loss);
    progress_line(progress,
                  "epoch %" PRIu32 "/%" PRIu32 ": loss %.4f%s%s; %.1f s, %.1f ms/step, %.0f samples/s%s",
                  place->epoch, place->epochs, place->loss, accuracy, validated, seconds, place->ms_per_step,
                  (double)place->samples * steps_per_s, left);
}
