/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/opts.h"

#include "muster/parse.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX     96 /* entries of one table: bounds the arrays below */
#define HELP_INDENT     30
#define HELP_NAME_BYTES 64

struct parse_state {
    const struct mst_options *options;
    void *settings;
    bool given[OPTIONS_MAX];
};

static const struct mst_option *find_long(const struct mst_options *options, const char *name, size_t bytes)
{
    for (size_t i = 0; i < options->count; i++)
        if (strlen(options->table[i].name) == bytes && strncmp(options->table[i].name, name, bytes) == 0)
            return &options->table[i];
    return NULL;
}

static const struct mst_option *find_letter(const struct mst_options *options, char letter)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->table[i].letter != 0 && options->table[i].letter == letter)
            return &options->table[i];
    return NULL;
}

static int unknown_option(const struct mst_options *options, const char *argument, struct mst_error *err)
{
    const char *names[OPTIONS_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < options->count && i < OPTIONS_MAX; i++)
        names[count++] = options->table[i].name;
    names[count++] = "help";
    char name[HELP_NAME_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const char *near = argument[1] == '-' ? mst_nearest(name, names, count) : NULL;
    if (near)
        return mst_error_set(err, -EINVAL, "unknown option '%.80s'; did you mean '--%s'?", argument, near);
    return mst_error_set(err, -EINVAL, "unknown option '%.80s'; '--help' lists them", argument);
}

static int apply(struct parse_state *state, const struct mst_option *option, const char *text,
                 struct mst_error *err)
{
    const size_t index = (size_t)(option - state->options->table);
    if (state->given[index] && option->kind == MST_OPT_VALUE)
        return mst_error_set(err, -EINVAL, "option '--%s' is given twice", option->name);
    state->given[index] = true;
    const int r = option->set(state->settings, text, err);
    return r < 0 ? mst_error_wrap(err, r, "option '--%s'", option->name) : 0;
}

/* One argument that starts with '-'; *next moves past a value that stood in an argument of its own. */
static int parse_option(struct parse_state *state, int argc, char **argv, int *next, struct mst_error *err)
{
    const char *argument = argv[*next];
    const char *value = NULL;
    const struct mst_option *option;
    if (argument[1] == '-') {
        const size_t name_bytes = strcspn(argument + 2, "=");
        option = find_long(state->options, argument + 2, name_bytes);
        if (option && argument[2 + name_bytes] == '=')
            value = argument + 2 + name_bytes + 1;
    } else {
        option = find_letter(state->options, argument[1]);
        if (option && argument[2] != '\0') {
            if (option->kind == MST_OPT_FLAG)
                return unknown_option(state->options, argument, err); /* "-vx": no clusters */
            value = argument + 2;
        }
    }
    if (!option)
        return unknown_option(state->options, argument, err);
    (*next)++;
    if (option->kind == MST_OPT_FLAG) {
        if (value)
            return mst_error_set(err, -EINVAL, "option '--%s' takes no value", option->name);
        return apply(state, option, "true", err);
    }
    if (!value) {
        if (*next >= argc)
            return mst_error_set(err, -EINVAL, "option '--%s' needs a value: %s", option->name,
                                 option->argument);
        value = argv[(*next)++];
    }
    return apply(state, option, value, err);
}

/* Environment and defaults for whatever the command line left open. */
static int apply_fallbacks(struct parse_state *state, struct mst_error *err)
{
    for (size_t i = 0; i < state->options->count; i++) {
        const struct mst_option *option = &state->options->table[i];
        if (state->given[i])
            continue;
        const char *text = option->env ? getenv(option->env) : NULL;
        const bool from_env = text && *text;
        if (!from_env)
            text = option->fallback;
        if (!text && option->required)
            return mst_error_set(err, -EINVAL, "option '--%s %s' is required%s%s", option->name,
                                 option->argument ? option->argument : "", option->env ? ", or set " : "",
                                 option->env ? option->env : "");
        if (!text)
            continue;
        const int r = option->set(state->settings, text, err);
        if (r < 0 && from_env)
            return mst_error_wrap(err, r, "environment variable %s", option->env);
        if (r < 0)
            return mst_error_wrap(err, r, "default of option '--%s'", option->name);
    }
    return 0;
}

int mst_options_parse(const struct mst_options *options, int argc, char **argv, void *settings,
                      int *ret_operands, struct mst_error *err)
{
    struct parse_state state = {.options = options, .settings = settings};
    if (options->count > OPTIONS_MAX)
        return mst_error_set(err, -EINVAL, "option table of %zu entries", options->count);

    int operand_count = 0, next = 1;
    char **operands = calloc((size_t)argc + 1, sizeof *operands);
    if (!operands)
        return mst_error_set(err, -ENOMEM, "read the command line: no memory");
    int r = 0;
    while (r == 0 && next < argc) {
        if (strcmp(argv[next], "--") == 0) {
            for (next++; next < argc; next++)
                operands[operand_count++] = argv[next];
        } else if (strcmp(argv[next], "--help") == 0) {
            mst_options_help(options, stdout);
            r = 1;
        } else if (argv[next][0] == '-' && argv[next][1] != '\0') {
            r = parse_option(&state, argc, argv, &next, err);
        } else {
            operands[operand_count++] = argv[next++];
        }
    }
    if (r == 0)
        r = apply_fallbacks(&state, err);
    if (r == 0) {
        *ret_operands = argc - operand_count;
        memcpy(argv + argc - operand_count, operands, (size_t)operand_count * sizeof *operands);
    }
    free(operands);
    return r;
}

static void print_wrapped_lines(const char *text, FILE *stream)
{
    for (;;) {
        const size_t bytes = strcspn(text, "\n");
        (void)fprintf(stream, "%.*s\n", (int)bytes, text);
        if (text[bytes] == '\0')
            return;
        text += bytes + 1;
        (void)fprintf(stream, "%*s", HELP_INDENT, "");
    }
}

void mst_options_help(const struct mst_options *options, FILE *stream)
{
    (void)fprintf(stream, "Usage: %s%s%s %s\n\n%s\n\nOptions:\n", options->program, options->verb ? " " : "",
                  options->verb ? options->verb : "", options->synopsis, options->about);
    for (size_t i = 0; i < options->count; i++) {
        const struct mst_option *option = &options->table[i];
        char name[HELP_NAME_BYTES], letter[8] = "    ";
        if (option->letter)
            (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        (void)snprintf(name, sizeof name, "  %s--%s %s", letter, option->name,
                       option->argument ? option->argument : "");
        (void)fprintf(stream, "%-*s", HELP_INDENT, name);
        if (strlen(name) >= HELP_INDENT)
            (void)fprintf(stream, "\n%*s", HELP_INDENT, "");
        print_wrapped_lines(option->help, stream);
        if (option->env || option->fallback)
            (void)fprintf(stream, "%*s[%s%s%s%s]\n", HELP_INDENT, "", option->env ? option->env : "",
                          option->env && option->fallback ? ", " : "", option->fallback ? "default " : "",
                          option->fallback ? (*option->fallback ? option->fallback : "''") : "");
    }
    (void)fprintf(stream, "  %s%-*s%s\n", "    ", HELP_INDENT - 6, "--help", "print this and exit");
}
