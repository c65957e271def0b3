/* SPDX-License-Identifier: Apache-2.0 */
/* The stack files of data/stacks together have every key that data/rows.txt lists. Prints which file has
 * which row first, as the list that shows it. */
#include "muster/file.h"
#include "reader.h"
#include "test.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>

#define STACKS     MUSTER_TEST_DATA "/stacks"
#define ROWS       MUSTER_TEST_DATA "/rows.txt"
#define TEXT_BYTES 512
#define FILES_MAX  64

/* --- the ways to all values of all files: "services/a/image", with ":text" and "=busybox" behind each --- */

struct ways {
    char (*items)[TEXT_BYTES];
    unsigned *files; /* the file of each */
    size_t count, room;
};

static char names[FILES_MAX][256];
static size_t name_count;

static void add(struct ways *ways, const char *way, const char *mark, const char *value)
{
    if (ways->count == ways->room) {
        ways->room = ways->room ? 2 * ways->room : 256;
        ways->items = realloc(ways->items, ways->room * sizeof *ways->items);
        ways->files = realloc(ways->files, ways->room * sizeof *ways->files);
        assert_true(ways->items && ways->files);
    }
    (void)snprintf(ways->items[ways->count], TEXT_BYTES, "%s%s%s", way, mark, value);
    ways->files[ways->count++] = (unsigned)name_count - 1;
}

static void collect(struct ways *ways, const struct node *node, const char *way)
{
    static const char *const kinds[] = {[SCALAR_NULL] = "null",
                                        [SCALAR_BOOL] = "bool",
                                        [SCALAR_INT] = "int",
                                        [SCALAR_FLOAT] = "float",
                                        [SCALAR_TEXT] = "text"};
    const char *kind = node->kind == NODE_LIST  ? "list"
                       : node->kind == NODE_MAP ? "map"
                                                : kinds[node->scalar.kind];
    add(ways, way, "", "");
    add(ways, way, ":", kind);
    if (node->kind == NODE_SCALAR)
        add(ways, way, "=", node->text);
    for (size_t i = 0; i < node->count; i++) {
        char further[TEXT_BYTES];
        const char *key = node->kind == NODE_LIST ? "[]" : node->entries[i].key;
        (void)snprintf(further, sizeof further, "%s%s%s", way, *way ? "/" : "", key);
        collect(ways, node->entries[i].value, further);
    }
}

static void read_text(const char *path, struct mst_buf *text)
{
    struct mst_error err = MST_ERROR_INIT;
    if (mst_file_read(path, text, &err) < 0)
        fail_msg("%s", err.text);
}

static int is_stack(const struct dirent *entry)
{
    const char *dot = strchr(entry->d_name, '.');
    return dot && strcmp(dot, ".yml") == 0; /* not .docker.yml */
}

static void collect_all(struct ways *ways)
{
    struct dirent **entries;
    const int count = scandir(STACKS, &entries, is_stack, alphasort);
    assert_in_range(count, 1, FILES_MAX);
    for (int i = 0; i < count; i++) {
        struct compose_arena *arena = compose_arena_new();
        struct mst_buf text = MST_BUF_INIT(COMPOSE_FILE_MAX_BYTES);
        struct mst_error err = MST_ERROR_INIT;
        struct node *root;
        bool more;
        char path[TEXT_BYTES];
        (void)snprintf(path, sizeof path, STACKS "/%s", entries[i]->d_name);
        (void)snprintf(names[name_count++], sizeof names[0], "%s", entries[i]->d_name);
        read_text(path, &text);
        if (reader_parse(arena, mst_buf_text(&text), text.count, path, &root, &more, &err) < 0)
            fail_msg("%s", err.text);
        collect(ways, root, "");
        mst_buf_release(&text);
        compose_arena_free(arena);
        free(entries[i]);
    }
    free(entries);
}

/* --- rows --- */

/* "[]" is a set of characters for fnmatch(3). */
static void pattern_of(const char *word, char pattern[static TEXT_BYTES])
{
    size_t used = 0;
    for (; *word && used + 2 < TEXT_BYTES; word++) {
        if (*word == '[')
            pattern[used++] = '\\';
        pattern[used++] = *word;
    }
    pattern[used] = '\0';
}

/* Marks the files that have it. */
static bool find(const struct ways *ways, const char *word, bool in_file[static FILES_MAX])
{
    char pattern[TEXT_BYTES];
    bool found = false;
    pattern_of(word, pattern);
    for (size_t i = 0; i < ways->count; i++) {
        if (fnmatch(pattern, ways->items[i], FNM_PATHNAME) != 0)
            continue;
        in_file[ways->files[i]] = true;
        found = true;
    }
    return found;
}

/* One line of the rows' file; returns how many of its keys stand nowhere. */
static size_t check_row(const struct ways *ways, char *line)
{
    char *rest = line, *row = strsep(&rest, "|"), *keys = strsep(&rest, "|");
    bool in_file[FILES_MAX] = {false};
    size_t missing = 0, found = 0;
    if (!keys || !rest)
        fail_msg("not row | keys | fields: %s", line);
    for (char *word = strsep(&keys, " "); word; word = strsep(&keys, " ")) {
        if (!*word)
            continue;
        if (find(ways, word, in_file)) {
            found++;
        } else {
            (void)printf("MISSING: %s: no file has %s\n", row, word);
            missing++;
        }
    }
    assert_true(missing + found > 0);
    (void)printf("%-40s", row);
    for (size_t i = 0; i < name_count; i++)
        if (in_file[i])
            (void)printf(" %s", names[i]);
    (void)printf("\n");
    return missing;
}

static void every_row_stands_in_a_stack_file(void **state)
{
    struct ways ways = {0};
    struct mst_buf rows = MST_BUF_INIT((size_t)1 << 20);
    size_t missing = 0, count = 0;

    (void)state;
    collect_all(&ways);
    read_text(ROWS, &rows);
    char *text = strdup(mst_buf_text(&rows)), *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (!*line || *line == '#')
            continue;
        missing += check_row(&ways, line);
        count++;
    }
    assert_true(count > 70);
    assert_int_equal(missing, 0);
    free(text);
    mst_buf_release(&rows);
    free(ways.items);
    free(ways.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_stands_in_a_stack_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
