/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"
#include "test.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *text;
    bool good;
} cases[] = {
    {"a", true},
    {"muster:latest", true},
    {"library/redis:7", true},
    {"10.77.0.254:5000/muster:latest", true},
    {"localhost/x", true},
    {"localhost:5000/x", true},
    {"Example.com/a/b__c/d---e.f:V1_2.3-x", true},
    {"[::1]:5000/x", true},
    {"a@" DIGEST, true},
    {"a:b@" DIGEST, true},
    {"registry.example.com:5000/team/app:1@" DIGEST, true},
    {"", false},
    {"/app", false},
    {"/app:latest", false},
    {"A", false},
    {"team/App", false},
    {"a/", false},
    {"a//b", false},
    {"a:", false},
    {"a:b:c", false},
    {"a:-x", false},
    {"a b", false},
    {"a__", false},
    {"a___b", false},
    {"a..b", false},
    {"-a", false},
    {"host:port/x", false},
    {"a@", false},
    {"a@sha256:12", false},
    {"a@" DIGEST "g", false},
    {"a\nb", false},
};

static void image_references_follow_the_grammar(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++)
        if (image_reference_is_valid(cases[i].text) != cases[i].good)
            fail_msg("'%s' should be %s", cases[i].text, cases[i].good ? "good" : "refused");
}

static void a_reference_of_a_kilobyte_is_refused(void **state)
{
    (void)state;
    char text[1025];
    memset(text, 'a', sizeof text - 1);
    text[1024] = '\0';
    assert_false(image_reference_is_valid(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(image_references_follow_the_grammar),
        cmocka_unit_test(a_reference_of_a_kilobyte_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
