/* SPDX-License-Identifier: Apache-2.0 */
/* Saved models in other programs: data/portable/ holds what OpenCV made of our ONNX files, and numpy of our
 * safetensors files, for the first 100 test images of MNIST. make_portable.py wrote it, with this program's
 * help: with MUSTER_PORTABLE_OUT in the environment the files go there and stay. */
#include "helpers.h"
#include "muster/cleanup.h"
#include "trainer_state.h"

#include <math.h>

#define IMAGES    100
#define CLASSES   10
#define TOLERANCE 1e-5

static const struct {
    const char *name, *text; /* NULL: a model that comes with the source */
} models[] = {
    {"mnist-cnn", NULL},
    {"mnist-lenet", NULL},
    /* Whatever those two have not. */
    {"many-layers",
     "{\"name\": \"many-layers\", \"input\": [28, 28, 1], \"loss\": \"softmax_cross_entropy\", \"layers\": ["
     "{\"type\": \"conv2d\", \"filters\": 4, \"kernel\": [3, 5], \"stride\": [2, 1], \"padding\": \"same\"},"
     "{\"type\": \"batch_norm\", \"activation\": \"tanh\"},"
     "{\"type\": \"avg_pool\", \"size\": 3, \"stride\": 2, \"padding\": \"same\"},"
     "{\"type\": \"conv2d\", \"filters\": 6, \"kernel\": [3, 2], \"activation\": \"sigmoid\"},"
     "{\"type\": \"max_pool\", \"size\": [2, 3]}, {\"type\": \"relu\"}, {\"type\": \"flatten\"},"
     "{\"type\": \"dense\", \"units\": 20, \"activation\": \"tanh\"}, {\"type\": \"batch_norm\"},"
     "{\"type\": \"dropout\", \"rate\": 0.5}, {\"type\": \"dense\", \"units\": 10}]}"},
};

struct fixture {
    char *folder;
    struct trainer_dataset *train, *test;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    void *folder = NULL;

    if (helper_make_folder(&folder) < 0 ||
        trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &fixture.train, &fixture.test, NULL) < 0)
        return -1;
    fixture.folder = folder;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    void *folder = fixture->folder;

    trainer_dataset_free(fixture->train);
    trainer_dataset_free(fixture->test);
    return helper_remove_folder(&folder);
}

static struct trainer_model *open_model(size_t m)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_model *model = NULL;
    char path[512];

    if (models[m].text)
        return helper_model(models[m].text);
    (void)snprintf(path, sizeof path, MUSTER_SOURCE_DIR "/trainer/models/%s.json", models[m].name);
    if (trainer_model_read(path, &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

/* Parameters from the seed, with a little more to each: biases and running means would be 0 otherwise. */
static struct trainer *make_trainer(const struct fixture *fixture, const struct trainer_model *model)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;
    const struct trainer_config config = {.model = model,
                                          .train = fixture->train,
                                          .batch = 50,
                                          .shards = 1,
                                          .lr = 0.1,
                                          .seed = 11,
                                          .steps_per_epoch = 1,
                                          .epochs = 1,
                                          .threads = 1};

    if (trainer_new(&config, &trainer, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < trainer->count; i++)
        trainer->parameters[trainer->current][i] += ((float)(i * 7919 % 101) - 40) / 8192.0f;
    return trainer;
}

static void check_outputs(const char *name, const char *program, const float *logits)
{
    float stored[IMAGES * CLASSES];
    char path[512];

    (void)snprintf(path, sizeof path, MUSTER_TEST_DATA "/portable/%s-%s.f32", name, program);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("no '%s'", path);
    assert_int_equal(fread(stored, sizeof *stored, IMAGES * CLASSES, file), IMAGES * CLASSES);
    assert_int_equal(fclose(file), 0);
    double largest = 0;
    for (size_t i = 0; i < IMAGES * CLASSES; i++)
        largest = fmax(largest, fabs((double)stored[i] - (double)logits[i]));
    if (!(largest <= TOLERANCE))
        fail_msg("%s in %s: outputs differ by %g", name, program, largest);
}

/* The file that the stored outputs were made of is the one that is written now. */
static void check_digest(const char *name, const char *format, const char *path)
{
    uint8_t digest[MST_SHA256_BYTES];
    char own[MST_SHA256_HEX_BYTES], stored[MST_SHA256_HEX_BYTES] = "", list[512];

    assert_int_equal(mst_sha256_file(path, digest, NULL), 0);
    mst_hex(digest, sizeof digest, own);
    (void)snprintf(list, sizeof list, MUSTER_TEST_DATA "/portable/%s.%s.sha256", name, format);
    FILE *file = fopen(list, "rb");
    if (!file)
        fail_msg("no '%s'", list);
    assert_non_null(fgets(stored, sizeof stored, file));
    assert_int_equal(fclose(file), 0);
    if (strcmp(own, stored) != 0)
        fail_msg("%s.%s is no longer the file that other programs were given: run make_portable.py", name,
                 format);
}

static void other_programs_find_the_same_outputs(void **state)
{
    struct fixture *fixture = *state;
    const char *keep = getenv("MUSTER_PORTABLE_OUT");
    const char *folder = keep ? keep : fixture->folder;
    static float logits[IMAGES * CLASSES];
    struct mst_error err = MST_ERROR_INIT;
    char onnx[512], safetensors[512], npz[512];

    for (size_t m = 0; m < MST_ARRAY_COUNT(models); m++) {
        struct trainer_model *model = open_model(m);
        struct trainer *trainer = make_trainer(fixture, model);
        (void)snprintf(onnx, sizeof onnx, "%s/%s.onnx", folder, models[m].name);
        (void)snprintf(safetensors, sizeof safetensors, "%s/%s.safetensors", folder, models[m].name);
        (void)snprintf(npz, sizeof npz, "%s/%s.npz", folder, models[m].name);
        if (trainer_save_onnx(trainer, onnx, NULL, &err) < 0 ||
            trainer_save(trainer, safetensors, NULL, &err) < 0 ||
            trainer_save_npz(trainer, npz, NULL, &err) < 0 ||
            trainer_predict(trainer, fixture->test, 0, IMAGES, logits, &err) < 0)
            fail_msg("%s", err.text);
        if (!keep) {
            check_digest(models[m].name, "onnx", onnx);
            check_digest(models[m].name, "npz", npz);
            check_digest(models[m].name, "safetensors", safetensors);
            check_outputs(models[m].name, "opencv", logits);
            check_outputs(models[m].name, "torch", logits);
        }
        trainer_free(trainer);
        trainer_model_free(model);
    }
}

static void what_onnx_cannot_hold_or_the_disk_does_not_take_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_model *model = open_model(0);
    struct trainer *trainer = make_trainer(fixture, model);
    struct mst_error err = MST_ERROR_INIT;

    assert_int_equal(trainer_save_onnx(trainer, "/dev/full/x.onnx", NULL, &err), -ENOTDIR);
    assert_int_equal(trainer_save_npz(trainer, "/nowhere/x.npz", NULL, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/x.npz"));
    trainer_free(trainer);
    trainer_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_programs_find_the_same_outputs),
        cmocka_unit_test(what_onnx_cannot_hold_or_the_disk_does_not_take_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
