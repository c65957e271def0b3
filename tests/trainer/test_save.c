/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "muster/file.h"
#include "trainer_state.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

struct fixture {
    char *folder;
    struct trainer_model *model;
    struct trainer_dataset *data;
    struct trainer *trainer;
};

static struct trainer *new_trainer(const struct fixture *fixture, uint64_t seed)
{
    const struct trainer_config config = {.model = fixture->model,
                                          .train = fixture->data,
                                          .batch = 8,
                                          .shards = 1,
                                          .lr = 0.1,
                                          .momentum = 0.5,
                                          .seed = seed,
                                          .steps_per_epoch = 3,
                                          .epochs = 2,
                                          .threads = 1};
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;

    if (trainer_new(&config, &trainer, &err) < 0)
        fail_msg("%s", err.text);
    return trainer;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    void *folder;

    if (!fixture || helper_make_folder(&folder) < 0)
        return -1;
    fixture->folder = folder;
    fixture->model =
        helper_model("{\"name\":\"small\",\"input\":[4,4,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
                     "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[2,2]},{\"type\":\"flatten\"},"
                     "{\"type\":\"dense\",\"units\":3,\"name\":\"head\"}]}");
    fixture->data = helper_dataset((struct trainer_shape){.count = 3, .dims = {4, 4, 1}}, 40, 3);
    fixture->trainer = new_trainer(fixture, 1);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    void *folder = fixture->folder;

    trainer_free(fixture->trainer);
    trainer_dataset_free(fixture->data);
    trainer_model_free(fixture->model);
    free(fixture);
    return helper_remove_folder(&folder);
}

static void step(struct trainer *trainer, int times)
{
    struct trainer_step_stats stats;
    struct mst_error err = MST_ERROR_INIT;

    while (times-- > 0) {
        if (trainer_step(trainer, false, &stats, &err) < 0)
            fail_msg("%s", err.text);
    }
}

static void check_digests(const struct trainer *a, const struct trainer *b, bool equal)
{
    uint8_t digests[2][MST_SHA256_BYTES];

    assert_int_equal(trainer_digest(a, digests[0], NULL), 0);
    assert_int_equal(trainer_digest(b, digests[1], NULL), 0);
    assert_true((memcmp(digests[0], digests[1], MST_SHA256_BYTES) == 0) == equal);
}

static void a_saved_trainer_is_loaded_with_its_step(void **state)
{
    struct fixture *fixture = *state;
    struct trainer *other = new_trainer(fixture, 2);
    struct trainer_saved saved;
    struct mst_error err = MST_ERROR_INIT;
    void *folder = fixture->folder;
    uint8_t digest[MST_SHA256_BYTES];
    char path[512], hex[MST_SHA256_HEX_BYTES];

    step(fixture->trainer, 4);
    helper_path(&folder, "m.safetensors", path, sizeof path);
    if (trainer_save(fixture->trainer, path, &saved, &err) < 0)
        fail_msg("%s", err.text);
    check_digests(fixture->trainer, other, false);
    if (trainer_load(other, path, &err) < 0)
        fail_msg("%s", err.text);
    check_digests(fixture->trainer, other, true);
    assert_int_equal(trainer_steps_done(other), 4);
    assert_int_equal(trainer_digest(other, digest, NULL), 0);
    mst_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, saved.digest);
    trainer_free(other);
}

static void the_digest_is_that_of_the_files_data(void **state)
{
    struct fixture *fixture = *state;
    struct trainer_saved saved;
    void *folder = fixture->folder;
    struct mst_buf file = MST_BUF_INIT(100000);
    uint8_t digest[MST_SHA256_BYTES];
    char path[512], hex[MST_SHA256_HEX_BYTES];
    uint64_t header_bytes;

    helper_path(&folder, "m.safetensors", path, sizeof path);
    assert_int_equal(trainer_save(fixture->trainer, path, &saved, NULL), 0);
    assert_int_equal(mst_file_read(path, &file, NULL), 0);
    assert_int_equal(file.count, saved.bytes);
    memcpy(&header_bytes, file.bytes, 8);
    const size_t data_bytes = file.count - 8 - header_bytes;
    assert_int_equal(data_bytes, trainer_model_parameters(fixture->model) * sizeof(float));
    assert_int_equal(mst_sha256(file.bytes + 8 + header_bytes, data_bytes, digest, NULL), 0);
    mst_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, saved.digest);
    file.bytes[8 + header_bytes - 1] = '\0'; /* the end of the header is padding or its last bracket */
    const char *const keys[] = {"\"conv2d_1.weight\"", "\"head.bias\"",  "\"layout\"",
                                "\"step\":\"0\"",      "\"seed\":\"1\"", "\"model\":\"small\"",
                                "\"epoch\":\"0\""};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(strstr(file.bytes + 8, keys[i]));
    mst_buf_release(&file);
}

static void a_flipped_bit_or_another_model_is_refused_and_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct fixture wider = {.data = fixture->data};
    struct mst_error err = MST_ERROR_INIT;
    void *folder = fixture->folder;
    struct trainer *before = new_trainer(fixture, 1);
    char path[512], byte;

    helper_path(&folder, "m.safetensors", path, sizeof path);
    step(fixture->trainer, 2);
    step(before, 2);
    assert_int_equal(trainer_save(fixture->trainer, path, NULL, NULL), 0);

    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    const off_t end = lseek(fd, -5, SEEK_END);
    assert_int_equal(read(fd, &byte, 1), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(pwrite(fd, &byte, 1, end), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(trainer_load(fixture->trainer, path, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "damaged"));
    check_digests(fixture->trainer, before, true);
    assert_int_equal(trainer_steps_done(fixture->trainer), 2);

    wider.model =
        helper_model("{\"name\":\"wide\",\"input\":[4,4,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
                     "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[2,2]},{\"type\":\"flatten\"},"
                     "{\"type\":\"dense\",\"units\":3,\"name\":\"head\"}]}");
    struct trainer *other = new_trainer(&wider, 1);
    assert_int_equal(trainer_save(fixture->trainer, path, NULL, NULL), 0);
    assert_int_equal(trainer_load(other, path, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "tensor 'conv2d_1.weight': its shape is not the model's"));
    /* After a failed load training goes on as if nothing had been. */
    step(fixture->trainer, 1);
    step(before, 1);
    check_digests(fixture->trainer, before, true);
    trainer_free(other);
    trainer_free(before);
    trainer_model_free(wider.model);
}

static void parameters_that_are_no_numbers_are_not_written(void **state)
{
    struct fixture *fixture = *state;
    struct mst_error err = MST_ERROR_INIT;
    char path[256];

    (void)snprintf(path, sizeof path, "%s/nan.safetensors", fixture->folder);
    struct trainer *trainer = new_trainer(fixture, 9);
    trainer->parameters[trainer->current][7] = NAN;
    assert_int_equal(trainer_save(trainer, path, NULL, &err), -ERANGE);
    assert_non_null(strstr(err.text, "after step 0 parameter 7 is not a finite number: not written"));
    assert_int_equal(access(path, F_OK), -1);
    trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_saved_trainer_is_loaded_with_its_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parameters_that_are_no_numbers_are_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_digest_is_that_of_the_files_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_or_another_model_is_refused_and_changes_nothing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
