/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "model.h"

#define HEAD  "{\"name\":\"m\",\"input\":[28,28,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
#define CONV  "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[3,3]}"
#define FLAT  "{\"type\":\"flatten\"}"
#define DENSE "{\"type\":\"dense\",\"units\":10}"
#define TAIL  "]}"

static void reads_the_published_model(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_model *model;

    if (trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &model, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(trainer_model_name(model), "mnist-cnn");
    assert_int_equal(trainer_model_parameters(model), 2770634);
    assert_int_equal(trainer_model_classes(model), 10);
    const struct trainer_shape input = trainer_model_input(model);
    assert_int_equal(input.count, 3);
    assert_int_equal(trainer_shape_elements(&input), 784);
    assert_int_equal(model->layer_count, 4);
    assert_string_equal(model->layers[2].name, "dense_1");
    assert_int_equal(model->layers[1].out.dims[0], 21632);
    assert_int_equal(model->layers[2].tensors[0].offset, 320);
    assert_true(model->layers[0].activation == TRAINER_RELU && model->layers[2].activation == TRAINER_RELU &&
                model->layers[3].activation == TRAINER_LINEAR);
    trainer_model_free(model);
}

static const struct {
    const char *text, *says; /* a part of the error */
} wrong[] = {
    {"", "not well-formed JSON"},
    {"[]", "a model is a JSON object"},
    {"{\"name\":\"m\"}", "key 'loss' is missing"},
    {HEAD TAIL, "'layers' must be a list of 1 to 256"},
    {HEAD "7" TAIL, "layers[0]: must be an object"},
    {HEAD "{\"units\":3}" TAIL, "layers[0]: key 'type' is missing"},
    {HEAD "{\"type\":\"conv3d\"}" TAIL, "layers[0]: type 'conv3d', expected 'avg_pool', 'batch_norm', "
                                        "'conv2d', 'dense', 'dropout', 'embedding', "
                                        "'flatten', 'max_pool', 'relu', 'sigmoid', 'softmax' or 'tanh'"},
    {HEAD CONV "," DENSE TAIL,
     "layers[1] (dense_1): takes one dim, but its input is 26 x 26 x 2: put a flatten"},
    {HEAD FLAT "," CONV TAIL, "layers[1] (conv2d_1): takes rows x columns x channels, but its input is 784"},
    {HEAD CONV TAIL, "layers[0] (conv2d_1): the last layer gives 26 x 26 x 2"},
    {HEAD FLAT TAIL, "nothing to train"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":1}" TAIL, "at least 2"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":0}" TAIL,
     "layers[1] (dense_1): key 'units': 0 is not a whole number from 1"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":2.5}" TAIL, "key 'units'"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":1e300}" TAIL, "key 'units'"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":268435456}" TAIL, "beyond 268435456 parameters"},
    {HEAD FLAT ",{\"type\":\"dense\",\"unitz\":10}" TAIL,
     "layers[1] (dense_1): unknown key 'unitz', did you mean 'units'?"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":10,\"units\":11}" TAIL, "key 'units' is there twice"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":10,\"activation\":\"tanhh\"}" TAIL, "activation 'tanhh'"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":10,\"activation\":1}" TAIL,
     "key 'activation' is not a string"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2}" TAIL, "key 'kernel' must be [rows, columns]"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[3]}" TAIL, "key 'kernel' must be [rows, columns]"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[3,29]}" TAIL,
     "kernel[1] must be a whole number from 1 to the input's 28"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[0,3]}" TAIL, "kernel[0]"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":[\"3\",3]}" TAIL, "kernel[0]"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":3,\"stride\":0}" TAIL,
     "stride[0] must be a whole number from 1"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":3,\"stride\":[1,2,3]}" TAIL,
     "key 'stride' must be [rows, columns], or one number"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":3,\"padding\":\"full\"}" TAIL,
     "padding 'full', expected 'valid', 'same'"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":3,\"padding\":3}" TAIL,
     "padding[0] must be a whole number from 0 to 2"},
    {HEAD "{\"type\":\"max_pool\"}" TAIL, "layers[0] (max_pool_1): key 'size' must be [rows, columns]"},
    {HEAD "{\"type\":\"avg_pool\",\"size\":29}" TAIL,
     "size[0] must be a whole number from 1 to the input's 28"},
    {HEAD FLAT ",{\"type\":\"max_pool\",\"size\":2}" TAIL, "takes rows x columns x channels"},
    {HEAD FLAT ",{\"type\":\"dropout\"}," DENSE TAIL, "key 'rate' must be a number from 0 to below 1"},
    {HEAD FLAT ",{\"type\":\"dropout\",\"rate\":1}," DENSE TAIL, "key 'rate'"},
    {HEAD FLAT ",{\"type\":\"batch_norm\",\"rate\":0}," DENSE TAIL, "key 'rate' must be a number above 0"},
    {HEAD FLAT ",{\"type\":\"batch_norm\",\"epsilon\":\"x\"}," DENSE TAIL, "key 'epsilon'"},
    {HEAD FLAT ",{\"type\":\"embedding\",\"vocabulary\":5,\"size\":2}," DENSE TAIL,
     "must be the first layer"},
    {HEAD "{\"type\":\"embedding\",\"vocabulary\":5,\"size\":2}," DENSE TAIL, "takes one dim of numbers"},
    {HEAD FLAT "," DENSE ",{\"type\":\"softmax\"}" TAIL, "has a softmax of its own"},
    {"{\"name\":\"m\",\"input\":[28],\"loss\":\"cross_entropy\",\"layers\":[" DENSE TAIL,
     "takes probabilities: end with a softmax"},
    {HEAD FLAT ",{\"type\":\"dense\",\"units\":10,\"activation\":\"softmax\"}" TAIL,
     "softmax is a layer of its own"},
    {HEAD "{\"type\":\"conv2d\",\"filters\":65537,\"kernel\":[3,3]}" TAIL, "key 'filters'"},
    {HEAD "{\"type\":\"flatten\",\"units\":1}," DENSE TAIL, "layers[0] (flatten_1): unknown key 'units'"},
    {HEAD "{\"type\":\"flatten\",\"name\":\"a/b\"}," DENSE TAIL, "name 'a/b' must be"},
    {HEAD "{\"type\":\"flatten\",\"name\":\"dense_1\"}," DENSE TAIL, "layers[0] has the same name"},
    {"{\"name\":\"m\",\"input\":[28,28,1],\"loss\":\"mae\",\"layers\":[" FLAT "," DENSE TAIL, "loss 'mae'"},
    {"{\"name\":\"\",\"input\":[28],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL,
     "name '' must be"},
    {"{\"name\":\"m\",\"input\":[],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL,
     "key 'input'"},
    {"{\"name\":\"m\",\"input\":[0],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL, "input[0]"},
    {"{\"name\":\"m\",\"input\":[65536,65536],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL,
     "input[1]"},
    {"{\"name\":\"m\",\"input\":[1,1,1,1,1],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL,
     "key 'input'"},
    {"{\"name\":\"m\",\"imput\":[28],\"loss\":\"softmax_cross_entropy\",\"layers\":[" DENSE TAIL,
     "unknown key 'imput', did you mean 'input'?"},
};

static void refuses_what_does_not_fit_and_names_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct trainer_model *untouched = (struct trainer_model *)&err;
        const int r =
            trainer_model_parse(wrong[i].text, strlen(wrong[i].text), "model.json", &untouched, &err);
        assert_int_equal(r, -EBADMSG);
        assert_true(untouched == (struct trainer_model *)&err);
        if (strncmp(err.text, "model.json", 10) != 0 || !strstr(err.text, wrong[i].says))
            fail_msg("'%s' gave '%s', expected '%s' in it", wrong[i].text, err.text, wrong[i].says);
    }
}

static void refuses_too_many_layers_and_too_deep_nesting(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_model *model = NULL;
    char *text = malloc(65536);

    assert_non_null(text);
    size_t used = (size_t)snprintf(text, 65536, HEAD FLAT);
    for (int i = 0; i < 256; i++)
        used += (size_t)snprintf(text + used, 65536 - used, "," DENSE);
    used += (size_t)snprintf(text + used, 65536 - used, TAIL);
    assert_int_equal(trainer_model_parse(text, used, "m", &model, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "1 to 256 layers"));
    memset(text, '[', 65535);
    assert_int_equal(trainer_model_parse(text, 65535, "m", &model, &err), -EBADMSG);
    free(text);
}

static void digests_tell_models_apart_but_not_spellings(void **state)
{
    (void)state;
    struct trainer_model *a = helper_model(HEAD FLAT "," DENSE TAIL);
    struct trainer_model *same =
        helper_model("{\"layers\":[" FLAT ", {\"units\":10, \"name\":\"out\",\"type\":\"dense\"}],"
                     "\"loss\":\"softmax_cross_entropy\",\"input\":[28,28,1],\"name\":\"other\"}");
    struct trainer_model *relu =
        helper_model(HEAD FLAT ",{\"type\":\"dense\",\"units\":10,\"activation\":\"relu\"}" TAIL);
    struct trainer_model *wider = helper_model(HEAD FLAT ",{\"type\":\"dense\",\"units\":11}" TAIL);
    uint8_t digests[4][MST_SHA256_BYTES];

    assert_int_equal(trainer_model_digest(a, digests[0], NULL), 0);
    assert_int_equal(trainer_model_digest(same, digests[1], NULL), 0);
    assert_int_equal(trainer_model_digest(relu, digests[2], NULL), 0);
    assert_int_equal(trainer_model_digest(wider, digests[3], NULL), 0);
    assert_memory_equal(digests[0], digests[1], MST_SHA256_BYTES);
    assert_memory_not_equal(digests[0], digests[2], MST_SHA256_BYTES);
    assert_memory_not_equal(digests[0], digests[3], MST_SHA256_BYTES);
    trainer_model_free(a);
    trainer_model_free(same);
    trainer_model_free(relu);
    trainer_model_free(wider);
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_model *model = NULL;

    assert_int_equal(trainer_model_read("/nonexistent/model.json", &model, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/model.json"));
    assert_null(model);
    trainer_model_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_published_model),
        cmocka_unit_test(refuses_what_does_not_fit_and_names_the_place),
        cmocka_unit_test(refuses_too_many_layers_and_too_deep_nesting),
        cmocka_unit_test(digests_tell_models_apart_but_not_spellings),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
