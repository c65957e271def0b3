/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#define TOP "volumes: {vol: {}, v: {}}\n"

static const char *const type_names[] = {"volume", "bind", "tmpfs", "npipe", "cluster", "image"};

/* "type source target" and what else is set. */
static const char *mount_text(const struct compose_mount *mount, char *text, size_t bytes)
{
    int length = snprintf(
        text, bytes, "%s %s %s%s%s%s%s%s%s%s%s", type_names[mount->type], mount->source ? mount->source : "-",
        mount->target, mount->read_only ? " ro" : "", mount->has_bind ? " bind:" : "",
        mount->bind_propagation ? mount->bind_propagation : "", mount->has_volume ? " volume:" : "",
        mount->volume_nocopy ? "nocopy" : "", mount->volume_subpath ? mount->volume_subpath : "",
        mount->has_tmpfs ? " tmpfs" : "", mount->has_image ? " image" : "");
    assert_true(length > 0 && (size_t)length < bytes);
    return text;
}

static const struct {
    const char *mount, *expected;
    size_t warnings;
} good[] = {
    {"/anon", "volume - /anon", 0},
    {"vol:/v", "volume vol /v", 0},
    {"vol:/v:ro", "volume vol /v ro", 0},
    {"vol:/v:rw", "volume vol /v", 0},
    {"vol:/v:nocopy", "volume vol /v volume:nocopy", 0},
    {"vol:/v:ro,nocopy", "volume vol /v ro volume:nocopy", 0},
    {"vol:/v:z", "volume vol /v", 1},
    {"v:/v", "volume v /v", 1},
    {"/a:/b", "bind /a /b", 0},
    {"/a/../c:/b", "bind /a/../c /b", 0},
    {"./a:/b", "bind " MUSTER_TEST_DATA "/a /b", 0},
    {"./a/./../c//d/:/b", "bind " MUSTER_TEST_DATA "/c/d /b", 0},
    {".:/b:ro", "bind " MUSTER_TEST_DATA " /b ro", 0},
    {"../../../../../../../../../../../..:/b", "bind / /b", 0},
    {"/a:/b:rslave", "bind /a /b bind:rslave", 0},
    {"/a:/b:ro,private", "bind /a /b ro bind:private", 0},
    {"{type: volume, source: vol, target: /v}", "volume vol /v", 0},
    {"{type: volume, target: /v, volume: {nocopy: true, subpath: sub}}", "volume - /v volume:nocopysub", 0},
    {"{type: bind, source: ./x, target: /v, read_only: true}", "bind " MUSTER_TEST_DATA "/x /v ro", 0},
    {"{type: bind, source: /x, target: /v, bind: {propagation: shared}}", "bind /x /v bind:shared", 0},
    {"{type: bind, source: /x, target: /v, bind: {create_host_path: true}}", "bind /x /v bind:", 1},
    {"{type: tmpfs, target: /t}", "tmpfs - /t", 0},
    {"{type: tmpfs, target: /t, tmpfs: {size: 1000}}", "tmpfs - /t tmpfs", 0},
    {"{type: tmpfs, target: /t, tmpfs: {size: 1m, mode: 0777}}", "tmpfs - /t tmpfs", 1},
    {"{type: image, source: busybox, target: /i, image: {subpath: x}}", "image busybox /i image", 0},
    {"{type: volume, source: '', target: /v}", "volume - /v", 0},
};

static void every_form_of_a_mount_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(good); i++) {
        char text[1024], got[1024];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    volumes: [%s%s%s]\n" TOP),
                       *good[i].mount == '{' ? "" : "\"", good[i].mount, *good[i].mount == '{' ? "" : "\"");
        struct compose_project *project = test_project(text);
        assert_int_equal(project->services[0].mount_count, 1);
        assert_string_equal(mount_text(&project->services[0].mounts[0], got, sizeof got), good[i].expected);
        size_t warnings = 0; /* besides those about unused volumes */
        for (size_t w = 0; w < project->warnings.count; w++)
            warnings += !strstr(project->warnings.items[w], "no service uses it");
        assert_int_equal(warnings, good[i].warnings);
        compose_project_free(project);
    }
}

static void a_named_volume_is_the_one_at_the_top(void **state)
{
    (void)state;
    struct compose_project *project = test_project(
        TEST_SERVICE("    volumes: ['vol:/v', /anon, '/a:/b']\n") "volumes:\n  vol: {driver: d, driver_opts: "
                                                                  "{n: 1, o: 'x'}, labels: [l=2]}\n");
    const struct compose_mount *mounts = project->services[0].mounts;
    assert_ptr_equal(mounts[0].volume, &project->volumes[0]);
    assert_null(mounts[1].volume);
    assert_null(mounts[2].volume);
    assert_true(project->volumes[0].is_used);
    assert_string_equal(project->volumes[0].driver, "d");
    assert_string_equal(compose_pairs_find(&project->volumes[0].driver_opts, "n"), "1");
    assert_string_equal(compose_pairs_find(&project->volumes[0].labels, "l"), "2");
    assert_int_equal(project->warnings.count, 0);
    compose_project_free(project);
}

static void a_size_in_bytes_is_kept(void **state)
{
    (void)state;
    struct compose_project *project =
        test_project(TEST_SERVICE("    volumes: [{type: tmpfs, target: /t, tmpfs: {size: 64m}}]\n"));
    assert_int_equal(project->services[0].mounts[0].tmpfs_size_bytes, 64 << 20);
    compose_project_free(project);
}

#define AT "stack.yml:4:15: services.a.volumes[0]: "

static const struct {
    const char *mount, *error;
} bad[] = {
    {"''", AT "'' is not [SOURCE:]TARGET[:OPTIONS]"},
    {"':/v'", AT "':/v' is not [SOURCE:]TARGET[:OPTIONS]"},
    {"'vol:'", AT "'vol:' is not [SOURCE:]TARGET[:OPTIONS]"},
    {"'a:b:c:d'", AT "'a:b:c:d' has more than SOURCE:TARGET:OPTIONS"},
    {"'vol:v'", AT "the target 'v' is not an absolute path"},
    {"'vol'", AT "the target 'vol' is not an absolute path"},
    {"'wol:/v'",
     "stack.yml:4:15: services.a.volumes: the volume 'wol' is not declared at the top of the file: did "
     "you mean 'vol'?"},
    {"'vol:/v:shared'", AT "bind options belong to mounts of type bind"},
    {"'/a:/v:nocopy'", AT "volume options belong to mounts of type volume"},
    {"'~x/y:/v'", AT "'~x/y': only ~/... with HOME set is a path from the home folder"},
    {"7", AT "'7' is a number here, not a text: put it in quotes"},
    {"{target: /v}", AT "type is missing: volume, bind or tmpfs"},
    {"{type: volume}", AT "target is missing"},
    {"{type: volumes, target: /v}", "stack.yml:4:22: services.a.volumes[0].type: 'volumes' is none of: "
                                    "volume, bind, tmpfs, npipe, cluster, image"},
    {"{type: bind, target: /v}", AT "source is missing"},
    {"{type: tmpfs, source: x, target: /v}", AT "a tmpfs has no source"},
    {"{type: volume, target: /v, tmpfs: {size: 1}}", AT "tmpfs options belong to mounts of type tmpfs"},
    {"{type: volume, target: /v, image: {}}", AT "image options belong to mounts of type image"},
    {"{type: volume, target: /v, bind: {propagation: rw}}",
     "stack.yml:4:62: services.a.volumes[0].bind.propagation: 'rw' is none of: private, rprivate, shared, "
     "rshared, "
     "slave, rslave"},
    {"{type: volume, target: /v, readonly: true}",
     "stack.yml:4:42: services.a.volumes[0]: the key 'readonly' is not known: did you mean 'read_only'?"},
    {"'vol:/v', '/a:/v'", "stack.yml:4:25: services.a.volumes[1]: the target '/v' has a mount already"},
};

static void bad_mounts_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TEST_SERVICE("    volumes: [%s]\nvolumes: {vol: {}}\n"),
                       bad[i].mount);
        test_refused(text, bad[i].error);
    }
}

static void bad_volumes_are_refused(void **state)
{
    (void)state;
    test_refused("services: {a: {image: b}}\nvolumes: {v: {external: true, driver: x}}\n",
                 "stack.yml:2:11: volumes.v: an external volume has no driver, driver_opts or labels here");
    test_refused("services: {a: {image: b}}\nvolumes: {v: {external: {name: x}, name: y}}\n",
                 "stack.yml:2:25: volumes.v: external.name and name can't stand together");
    test_refused("services: {a: {image: b}}\nvolumes: {v: {drivers: x}}\n",
                 "stack.yml:2:15: volumes.v: the key 'drivers' is not known: did you mean 'driver'?");
    test_refused("services: {a: {image: b}}\nvolumes: [v]\n",
                 "stack.yml:2:10: volumes: a list is not a mapping");
    test_refused("services: {a: {image: b}}\nvolumes: {v: 3}\n",
                 "stack.yml:2:14: volumes.v: '3' is not a mapping");
}

static void external_volumes_have_a_name(void **state)
{
    (void)state;
    struct compose_project *project = test_project(TEST_SERVICE(
        "    volumes: ['aa:/a', 'bb:/b', 'cc:/c', 'dd:/d']\n") "volumes: {aa: {external: true}, bb: "
                                                               "{external: {name: x}}, cc: {external: true, "
                                                               "name: y}, dd: {external: false}}\n");
    assert_string_equal(project->volumes[0].name, "aa");
    assert_string_equal(project->volumes[1].name, "x");
    assert_string_equal(project->volumes[2].name, "y");
    assert_true(project->volumes[0].external && project->volumes[1].external && project->volumes[2].external);
    assert_false(project->volumes[3].external);
    assert_null(project->volumes[3].name);
    compose_project_free(project);
}

static void an_unused_volume_is_a_warning(void **state)
{
    (void)state;
    struct compose_project *project = test_project("services: {a: {image: b}}\nvolumes: {v: {}}\n");
    test_strings(&project->warnings, "stack.yml:2:11: volumes.v: no service uses it, so that it is not made");
    compose_project_free(project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_mount_is_read),
        cmocka_unit_test(a_named_volume_is_the_one_at_the_top),
        cmocka_unit_test(a_size_in_bytes_is_kept),
        cmocka_unit_test(bad_mounts_are_refused),
        cmocka_unit_test(bad_volumes_are_refused),
        cmocka_unit_test(external_volumes_have_a_name),
        cmocka_unit_test(an_unused_volume_is_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
