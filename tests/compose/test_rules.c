/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of reading stack files, each by the cases of data/rules.cases:
 *
 *     === RULE                what follows is a stack file, 1.yml
 *     --- onto [NAME]         a second one onto it (2.yml)
 *     --- file NAME           a file beside them
 *     --- refused             its error, in one line
 *     --- warns               its warnings, one a line; none without this, and strict refuses with the first
 *     --- prints              lines that the printed project has, in any place
 *     --- lacks               words that it has not
 *
 * data/rules.txt lists the rules; one without a case is a failure, and so is a case without a rule. */
#include "muster/file.h"
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRINT_MAX_BYTES ((size_t)1 << 20)
#define FILES_MAX       2
#define RULES_MAX       128

static const char *const environment[] = {"A=one",   "N=3",        "EMPTY=", "HOME=/home/u",
                                          "YES=yes", "OCTAL=0440", NULL};

static char folder[] = "/tmp/muster-rules-XXXXXX";

struct section {
    char *kind, *name, *text; /* "file", "1.env", ...; the first of a case is kind "===" with its rule */
};

struct case_result {
    struct compose_project *project;
    struct mst_error err;
    int code;
};

static char *read_data(const char *path)
{
    struct mst_buf text = MST_BUF_INIT(PRINT_MAX_BYTES);
    struct mst_error err = MST_ERROR_INIT;
    if (mst_file_read(path, &text, &err) < 0)
        fail_msg("%s", err.text);
    char *copy = strdup(mst_buf_text(&text));
    assert_non_null(copy);
    mst_buf_release(&text);
    return copy;
}

/* Cuts the head's line and the text up to the next head off *rest; false at the end. A line "---" alone is
 * YAML's. */
static bool next_section(char **rest, struct section *section)
{
    char *head = *rest;
    if (!head || !*head)
        return false;
    char *text = strchr(head, '\n'), *end;
    assert_non_null(text);
    *text++ = '\0';
    for (end = text; *end; end++) {
        const bool is_line = end == text || end[-1] == '\n';
        if (is_line && (strncmp(end, "=== ", 4) == 0 || strncmp(end, "--- ", 4) == 0))
            break;
    }
    section->text = strndup(text, (size_t)(end - text));
    section->kind = *head == '=' ? head : head + 4;
    section->name = head + 4;
    if (*head != '=')
        strsep(&section->name, " ");
    *rest = end;
    return true;
}

static bool is_kind(const struct section *section, const char *kind)
{
    return strcmp(section->kind, kind) == 0;
}

static bool is_head(const struct section *section)
{
    return *section->kind == '=';
}

static void put(const char *name, const char *text)
{
    struct mst_error err = MST_ERROR_INIT;
    if (strchr(name, '/'))
        (void)mkdir("sub", 0700);
    if (mst_file_write_atomic(name, text, strlen(text), 0600, &err) < 0)
        fail_msg("%s", err.text);
}

/* Writes the case's files into the working folder and reads them. */
static void load(const struct section *sections, size_t count, bool strict, struct case_result *result)
{
    const char *files[FILES_MAX] = {"1.yml"};
    size_t file_count = 1;
    for (size_t i = 0; i < count; i++) {
        const struct section *section = &sections[i];
        if (is_head(section))
            put("1.yml", section->text);
        else if (is_kind(section, "file"))
            put(section->name, section->text);
        if (!is_kind(section, "onto"))
            continue;
        files[file_count] = section->name ? section->name : "2.yml";
        put(files[file_count++], section->text);
    }
    const struct compose_options options = {
        .files = files, .file_count = file_count, .environment = environment, .strict = strict};
    *result = (struct case_result){.code = 0};
    result->code = compose_project_load(&options, &result->project, &result->err);
    /* Paths that were made absolute. */
    for (char *at = result->err.text; (at = strstr(at, folder));)
        memmove(at, at + strlen(folder) + 1, strlen(at + strlen(folder) + 1) + 1);
}

static const struct section *find(const struct section *sections, size_t count, const char *kind)
{
    for (size_t i = 1; i < count; i++)
        if (is_kind(&sections[i], kind))
            return &sections[i];
    return NULL;
}

/* Files that a case made would be found by the next. */
static void remove_files(const struct section *sections, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_head(&sections[i]) && sections[i].name)
            (void)unlink(sections[i].name);
    (void)unlink("1.yml");
    (void)unlink("2.yml");
    (void)rmdir("sub");
}

/* Each warning and a newline. */
static void join_warnings(const struct compose_project *project, struct mst_buf *text)
{
    for (size_t i = 0; i < project->warnings.count; i++)
        assert_int_equal(mst_buf_printf(text, "%s\n", project->warnings.items[i]), 0);
}

/* Whether the printed text has this line, with blanks before it, or as a list's item. */
static bool has_line(const char *printed, const char *line, size_t bytes)
{
    for (const char *at = printed; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const char *start = at + strspn(at, " ");
        if (strcspn(start, "\n") == bytes && strncmp(start, line, bytes) == 0)
            return true;
        if (strncmp(start, "- ", 2) == 0 && strcspn(start, "\n") == bytes + 2 &&
            strncmp(start + 2, line, bytes) == 0)
            return true;
    }
    return false;
}

static void check_printed(const struct section *sections, size_t count, const struct compose_project *project)
{
    const struct section *prints = find(sections, count, "prints"), *lacks = find(sections, count, "lacks");
    struct mst_buf printed = MST_BUF_INIT(PRINT_MAX_BYTES);
    assert_int_equal(compose_project_print(project, &printed), 0);
    for (const char *line = prints ? prints->text : ""; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        if (!has_line(mst_buf_text(&printed), line, strcspn(line, "\n")))
            fail_msg("%s: not printed: %.*s\n%s", sections[0].name, (int)strcspn(line, "\n"), line,
                     mst_buf_text(&printed));
    char *words = strdup(lacks ? lacks->text : ""), *rest = words;
    for (const char *word = strsep(&rest, "\n"); word; word = strsep(&rest, "\n"))
        if (*word && strstr(mst_buf_text(&printed), word))
            fail_msg("%s: printed: %s\n%s", sections[0].name, word, mst_buf_text(&printed));
    free(words);
    mst_buf_release(&printed);
}

static void check_case(const struct section *sections, size_t count)
{
    const struct section *refused = find(sections, count, "refused"), *warns = find(sections, count, "warns");
    struct case_result result, strict;
    load(sections, count, false, &result);
    load(sections, count, true, &strict);
    if (refused) {
        const char *error = refused->text;
        if (result.code >= 0 || strlen(result.err.text) + 1 != strlen(error) ||
            strncmp(result.err.text, error, strlen(error) - 1) != 0)
            fail_msg("%s: %s\ngot:      %s\nexpected: %s", sections[0].name, sections[0].text,
                     result.code < 0 ? result.err.text : "no error", error);
        assert_null(result.project);
    } else {
        struct mst_buf warnings = MST_BUF_INIT(PRINT_MAX_BYTES);
        if (result.code < 0)
            fail_msg("%s: %s\nrefused: %s", sections[0].name, sections[0].text, result.err.text);
        join_warnings(result.project, &warnings);
        if (strcmp(mst_buf_text(&warnings), warns ? warns->text : "") != 0)
            fail_msg("%s: %s\ngot warnings:\n%s", sections[0].name, sections[0].text,
                     mst_buf_text(&warnings));
        mst_buf_release(&warnings);
        assert_true((strict.code < 0) == (warns != NULL));
        if (warns)
            assert_string_equal(strict.err.text, result.project->warnings.items[0]);
        check_printed(sections, count, result.project);
    }
    compose_project_free(result.project);
    compose_project_free(strict.project);
    remove_files(sections, count);
}

/* --- the list of rules --- */

static struct {
    char name[32];
    unsigned cases;
} rules[RULES_MAX];
static size_t rule_count;

static void read_rules(void)
{
    char *text = read_data(MUSTER_TEST_DATA "/rules.txt"), *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (!*line || *line == '#')
            continue;
        assert_in_range(rule_count, 0, RULES_MAX - 1);
        (void)snprintf(rules[rule_count++].name, sizeof rules[0].name, "%.*s", (int)strcspn(line, " "), line);
    }
    free(text);
}

static void count_case(const char *rule)
{
    for (size_t i = 0; i < rule_count; i++) {
        if (strcmp(rules[i].name, rule) == 0) {
            rules[i].cases++;
            return;
        }
    }
    fail_msg("the case '%s' has no rule in rules.txt", rule);
}

static void each_rule_holds_in_its_cases(void **state)
{
    struct section sections[16];
    char *text = read_data(MUSTER_TEST_DATA "/rules.cases"), *rest = text;
    size_t count = 0, missing = 0;
    bool more;

    (void)state;
    read_rules();
    rest = strstr(text, "=== "); /* after the file's first comment */
    do {
        struct section section;
        more = next_section(&rest, &section);
        if (count > 0 && (!more || is_head(&section))) {
            count_case(sections[0].name);
            check_case(sections, count);
            for (size_t i = 0; i < count; i++)
                free(sections[i].text);
            count = 0;
        }
        assert_in_range(count, 0, MST_ARRAY_COUNT(sections) - 1);
        if (more)
            sections[count++] = section;
    } while (more);
    for (size_t i = 0; i < rule_count; i++) {
        (void)printf("%-20s %u cases\n", rules[i].name, rules[i].cases);
        missing += rules[i].cases == 0;
    }
    assert_int_equal(missing, 0);
    free(text);
}

/* --- */

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") < 0 ? -1 : rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_holds_in_its_cases),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
