/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies against those that docker's own client sends for the same files (record_bodies.py). */
#include "../common/test.h"
#include "muster/json.h"
#include "spec.h"

static cJSON *read_json(const char *name)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT((size_t)4 << 20);
    char path[320];
    cJSON *json = NULL;

    (void)snprintf(path, sizeof path, "%s/%s.docker.json", MUSTER_TEST_DATA, name);
    assert_int_equal(mst_file_read(path, &text, NULL), 0);
    assert_int_equal(mst_json_parse(mst_buf_text(&text), text.count, path, &json, NULL), 0);
    return json;
}

static struct compose_project *read_project(const char *name)
{
    char path[320];
    const char *files[] = {path};
    const struct compose_options options = {.files = files, .file_count = 1, .stack = "st"};
    struct compose_project *project = NULL;
    struct mst_error err = MST_ERROR_INIT;

    (void)snprintf(path, sizeof path, "%s/%s.yml", MUSTER_TEST_DATA, name);
    if (compose_project_load(&options, &project, &err) < 0)
        fail_msg("%s", err.text);
    return project;
}

static void add_id(struct spec_ids *ids, enum engine_kind kind, const char *name)
{
    char id[300];

    (void)snprintf(id, sizeof id, "id-%s", name);
    assert_int_equal(spec_ids_add(ids, kind, name, id, NULL), 0);
}

/* As the recorder answers. Networks stay names: docker attaches by name. */
static void fill_ids(const struct compose_project *project, struct spec_ids *ids)
{
    for (size_t i = 0; i < project->secret_count; i++)
        add_id(ids, ENGINE_SECRET, project->secrets[i].name);
    for (size_t i = 0; i < project->config_count; i++)
        add_id(ids, ENGINE_CONFIG, project->configs[i].name);
}

/* What Go writes for nothing at all, on either side, is nothing. */
static bool is_nothing(const cJSON *value)
{
    return !value || cJSON_IsNull(value) || cJSON_IsFalse(value) ||
           (cJSON_IsString(value) && value->valuestring[0] == '\0');
}

static void assert_same(const cJSON *ours, const cJSON *dockers, const char *where)
{
    const cJSON *a, *b;
    char path[512];

    if (is_nothing(ours) && is_nothing(dockers))
        return;
    if (!ours || !dockers || cJSON_IsObject(ours) != cJSON_IsObject(dockers))
        fail_msg("%s: %s here, %s from docker", where, ours ? "there" : "absent",
                 dockers ? "there" : "absent");
    if (cJSON_IsObject(ours)) {
        cJSON_ArrayForEach(a, ours)
        {
            (void)snprintf(path, sizeof path, "%s.%s", where, a->string);
            assert_same(a, cJSON_GetObjectItemCaseSensitive(dockers, a->string), path);
        }
        cJSON_ArrayForEach(b, dockers)
        {
            (void)snprintf(path, sizeof path, "%s.%s", where, b->string);
            assert_same(cJSON_GetObjectItemCaseSensitive(ours, b->string), b, path);
        }
    } else if (cJSON_IsArray(ours)) {
        int index = 0;
        assert_int_equal(cJSON_GetArraySize(ours), cJSON_GetArraySize(dockers));
        cJSON_ArrayForEach(a, ours)
        {
            (void)snprintf(path, sizeof path, "%s[%d]", where, index);
            assert_same(a, cJSON_GetArrayItem(dockers, index++), path);
        }
    } else if (!cJSON_Compare(ours, dockers, true)) {
        mst_cleanup(mst_freep) char *one = cJSON_PrintUnformatted(ours);
        mst_cleanup(mst_freep) char *two = cJSON_PrintUnformatted(dockers);
        fail_msg("%s: %s here, %s from docker", where, one, two);
    }
}

static const cJSON *by_name(const cJSON *list, const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(mst_json_string_or(item, "Name", ""), name) == 0)
            return item;
    }
    fail_msg("docker made no '%s'", name);
    return NULL;
}

/* Raw numbers read back, as the engine reads them. */
static void compare_body(cJSON *body, const cJSON *list, const char *name)
{
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(body);
    mst_cleanup(mst_json_deletep) cJSON *plain = cJSON_Parse(text);

    cJSON_Delete(body);
    assert_same(plain, by_name(list, name), name);
}

static void compare_services(const struct compose_project *project, const struct spec_ids *ids,
                             const cJSON *dockers)
{
    const struct spec_kept kept = {0};

    for (size_t i = 0; i < project->service_count; i++) {
        mst_cleanup(mst_freep) char *image = spec_image_with_tag(project->services[i].image);
        const struct spec_image resolved = {.image = image};
        cJSON *body = NULL;
        assert_int_equal(spec_service(project, &project->services[i], ids, &resolved, &kept, &body, NULL), 0);
        compare_body(body, cJSON_GetObjectItem(dockers, "services"), project->services[i].name);
    }
}

static void bodies_are_those_of_docker(void **state)
{
    static const char *const names[] = {"minimal", "rest", "services", "shipped"};

    (void)state;
    for (size_t n = 0; n < MST_ARRAY_COUNT(names); n++) {
        mst_cleanup(compose_project_freep) struct compose_project *project = read_project(names[n]);
        mst_cleanup(mst_json_deletep) cJSON *dockers = read_json(names[n]);
        mst_cleanup(spec_ids_release) struct spec_ids ids = {0};
        cJSON *body = NULL;

        fill_ids(project, &ids);
        compare_services(project, &ids, dockers);
        for (size_t i = 0; i < project->network_count; i++) {
            if (project->networks[i].external || !project->networks[i].is_used)
                continue;
            assert_int_equal(spec_network(project, &project->networks[i], &body, NULL), 0);
            compare_body(body, cJSON_GetObjectItem(dockers, "networks"), project->networks[i].name);
        }
        for (size_t i = 0; i < project->config_count; i++) {
            const struct compose_content *c = &project->configs[i];
            if (c->external)
                continue;
            assert_int_equal(spec_content(project, c, c->name, c->bytes, c->byte_count, &body, NULL), 0);
            compare_body(body, cJSON_GetObjectItem(dockers, "configs"), c->name);
        }
        for (size_t i = 0; i < project->secret_count; i++) {
            const struct compose_content *c = &project->secrets[i];
            if (c->external)
                continue;
            assert_int_equal(spec_content(project, c, c->name, c->bytes, c->byte_count, &body, NULL), 0);
            compare_body(body, cJSON_GetObjectItem(dockers, "secrets"), c->name);
        }
    }
}

static void networks_are_attached_by_id_when_it_is_known(void **state)
{
    mst_cleanup(compose_project_freep) struct compose_project *project = read_project("minimal");
    mst_cleanup(spec_ids_release) struct spec_ids ids = {0};
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;
    const struct spec_image image = {.image = "busybox:1"};
    const struct spec_kept kept = {.force_update = 3};

    (void)state;
    assert_int_equal(spec_ids_add(&ids, ENGINE_NETWORK, "st_default", "net1", NULL), 0);
    assert_int_equal(spec_service(project, &project->services[0], &ids, &image, &kept, &body, NULL), 0);
    assert_string_equal(
        mst_json_string_or(cJSON_GetArrayItem(mst_json_at(body, "TaskTemplate", "Networks", NULL), 0),
                           "Target", ""),
        "net1");
    assert_int_equal(mst_json_u64_or(mst_json_at(body, "TaskTemplate", NULL), "ForceUpdate", 0), 3);
}

static void images_get_a_tag_and_lose_dockers_own_registry(void **state)
{
    static const struct {
        const char *image, *tagged;
    } cases[] = {
        {"busybox", "busybox:latest"},
        {"busybox:1", "busybox:1"},
        {"docker.io/library/busybox", "busybox:latest"},
        {"docker.io/some/thing:2", "some/thing:2"},
        {"host:5000/a", "host:5000/a:latest"},
        {"host:5000/a:1", "host:5000/a:1"},
        {"a@sha256:00", "a@sha256:00"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_freep) char *tagged = spec_image_with_tag(cases[i].image);
        assert_string_equal(tagged, cases[i].tagged);
    }
}

static void ids_are_replaced_and_forgotten(void **state)
{
    mst_cleanup(spec_ids_release) struct spec_ids ids = {0};

    (void)state;
    assert_null(spec_ids_find(&ids, ENGINE_SECRET, "a"));
    assert_int_equal(spec_ids_add(&ids, ENGINE_SECRET, "a", "1", NULL), 0);
    assert_int_equal(spec_ids_add(&ids, ENGINE_CONFIG, "a", "2", NULL), 0);
    assert_int_equal(spec_ids_add(&ids, ENGINE_SECRET, "a", "3", NULL), 0);
    assert_string_equal(spec_ids_find(&ids, ENGINE_SECRET, "a"), "3");
    assert_string_equal(spec_ids_find(&ids, ENGINE_CONFIG, "a"), "2");
    spec_ids_forget(&ids, ENGINE_SECRET, "a");
    assert_null(spec_ids_find(&ids, ENGINE_SECRET, "a"));
    assert_int_equal(ids.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_those_of_docker),
        cmocka_unit_test(networks_are_attached_by_id_when_it_is_known),
        cmocka_unit_test(images_get_a_tag_and_lose_dockers_own_registry),
        cmocka_unit_test(ids_are_replaced_and_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
