/* SPDX-License-Identifier: Apache-2.0 */
#include "dotenv.h"

#include "muster/file.h"

#include <ctype.h>
#include <string.h>

#define DOTENV_FILES_MAX 64U
#define DOTENV_NAME      ".env"

struct dotenv {
    struct schema_load *load;
    const char *next; /* what is still to be read, up to a NUL */
    const char *line_start;
    struct compose_place place; /* of the name that is being read; .line is where `next` stands */
};

static void skip_blanks(struct dotenv *job)
{
    job->next += strspn(job->next, " \t\r");
}

static void skip_newline(struct dotenv *job)
{
    job->line_start = ++job->next;
    job->place.line++;
}

static int fail(struct dotenv *job, const char *what)
{
    job->place.column = (uint32_t)(job->next - job->line_start) + 1;
    return schema_fail(job->load, &job->place, "%s", what);
}

/* After a value or a name without one: blanks and a comment, up to the line's end. */
static int finish_line(struct dotenv *job)
{
    skip_blanks(job);
    if (*job->next == '#')
        job->next += strcspn(job->next, "\n");
    if (!*job->next || *job->next == '\n')
        return 0;
    return fail(job, "nothing but a comment may stand behind the closing quote");
}

struct unset_context {
    struct dotenv *job;
    const struct compose_place *place;
};

static int warn_unset(void *context, const char *name)
{
    const struct unset_context *unset = context;
    return schema_warn_unset(unset->job->load, unset->place, name);
}

/* Variables in `text` replaced, and the outcome put as `name`. */
static int put_expanded(struct dotenv *job, const char *name, const struct compose_place *place,
                        const char *text)
{
    struct schema_load *load = job->load;
    struct mst_error why = MST_ERROR_INIT;
    struct unset_context context = {job, place};
    int r = interpolate_text(load->arena, text, &load->source, warn_unset, &context, &text, &why);
    if (r == -ENOMEM)
        return schema_fail_memory(load);
    if (r < 0)
        return *why.text ? schema_fail(load, place, "%s", why.text) : r;
    return schema_pairs_put(load, &load->source.files, name, text, place);
}

static int read_unquoted(struct dotenv *job, const char *name, const struct compose_place *place)
{
    const size_t line_bytes = strcspn(job->next, "\n");
    size_t bytes = 0;
    while (bytes < line_bytes &&
           (job->next[bytes] != '#' || (bytes > 0 && !isblank((unsigned char)job->next[bytes - 1]))))
        bytes++;
    while (bytes > 0 && strchr(" \t\r", job->next[bytes - 1]))
        bytes--;
    const char *text = compose_arena_text_n(job->load->arena, job->next, bytes);
    job->next += line_bytes;
    return text ? put_expanded(job, name, place, text) : schema_fail_memory(job->load);
}

/* What a backslash and `c` stand for in double quotes; a dollar sign is doubled, for interpolate_text(). */
static const char *unescape(const char *c)
{
    switch (*c) {
    case 'n':
        return "\n";
    case 'r':
        return "\r";
    case 't':
        return "\t";
    case '"':
        return "\"";
    case '\\':
        return "\\";
    case '$':
        return "$$";
    default:
        return NULL;
    }
}

/* Up to the closing quote, which is taken. */
static int read_quoted(struct dotenv *job, const char *name, const struct compose_place *place)
{
    const char quote = *job->next++, *start = job->next;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(COMPOSE_FILE_MAX_BYTES);
    int r = 0;
    for (; r == 0 && *job->next && *job->next != quote; job->next++) {
        const char *meant = NULL;
        if (*job->next == '\n') {
            job->place.line++;
            job->line_start = job->next + 1;
        } else if (*job->next == '\\') {
            meant = quote == '"' ? unescape(job->next + 1) : job->next[1] == '\'' ? "'" : NULL;
        }
        if (meant)
            job->next++;
        r = meant ? mst_buf_append(&text, meant, strlen(meant)) : mst_buf_append(&text, job->next, 1);
    }
    if (r == -EFBIG)
        return schema_fail(job->load, place, "a value of more than %u bytes", COMPOSE_FILE_MAX_BYTES);
    if (r < 0)
        return schema_fail_memory(job->load);
    if (!*job->next)
        return schema_fail(job->load, place, "the quote %c that begins its value has no end", start[-1]);
    job->next++;
    const char *copy = compose_arena_text(job->load->arena, mst_buf_text(&text));
    if (!copy)
        return schema_fail_memory(job->load);
    r = quote == '"' ? put_expanded(job, name, place, copy)
                     : schema_pairs_put(job->load, &job->load->source.files, name, copy, place);
    return r < 0 ? r : finish_line(job);
}

static int read_value(struct dotenv *job, const char *name, const struct compose_place *place)
{
    job->next++; /* = */
    skip_blanks(job);
    return *job->next == '\'' || *job->next == '"' ? read_quoted(job, name, place)
                                                   : read_unquoted(job, name, place);
}

/* `next` stands on the first character of something. A line that is no assignment is not shown: it may be
 * anything, a key for instance. */
static int read_line(struct dotenv *job)
{
    static const char export[] = "export";
    if (strncmp(job->next, export, strlen(export)) == 0 &&
        isblank((unsigned char)job->next[strlen(export)])) {
        job->next += strlen(export);
        skip_blanks(job);
    }
    const char *start = job->next;
    while (isalnum((unsigned char)*job->next) || (*job->next && strchr("_.-", *job->next)))
        job->next++;
    const size_t name_bytes = (size_t)(job->next - start);
    struct compose_place place = job->place;
    place.column = (uint32_t)(start - job->line_start) + 1;
    if (name_bytes == 0)
        return fail(job, "expected NAME=VALUE");
    const char *name = compose_arena_text_n(job->load->arena, start, name_bytes);
    if (!name)
        return schema_fail_memory(job->load);
    skip_blanks(job);
    if (*job->next == '=') {
        schema_enter(job->load, name);
        int r = read_value(job, name, &place);
        schema_leave(job->load);
        return r;
    }
    if (*job->next == '#')
        return finish_line(job);
    return !*job->next || *job->next == '\n' ? 0 : fail(job, "expected NAME=VALUE");
}

int dotenv_parse(struct schema_load *load, const char *text, size_t text_bytes, const char *file)
{
    struct dotenv job = {.load = load, .place = {file, 1, 1}};
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, text_bytes -= 3;
    if (memchr(text, '\0', text_bytes))
        return schema_fail(load, &job.place, "a NUL character: this is no file of variables");
    job.next = job.line_start = compose_arena_text_n(load->arena, text, text_bytes);
    if (!job.next)
        return schema_fail_memory(load);
    for (int r = 0;;) {
        skip_blanks(&job);
        if (!*job.next)
            return 0;
        if (*job.next == '\n')
            skip_newline(&job);
        else if (*job.next == '#')
            job.next += strcspn(job.next, "\n");
        else
            r = read_line(&job);
        if (r < 0)
            return r;
    }
}

/* `is_optional`: that there is none, or a folder of this name, is fine. */
static int read_file(struct schema_load *load, const char *path, bool is_optional)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(COMPOSE_FILE_MAX_BYTES);
    struct mst_error why = MST_ERROR_INIT;
    int r = mst_file_read(path, &content, &why);
    if (is_optional && (r == -ENOENT || r == -EISDIR || r == -ENOTDIR))
        return 0;
    if (r < 0)
        return mst_error_set(load->err, r, "%s", why.text);
    const char *file = compose_arena_text(load->arena, path);
    if (!file)
        return schema_fail_memory(load);
    r = schema_strings_add(load, &load->project->env_files, file);
    return r < 0 ? r : dotenv_parse(load, mst_buf_text(&content), content.count, file);
}

/* The neighbour of the first stack file. */
static int read_default(struct schema_load *load)
{
    const char *path = load->options->files[0];
    const char *slash = strcmp(path, "-") == 0 ? NULL : strrchr(path, '/');
    const char *neighbour =
        compose_arena_printf(load->arena, "%.*s" DOTENV_NAME, slash ? (int)(slash - path) + 1 : 0, path);
    return neighbour ? read_file(load, neighbour, true) : schema_fail_memory(load);
}

int dotenv_read(struct schema_load *load)
{
    const struct compose_options *options = load->options;
    if (options->env_file_count == 0)
        return read_default(load);
    if (options->env_file_count > DOTENV_FILES_MAX)
        return mst_error_set(load->err, -EINVAL, "more than %u files of variables", DOTENV_FILES_MAX);
    int r = 0;
    for (size_t i = 0; r == 0 && i < options->env_file_count; i++)
        if (strcmp(options->env_files[i], "/dev/null") != 0) /* how one says: not even .env */
            r = read_file(load, options->env_files[i], false);
    return r;
}
