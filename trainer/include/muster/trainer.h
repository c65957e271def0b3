/* SPDX-License-Identifier: Apache-2.0 */
/* Training: data sets, models, mirrored SGD, and the exchange of gradients between workers.
 *
 * The order of calls in one worker:
 *
 *     trainer_dataset_open_folder()   the data, read once and kept as bytes
 *     trainer_model_read()            the layers, from a JSON file
 *     trainer_new()                   parameters from the seed, arenas planned
 *     trainer_ring_new()              over two connected sockets (not needed for one worker), or
 *     trainer_direct_new()            over one to each worker (for one, too, if it must get the same bits)
 *     trainer_set_exchange()
 *     trainer_synchronise()           where workers may come with different states
 *     trainer_step() ...              driven from outside, one call a step
 *     trainer_evaluate(), trainer_verify_replicas(), trainer_save()
 *
 * Mirrored: every worker holds all parameters, starts from the same seed, takes its own shards of each step's
 * samples, and applies the same mean gradient. All replicas stay equal to the bit.
 *
 * Nothing here logs, exits, or holds state outside the structs, with one exception: the threads that share the
 * arithmetic are the process's, as many as the trainer that was made last may use. Objects may be used by one thread at a time;
 * models and data sets do not change once made and may be shared by several trainers in several threads.
 * Floats on the wire and in files are IEEE 754 binary32, little-endian. */
#ifndef MUSTER_TRAINER_H
#define MUSTER_TRAINER_H

#include "muster/digest.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of one sample or of one layer's output for one sample: {28, 28, 1} is height, width, channels. */
#define TRAINER_MAX_DIMS 4
struct trainer_shape {
    size_t count; /* of dims in use */
    size_t dims[TRAINER_MAX_DIMS];
};
size_t trainer_shape_elements(const struct trainer_shape *shape);

/* ---- data ---------------------------------------------------------------------------------------------- */

/* Samples of one shape, each with a label (a class number) or a target (some floats). Values are kept as
 * bytes, which become x / 255 when a batch is gathered, or as floats. */
struct trainer_dataset;

#define TRAINER_MAX_SAMPLES     10000000 /* a set */
#define TRAINER_MAX_CLASSES     65536
#define TRAINER_MAX_SAMPLE_SIZE 16777216 /* values in a sample */

/* What a data folder holds (docs/data.md says what it may look like: IDX files, CSV, folders of images). */
struct trainer_data {
    struct trainer_dataset *train;
    struct trainer_dataset *validation; /* NULL: no share of the training samples was asked for */
    struct trainer_dataset *test;       /* NULL: there is none */
    /* JSON: what the values were made of (columns, categories, normalisation) and the classes' names, so that
     * others can be made in the same way; NULL where there is nothing to say. Owned, as the sets. */
    char *encoding;
};
struct trainer_data_options {
    double validation; /* in [0, 1): the share of the training samples that is kept apart */
    uint64_t seed;     /* that chooses them */
    /* The encoding of the data that a model was trained with (borrowed): values are made in the same way, and
     * neither training data nor labels need to be there. NULL: fitted to the training data. */
    const char *encoding;
    bool is_trained; /* the model is: with `encoding` NULL, data that would have to be fitted are -EBADMSG */
};
/* All sets have one shape and one number of classes, and normalisation is fitted on what is left to train.
 * Errors: -EBADMSG and -EINVAL name the file, and in CSV the line; else what the system says. */
int trainer_data_open(const char *folder, const struct trainer_data_options *options,
                      struct trainer_data *ret_data, struct mst_error *err);
/* Whether the file at `path` is one that is read for this folder's data set: its description, or a file of IDX
 * or CSV. */
bool trainer_data_has_file(const char *folder, const char *path);
void trainer_data_release(struct trainer_data *data); /* usable with mst_cleanup() */

/* Read a pair of IDX files (http://yann.lecun.com/exdb/mnist/ describes the format), plain or .gz by content.
 * `classes`: labels must lie in [0, classes); 0 takes the largest label + 1. Errors: -EBADMSG names the file
 * and what was expected (magic number, counts against the size, truncation, trailing bytes, a label out of
 * range); else what the system says. */
int trainer_dataset_open_idx(const char *images_path, const char *labels_path, size_t classes,
                             struct trainer_dataset **ret_dataset, struct mst_error *err);

/* Read the training and the test set from a folder that holds MNIST's four files,
 * {train,t10k}-{images-idx3,labels-idx1}-ubyte with or without ".gz". Both sets get the same number of
 * classes and must have the same shape. With neither t10k file there is no test set: NULL. */
int trainer_dataset_open_folder(const char *folder, struct trainer_dataset **ret_train,
                                struct trainer_dataset **ret_test, struct mst_error *err);

/* From memory: `values` are count * elements(shape) bytes, row order; both arrays are copied. */
int trainer_dataset_new(const struct trainer_shape *shape, size_t count, size_t classes,
                        const uint8_t *values, const uint8_t *labels, struct trainer_dataset **ret_dataset,
                        struct mst_error *err);
/* From memory, of any kind; all arrays are copied. Floats must be finite (-EBADMSG). */
struct trainer_samples {
    struct trainer_shape shape;
    size_t count;
    const uint8_t *bytes;   /* count * elements(shape), or */
    const float *floats;    /* the same */
    size_t classes;         /* 0: the largest label + 1 */
    const uint32_t *labels; /* count, or */
    size_t target_size;
    const float *targets; /* count * target_size */
};
int trainer_dataset_from(const struct trainer_samples *samples, struct trainer_dataset **ret_dataset,
                         struct mst_error *err);

void trainer_dataset_free(struct trainer_dataset *dataset); /* NULL is fine */

size_t trainer_dataset_count(const struct trainer_dataset *dataset);
size_t trainer_dataset_classes(const struct trainer_dataset *dataset);     /* 0: it has targets */
size_t trainer_dataset_target_size(const struct trainer_dataset *dataset); /* floats; 0: it has labels */
/* False: labels or targets are not known, and zeros stand for them. */
bool trainer_dataset_is_labelled(const struct trainer_dataset *dataset);
uint32_t trainer_dataset_label(const struct trainer_dataset *dataset, size_t sample);
const float *trainer_dataset_target(const struct trainer_dataset *dataset, size_t sample); /* borrowed */
struct trainer_shape trainer_dataset_shape(const struct trainer_dataset *dataset);
/* SHA-256 over shape, count, values and labels or targets: equal for a file and its .gz. Borrowed,
 * MST_SHA256_BYTES. */
const uint8_t *trainer_dataset_digest(const struct trainer_dataset *dataset);

/* ---- models -------------------------------------------------------------------------------------------- */

/* A model file is one JSON object; unknown keys, missing keys and shapes that do not fit are errors that name
 * the layer:
 *
 *     {"name": "mnist-cnn", "input": [28, 28, 1], "loss": "softmax_cross_entropy",
 *      "layers": [{"type": "conv2d", "filters": 32, "kernel": [3, 3], "activation": "relu"},
 *                 {"type": "flatten"},
 *                 {"type": "dense", "units": 128, "activation": "relu"},
 *                 {"type": "dense", "units": 10}]}
 *
 * Layers may carry a "name"; the default is type and running number ("dense_1"). Parameters are named
 * "<layer>.weight" and "<layer>.bias". Layouts are Keras's: samples are row, column, channel; conv2d weights
 * (kernel row, kernel column, channel in, filter); dense weights (in, out). */
struct trainer_model;

/* softmax_cross_entropy takes the last layer's outputs as logits; cross_entropy takes them as probabilities,
 * behind a softmax layer; mse, the mean squared difference, from labels (one of them 1, the others 0) or
 * targets. */
enum trainer_loss_kind {
    TRAINER_LOSS_OF_MODEL,
    TRAINER_SOFTMAX_CROSS_ENTROPY,
    TRAINER_CROSS_ENTROPY,
    TRAINER_MSE
};

#define TRAINER_MODEL_MAX_BYTES      1048576 /* of a model file */
#define TRAINER_MODEL_MAX_LAYERS     256
#define TRAINER_MODEL_MAX_PARAMETERS 268435456 /* floats: 1 GiB */

int trainer_model_read(const char *path, struct trainer_model **ret_model, struct mst_error *err);
/* `what` names the source in errors. */
int trainer_model_parse(const char *text, size_t bytes, const char *what, struct trainer_model **ret_model,
                        struct mst_error *err);
void trainer_model_free(struct trainer_model *model); /* NULL is fine */

const char *trainer_model_name(const struct trainer_model *model);  /* borrowed */
size_t trainer_model_parameters(const struct trainer_model *model); /* floats */
struct trainer_shape trainer_model_input(const struct trainer_model *model);
size_t trainer_model_classes(const struct trainer_model *model); /* width of the last layer */
enum trainer_loss_kind trainer_model_loss(const struct trainer_model *model);

/* ---- exchange ------------------------------------------------------------------------------------------ */

/* Sums a vector of floats over all workers. Kinds of exchange are made by their own constructors. */
struct trainer_exchange;

/* Both are counted from the moment when this worker has nothing left to compute. */
struct trainer_exchange_stats {
    double wait_ms; /* in pauses of 2 ms or more without a byte: a neighbour is still computing, or stopped */
    double transfer_ms;  /* the rest, until the sum was complete */
    uint64_t bytes_sent; /* frames and payload */
    double longest_ms;   /* of those pauses */
    uint32_t waited_for; /* 1 + the rank of whom least had come by the end of that one; 0: nobody */
};

/* What the floats of a gradient become on the wire: binary32 as they are, or bfloat16, half the bytes with 8
 * bits of precision. They are added as binary32, and all ranks get the same bits, those of the rounded sum. A
 * ring rounds at each hop; a direct exchange rounds the parts and the sum, and so stays independent of who
 * has which shard, even with one worker. Losses, digests and states are never rounded. */
enum trainer_wire { TRAINER_WIRE_F32, TRAINER_WIRE_BF16 };

/* Ring all-reduce over TCP: reduce-scatter, then all-gather, in segments, full duplex, driven by poll(2)
 * (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009). Each worker sends about 2 * (world - 1) /
 * world of the vector. The order of additions depends only on rank and world size, so that every run gives
 * the same bits, and all ranks get the same ones. */
struct trainer_ring_options {
    int fd_prev;    /* connected and non-blocking: frames come from rank - 1 here (-1 when world is 1) */
    int fd_next;    /* frames go to rank + 1 here; with two workers it may be the same socket as fd_prev */
    int cancel_fd;  /* borrowed: once it is readable every call returns -ECANCELED; -1: none. Not read. */
    uint32_t rank;  /* in [0, world) */
    uint32_t world; /* 1 to TRAINER_MAX_WORLD */
    uint32_t timeout_ms; /* of silence, after which a call returns -ETIMEDOUT */
    uint32_t view;       /* membership number: frames of an older one are dropped */
    uint64_t job_key;    /* equal in all workers of a job; a frame with another is an error */
    enum trainer_wire wire;
};
#define TRAINER_MAX_WORLD 1024

/* On success the ring owns both sockets; on an error the caller still does. */
int trainer_ring_new(const struct trainer_ring_options *options, struct trainer_exchange **ret_exchange,
                     struct mst_error *err);

/* Direct exchange, over a connection between any two workers: each worker sums a share of the vector for all.
 * The sum of a place is ((0 + g0) + g1) + ... in the order of the shards, in float, whoever has which shard
 * and however many workers there are: the same shards give the same bits with 1, 2 or 64 workers. With one
 * shard a worker the traffic is a ring's; one with several sends, and keeps, a gradient for each. */
struct trainer_direct_options {
    const int *fds; /* by rank, `world` of them, connected and non-blocking; this worker's own is not looked
                     * at. The array is borrowed for the call. */
    int cancel_fd;  /* this and the following as in a ring */
    uint32_t rank;
    uint32_t world;
    uint32_t shards; /* of the job, at least `world` and at most TRAINER_MAX_WORLD */
    uint32_t timeout_ms;
    uint32_t view;
    uint64_t job_key;
    enum trainer_wire wire;
};

/* On success the exchange owns the sockets; on an error the caller still does. */
int trainer_direct_new(const struct trainer_direct_options *options, struct trainer_exchange **ret_exchange,
                       struct mst_error *err);
void trainer_exchange_free(struct trainer_exchange *exchange); /* NULL is fine; closes its sockets */

/* Sum `values` (count floats, borrowed) over all workers, in place. `step` must be the same in all workers
 * and goes into every frame. count may be 0 and need not divide by the world size. *ret_stats may be NULL.
 * Errors: -ETIMEDOUT after timeout_ms of silence, -EPIPE when a neighbour closed, -ECANCELED, -EPROTO for a
 * frame of another job, step or size, -ESTALE for one of a newer view. After an error `values` is undefined
 * and the exchange is only good for trainer_exchange_free(). */
int trainer_exchange_sum(struct trainer_exchange *exchange, uint64_t step, float *values, size_t count,
                         struct trainer_exchange_stats *ret_stats, struct mst_error *err);

/* ---- training ------------------------------------------------------------------------------------------ */

struct trainer;

enum trainer_optimizer { TRAINER_SGD, TRAINER_NESTEROV, TRAINER_ADAM, TRAINER_ADAMW };
#define TRAINER_BETA1   0.9
#define TRAINER_BETA2   0.999
#define TRAINER_EPSILON 1e-8

/* The learning rate over the steps, of which the first `warmup` (warmup_epochs of them) rise in a straight
 * line to config->lr; then, with `at` for the steps since:
 *     constant   lr
 *     step       lr * step_factor ^ floor(at / steps in step_epochs), at least min_lr
 *     cosine     min_lr + (lr - min_lr) * (1 + cos(pi * at / (all steps - warmup))) / 2 */
enum trainer_schedule { TRAINER_CONSTANT, TRAINER_STEP, TRAINER_COSINE };

/* How gradients become the next parameters. All zeros: plain SGD at a constant rate, with the model's loss.
 */
struct trainer_rule {
    enum trainer_loss_kind loss; /* in place of the model's */
    uint32_t shift; /* images of the training set are moved by up to so many places, at random, in
                     * both directions; zeros come in from behind the edge */
    enum trainer_optimizer optimizer; /* nesterov takes config->momentum, adam and adamw do not */
    double beta1, beta2, epsilon;     /* adam and adamw; 0: the usual ones above */
    double weight_decay;              /* added to the gradient, times the parameter; adamw: apart from it */
    double clip_norm;                 /* a gradient with a larger norm is scaled down to it; 0: none is */
    enum trainer_schedule schedule;
    double warmup_epochs;
    double step_epochs, step_factor;
    double min_lr;
};

/* A recipe file is one JSON object with what is to be set; unknown keys and values out of range are errors
 * that name the key (docs/models.md has all of them):
 *
 *     {"optimizer": {"type": "nesterov", "momentum": 0.9}, "lr": 0.05, "weight_decay": 0.0005,
 *      "schedule": {"type": "cosine", "warmup_epochs": 1}, "batch": 64, "epochs": 10} */
struct trainer_recipe {
    struct trainer_rule rule;
    double lr, momentum, validation;         /* NaN: not given */
    uint32_t batch, epochs, steps, patience; /* 0: not given. Steps are those of an epoch */
};
#define TRAINER_RECIPE_MAX_BYTES 65536
int trainer_recipe_read(const char *path, struct trainer_recipe *ret_recipe, struct mst_error *err);
/* `what` names the source in errors. */
int trainer_recipe_parse(const char *text, size_t bytes, const char *what, struct trainer_recipe *ret_recipe,
                         struct mst_error *err);
struct trainer_config {
    const struct trainer_model *model; /* borrowed, as the data sets: they outlive the trainer */
    const struct trainer_dataset *train;
    const struct trainer_dataset *test; /* may be NULL: nothing to evaluate */
    uint32_t batch;                     /* samples a shard and step */
    uint32_t shards; /* V, at least the world size: worker r takes shards r, r + world, ... */
    double lr;       /* > 0 */
    double momentum; /* in [0, 1): v = momentum * v + g, w = w - lr * v */
    struct trainer_rule rule;
    uint64_t seed;        /* weights and order of samples */
    const char *encoding; /* of the data, struct trainer_data; saved with the model. May be NULL; borrowed. */
    uint32_t steps_per_epoch;
    uint32_t epochs;
    uint32_t threads; /* that share the arithmetic; 0: trainer_threads_available() */
};
#define TRAINER_MAX_BATCH   65536
#define TRAINER_MAX_THREADS 256

/* CPUs that this process may use: the smaller of its affinity and its cgroup's quota (v1 cfs, v2 cpu.max, on
 * every level up to the root), rounded up, at least 1. */
uint32_t trainer_threads_available(void);
/* What multiplies matrices here: "fma" (our own, on a CPU with AVX2 and FMA, unless OPENBLAS_CORETYPE is
 * set), or what OpenBLAS chose for this CPU, "SkylakeX". Equal names give equal bits for
 * equal work, on whatever CPUs. Borrowed. */
const char *trainer_kernel_name(void);

/* SHA-256 over what must be equal in all workers of a job: protocol version, model, data, batch, shards, lr,
 * momentum, rule, seed and steps. Its first bytes serve as job key, together with the job's name. */
int trainer_config_digest(const struct trainer_config *config, uint8_t ret_digest[static MST_SHA256_BYTES],
                          struct mst_error *err);

/* Whether trainer_new() would take these settings: -EINVAL names the one that does not fit. Allocates
 * nothing. */
int trainer_check(const struct trainer_config *config, struct mst_error *err);
/* Errors as trainer_check(). *config is copied. */
int trainer_new(const struct trainer_config *config, struct trainer **ret_trainer, struct mst_error *err);
void trainer_free(struct trainer *trainer); /* NULL is fine; does not free the exchange */

/* What workers send each other of a step's gradients. All of them are the same mathematics. */
enum trainer_method {
    TRAINER_SUM,     /* the gradients: the exchange sums them */
    TRAINER_FACTORS, /* for the largest dense layer only the gradient by its output: all compute the rest, for
                      * the samples of all. Needs an exchange that can gather, and, for equal replicas, the
                      * same trainer_kernel_name() in all workers. The same shards give the same bits with any
                      * number of workers. */
    TRAINER_SHARDED, /* the output of the largest dense layer, whose weight is split over the workers. Whole
                      * parameters are only in trainer_gather_parameters()'s hands: when a view ends without
                      * it, the state is the one that was gathered last. Without an exchange as TRAINER_SUM.
                      * Kernels as above; bits depend on the number of workers. */
};
/* -ENOTSUP names what in the model does not allow the method. */
int trainer_check_method(const struct trainer_model *model, enum trainer_method method,
                         struct mst_error *err);
/* Before trainer_set_exchange(), without an exchange; TRAINER_SUM at first. Errors as trainer_check_method(),
 * -ENOMEM; then the method is as before. */
int trainer_set_method(struct trainer *trainer, enum trainer_method method, struct mst_error *err);

/* With TRAINER_SHARDED: have the whole parameters in all workers, which all must call this at the same step;
 * trainer_evaluate(), trainer_verify_replicas() and a step that pauses do it themselves. What works on
 * one worker's parameters (digest, save, checkpoints, evaluating a range) sees those that were gathered last.
 * With other methods, and when no step was made since, nothing is to do. Errors as trainer_exchange_sum(). */
int trainer_gather_parameters(struct trainer *trainer, struct mst_error *err);

/* From now on steps are shared with the workers of `exchange` (borrowed; NULL: alone). Parameters and step
 * stay as they are. -EINVAL when there are fewer shards than workers, or other shards than a direct exchange
 * was told; -ENOMEM when there is no memory for a gradient per shard. After an error the exchange before
 * stays. */
int trainer_set_exchange(struct trainer *trainer, struct trainer_exchange *exchange, struct mst_error *err);

/* Kinds of exchange between workers that all hold all parameters: which exchange, and which method with it.
 */
enum trainer_kind { TRAINER_RING, TRAINER_DIRECT, TRAINER_BY_FACTORS, TRAINER_KINDS };
struct trainer_choice {
    enum trainer_kind kind;        /* the same in all workers */
    double step_ms[TRAINER_KINDS]; /* what each adds to the arithmetic of a step's own shards; -1: it cannot
                                      be */
    double bytes_per_s; /* that a worker sends to all others while they do the same, of the slowest */
    double latency_ms;  /* of a few bytes from all to all */
    double flops;       /* a second, in this worker's dense layer; 0: not measured */
    bool same_kernels;  /* trainer_kernel_name() */
    double ms;          /* that it took: less than 100, but for links below some Mbit/s */
};
/* Measure links and arithmetic, and choose. `exchange` connects all workers (a direct one), is not set in the
 * trainer, and may be used after it; all must call this at once. Parameters and step are untouched. Errors as
 * trainer_exchange_sum(). */
int trainer_choose(struct trainer *trainer, struct trainer_exchange *exchange,
                   struct trainer_choice *ret_choice, struct mst_error *err);
/* For methods that need equal arithmetic: -EXDEV names a rank whose kernel is another, and both kernels.
 * Other errors as trainer_exchange_sum(). */
int trainer_compare_kernels(struct trainer_exchange *exchange, struct mst_error *err);

struct trainer_step_stats {
    uint64_t step;    /* steps done, this one included */
    double loss;      /* mean over the samples of all workers, before the update */
    double accuracy;  /* in [0, 1], the same */
    uint64_t samples; /* of all workers */
    double total_ms;  /* wall clock of this call; compute + wait + transfer */
    double compute_ms;
    double wait_ms;
    double transfer_ms;
    uint64_t bytes_sent;
    uint32_t waited_for; /* 1 + the rank that the exchange's longest pause was for, 0: nobody */
    bool paused;         /* a worker asked for it in this step; the same in all of them */
};

/* One step of mirrored SGD. `pause` travels with the gradients, so that all workers learn of it after the
 * same step and can stop there together. Errors: those of trainer_exchange_sum(), and -ERANGE when the loss,
 * or what the step makes of parameters and optimizer, is not a finite number; after an error parameters and
 * step are as before the call ("after step s"). Which step it was is the caller's to say. Allocates nothing. */
int trainer_step(struct trainer *trainer, bool pause, struct trainer_step_stats *ret_stats,
                 struct mst_error *err);

uint64_t trainer_steps_done(const struct trainer *trainer);
uint64_t trainer_steps_wanted(const struct trainer *trainer); /* epochs * steps_per_epoch */

struct trainer_evaluation {
    uint64_t images;
    double accuracy; /* in [0, 1] */
    double loss;     /* mean */
};
/* The whole test set, each worker taking a share of it: all workers must call it at the same step, all get
 * the same result. Errors as trainer_exchange_sum(); -ENOENT without a test set. */
int trainer_evaluate(struct trainer *trainer, struct trainer_evaluation *ret_result, struct mst_error *err);
/* The same with any fitting set (-EINVAL), a validation set for one. */
int trainer_evaluate_set(struct trainer *trainer, const struct trainer_dataset *dataset,
                         struct trainer_evaluation *ret_result, struct mst_error *err);
/* Samples [first, first + count) of any fitting set, by this worker alone. */
int trainer_evaluate_range(struct trainer *trainer, const struct trainer_dataset *dataset, size_t first,
                           size_t count, struct trainer_evaluation *ret_result, struct mst_error *err);

/* What the last layer gives for samples [first, first + count): count x trainer_model_classes() floats into
 * ret_outputs. Errors as trainer_evaluate_range(). */
int trainer_predict(struct trainer *trainer, const struct trainer_dataset *dataset, size_t first,
                    size_t count, float *ret_outputs, struct mst_error *err);

/* SHA-256 over the parameters as they stand in a saved file's data part. */
int trainer_digest(const struct trainer *trainer, uint8_t ret_digest[static MST_SHA256_BYTES],
                   struct mst_error *err);
/* Compare digests over all workers (all must call it at the same step). -EUCLEAN names the ranks that differ
 * from rank 0. */
int trainer_verify_replicas(struct trainer *trainer, struct mst_error *err);

struct trainer_synchronised {
    bool took;      /* this worker was behind, and took the state */
    uint64_t step;  /* that the state of all is after */
    uint64_t bytes; /* sent and received by this worker */
    double ms;
};
#define TRAINER_MAX_EXTRA_BYTES 4096
/* Bring all workers to the most advanced state. `steps` are the steps that their states are after, by rank,
 * and the same in all workers; this worker's own must be trainer_steps_done() (-EINVAL). Those behind the
 * highest take parameters, what the optimizer remembers, step and `extra` from those that have it: a blob of
 * the caller's (extra_bytes of it, at most TRAINER_MAX_EXTRA_BYTES, NULL for none), equal in all of those.
 * Then all compare a digest of everything: -EUCLEAN names the ranks that differ from the lowest that was not
 * behind. Other errors as trainer_exchange_sum(). After an error the state and `extra` are as before. */
int trainer_synchronise(struct trainer *trainer, const uint64_t *steps, void *extra, size_t extra_bytes,
                        struct trainer_synchronised *ret_synchronised, struct mst_error *err);

struct trainer_saved {
    uint64_t bytes;                    /* of the file */
    char digest[MST_SHA256_HEX_BYTES]; /* trainer_digest() in hex */
};
/* Write a safetensors file, whole or not at all. Tensors in the model's order, f32, without holes; metadata:
 * format, model, layout, step, epoch, seed, shards, batch, lr, momentum, digest, encoding. `ret_saved` may be
 * NULL. -ERANGE, and nothing written, when a parameter is not a finite number. */
int trainer_save(const struct trainer *trainer, const char *path, struct trainer_saved *ret_saved,
                 struct mst_error *err);
/* The same parameters for other programs, whole or not at all: numpy's archive, an array "LAYER.weight" for
 * each tensor, laid out as here; and ONNX, which has images as channel, row, column (docs/model-files.md).
 * -ENOTSUP names a layer that ONNX cannot have. ret_bytes may be NULL. */
int trainer_save_npz(const struct trainer *trainer, const char *path, uint64_t *ret_bytes,
                     struct mst_error *err);
int trainer_save_onnx(const struct trainer *trainer, const char *path, uint64_t *ret_bytes,
                      struct mst_error *err);
/* Take parameters (and step, where the metadata has it) from a safetensors file. Names and shapes must be
 * exactly the model's; -EBADMSG names what is not; the trainer is then as before. Momentum is taken where the
 * file has it (a checkpoint), and starts from zero otherwise. */
int trainer_load(struct trainer *trainer, const char *path, struct mst_error *err);
/* The parameters alone, which must be finite numbers (-EBADMSG): training begins with step 0 and an optimizer
 * that remembers nothing. */
int trainer_load_parameters(struct trainer *trainer, const char *path, struct mst_error *err);
/* The encoding of the data that a saved file's model was trained with, for trainer_data_open(); *ret_encoding
 * is owned by the caller, and NULL when the file does not have one. */
int trainer_saved_encoding(const char *path, char **ret_encoding, struct mst_error *err);
#define TRAINER_COLUMN_BYTES 72
/* Whether categories and classes become the same numbers by two encodings: 1; or 0, and ret_column names the
 * first column in which they do not, for a message. -EBADMSG: one of them is no encoding. */
int trainer_encodings_agree(const char *trained, const char *now,
                            char ret_column[static TRAINER_COLUMN_BYTES], struct mst_error *err);

/* ---- checkpoints --------------------------------------------------------------------------------------- */

/* A folder of one worker's own with its last two states, "checkpoint-<step>.safetensors": saved files with
 * momentum and the caller's `extra` besides. Each is written whole or not at all, in a thread, while training
 * goes on; once it is there, all but it and the one of this run before it are removed. Checkpoints belong to
 * a job and a run, and others are not taken up. The model outlives the struct.
 *
 *     trainer_checkpoints_open()
 *     trainer_checkpoints_any()               if not, no trainer is needed yet
 *     trainer_checkpoints_restore()           once, before the first step
 *     trainer_checkpoints_write() ...         every so many steps
 *     trainer_checkpoints_result() ...        what became of it, after any step
 *     trainer_checkpoints_clear()             the job is done: nobody needs them
 *     trainer_checkpoints_free() */
struct trainer_checkpoints;

#define TRAINER_CHECKPOINT_NAME_BYTES 64
#define TRAINER_RUN_MAX_BYTES         255
struct trainer_checkpoint {
    uint64_t step;
    uint64_t bytes; /* of the file */
    double ms;      /* to write it, without the copy of the state; 0 from restore() */
    char name[TRAINER_CHECKPOINT_NAME_BYTES]; /* of the file, in the folder */
};

/* `job` is trainer_config_digest()'s, `run` any name of this run (at most TRAINER_RUN_MAX_BYTES; may be
 * ""). The folder is made if it is not there, and what writes that were cut short left in it is removed. */
int trainer_checkpoints_open(const char *folder, const uint8_t job[static MST_SHA256_BYTES], const char *run,
                             struct trainer_checkpoints **ret_checkpoints, struct mst_error *err);

/* Whether there is a checkpoint, of any job, that could be tried: 1 or 0. */
int trainer_checkpoints_any(struct trainer_checkpoints *checkpoints, struct mst_error *err);

/* Take the newest state that is whole, of this job and run, and has an `extra` of extra_bytes. 1: taken, and
 * told in *ret_checkpoint; 0: there is none. skipped() (may be NULL) is called with the reason for each newer
 * file that was passed over. Trainer and `extra` are as before unless 1 is returned. */
int trainer_checkpoints_restore(struct trainer_checkpoints *checkpoints, struct trainer *trainer, void *extra,
                                size_t extra_bytes, void (*skipped)(void *context, const char *reason),
                                void *context, struct trainer_checkpoint *ret_checkpoint,
                                struct mst_error *err);

/* Copy the state and begin to write it. 0: begun; 1: not begun, for the one before is still being written.
 * An error of the one before that trainer_checkpoints_result() has not told yet comes back here, and nothing
 * is begun. */
int trainer_checkpoints_write(struct trainer_checkpoints *checkpoints, const struct trainer *trainer,
                              const void *extra, size_t extra_bytes, struct mst_error *err);
/* What became of the last one, told once: 1: it is on the disk, *ret_checkpoint; 0: there is nothing to tell,
 * or it is still being written (`wait`: waits for that); else the error it ended with. */
int trainer_checkpoints_result(struct trainer_checkpoints *checkpoints, bool wait,
                               struct trainer_checkpoint *ret_checkpoint, struct mst_error *err);
/* Writes that were not begun because the one before had not ended. */
uint64_t trainer_checkpoints_skipped(const struct trainer_checkpoints *checkpoints);

/* Remove all checkpoints from the folder, of whatever run, once none is being written. */
int trainer_checkpoints_clear(struct trainer_checkpoints *checkpoints, struct mst_error *err);
/* NULL is fine. Waits for the one being written; the files stay. */
void trainer_checkpoints_free(struct trainer_checkpoints *checkpoints);

/* ---- history ------------------------------------------------------------------------------------------- */

/* history-<slot>.csv, one row an epoch; the file is written anew with each row, so that readers see whole
 * rows. */
struct trainer_history;

struct trainer_history_row {
    uint32_t rank;
    uint32_t view;
    uint32_t epoch; /* from 1 */
    uint64_t steps;
    double seconds;
    double loss, accuracy;                   /* means over the epoch's steps and all workers */
    double wait_ms, transfer_ms, compute_ms; /* sums over the epoch */
    uint64_t bytes_sent;
};

/* Creates the file with its header line. `slot` goes into every row and must be free of commas, quotes and
 * control characters (-EINVAL). */
int trainer_history_new(const char *path, const char *slot, struct trainer_history **ret_history,
                        struct mst_error *err);
int trainer_history_append(struct trainer_history *history, const struct trainer_history_row *row,
                           struct mst_error *err);
void trainer_history_free(struct trainer_history *history); /* NULL is fine */

/* Collects the steps of one epoch into a row: zero the struct, add each step, then take the row. */
struct trainer_epoch {
    uint64_t steps;
    double loss_sum, accuracy_sum; /* every step has the same number of samples */
    double wait_ms, transfer_ms, compute_ms, total_ms;
    uint64_t bytes_sent;
};
void trainer_epoch_add(struct trainer_epoch *epoch, const struct trainer_step_stats *stats);

#endif
