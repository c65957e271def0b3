/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <ctype.h>
#include <string.h>

#define IMAGE_MAX_BYTES 512

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* [a-z0-9]+ joined by '.', '_', '__' or a run of '-' */
static bool is_path_part(const char *p, const char *end)
{
    if (p == end || !is_lower_or_digit(*p))
        return false;
    while (p < end) {
        while (p < end && is_lower_or_digit(*p))
            p++;
        if (p == end)
            return true;
        const char *join = p;
        if (*p == '-')
            while (p < end && *p == '-')
                p++;
        else if (*p == '_')
            p += p + 1 < end && p[1] == '_' ? 2 : 1;
        else if (*p == '.')
            p++;
        if (p == join || p == end || !is_lower_or_digit(*p))
            return false;
    }
    return true;
}

/* A registry's host, as opposed to the first part of a path: it has a dot, a port, a capital, or is
 * localhost. */
static bool is_host(const char *p, const char *end)
{
    bool is_host =
        (size_t)(end - p) == strlen("localhost") && memcmp(p, "localhost", strlen("localhost")) == 0;
    if (p == end)
        return false;
    for (const char *c = p; c < end; c++)
        is_host = is_host || *c == '.' || *c == ':' || isupper((unsigned char)*c);
    return is_host;
}

static bool is_host_well_formed(const char *p, const char *end)
{
    if (*p == '[') /* an IPv6 address */
        return memchr(p, ']', (size_t)(end - p)) != NULL;
    const char *colon = memchr(p, ':', (size_t)(end - p));
    const char *name_end = colon ? colon : end;
    for (const char *c = p; c < name_end; c++)
        if (!isalnum((unsigned char)*c) && ((*c != '.' && *c != '-') || c == p || c + 1 == name_end))
            return false;
    if (!colon)
        return name_end > p;
    for (const char *c = colon + 1; c < end; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return name_end > p && colon + 1 < end;
}

static bool is_tag(const char *p, const char *end)
{
    if (p == end || end - p > 128 || *p == '.' || *p == '-')
        return false;
    for (; p < end; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.' && *p != '-')
            return false;
    return true;
}

static bool is_digest(const char *p)
{
    const char *colon = strchr(p, ':');
    if (!colon || !isalpha((unsigned char)*p))
        return false;
    for (const char *c = p; c < colon; c++)
        if (!isalnum((unsigned char)*c) && !strchr("+._-", *c))
            return false;
    return strlen(colon + 1) >= 32 && strspn(colon + 1, "0123456789abcdefABCDEF") == strlen(colon + 1);
}

bool image_reference_is_valid(const char *text)
{
    if (strlen(text) > IMAGE_MAX_BYTES)
        return false;
    const char *at = strchr(text, '@');
    const char *end = at ? at : text + strlen(text);
    if (at && !is_digest(at + 1))
        return false;
    const char *last_slash = memrchr(text, '/', (size_t)(end - text));
    const char *name = last_slash ? last_slash + 1 : text;
    const char *colon = memchr(name, ':', (size_t)(end - name));
    if (colon && !is_tag(colon + 1, end))
        return false;
    end = colon ? colon : end;
    const char *part = text;
    const char *slash = memchr(text, '/', (size_t)(end - text));
    if (slash && is_host(text, slash)) {
        if (!is_host_well_formed(text, slash))
            return false;
        part = slash + 1;
    }
    for (;;) {
        slash = memchr(part, '/', (size_t)(end - part));
        if (!is_path_part(part, slash ? slash : end))
            return false;
        if (!slash)
            return true;
        part = slash + 1;
    }
}
