/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/file.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#define FILES_MAX 3

/* `texts`, up to a NULL, as files 1.yml, 2.yml, ...; errors name them without their folder. */
static int load(const char *const *texts, struct compose_project **ret_project, struct mst_error *err)
{
    char folder[] = "/tmp/muster-override-XXXXXX", paths[FILES_MAX][64];
    const char *files[FILES_MAX];
    size_t count = 0;
    assert_non_null(mkdtemp(folder));
    for (; texts[count]; count++) {
        (void)snprintf(paths[count], sizeof paths[count], "%s/%zu.yml", folder, count + 1);
        files[count] = paths[count];
        assert_int_equal(mst_file_write_atomic(paths[count], texts[count], strlen(texts[count]), 0600, NULL),
                         0);
    }
    const struct compose_options options = {.files = files, .file_count = count};
    int r = compose_project_load(&options, ret_project, err);
    for (size_t i = 0; i < count; i++)
        (void)unlink(paths[i]);
    (void)rmdir(folder);
    if (r < 0 && strncmp(err->text, folder, strlen(folder)) == 0)
        memmove(err->text, err->text + strlen(folder) + 1, strlen(err->text + strlen(folder)));
    return r;
}

static struct compose_project *load_good(const char *first, const char *second, const char *third)
{
    const char *const texts[] = {first, second, third, NULL};
    struct mst_error err = MST_ERROR_INIT;
    struct compose_project *project = NULL;
    if (load(texts, &project, &err) < 0)
        fail_msg("%s", err.text);
    return project;
}

static const char base[] =
    "x-all: &all {labels: {x: '1', y: '2'}, dns: [1.1.1.1]}\n"
    "services:\n"
    "  a:\n"
    "    <<: *all\n"
    "    image: i\n"
    "    environment: [A=1, AB=2, B]\n"
    "    ports: ['80:80']\n"
    "    healthcheck: {test: t, interval: 5s}\n"
    "    deploy: {update_config: {parallelism: 2, delay: 1s}, placement: {constraints: [node.id==1]}}\n"
    "    networks: [n, m]\n"
    "  b:\n"
    "    <<: *all\n"
    "    image: j\n"
    "networks: {n: {driver_opts: {a: b}}, m: }\n";

static void reset_takes_a_key_of_earlier_files_back(void **state)
{
    (void)state;
    struct compose_project *project = load_good(base,
                                                "services:\n"
                                                "  a:\n"
                                                "    ports: !reset []\n"
                                                "    environment: {A: !reset null}\n"
                                                "    labels: {x: !reset '', z: '3'}\n"
                                                "    healthcheck: !reset {test: not looked at, nor this: 1}\n"
                                                "    deploy: {update_config: {delay: !reset 0s}}\n"
                                                "    networks: {m: !reset null}\n"
                                                "networks: {n: {driver_opts: !reset }}\n",
                                                NULL);
    const struct compose_service *a = compose_service_find(project, "a"),
                                 *b = compose_service_find(project, "b");
    assert_int_equal(a->port_count, 0);
    test_strings(&a->environment, "AB=2,B");
    assert_int_equal(a->labels.count, 2);
    assert_null(compose_pairs_find(&a->labels, "x"));
    assert_string_equal(compose_pairs_find(&a->labels, "z"), "3");
    assert_false(a->healthcheck.is_set);
    assert_int_equal(a->deploy.update_config.parallelism.value, 2);
    assert_int_equal(a->deploy.update_config.delay_ns, 0);
    assert_int_equal(a->network_count, 1);
    assert_int_equal(project->networks[0].driver_opts.count, 0);
    /* What the two share by an anchor stays the other's. */
    assert_string_equal(compose_pairs_find(&b->labels, "x"), "1");
    assert_int_equal(b->labels.count, 2);
    compose_project_free(project);
}

static void override_puts_a_value_in_the_place_of_the_earlier(void **state)
{
    (void)state;
    struct compose_project *project =
        load_good(base,
                  "services:\n"
                  "  a:\n"
                  "    ports: !override ['443:443']\n"
                  "    environment: !override {C: '3'}\n"
                  "    dns: !override 8.8.8.8\n"
                  "    deploy: {placement: {constraints: !override [node.id==2]}}\n"
                  "  b: !override {image: k}\n",
                  "services: {a: {ports: ['444:444'], environment: {D: '4'}}}\n");
    const struct compose_service *a = compose_service_find(project, "a"),
                                 *b = compose_service_find(project, "b");
    assert_int_equal(a->port_count, 2);
    assert_int_equal(a->ports[0].published, 443);
    assert_int_equal(a->ports[1].published, 444);
    test_strings(&a->environment, "C=3,D=4");
    test_strings(&a->dns, "8.8.8.8");
    test_strings(&a->deploy.constraints, "node.id==2");
    assert_int_equal(a->deploy.update_config.parallelism.value, 2);
    assert_string_equal(b->image, "k");
    assert_int_equal(b->labels.count, 0);
    compose_project_free(project);
}

static void a_service_can_be_taken_back_whole_and_come_again(void **state)
{
    (void)state;
    struct compose_project *project =
        load_good(base, "services: {a: !reset {}}\n", "services: {a: {image: again}}\n");
    assert_int_equal(project->service_count, 2);
    const struct compose_service *a = compose_service_find(project, "a");
    assert_string_equal(a->image, "again");
    assert_int_equal(a->port_count, 0);
    compose_project_free(project);
    project = load_good(base, "services: {a: !reset {}}\n", NULL);
    assert_int_equal(project->service_count, 1);
    compose_project_free(project);
}

static void in_one_file_reset_leaves_a_key_out(void **state)
{
    (void)state;
    struct compose_project *project = load_good(
        "services:\n  a: &a {image: i, user: !reset u, tty: !override true}\n  b: *a\n", NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        assert_null(project->services[i].user);
        assert_true(project->services[i].tty);
    }
    compose_project_free(project);
}

static void a_tag_that_follows_no_key_is_refused(void **state)
{
    static const struct {
        const char *second, *error;
    } cases[] = {
        {"!reset {services: }\n", "2.yml:1:1: '!reset' must follow a key, and not one inside of a list"},
        {"services: {a: {dns: [!override x]}}\n",
         "2.yml:1:22: services.a.dns: '!override' must follow a key, and not one inside of a list"},
        {"services: {a: {ports: [{target: 1, published: !reset 2}]}}\n",
         "2.yml:1:47: services.a.ports.published: '!reset' must follow a key, and not one inside of a list"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const char *const texts[] = {base, cases[i].second, NULL};
        struct mst_error err = MST_ERROR_INIT;
        struct compose_project *project = NULL;
        assert_int_equal(load(texts, &project, &err), -EBADMSG);
        assert_string_equal(err.text, cases[i].error);
        assert_null(project);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reset_takes_a_key_of_earlier_files_back),
        cmocka_unit_test(override_puts_a_value_in_the_place_of_the_earlier),
        cmocka_unit_test(a_service_can_be_taken_back_whole_and_come_again),
        cmocka_unit_test(in_one_file_reset_leaves_a_key_out),
        cmocka_unit_test(a_tag_that_follows_no_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
