/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup_path.h"
#include "muster/cleanup.h"
#include "test.h"

static void each_controller_has_a_line_of_its_own(void **state)
{
    static const char text[] = "5:cpu,cpuacct:/a\n4:memory:/b\n1:name=systemd:/c\n0::/d\n";
    static const struct {
        const char *text, *controller;
        int code;
        const char *path;
    } cases[] = {
        {text, "cpu", 0, "/a"},
        {text, "cpuacct", 0, "/a"},
        {text, "memory", 0, "/b"},
        {text, "", 0, "/d"},
        {text, "blkio", -ENOENT, NULL},
        {text, "mem", -ENOENT, NULL},
        {text, "cpuacctx", -ENOENT, NULL},
        {"", "cpu", -ENOENT, NULL},
        {"4:memory:/b", "memory", -EBADMSG, NULL}, /* cut */
        {"4:memory\n", "memory", -EBADMSG, NULL},
        {"4memory/b\n4:memory:/b\n", "memory", -EBADMSG, NULL},
        {"4:memory:b\n", "memory", -EBADMSG, NULL},
        {"4:memory:\n", "memory", -EBADMSG, NULL},
        {"\n", "memory", -EBADMSG, NULL},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const char *path = "untouched";
        size_t bytes = 9;
        assert_int_equal(
            cgroup_path_of(cases[i].text, strlen(cases[i].text), cases[i].controller, &path, &bytes),
            cases[i].code);
        const char *expected = cases[i].code == 0 ? cases[i].path : "untouched";
        assert_int_equal(bytes, strlen(expected));
        assert_memory_equal(path, expected, bytes);
    }
}

static void a_path_is_cut_behind_the_container(void **state)
{
    static const struct {
        const char *path, *expected;
    } cases[] = {
        {"/docker/" CONTAINER_ID, "/docker/" CONTAINER_ID},
        {"/docker/" CONTAINER_ID "/init.scope", "/docker/" CONTAINER_ID},
        {"/system.slice/docker-" CONTAINER_ID ".scope/a/b", "/system.slice/docker-" CONTAINER_ID ".scope"},
        {"/docker/" OTHER_ID, ""},
        {"/", ""},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++)
        assert_int_equal(cgroup_path_cut(cases[i].path, strlen(cases[i].path), CONTAINER_ID),
                         strlen(cases[i].expected));
}

static void folders_are_found_in_both_versions_and_in_mixtures(void **state)
{
#define V2_SCOPE "/fs/cgroup/system.slice/docker-" CONTAINER_ID ".scope"
    static const struct {
        const char *tree, *pid, *controller;
        int code;
        const char *folder;
    } cases[] = {
        {"v1", "1234", "memory", 0, "/fs/cgroup/memory/lab/node1/" CONTAINER_ID},
        {"v1", "1234", "", -ENOENT, NULL}, /* an empty v2 hierarchy that is not mounted */
        {"v2", "4321", "", 0, V2_SCOPE},
        {"v2", "4321", "memory", -ENOENT, NULL},
        {"v2", "4322", "", 0, V2_SCOPE},   /* systemd in the container */
        {"v2", "4323", "", 0, V2_SCOPE},   /* told relative to the reader's own namespace */
        {"v2", "4325", "", 0, V2_SCOPE},   /* and this one is the reader itself */
        {"v2", "4324", "", -ENOENT, NULL}, /* the pid belongs to somebody else by now */
        {"hybrid", "77", "memory", 0, "/fs/cgroup/memory/docker/" CONTAINER_ID},
        {"hybrid", "77", "cpuacct", -ENOENT,
         NULL}, /* not in use: the root's counters are not the container's */
        {"hybrid", "77", "", 0, "/fs/cgroup/unified/docker/" CONTAINER_ID},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char sysfs[PATH_MAX], proc[PATH_MAX], expected[PATH_MAX], folder[PATH_MAX] = "untouched";
        (void)snprintf(sysfs, sizeof sysfs, "%s/%s/sys", MUSTER_TEST_DATA, cases[i].tree);
        (void)snprintf(proc, sizeof proc, "%s/%s/proc/%s/cgroup", MUSTER_TEST_DATA, cases[i].tree,
                       cases[i].pid);
        (void)snprintf(expected, sizeof expected, "%s%s", cases[i].folder ? sysfs : "untouched",
                       cases[i].folder ? cases[i].folder : "");
        mst_cleanup(mst_buf_release) struct mst_buf text = load(proc);
        assert_int_equal(
            cgroup_path_find(sysfs, text.bytes, text.count, cases[i].controller, CONTAINER_ID, folder),
            cases[i].code);
        assert_string_equal(folder, expected);
    }
}

static void a_search_for_an_unknown_container_ends(void **state)
{
    char folder[PATH_MAX];
    static const char text[] = "0::/../docker-" OTHER_ID ".scope\n";
    (void)state;
    assert_int_equal(cgroup_path_find(v2_paths.sysfs, text, strlen(text), "", OTHER_ID, folder), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_controller_has_a_line_of_its_own),
        cmocka_unit_test(a_path_is_cut_behind_the_container),
        cmocka_unit_test(folders_are_found_in_both_versions_and_in_mixtures),
        cmocka_unit_test(a_search_for_an_unknown_container_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
