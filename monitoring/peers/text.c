/* SPDX-License-Identifier: Apache-2.0 */
/* The text format (version 0.0.4) as it comes from somebody else: checked line by line. */
#include "muster/peers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}

static bool is_name(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9');
}

static const char *skip_name(const char *at)
{
    if (!is_name_start(*at))
        return at;
    while (is_name(*at))
        at++;
    return at;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* Behind the closing quote; NULL when there is none in this line. */
static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0' && at[1] != '\n')
            at++;
        else if (*at == '\\' || *at == '\0' || *at == '\n')
            return NULL;
    }
    return at + 1;
}

/* One `key="value"`, with a comma behind it or not. NULL when it is none. */
static const char *skip_label(const char *at)
{
    const char *end = skip_name(at);

    if (end == at)
        return NULL;
    end = skip_blanks(end);
    if (*end != '=')
        return NULL;
    end = skip_blanks(end + 1);
    end = *end == '"' ? skip_string(end) : NULL;
    if (!end)
        return NULL;
    end = skip_blanks(end);
    if (*end == ',')
        return skip_blanks(end + 1);
    return *end == '}' ? end : NULL;
}

/* The end of the line, NULL when it is no sample. */
static const char *take_line(const char *at, struct peers_sample *sample)
{
    char *end;

    *sample = (struct peers_sample){.name = at};
    at = skip_name(at);
    sample->name_bytes = (size_t)(at - sample->name);
    at = skip_blanks(at);
    if (sample->name_bytes == 0)
        return NULL;
    if (*at == '{') {
        sample->labels = at = skip_blanks(at + 1);
        while (at && *at != '}')
            at = skip_label(at);
        if (!at)
            return NULL;
        sample->label_bytes = (size_t)(at - sample->labels);
        at = skip_blanks(at + 1);
    }
    if (*at == '\0' || isspace((unsigned char)*at)) /* strtod() would go on to the next line */
        return NULL;
    sample->value = strtod(at, &end);
    if (end == at)
        return NULL;
    at = skip_blanks(end);
    at += *at == '-';
    at += strspn(at, "0123456789"); /* the time, which nobody here believes */
    at = skip_blanks(at);
    at += *at == '\r';
    return *at == '\0' || *at == '\n' ? at : NULL;
}

int peers_read(const char *text, peers_sample_fn *take, void *context, struct mst_error *err)
{
    for (size_t line = 1; *text != '\0'; line++) {
        const char *start = skip_blanks(text);
        if (*start != '#' && *start != '\n' && *start != '\r' && *start != '\0') {
            struct peers_sample sample;
            int r;
            if (!take_line(start, &sample))
                return mst_error_set(err, -EBADMSG, "line %zu is no sample: '%.*s'", line,
                                     (int)(strcspn(start, "\r\n") < 40 ? strcspn(start, "\r\n") : 40), start);
            r = take(context, &sample, err);
            if (r < 0)
                return r;
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return 0;
}

bool peers_is_named(const struct peers_sample *sample, const char *name)
{
    return strlen(name) == sample->name_bytes && memcmp(name, sample->name, sample->name_bytes) == 0;
}

static void unescape(const char *from, char *value, size_t capacity)
{
    size_t count = 0;

    for (; *from != '"' && count + 1 < capacity; from++) {
        if (*from == '\\')
            from++;
        value[count++] = *from == 'n' && from[-1] == '\\' ? '\n' : *from;
    }
    value[count] = '\0';
}

bool peers_label(const struct peers_sample *sample, const char *key, char *value, size_t capacity)
{
    const char *at = sample->labels;
    const size_t bytes = strlen(key);

    value[0] = '\0';
    while (at && at < sample->labels + sample->label_bytes) { /* its grammar was checked */
        const char *name_end = skip_name(at);
        if ((size_t)(name_end - at) == bytes && memcmp(at, key, bytes) == 0) {
            unescape(strchr(name_end, '"') + 1, value, capacity);
            return true;
        }
        at = skip_label(at);
    }
    return false;
}

bool peers_container_id(const char *path, char id[static 65])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t run; *path != '\0'; path += run > 0 ? run : 1) {
        run = strspn(path, digits);
        if (run == 64) {
            memcpy(id, path, 64);
            id[64] = '\0';
            return true;
        }
    }
    return false;
}

bool peers_is_gauge_name(const char *name)
{
    size_t count = 0;
    for (; name[count] && count < PEERS_GAUGE_BYTES; count++) {
        if (!isalnum((unsigned char)name[count]) && !strchr("_.-", name[count]))
            return false;
    }
    return count > 0 && count < PEERS_GAUGE_BYTES;
}
