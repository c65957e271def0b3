/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"
#include "muster/cleanup.h"
#include "text_files.h"

#include <math.h>

static const struct trainer_data_options plain = {0};

static struct trainer_data open_data(void **state, const struct trainer_data_options *options)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    if (trainer_data_open(*state, options, &data, &err) < 0)
        fail_msg("%s", err.text);
    return data;
}

static void check_refused(void **state, const char *says)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    const int r = trainer_data_open(*state, &plain, &data, &err);
    if (r != -EBADMSG && r != -ENOENT)
        fail_msg("code %d, expected '%s'", r, says);
    if (!strstr(err.text, says))
        fail_msg("'%s' has no '%s'", err.text, says);
    assert_null(data.train);
    assert_null(data.encoding);
}

static void a_file_with_a_column_label_needs_no_description(void **state)
{
    text_put(state, "train.csv", "x,label,y\n1,cat,10\n2,dog,20\n3,cat,60\n");
    text_put(state, "test.csv", "label,y,x\ndog,30,2\n"); /* columns are found by name */
    struct trainer_data data = open_data(state, &plain);
    assert_int_equal(data.train->count, 3);
    assert_int_equal(data.train->classes, 2);
    assert_int_equal(data.train->shape.count, 1);
    assert_int_equal(data.train->shape.dims[0], 2);
    assert_memory_equal(data.train->labels, ((const uint32_t[]){0, 1, 0}), 12);
    assert_int_equal(data.test->labels[0], 1);
    assert_int_equal(data.test->classes, 2);
    /* x: mean 2, deviation sqrt(2/3); y: mean 30 */
    assert_true(fabsf(data.train->floats[0] + 1.2247449f) < 1e-6f);
    assert_true(data.test->floats[0] == 0 && data.test->floats[1] == 0);
    assert_true(trainer_dataset_is_labelled(data.train) && trainer_dataset_is_labelled(data.test));
    trainer_data_release(&data);
}

static void columns_are_named_by_their_place_and_from_the_end(void **state)
{
    text_put(
        state, "dataset.json",
        "{\"format\": \"csv\", \"train\": \"a.data\", \"header\": false, \"label\": -1, \"inputs\": [2, 0],"
        " \"test_last\": 1, \"separator\": \";\", \"normalise\": \"none\"}");
    text_put(state, "a.data", "1;x;2;10\n 3 ;x; 4e0;9\n5;x;6;10\n");
    struct trainer_data data = open_data(state, &plain);
    assert_int_equal(data.train->count, 2);
    assert_int_equal(data.test->count, 1);
    assert_memory_equal(data.train->floats, ((const float[]){2, 1, 4, 3}), 16);
    assert_memory_equal(data.test->floats, ((const float[]){6, 5}), 8);
    assert_memory_equal(data.train->labels, ((const uint32_t[]){1, 0}), 8); /* 9 comes before 10 */
    trainer_data_release(&data);
}

static void categorical_columns_become_one_hot_or_a_number(void **state)
{
    static const char *const encodings[] = {"one_hot", "index"};
    static const float expected[2][12] = {{0, 1, 0, 7, 1, 0, 0, 8, 0, 0, 1, 9}, {1, 7, 0, 8, 2, 9}};
    char text[256];

    text_put(state, "train.csv", "colour,n,label\nred,7,0\nblue,8,1\nyellow,9,0\n");
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text,
                       "{\"format\": \"csv\", \"train\": \"train.csv\", \"label\": \"label\", \"normalise\": "
                       "\"none\", \"categorical\": [\"colour\"], \"encoding\": \"%s\"}",
                       encodings[i]);
        text_put(state, "dataset.json", text);
        struct trainer_data data = open_data(state, &plain);
        assert_int_equal(data.train->shape.dims[0], i == 0 ? 4 : 2);
        assert_memory_equal(data.train->floats, expected[i], (i == 0 ? 12 : 6) * sizeof(float));
        assert_null(data.test);
        trainer_data_release(&data);
    }
}

/* Next to 2^24 a float has no halves, and at 1.7e9 only every 128th whole number. */
static void large_numbers_keep_their_differences(void **state)
{
    static const char *const ways[] = {"range", "standard"};
    char text[128];

    text_put(state, "t.csv", "time,n,label\n1700000001,16777216.25,0\n1700000003,16777216.75,1\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(ways); i++) {
        const float least = i == 0 ? 0 : -1;
        (void)snprintf(text, sizeof text,
                       "{\"format\": \"csv\", \"train\": \"t.csv\", \"label\": \"label\", \"normalise\": "
                       "\"%s\"}",
                       ways[i]);
        text_put(state, "dataset.json", text);
        struct trainer_data data = open_data(state, &plain);
        assert_memory_equal(data.train->floats, ((const float[]){least, least, 1, 1}), 4 * sizeof(float));
        trainer_data_release(&data);
    }
}

static void targets_are_taken_instead_of_a_label(void **state)
{
    text_put(
        state, "dataset.json",
        "{\"format\": \"csv\", \"train\": \"t.csv\", \"targets\": [\"b\", \"a\"], \"normalise\": \"range\","
        " \"shape\": [2, 1]}");
    text_put(state, "t.csv", "a,x,b,y\n1,0,2,5\n3,10,4,5\n5,20,6,5\n");
    struct trainer_data data = open_data(state, &plain);
    assert_int_equal(data.train->classes, 0);
    assert_int_equal(data.train->target_size, 2);
    assert_int_equal(data.train->shape.count, 2);
    assert_memory_equal(data.train->targets, ((const float[]){2, 1, 4, 3, 6, 5}), 24);
    assert_memory_equal(data.train->floats, ((const float[]){0, 0, 0.5f, 0, 1, 0}), 24);
    trainer_data_release(&data);
}

static void normalisation_knows_nothing_of_validation_and_test(void **state)
{
    const struct trainer_data_options options = {.validation = 0.5, .seed = 5};
    char text[1024] = "x,label\n";
    double sum = 0;

    for (int i = 0; i < 40; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d\n", i * i, i % 2);
    text_put(state, "train.csv", text);
    text_put(state, "test.csv", "x,label\n1e6,1\n");
    struct trainer_data data = open_data(state, &options);
    assert_int_equal(data.train->count, 20);
    assert_int_equal(data.validation->count, 20);
    for (size_t i = 0; i < 20; i++)
        sum += (double)data.train->floats[i];
    assert_true(fabs(sum) < 1e-4);
    sum = 0;
    for (size_t i = 0; i < 20; i++)
        sum += (double)data.validation->floats[i];
    assert_true(fabs(sum) > 1e-2);
    assert_true(data.test->floats[0] > 1000);
    trainer_data_release(&data);
}

static void other_rows_are_made_as_those_that_trained(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data, again;

    text_put(state, "dataset.json",
             "{\"format\": \"csv\", \"train\": \"train.csv\", \"test\": \"test.csv\", \"label\": \"label\","
             " \"categorical\": [\"c\"]}");
    text_put(state, "train.csv", "c,x,label\nb,1,two\na,3,one\nb,9,three\n");
    text_put(state, "test.csv", "c,x,label\na,9,one\n");
    data = open_data(state, &plain);
    assert_non_null(data.encoding);
    /* Now without the training file, without labels, in another order, and with a column more. */
    text_put(state, "dataset.json", "{\"format\": \"csv\", \"test\": \"new.csv\", \"label\": \"label\"}");
    text_put(state, "new.csv", "x,id,c\n9,row 1,a\n");
    const struct trainer_data_options options = {.encoding = data.encoding};
    again = open_data(state, &options);
    assert_null(again.train);
    assert_false(trainer_dataset_is_labelled(again.test));
    assert_string_equal(again.encoding, data.encoding); /* the classes' names stay known */
    assert_int_equal(again.test->shape.dims[0], 3);
    assert_memory_equal(again.test->floats, data.test->floats, 3 * sizeof(float));
    trainer_data_release(&again);
    text_put(state, "new.csv", "x,c\n9,z\n");
    assert_int_equal(trainer_data_open(*state, &options, &again, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "new.csv:2: column 'c': 'z' is not among the training set's 2"));
    text_put(state, "new.csv", "y,c\n9,a\n");
    assert_int_equal(trainer_data_open(*state, &options, &again, &err), -EBADMSG);
    assert_string_equal(err.text, "there is no column 'x', which the model was trained with");
    trainer_data_release(&data);
}

/* Their names go into the model's file, however many and long. */
static void categories_by_the_thousand_stay_with_the_model(void **state)
{
    enum { CATEGORIES = 20000, LINE_BYTES = 64 };
    mst_cleanup(mst_freep) char *text = malloc(CATEGORIES * LINE_BYTES);
    size_t used = 0;

    assert_non_null(text);
    used += (size_t)snprintf(text, LINE_BYTES, "c,label\n");
    for (int i = 0; i < CATEGORIES; i++)
        used += (size_t)snprintf(text + used, LINE_BYTES, "a name of some length %05d,%d\n", i, i % 2);
    text_put(state, "dataset.json",
             "{\"format\": \"csv\", \"train\": \"t.csv\", \"label\": \"label\", \"categorical\": [\"c\"],"
             " \"encoding\": \"index\"}");
    text_write(state, "t.csv", text, used, NULL, 0);
    struct trainer_data data = open_data(state, &plain);
    assert_non_null(data.encoding);
    assert_non_null(strstr(data.encoding, "a name of some length 19999"));
    text_put(state, "t.csv", "c,label\na name of some length 12345,0\n");
    const struct trainer_data_options options = {.encoding = data.encoding, .is_trained = true};
    struct trainer_data other = open_data(state, &options);
    assert_true(other.train->floats[0] == 12345);
    trainer_data_release(&other);
    trainer_data_release(&data);
}

/* A control character takes seven bytes there. */
static void names_that_no_model_file_can_hold_are_refused(void **state)
{
    enum { NAMES = 13, NAME_BYTES = 1000000 };
    mst_cleanup(mst_freep) char *text = malloc(NAMES * (NAME_BYTES + 8) + 8);
    size_t used = 0;

    assert_non_null(text);
    used += (size_t)snprintf(text, 9, "c,label\n");
    for (int i = 0; i < NAMES; i++) {
        text[used++] = (char)('a' + i);
        memset(text + used, 1, NAME_BYTES);
        used += NAME_BYTES;
        memcpy(text + used, ",0\n", 3);
        used += 3;
    }
    text_put(state, "dataset.json",
             "{\"format\": \"csv\", \"train\": \"t.csv\", \"label\": \"label\", \"categorical\": [\"c\"]}");
    text_write(state, "t.csv", text, used, NULL, 0);
    check_refused(state, "expected at most 90000000, which a model file can hold");
}

static void what_was_fitted_is_not_fitted_again_for_a_trained_model(void **state)
{
#define FORM "{\"format\": \"csv\", \"train\": \"t.csv\", \"label\": \"label\""
    static const struct {
        const char *text, *says; /* NULL: nothing is fitted */
    } cases[] = {
        {FORM ", \"classes\": 2}", "column 'x'"},
        {FORM ", \"classes\": 2, \"normalise\": \"range\"}", "column 'x'"},
        {FORM ", \"normalise\": \"none\"}", "column 'label'"},
        {FORM ", \"classes\": 2, \"normalise\": \"none\", \"categorical\": [\"x\"]}", "column 'x'"},
        {FORM ", \"classes\": 2, \"normalise\": \"none\"}", NULL},
    };
    const struct trainer_data_options options = {.is_trained = true};

    text_put(state, "t.csv", "x,label\n1,0\n5,1\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct trainer_data data = {0};
        text_put(state, "dataset.json", cases[i].text);
        const int r = trainer_data_open(*state, &options, &data, &err);
        assert_int_equal(r, cases[i].says ? -EBADMSG : 0);
        if (cases[i].says && (!strstr(err.text, cases[i].says) || !strstr(err.text, "lacks 'encoding'")))
            fail_msg("case %zu: %s", i, err.text);
        trainer_data_release(&data);
        data = open_data(state, &plain);
        trainer_data_release(&data);
    }
}

static void what_is_wrong_is_told_with_file_and_line(void **state)
{
    static const struct {
        const char *train, *test, *says;
    } cases[] = {
        {"x,label\n1,a\n2\n", NULL, "train.csv:3: 1 fields, the first row has 2"},
        {"x,label\n1,a\n2,b,c\n", NULL, "train.csv:3: 3 fields, the first row has 2"},
        {"x,label\n1,a\nabc,b\n", NULL, "train.csv:3: column 'x': 'abc' is not a finite number"},
        {"x,label\nnan,a\n", NULL, "train.csv:2: column 'x': 'nan' is not a finite number"},
        {"x,label\n1,a\n\n-inf,a\n", NULL, "train.csv:4: column 'x': '-inf' is not a finite number"},
        {"x,label\n1e39,a\n", NULL, "train.csv:2: column 'x': '1e39' is not a finite number"},
        {"x,label\n,a\n", NULL, "train.csv:2: column 'x': the field is empty"},
        {"x,label\n1,a\n2,\n", NULL, "train.csv:3: column 'label': the field is empty"},
        {"x,label\n1,a\n2,\"\"\n", NULL, "train.csv:3: column 'label': the field is empty"},
        {"x,y\n1,a\n", NULL, "train.csv:1: there is no column 'label'"},
        {"label\na\n", NULL, "no column is left to be an input"},
        {"x,label\n", NULL, "no rows behind the header"},
        {"", NULL, "there are no rows"},
        {"x,label\n1,a\n", "x,label\n1,a\n2,b\n",
         "test.csv:3: column 'label': 'b' is not among the training set's 1"},
        {"x,label\n1,a\n", "y,label\n1,a\n", "test.csv:1: there is no column 'x'"},
        {"x,x,label\n1,2,a\n", NULL, "train.csv:1: column 'x' is there twice"},
        {"label,x,label\na,1,b\n", NULL, "train.csv:1: column 'label' is there twice"},
        {"x,label\n1,a\n", "x,label,x\n1,a,2\n", "test.csv:1: column 'x' is there twice"},
        {"x,label\n1,\"a\n", NULL, "train.csv:2: a quote is opened and never closed"},
    };
    char path[512];

    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        text_put(state, "train.csv", cases[i].train);
        if (cases[i].test)
            text_put(state, "test.csv", cases[i].test);
        else
            (void)unlink(helper_path(state, "test.csv", path, sizeof path));
        check_refused(state, cases[i].says);
    }
}

static void a_test_file_that_is_a_link_to_nothing_is_missed(void **state)
{
    char path[512];

    text_put(state, "train.csv", "x,label\n1,a\n");
    assert_int_equal(symlink("nothing", helper_path(state, "test.csv", path, sizeof path)), 0);
    check_refused(state, "test.csv': it is a link to something that is not there");
}

static void what_is_wrong_in_a_description_is_told(void **state)
{
#define CSV "{\"format\": \"csv\", \"train\": \"t.csv\""
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[]", "dataset.json: not a JSON object"},
        {"{", "dataset.json"},
        {"{}", "key 'format' is missing"},
        {"{\"format\": \"parquet\"}", "dataset.json: format 'parquet', expected 'idx', 'csv' or 'images'"},
        {"{\"format\": \"csv\", \"label\": 0}", "key 'train' must be there"},
        {CSV "}", "exactly one of the keys 'label' and 'targets' must be there"},
        {CSV ", \"label\": 0, \"targets\": [1]}", "exactly one of"},
        {CSV ", \"lable\": 0}", "unknown key 'lable', did you mean 'label'?"},
        {CSV ", \"label\": 0, \"label\": 0}", "key 'label' is there twice"},
        {CSV ", \"label\": 1.5}", "key 'label' must be a column"},
        {CSV ", \"label\": 2}", "there is no column 2: "},
        {CSV ", \"label\": -3}", "there is no column -3: "},
        {CSV ", \"label\": \"z\"}", "t.csv:1: there is no column 'z'"},
        {CSV ", \"label\": \"b\", \"header\": false}", "without a header columns are told by their place"},
        {CSV ", \"label\": 1, \"inputs\": [1]}", "is named twice"},
        {CSV ", \"label\": 1, \"categorical\": [1]}", "is not among the inputs"},
        {CSV ", \"label\": 1, \"inputs\": []}", "key 'inputs' must be a list of columns"},
        {CSV ", \"label\": 1, \"test\": \"../t.csv\"}", "key 'test' must be the plain name"},
        {CSV ", \"label\": 1, \"test_last\": 2}", "'test_last' is 2, and '"},
        {CSV ", \"label\": 1, \"classes\": [\"7\", \"7\"]}", "class '7' is named twice"},
        {CSV ", \"label\": 1, \"classes\": 7}", "t.csv:3: column 'b': label '7', expected 0 to 6"},
        {CSV ", \"label\": 1, \"classes\": [\"5\"]}", "t.csv:3: column 'b': '7' is not among"},
        {CSV ", \"label\": 1, \"classes\": 70000}", "classes"},
        {CSV ", \"label\": 1, \"shape\": [2]}", "key 'shape' says 2 values, the columns give 1"},
        {CSV ", \"label\": 1, \"shape\": [0]}", "key 'shape' must be a list of 1 to 4 sizes"},
        {CSV ", \"label\": 1, \"separator\": \"\\\"\"}", "key 'separator' must be"},
        {CSV ", \"label\": 1, \"normalise\": \"zscore\"}",
         "normalise 'zscore', expected 'standard', 'range' or 'none'"},
        {CSV ", \"label\": 1, \"encoding\": \"onehot\"}", "encoding 'onehot', expected 'one_hot' or 'index'"},
    };

    text_put(state, "t.csv", "a,b\n1,5\n2,7\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        text_put(state, "dataset.json", cases[i].text);
        check_refused(state, cases[i].says);
    }
}

static void a_folder_of_nothing_known_is_refused(void **state)
{
    check_refused(state, "holds neither dataset.json nor IDX files");
}

static void reads_the_letters_that_come_with_the_source(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data data = {0};

    if (trainer_data_open(MUSTER_SOURCE_DIR "/data/letters", &plain, &data, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(data.train->count, 16000);
    assert_int_equal(data.test->count, 4000);
    assert_int_equal(data.train->classes, 26);
    assert_int_equal(data.train->shape.dims[0], 16);
    assert_int_equal(data.train->labels[0], 'T' - 'A'); /* its first line begins with a T */
    trainer_data_release(&data);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_make_folder, helper_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_with_a_column_label_needs_no_description),
        IN_FOLDER(columns_are_named_by_their_place_and_from_the_end),
        IN_FOLDER(categorical_columns_become_one_hot_or_a_number),
        IN_FOLDER(large_numbers_keep_their_differences),
        IN_FOLDER(targets_are_taken_instead_of_a_label),
        IN_FOLDER(normalisation_knows_nothing_of_validation_and_test),
        IN_FOLDER(other_rows_are_made_as_those_that_trained),
        IN_FOLDER(categories_by_the_thousand_stay_with_the_model),
        IN_FOLDER(names_that_no_model_file_can_hold_are_refused),
        IN_FOLDER(what_was_fitted_is_not_fitted_again_for_a_trained_model),
        IN_FOLDER(what_is_wrong_is_told_with_file_and_line),
        IN_FOLDER(a_test_file_that_is_a_link_to_nothing_is_missed),
        IN_FOLDER(what_is_wrong_in_a_description_is_told),
        IN_FOLDER(a_folder_of_nothing_known_is_refused),
        cmocka_unit_test(reads_the_letters_that_come_with_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
