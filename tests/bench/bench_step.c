/* SPDX-License-Identifier: Apache-2.0 */
/* Time of whole training steps of one worker, beside the bare matrix products of the same shapes and a plain
 * update, in one process: bench_step [--threads N] [--batch N] [--steps N] [--data DIR] [--json FILE]. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/trainer.h"

#include <cblas.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    uint32_t threads, batch, steps;
    const char *data, *model;
    FILE *json; /* beside the table; NULL: none */
};

static int set_threads(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, TRAINER_MAX_THREADS, &((struct settings *)settings)->threads, err);
}

static int set_batch(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 4096, &((struct settings *)settings)->batch, err);
}

static int set_steps(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 100000, &((struct settings *)settings)->steps, err);
}

static int set_data(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->data = text;
    return 0;
}

static int set_json(void *settings, const char *text, struct mst_error *err)
{
    FILE *file = fopen(text, "we");
    ((struct settings *)settings)->json = file;
    return file ? 0 : mst_error_errno(err, -errno, "open '%s'", text);
}

static const struct mst_option option_table[] = {
    {.name = "threads", .argument = "N", .fallback = "1", .help = "of OpenBLAS", .set = set_threads},
    {.name = "batch", .argument = "N", .fallback = "64", .help = "samples a step", .set = set_batch},
    {.name = "steps", .argument = "N", .fallback = "200", .help = "to time", .set = set_steps},
    {.name = "data",
     .argument = "DIR",
     .fallback = MUSTER_SOURCE_DIR "/data/mnist",
     .help = "MNIST",
     .set = set_data},
    {.name = "json", .argument = "FILE", .help = "write the figures there as JSON, too", .set = set_json},
};

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct timing {
    double min_ms, median_ms;
};

static struct timing summarize(double *ms, size_t count)
{
    qsort(ms, count, sizeof *ms, compare_doubles);
    return (struct timing){ms[0], ms[count / 2]};
}

static float *random_floats(size_t count)
{
    float *floats = malloc(count * sizeof *floats);

    for (size_t i = 0; floats && i < count; i++)
        floats[i] = (float)((i * 2654435761u) % 1000) / 1000.0f - 0.5f;
    return floats;
}

/* The products that a step of mnist-cnn cannot do without, each in one call, and the update of all
 * parameters. */
static int time_bare_products(uint32_t batch, uint32_t rounds, double *ms)
{
    const int b = (int)batch, places = b * 26 * 26, in = 21632, out = 128;
    float *image_rows = random_floats((size_t)places * 9), *kernel = random_floats(9 * 32);
    float *maps = random_floats((size_t)places * 32), *weight = random_floats((size_t)in * (size_t)out);
    float *hidden = random_floats(batch * 128), *head = random_floats(128 * 10),
          *logits = random_floats(batch * 10);
    float *gradient = random_floats((size_t)in * (size_t)out), *small = random_floats(128 * 10);

    if (!image_rows || !kernel || !maps || !weight || !hidden || !head || !logits || !gradient || !small)
        return -ENOMEM;
    for (uint32_t i = 0; i < rounds; i++) {
        const uint64_t start_ns = mst_now_ns();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, places, 32, 9, 1, image_rows, 9, kernel, 32, 0,
                    maps, 32);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b, out, in, 1, maps, in, weight, out, 0,
                    hidden, out);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b, 10, out, 1, hidden, out, head, 10, 0,
                    logits, 10);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, 10, b, 1, hidden, out, logits, 10, 0, small,
                    10);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, b, out, 10, 1, logits, 10, head, 10, 0, hidden,
                    out);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, b, 1, maps, in, hidden, out, 0,
                    gradient, out);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, b, in, out, 1, hidden, out, weight, out, 0, maps,
                    in);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, 9, 32, places, 1, image_rows, 9, maps, 32, 0,
                    kernel, 32);
        cblas_saxpy(in * out, -1e-9f, gradient, 1, weight, 1);
        ms[i] = mst_ms_since(start_ns);
        /* What is multiplied again and again would overflow. */
        cblas_sscal(places * 32, 1e-3f, maps, 1);
        cblas_sscal(9 * 32, 1e-6f, kernel, 1);
    }
    float *all[] = {image_rows, kernel, maps, weight, hidden, head, logits, gradient, small};
    for (size_t i = 0; i < MST_ARRAY_COUNT(all); i++)
        free(all[i]);
    return 0;
}

static int time_steps(const struct settings *settings, double *ms, double *ret_loss, struct mst_error *err)
{
    struct trainer_dataset *train = NULL, *test = NULL;
    struct trainer_model *model = NULL;
    struct trainer *trainer = NULL;
    struct trainer_step_stats stats = {0};

    int r = trainer_dataset_open_folder(settings->data, &train, &test, err);
    if (r >= 0)
        r = trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &model, err);
    if (r >= 0) {
        const struct trainer_config config = {
            .model = model,
            .train = train,
            .batch = settings->batch,
            .shards = 1,
            .lr = 0.001,
            .seed = 1,
            .steps_per_epoch = settings->steps,
            .epochs = 1,
            .threads = settings->threads,
        };
        r = trainer_new(&config, &trainer, err);
    }
    for (uint32_t i = 0; r >= 0 && i < settings->steps + 5; i++) {
        r = trainer_step(trainer, false, &stats, err);
        if (i >= 5) /* the first ones also fetch memory */
            ms[i - 5] = stats.total_ms;
    }
    *ret_loss = stats.loss;
    trainer_free(trainer);
    trainer_model_free(model);
    trainer_dataset_free(train);
    trainer_dataset_free(test);
    return r;
}

int main(int argc, char **argv)
{
    const struct mst_options options = {.program = "bench_step",
                                        .synopsis = "[options]",
                                        .about = "Time whole training steps of one worker.",
                                        .table = option_table,
                                        .count = MST_ARRAY_COUNT(option_table)};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int operands;
    double loss;

    int r = mst_options_parse(&options, argc, argv, &settings, &operands, &err);
    if (r == 1)
        return 0;
    mst_cleanup(mst_freep) double *ms = r < 0 ? NULL : calloc(settings.steps, sizeof *ms);
    if (r >= 0)
        r = ms ? time_steps(&settings, ms, &loss, &err) : -ENOMEM;
    if (r < 0) {
        (void)fprintf(stderr, "bench_step: %s\n", err.text);
        return mst_exit_status(r);
    }
    const struct timing step = summarize(ms, settings.steps);
    if (time_bare_products(settings.batch, settings.steps, ms) < 0)
        return 1;
    const struct timing bare = summarize(ms, settings.steps);
    (void)printf("%s, %" PRIu32 " thread(s), batch %" PRIu32
                 ", loss %.4f\n  whole step    min %7.2f ms  median %7.2f ms\n"
                 "  bare products min %7.2f ms  median %7.2f ms\n",
                 trainer_kernel_name(), settings.threads, settings.batch, loss, step.min_ms, step.median_ms,
                 bare.min_ms, bare.median_ms);
    if (!settings.json)
        return 0;
    (void)fprintf(
        settings.json,
        "{\"bench\":\"step\",\"kernel\":\"%s\",\"threads\":%" PRIu32 ",\"batch\":%" PRIu32
        ",\"step_min_ms\":%.3f,\"step_median_ms\":%.3f,\"bare_min_ms\":%.3f,\"bare_median_ms\":%.3f}\n",
        trainer_kernel_name(), settings.threads, settings.batch, step.min_ms, step.median_ms, bare.min_ms,
        bare.median_ms);
    return fclose(settings.json) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}
