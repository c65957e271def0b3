/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/log.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/net.h"

#include <cjson/cJSON.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOG_MESSAGE_BYTES 2048
#define LOG_LINE_BYTES    16384 /* a message whose every byte becomes six, as \u0001, still fits */

static struct {
    const char *program;
    enum mst_log_level level;
    enum mst_log_format format;
    unsigned patience_ms;
} log_settings = {"muster", MST_LOG_INFO, MST_LOG_TEXT, 0};

/* The last line was given up: nobody waits for room again before there is some. */
static atomic_bool log_full;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void mst_log_init(const char *program, enum mst_log_level level, enum mst_log_format format)
{
    log_settings.program = program;
    log_settings.level = level;
    log_settings.format = format;
}

void mst_log_set_patience(unsigned patience_ms)
{
    log_settings.patience_ms = patience_ms;
}

/* Quote as logfmt readers expect it; control characters never reach the terminal. */
static void append_quoted(struct mst_buf *line, const char *text)
{
    (void)mst_buf_append_text(line, "\"");
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            (void)mst_buf_printf(line, "\\%c", *c);
        else if (*c == '\n')
            (void)mst_buf_append_text(line, "\\n");
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            (void)mst_buf_printf(line, "\\x%02x", (unsigned)(unsigned char)*c);
        else
            (void)mst_buf_append(line, c, 1);
    }
    (void)mst_buf_append_text(line, "\"");
}

static void append_json(struct mst_buf *line, const char *utc, const char *level, const char *module,
                        const char *message)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "time", utc);
    cJSON_AddStringToObject(json, "level", level);
    cJSON_AddStringToObject(json, "program", log_settings.program);
    cJSON_AddStringToObject(json, "module", module);
    cJSON_AddStringToObject(json, "msg", message);
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(json);
    if (text)
        (void)mst_buf_append_text(line, text);
    cJSON_Delete(json);
}

static bool has_room(void)
{
    if (log_settings.patience_ms == 0)
        return true;
    const uint64_t wait_ns = atomic_load(&log_full) ? 0 : log_settings.patience_ms * MST_NS_PER_MS;
    const int r = mst_wait_fd(STDERR_FILENO, POLLOUT, mst_now_ns() + wait_ns);
    atomic_store(&log_full, r < 0);
    return r == 0;
}

/* A line that cannot be built or written is lost: there is nobody left to tell. */
static void write_line(const char *level, const char *module, const char *message)
{
    mst_cleanup(mst_buf_release) struct mst_buf line = MST_BUF_INIT(LOG_LINE_BYTES);
    char utc[MST_UTC_TEXT_BYTES];
    mst_utc_text(mst_wall_s(), utc);
    if (log_settings.format == MST_LOG_JSON) {
        append_json(&line, utc, level, module, message);
    } else {
        (void)mst_buf_printf(&line, "time=%s level=%s program=%s module=%s msg=", utc, level,
                             log_settings.program, module);
        append_quoted(&line, message);
    }
    (void)mst_buf_append_text(&line, "\n");
    if (has_room())
        (void)mst_write_all(STDERR_FILENO, mst_buf_text(&line), line.count);
}

void mst_log(enum mst_log_level level, const char *module, const char *format, ...)
{
    if (level > log_settings.level)
        return;
    char message[LOG_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_line(level_names[level], module, message);
}

int mst_log_failure(const char *module, int code, const char *format, ...)
{
    char message[LOG_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_line(level_names[MST_LOG_ERROR], module, message);
    return code;
}

int mst_fail(int exit_status, const struct mst_error *err)
{
    if (log_settings.format == MST_LOG_JSON) {
        write_line(level_names[MST_LOG_ERROR], "main", err->text);
        return exit_status;
    }
    /* What the user or another machine gave stands in it: it stays one line, and leaves the terminal alone.
     */
    char text[MST_ERROR_TEXT_BYTES];
    size_t count = 0;
    for (const char *c = err->text; *c; c++)
        text[count++] = (char)((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c);
    (void)fprintf(stderr, "%s: %.*s\n", log_settings.program, (int)count, text);
    return exit_status;
}
