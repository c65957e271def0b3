/* SPDX-License-Identifier: Apache-2.0 */
#include "interpolate.h"

#include "muster/cleanup.h"
#include "show.h"

#include <string.h>

struct interpolation {
    const struct interpolate_source *source;
    interpolate_unset *unset;
    void *context;
    const char *next; /* what is still to be read */
    unsigned depth;
    struct mst_error *err;
};

static bool is_name_start(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t name_length(const char *text)
{
    size_t length = 0;
    if (is_name_start(*text))
        while (is_name_start(text[length]) || (text[length] >= '0' && text[length] <= '9'))
            length++;
    return length;
}

static const char *find_in(const char *const *list, const char *name, size_t name_bytes)
{
    for (; list && *list; list++)
        if (strncmp(*list, name, name_bytes) == 0 && (*list)[name_bytes] == '=')
            return *list + name_bytes + 1;
    return NULL;
}

static const char *find_given(const struct compose_options *options, const char *name, size_t name_bytes)
{
    for (size_t i = 0; options->given && options->given[i]; i++) {
        const char *value = find_in((const char *const[]){options->given[i], NULL}, name, name_bytes);
        if (value && options->given_used)
            options->given_used[i] = true;
        if (value)
            return value;
    }
    return NULL;
}

static const char *find_in_pairs(const struct compose_pairs *pairs, const char *name, size_t name_bytes)
{
    size_t at = 0, end = pairs->count;
    while (at < end) {
        const size_t middle = at + (end - at) / 2;
        const char *key = pairs->items[middle].key;
        int order = strncmp(key, name, name_bytes);
        if (order == 0 && !key[name_bytes])
            return pairs->items[middle].value;
        if (order < 0)
            at = middle + 1;
        else
            end = middle; /* also a longer key that begins so */
    }
    return NULL;
}

const char *interpolate_lookup(const struct interpolate_source *source, const char *name, size_t name_bytes)
{
    const struct compose_options *options = source->options;
    const char *value = find_given(options, name, name_bytes);
    if (!value)
        value = find_in(options->environment, name, name_bytes);
    if (!value)
        value = find_in_pairs(&source->files, name, name_bytes);
    return value ? value : find_in(options->fallback, name, name_bytes);
}

static int put(struct interpolation *job, struct mst_buf *out, const char *text, size_t bytes)
{
    if (!out) /* a word that is not used: read for its end only */
        return 0;
    int r = mst_buf_append(out, text, bytes);
    if (r == -EFBIG)
        return mst_error_set(job->err, -EBADMSG, "grows past %zu bytes with its variables",
                             INTERPOLATE_MAX_BYTES);
    return r < 0 ? mst_error_set(job->err, r, "no memory to replace its variables") : 0;
}

static int expand(struct interpolation *job, bool in_word, struct mst_buf *out);

static int fail_format(struct interpolation *job, const char *at)
{
    char shown[SHOW_BYTES];
    return mst_error_set(job->err, -EBADMSG,
                         "not a variable: %s (write '$$' for a '$' that stands for itself)", show(at, shown));
}

static int note_unset(struct interpolation *job, const char *name, size_t name_bytes)
{
    char copy[256];
    if (!job->unset)
        return 0;
    if (name_bytes >= sizeof copy)
        name_bytes = sizeof copy - 1;
    memcpy(copy, name, name_bytes);
    copy[name_bytes] = '\0';
    return job->unset(job->context, copy);
}

#define REQUIRED_WORD_BYTES 256

/* The word of ${NAME:?word} is the error's text, as written: a variable in it might hold a secret. What would
 * break the line is a blank. */
static int fail_required(struct interpolation *job, const char *name, size_t name_bytes, const char *state)
{
    const char *word = job->next;
    char shown[REQUIRED_WORD_BYTES];
    int r = expand(job, true, NULL);
    if (r < 0)
        return r;
    size_t word_bytes = (size_t)(job->next - word);
    if (word_bytes >= sizeof shown)
        word_bytes = sizeof shown - 1;
    for (size_t i = 0; i < word_bytes; i++)
        shown[i] = (unsigned char)word[i] < 0x20 || word[i] == 0x7f ? ' ' : word[i];
    shown[word_bytes] = '\0';
    return mst_error_set(job->err, -EBADMSG, "variable '%.*s' %s%s%s",
                         (int)(name_bytes > 128 ? 128 : name_bytes), name, state, word_bytes ? ": " : "",
                         shown);
}

/* After "${": up to and with the closing brace. `out` NULL: skip only. */
static int expand_braced(struct interpolation *job, const char *start, struct mst_buf *out)
{
    const char *name = job->next;
    const size_t name_bytes = name_length(name);
    if (name_bytes == 0)
        return fail_format(job, start);
    const char *op = name + name_bytes;
    const bool empty_counts_as_unset = *op == ':';
    op += empty_counts_as_unset;
    const char *value = out ? interpolate_lookup(job->source, name, name_bytes) : NULL;
    const bool is_there = value && (*value || !empty_counts_as_unset);

    if (*op == '}' && !empty_counts_as_unset) {
        job->next = op + 1;
        if (value)
            return put(job, out, value, strlen(value));
        return out ? note_unset(job, name, name_bytes) : 0;
    }
    if (*op != '-' && *op != '?' && *op != '+')
        return fail_format(job, start);
    job->next = op + 1;
    if (job->depth >= INTERPOLATE_MAX_DEPTH)
        return mst_error_set(job->err, -EBADMSG, "variables nested deeper than %u", INTERPOLATE_MAX_DEPTH);
    if (*op == '?' && out && !is_there)
        return fail_required(job, name, name_bytes,
                             value ? "is required, and empty" : "is required, and not set");

    const bool use_word = out && (*op == '+' ? is_there : *op == '-' && !is_there);
    job->depth++;
    int r = expand(job, true, use_word ? out : NULL);
    job->depth--;
    if (r < 0)
        return r;
    if (*job->next != '}')
        return fail_format(job, start);
    job->next++;
    return is_there && *op != '+' ? put(job, out, value, strlen(value)) : 0;
}

static int expand_dollar(struct interpolation *job, struct mst_buf *out)
{
    const char *start = job->next++;
    if (*job->next == '$')
        return put(job, out, job->next++, 1);
    if (*job->next == '{') {
        job->next++;
        return expand_braced(job, start, out);
    }
    const size_t name_bytes = name_length(job->next);
    if (name_bytes == 0)
        return fail_format(job, start);
    const char *name = job->next;
    job->next += name_bytes;
    if (!out)
        return 0;
    const char *value = interpolate_lookup(job->source, name, name_bytes);
    return value ? put(job, out, value, strlen(value)) : note_unset(job, name, name_bytes);
}

/* Up to the end of the text, or of the word ('}' is left to the caller). */
static int expand(struct interpolation *job, bool in_word, struct mst_buf *out)
{
    while (*job->next) {
        size_t plain = strcspn(job->next, in_word ? "$}" : "$");
        int r = put(job, out, job->next, plain);
        if (r < 0)
            return r;
        job->next += plain;
        if (*job->next != '$')
            return 0;
        r = expand_dollar(job, out);
        if (r < 0)
            return r;
    }
    return 0;
}

int interpolate_text(struct compose_arena *arena, const char *text, const struct interpolate_source *source,
                     interpolate_unset *unset, void *context, const char **ret_text, struct mst_error *err)
{
    if (!strchr(text, '$')) {
        *ret_text = text;
        return 0;
    }
    mst_cleanup(mst_buf_release) struct mst_buf out = MST_BUF_INIT(INTERPOLATE_MAX_BYTES);
    struct interpolation job = {
        .source = source, .unset = unset, .context = context, .next = text, .err = err};
    int r = expand(&job, false, &out);
    if (r < 0)
        return r;
    const char *copy = compose_arena_text_n(arena, mst_buf_text(&out), out.count);
    if (!copy)
        return mst_error_set(err, -ENOMEM, "no memory to replace its variables");
    *ret_text = copy;
    return 0;
}
