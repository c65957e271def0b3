/* SPDX-License-Identifier: Apache-2.0 */
#include "hello_fixture.h"
#include "muster/cleanup.h"
#include "muster/discovery.h"

static const struct {
    const char *text;
    int code;
    size_t count;
} texts[] = {
    {"eth0", 0, 1},
    {"!eth0", 0, 1},
    {"eth0,!eth1,10.0.0.0/8,!172.18.0.0/16,br-*", 0, 5},
    {"*", 0, 1},
    {"eth0.100", 0, 1},
    {"", -EINVAL, 7},
    {"!", -EINVAL, 7},
    {",", -EINVAL, 7},
    {"eth0,", -EINVAL, 7},
    {"eth0,,eth1", -EINVAL, 7},
    {"eth0 eth1", -EINVAL, 7},
    {"e*0", -EINVAL, 7},
    {"!!eth0", -EINVAL, 7},
    {"10.0.0.0/33", -EINVAL, 7},
    {"10.0.0/8", -EINVAL, 7},
    {"/24", -EINVAL, 7},
    {"a-name-of-16-chr", -EINVAL, 7},
    {"a-name-of-15-ch", 0, 1},
    {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 0, 16},
    {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", -EINVAL, 7},
    {"0123456789012345678901234567890123456789012345678901234567890123456789", -EINVAL, 7},
};

static void names_and_subnets_are_read_and_nothing_else(void **state)
{
    (void)state;
    for (size_t t = 0; t < MST_ARRAY_COUNT(texts); t++) {
        struct discovery_filter filter = {.count = 7};
        struct mst_error err = MST_ERROR_INIT;
        if (discovery_filter_parse(texts[t].text, &filter, &err) != texts[t].code)
            fail_msg("'%s': %s", texts[t].text, err.text);
        assert_int_equal(filter.count, texts[t].count);
    }
}

static void unwanted_comes_before_wanted_and_wanted_before_open(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum discovery_filter_match match; /* of eth1 with 10.10.0.5 */
    } cases[] = {
        {"eth1", DISCOVERY_FILTER_NAMED},       {"eth0", DISCOVERY_FILTER_OUT},
        {"eth0,eth1", DISCOVERY_FILTER_NAMED},  {"eth*", DISCOVERY_FILTER_NAMED},
        {"eth10*", DISCOVERY_FILTER_OUT},       {"*", DISCOVERY_FILTER_NAMED},
        {"!eth0", DISCOVERY_FILTER_OPEN},       {"!eth1", DISCOVERY_FILTER_OUT},
        {"eth1,!eth*", DISCOVERY_FILTER_OUT},   {"!10.10.0.0/24,eth1", DISCOVERY_FILTER_OUT},
        {"10.0.0.0/8", DISCOVERY_FILTER_NAMED}, {"11.0.0.0/8", DISCOVERY_FILTER_OUT},
        {"!11.0.0.0/8", DISCOVERY_FILTER_OPEN},
    };
    const struct discovery_interface interface = {.name = "eth1", .ipv4 = 0x0a0a0005, .prefix = 24};
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        struct discovery_filter filter;
        assert_int_equal(discovery_filter_parse(cases[c].text, &filter, NULL), 0);
        if (discovery_filter_match(&filter, &interface) != cases[c].match)
            fail_msg("%s", cases[c].text);
    }
    assert_int_equal(discovery_filter_match(NULL, &interface), DISCOVERY_FILTER_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_subnets_are_read_and_nothing_else),
        cmocka_unit_test(unwanted_comes_before_wanted_and_wanted_before_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
