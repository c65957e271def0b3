/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the dataset.json of a folder with two small CSV files ('d' as first byte; 'v' with a validation
 * set), or as the encoding that a model file brings along ('e'). What is opened is finite, in range, and of
 * one shape. */
#include "muster/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* In memory where that can be: it is written to for every input. */
static char in_memory[] = "/dev/shm/muster-fuzz-dataset.XXXXXX",
            on_disk[] = "/tmp/muster-fuzz-dataset.XXXXXX";
static const char *folder;

static void put(const char *name, const void *bytes, size_t count)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count || close(fd) < 0)
        abort();
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void remove_folder(void)
{
    static const char *const names[] = {"a.csv", "b.csv", "dataset.json"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void make_folder(void)
{
    folder = mkdtemp(in_memory);
    if (!folder)
        folder = mkdtemp(on_disk);
    if (!folder || atexit(remove_folder) != 0)
        abort();
    put_text("a.csv", "color,size,weight,label\nred,1,2.5,0\ngreen,2,-3,1\nred,3,1e3,2\nblue,4,0,1\n"
                      "green,5,7,0\nblue,6,8,2\nred,7,9,1\ngreen,8,1,0\n");
    put_text("b.csv", "label,weight,size,color\n1,2,3,red\n0,4,5,blue\n2,6,7,green\n");
}

static void check_set(const struct trainer_dataset *set, const struct trainer_data *data)
{
    if (!set)
        return;
    const struct trainer_shape shape = trainer_dataset_shape(set),
                               other = trainer_dataset_shape(data->test ? data->test : set);
    const size_t targets = trainer_dataset_target_size(set);

    if (trainer_dataset_count(set) == 0 || trainer_shape_elements(&shape) != trainer_shape_elements(&other))
        abort();
    for (size_t i = 0; i < trainer_dataset_count(set); i++) {
        if (targets == 0 && trainer_dataset_label(set, i) >= trainer_dataset_classes(set) &&
            trainer_dataset_is_labelled(set))
            abort();
        for (size_t t = 0; t < targets; t++) {
            if (!isfinite(trainer_dataset_target(set, i)[t]))
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static bool made;
    struct trainer_data data = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_data_options options = {.seed = 1};
    char text[TEXT_MAX + 1];

    if (count == 0 || count > TEXT_MAX)
        return 0;
    if (!made)
        make_folder();
    made = true;
    memcpy(text, bytes + 1, count - 1);
    text[count - 1] = '\0';
    if (bytes[0] == 'e') {
        options.encoding = text;
        put_text("dataset.json",
                 "{\"format\": \"csv\", \"train\": \"a.csv\", \"test\": \"b.csv\", \"label\": \"label\", "
                 "\"categorical\": [\"color\"]}");
    } else {
        options.validation = bytes[0] == 'v' ? 0.25 : 0;
        put("dataset.json", text, count - 1);
    }
    const int r = trainer_data_open(folder, &options, &data, &err);
    if (r < 0 && (data.train || data.test || data.encoding || !err.text[0]))
        abort();
    check_set(data.train, &data);
    check_set(data.validation, &data);
    check_set(data.test, &data);
    trainer_data_release(&data);
    return 0;
}
