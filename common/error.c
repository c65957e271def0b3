/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void set_text(struct mst_error *err, int code,
                                                           const char *format, va_list args)
{
    err->code = code;
    if (vsnprintf(err->text, sizeof err->text, format, args) < 0)
        err->text[0] = '\0';
}

int mst_error_set(struct mst_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    set_text(err, code, format, args);
    va_end(args);
    return code;
}

int mst_error_errno(struct mst_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    set_text(err, code, format, args);
    va_end(args);

    char reason[128];
    const size_t used = strlen(err->text);
    /* The GNU strerror_r may return a static text instead of filling the buffer. */
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s",
                   strerror_r(-code, reason, sizeof reason));
    return code;
}

int mst_error_wrap(struct mst_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    char below[MST_ERROR_TEXT_BYTES];
    memcpy(below, err->text, sizeof below);
    below[sizeof below - 1] = '\0';

    va_list args;
    va_start(args, format);
    set_text(err, code, format, args);
    va_end(args);
    const size_t used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", below);
    return code;
}

int mst_exit_status(int code)
{
    switch (code) {
    case -EINVAL:
    case -EBADMSG:
        return MST_EXIT_USAGE;
    case -EREMOTEIO:
        return MST_EXIT_REFUSED;
    case -ETIMEDOUT:
        return MST_EXIT_TIMEOUT;
    default:
        return code < 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
    }
}
