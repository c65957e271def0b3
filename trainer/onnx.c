/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files (https://github.com/onnx/onnx, onnx.proto, IR version 8, operator set 13), for programs that run
 * models without knowing muster.
 *
 * Layout: ONNX has images as channel, row, column, and convolution weights as (filter, channel, row, column).
 * So does the file's input; weights are turned around here, and a Transpose stands before a flatten, so that
 * the rows of dense weights keep their order. Batch normalisation becomes a factor and a term; dropout is
 * left out. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "protobuf.h"
#include "save.h"
#include "trainer_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IR_VERSION      8
#define OPSET           13
#define GRAPH_MAX_BYTES ((size_t)2000000000) /* protocol buffers end at 2 GiB */
#define SMALL_MAX_BYTES 65536
#define NAME_BYTES      160

enum { TYPE_FLOAT = 1, TYPE_INT64 = 7 }; /* TensorProto.DataType */
enum { KIND_INT = 2, KIND_INTS = 7 };    /* AttributeProto.AttributeType */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };

struct writer {
    const struct trainer_model *model;
    const float *params;
    struct protobuf graph;
    char value[NAME_BYTES]; /* what the next node takes */
    size_t values;          /* that have names so far */
};

/* ---- pieces -------------------------------------------------------------------------------------------- */

static void add_tensor(struct writer *writer, const char *name, size_t count, const size_t *dims,
                       const float *values)
{
    struct protobuf tensor = PROTOBUF_INIT(GRAPH_MAX_BYTES);
    size_t elements = 1;

    for (size_t d = 0; d < count; d++) {
        protobuf_number(&tensor, TENSOR_DIMS, dims[d]);
        elements *= dims[d];
    }
    protobuf_number(&tensor, TENSOR_TYPE, TYPE_FLOAT);
    protobuf_text(&tensor, TENSOR_NAME, name);
    protobuf_bytes(&tensor, TENSOR_RAW, values, elements * sizeof *values);
    protobuf_take(&writer->graph, GRAPH_INITIALIZER, &tensor);
}

static void add_int(struct protobuf *node, const char *name, uint64_t value)
{
    struct protobuf attribute = PROTOBUF_INIT(SMALL_MAX_BYTES);

    protobuf_text(&attribute, ATTRIBUTE_NAME, name);
    protobuf_number(&attribute, ATTRIBUTE_INT, value);
    protobuf_number(&attribute, ATTRIBUTE_TYPE, KIND_INT);
    protobuf_take(node, NODE_ATTRIBUTE, &attribute);
}

static void add_ints(struct protobuf *node, const char *name, const size_t *values, size_t count)
{
    struct protobuf attribute = PROTOBUF_INIT(SMALL_MAX_BYTES);

    protobuf_text(&attribute, ATTRIBUTE_NAME, name);
    for (size_t i = 0; i < count; i++)
        protobuf_number(&attribute, ATTRIBUTE_INTS, values[i]);
    protobuf_number(&attribute, ATTRIBUTE_TYPE, KIND_INTS);
    protobuf_take(node, NODE_ATTRIBUTE, &attribute);
}

/* A node that takes the value at hand, and tensors by name (NULL: none); begun here and ended by
 * end_node(). */
static struct protobuf begin_node(const struct writer *writer, const char *op, const char *second,
                                  const char *third)
{
    struct protobuf node = PROTOBUF_INIT(SMALL_MAX_BYTES);

    protobuf_text(&node, NODE_INPUT, writer->value);
    if (second)
        protobuf_text(&node, NODE_INPUT, second);
    if (third)
        protobuf_text(&node, NODE_INPUT, third);
    protobuf_text(&node, NODE_OP, op);
    return node;
}

static void end_node(struct writer *writer, struct protobuf *node)
{
    (void)snprintf(writer->value, sizeof writer->value, "value_%zu", ++writer->values);
    protobuf_text(node, NODE_OUTPUT, writer->value);
    protobuf_text(node, NODE_NAME, writer->value);
    protobuf_take(&writer->graph, GRAPH_NODE, node);
}

static void add_plain(struct writer *writer, const char *op)
{
    struct protobuf node = begin_node(writer, op, NULL, NULL);

    end_node(writer, &node);
}

static void tensor_name(const struct trainer_layer *layer, const char *role, char name[static NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "%s.%s", layer->name, role);
}

/* As it lies here. */
static void add_own_tensor(struct writer *writer, const struct trainer_layer *layer, size_t t,
                           char name[static NAME_BYTES])
{
    const struct trainer_tensor *tensor = &layer->tensors[t];

    tensor_name(layer, tensor->role, name);
    add_tensor(writer, name, tensor->shape.count, tensor->shape.dims, writer->params + tensor->offset);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static void add_activation(struct writer *writer, enum trainer_activation activation)
{
    static const char *const ops[] = {
        [TRAINER_RELU] = "Relu", [TRAINER_TANH] = "Tanh", [TRAINER_SIGMOID] = "Sigmoid"};

    if (activation != TRAINER_LINEAR)
        add_plain(writer, ops[activation]);
}

static void add_window(struct protobuf *node, const struct trainer_window *window)
{
    const size_t pads[] = {window->before[0], window->before[1], window->after[0], window->after[1]};

    add_ints(node, "kernel_shape", window->size, 2);
    add_ints(node, "strides", window->stride, 2);
    add_ints(node, "pads", pads, 4);
}

/* (row, column, in, out) to (out, in, row, column). */
static int add_conv2d(struct writer *writer, const struct trainer_layer *layer)
{
    const size_t *dims = layer->tensors[0].shape.dims;
    const size_t rows = dims[0], columns = dims[1], in = dims[2], out = dims[3];
    const float *from = writer->params + layer->tensors[0].offset;
    mst_cleanup(mst_freep) float *turned = malloc(rows * columns * in * out * sizeof *turned);
    char weight[NAME_BYTES], bias[NAME_BYTES];

    if (!turned)
        return -ENOMEM;
    for (size_t place = 0; place < rows * columns; place++) {
        for (size_t k = 0; k < in; k++) {
            for (size_t f = 0; f < out; f++)
                turned[(f * in + k) * rows * columns + place] = *from++;
        }
    }
    tensor_name(layer, "weight", weight);
    add_tensor(writer, weight, 4, (const size_t[]){out, in, rows, columns}, turned);
    add_own_tensor(writer, layer, 1, bias);
    struct protobuf node = begin_node(writer, "Conv", weight, bias);
    add_window(&node, &layer->settings.window);
    end_node(writer, &node);
    return 0;
}

/* (in, out) to (out, in), as torch writes it: OpenCV gets the other form wrong. */
static int add_dense(struct writer *writer, const struct trainer_layer *layer)
{
    const size_t in = layer->tensors[0].shape.dims[0], out = layer->tensors[0].shape.dims[1];
    const float *from = writer->params + layer->tensors[0].offset;
    mst_cleanup(mst_freep) float *turned = malloc(in * out * sizeof *turned);
    char weight[NAME_BYTES], bias[NAME_BYTES];

    if (!turned)
        return -ENOMEM;
    for (size_t i = 0; i < in; i++) {
        for (size_t o = 0; o < out; o++)
            turned[o * in + i] = *from++;
    }
    tensor_name(layer, "weight", weight);
    add_tensor(writer, weight, 2, (const size_t[]){out, in}, turned);
    add_own_tensor(writer, layer, 1, bias);
    struct protobuf node = begin_node(writer, "Gemm", weight, bias);
    add_int(&node, "transB", 1);
    end_node(writer, &node);
    return 0;
}

static int add_flatten(struct writer *writer, const struct trainer_layer *layer)
{
    if (layer->in.count == 3) {
        struct protobuf turn = begin_node(writer, "Transpose", NULL, NULL);
        add_ints(&turn, "perm", (const size_t[]){0, 2, 3, 1}, 4);
        end_node(writer, &turn);
    }
    struct protobuf node = begin_node(writer, "Flatten", NULL, NULL);
    add_int(&node, "axis", 1);
    end_node(writer, &node);
    return 0;
}

static int add_pool(struct writer *writer, const struct trainer_layer *layer)
{
    const bool max = strcmp(layer->ops->type, "max_pool") == 0;
    struct protobuf node = begin_node(writer, max ? "MaxPool" : "AveragePool", NULL, NULL);

    add_window(&node, &layer->settings.window);
    end_node(writer, &node);
    return 0;
}

/* y = x * gamma / sqrt(var + epsilon) + (beta - mean * gamma / sqrt(var + epsilon)). Tensors are weight,
 * bias, running mean and running variance. */
static int add_batch_norm(struct writer *writer, const struct trainer_layer *layer)
{
    const size_t channels = layer->tensors[0].shape.dims[0];
    const size_t dims[] = {channels, 1, 1}; /* over rows and columns of an image */
    const size_t count = layer->in.count == 3 ? 3 : 1;
    const float *gamma = writer->params + layer->tensors[0].offset;
    const float *beta = writer->params + layer->tensors[1].offset;
    const float *mean = writer->params + layer->tensors[2].offset;
    const float *var = writer->params + layer->tensors[3].offset;
    mst_cleanup(mst_freep) float *factor = malloc(channels * sizeof *factor);
    mst_cleanup(mst_freep) float *term = malloc(channels * sizeof *term);
    char name[NAME_BYTES];

    if (!factor || !term)
        return -ENOMEM;
    for (size_t c = 0; c < channels; c++) {
        const double scale = (double)gamma[c] / sqrt((double)var[c] + layer->settings.batch_norm.epsilon);
        factor[c] = (float)scale;
        term[c] = (float)((double)beta[c] - (double)mean[c] * scale);
    }
    tensor_name(layer, "factor", name);
    add_tensor(writer, name, count, dims, factor);
    struct protobuf multiply = begin_node(writer, "Mul", name, NULL);
    end_node(writer, &multiply);
    tensor_name(layer, "term", name);
    add_tensor(writer, name, count, dims, term);
    struct protobuf add = begin_node(writer, "Add", name, NULL);
    end_node(writer, &add);
    return 0;
}

/* Gather(table, numbers). */
static int add_embedding(struct writer *writer, const struct trainer_layer *layer)
{
    char table[NAME_BYTES], numbers[NAME_BYTES];

    struct protobuf cast = begin_node(writer, "Cast", NULL, NULL);
    add_int(&cast, "to", TYPE_INT64);
    end_node(writer, &cast);
    memcpy(numbers, writer->value, sizeof numbers);
    add_own_tensor(writer, layer, 0, table);
    memcpy(writer->value, table, sizeof table);
    struct protobuf gather = begin_node(writer, "Gather", numbers, NULL);
    end_node(writer, &gather);
    return 0;
}

static int add_softmax(struct writer *writer, const struct trainer_layer *layer)
{
    struct protobuf node = begin_node(writer, "Softmax", NULL, NULL);

    add_int(&node, "axis", layer->in.count == 3 ? 1 : layer->in.count);
    end_node(writer, &node);
    return 0;
}

static int add_nothing(struct writer *writer, const struct trainer_layer *layer)
{
    (void)writer;
    (void)layer;
    return 0;
}

static int add_layer(struct writer *writer, const struct trainer_layer *layer)
{
    static const struct {
        const char *type;
        int (*add)(struct writer *writer, const struct trainer_layer *layer);
    } layers[] = {
        {"conv2d", add_conv2d},       {"dense", add_dense},     {"flatten", add_flatten},
        {"max_pool", add_pool},       {"avg_pool", add_pool},   {"batch_norm", add_batch_norm},
        {"embedding", add_embedding}, {"softmax", add_softmax}, {"dropout", add_nothing},
    };
    static const struct {
        const char *type, *op;
    } functions[] = {{"relu", "Relu"}, {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"}};

    for (size_t i = 0; i < MST_ARRAY_COUNT(functions); i++) {
        if (strcmp(layer->ops->type, functions[i].type) == 0) {
            add_plain(writer, functions[i].op);
            return 0;
        }
    }
    for (size_t i = 0; i < MST_ARRAY_COUNT(layers); i++) {
        if (strcmp(layer->ops->type, layers[i].type) == 0) {
            const int r = layers[i].add(writer, layer);
            if (r >= 0)
                add_activation(writer, layer->activation);
            return r;
        }
    }
    return -ENOTSUP;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

/* ValueInfoProto: a name, and the shape with a batch of any size in front, images as channel, row, column. */
static void add_value(struct writer *writer, uint32_t field, const char *name,
                      const struct trainer_shape *shape)
{
    static const size_t turned[] = {2, 0, 1};
    struct protobuf info = PROTOBUF_INIT(SMALL_MAX_BYTES), type = PROTOBUF_INIT(SMALL_MAX_BYTES);
    struct protobuf tensor = PROTOBUF_INIT(SMALL_MAX_BYTES), dims = PROTOBUF_INIT(SMALL_MAX_BYTES);
    struct protobuf batch = PROTOBUF_INIT(SMALL_MAX_BYTES);

    protobuf_text(&batch, 2, "batch");
    protobuf_take(&dims, 1, &batch);
    for (size_t d = 0; d < shape->count; d++) {
        struct protobuf dim = PROTOBUF_INIT(SMALL_MAX_BYTES);
        protobuf_number(&dim, 1, shape->dims[shape->count == 3 ? turned[d] : d]);
        protobuf_take(&dims, 1, &dim);
    }
    protobuf_number(&tensor, 1, TYPE_FLOAT);
    protobuf_take(&tensor, 2, &dims);
    protobuf_take(&type, 1, &tensor);
    protobuf_text(&info, 1, name);
    protobuf_take(&info, 2, &type);
    protobuf_take(&writer->graph, field, &info);
}

static int make_graph(struct writer *writer, struct mst_error *err)
{
    const struct trainer_model *model = writer->model;

    (void)snprintf(writer->value, sizeof writer->value, "input");
    add_value(writer, GRAPH_INPUT, "input", &model->input);
    for (size_t i = 0; i < model->layer_count; i++) {
        const int r = add_layer(writer, &model->layers[i]);
        if (r == -ENOTSUP)
            return mst_error_set(err, r, "layer '%s' of type '%s' cannot be written as ONNX",
                                 model->layers[i].name, model->layers[i].ops->type);
        if (r < 0)
            return mst_error_errno(err, r, "layer '%s'", model->layers[i].name);
    }
    struct protobuf last = begin_node(writer, "Identity", NULL, NULL);
    protobuf_text(&last, NODE_OUTPUT, "output");
    protobuf_text(&last, NODE_NAME, "output");
    protobuf_take(&writer->graph, GRAPH_NODE, &last);
    add_value(writer, GRAPH_OUTPUT, "output", &model->layers[model->layer_count - 1].out);
    protobuf_text(&writer->graph, GRAPH_NAME, model->name);
    return writer->graph.code < 0 ? mst_error_errno(err, writer->graph.code, "make the graph") : 0;
}

/* What stands before the graph in ModelProto. */
static void make_head(const struct writer *writer, struct protobuf *head)
{
    struct protobuf opset = PROTOBUF_INIT(SMALL_MAX_BYTES);

    protobuf_number(head, 1, IR_VERSION);
    protobuf_text(head, 2, "muster");
    protobuf_text(&opset, 1, "");
    protobuf_number(&opset, 2, OPSET);
    protobuf_take(head, 8, &opset);
    protobuf_begin(head, 7, writer->graph.bytes.count);
}

static void release(struct writer *writer)
{
    protobuf_release(&writer->graph);
}

int trainer_save_onnx(const struct trainer *trainer, const char *path, uint64_t *ret_bytes,
                      struct mst_error *err)
{
    mst_cleanup(release) struct writer writer = {.model = trainer->config.model,
                                                 .params = trainer->parameters[trainer->current],
                                                 .graph = PROTOBUF_INIT(GRAPH_MAX_BYTES)};
    mst_cleanup(protobuf_release) struct protobuf head = PROTOBUF_INIT(SMALL_MAX_BYTES);
    mst_cleanup(mst_file_writer_discard) struct mst_file_writer file = {.fd = -1};

    int r = make_graph(&writer, err);
    if (r < 0)
        return mst_error_wrap(err, r, "write '%s'", path);
    make_head(&writer, &head);
    if (head.code < 0)
        return mst_error_errno(err, head.code, "write '%s'", path);
    r = mst_file_writer_open(&file, path, 0644, err);
    if (r < 0)
        return r;
    r = mst_write_all(file.fd, head.bytes.bytes, head.bytes.count);
    if (r >= 0)
        r = mst_write_all(file.fd, writer.graph.bytes.bytes, writer.graph.bytes.count);
    if (r < 0)
        return mst_error_errno(err, r, "write '%s'", path);
    r = mst_file_writer_commit(&file, err);
    if (r >= 0 && ret_bytes)
        *ret_bytes = head.bytes.count + writer.graph.bytes.count;
    return r;
}
