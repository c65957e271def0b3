/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of compose/ share: a stack file as a text, read to a project or to an error's text. */
#ifndef TESTS_COMPOSE_TEST_H
#define TESTS_COMPOSE_TEST_H

#include "muster/cleanup.h"
#include "muster/compose.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* cmocka.h wants these before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

/* "stack.yml" as the file's name, no variables, relative paths from the test's data. */
static inline int test_parse(const char *text, struct compose_project **ret_project, struct mst_error *err)
{
    static const struct compose_options options = {0};
    return compose_project_parse(text, strlen(text), "stack.yml", MUSTER_TEST_DATA, &options, ret_project,
                                 err);
}

/* The project of a text that must be good. */
static inline struct compose_project *test_project(const char *text)
{
    struct mst_error err = MST_ERROR_INIT;
    struct compose_project *project = NULL;
    if (test_parse(text, &project, &err) < 0)
        fail_msg("refused: %s\n%s", err.text, text);
    return project;
}

/* A text that must be refused, with just this error. */
static inline void test_refused(const char *text, const char *error)
{
    struct mst_error err = MST_ERROR_INIT;
    struct compose_project *project = NULL;
    int r = test_parse(text, &project, &err);
    compose_project_free(project);
    if (r >= 0)
        fail_msg("taken, not refused with '%s':\n%s", error, text);
    if (strcmp(err.text, error) != 0)
        fail_msg("expected: %s\n     got: %s\n%s", error, err.text, text);
    assert_int_equal(r, err.code);
}

/* One service with this line (indented by four) besides its image. */
#define TEST_SERVICE(lines) "services:\n  a:\n    image: b\n" lines

/* "x,y" of a list. */
static inline const char *test_join(const struct compose_strings *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        int length = snprintf(text + used, bytes - used, "%s%s", i ? "," : "", list->items[i]);
        assert_true(length >= 0 && (size_t)length < bytes - used);
        used += (size_t)length;
    }
    return text;
}

static inline void test_strings(const struct compose_strings *list, const char *joined)
{
    char text[1024];
    assert_string_equal(test_join(list, text, sizeof text), joined);
}

static inline const struct compose_service *compose_service_find(const struct compose_project *project,
                                                                 const char *key)
{
    for (size_t i = 0; i < project->service_count; i++)
        if (strcmp(project->services[i].key, key) == 0)
            return &project->services[i];
    return NULL;
}

#endif
