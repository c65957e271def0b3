#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make tests/trainer/data/reference.json: short training runs in PyTorch, for test_reference.c to repeat.

    make_reference.py > data/reference.json       (needs python3-torch and python3-numpy from Debian)

Initial weights and the order of samples are drawn here anew, from what trainer/rng.h, trainer/order.h and
trainer/layer.h say, not from files that the C code wrote: the numbers also check that what is documented is
what is done. PyTorch computes with its own convolution, on its own layouts."""
import gzip
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as functional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
WEIGHTS, ORDER, SAMPLES, DROPOUT, SHIFT = 1, 2, 4, 5, 6  # enum trainer_rng_stream
STEPS = 20
SAMPLED_PARAMETERS = 400
TESTED = 50  # samples, after the last step


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def stream_start(seed, kind, number):
    return mix(seed ^ mix(kind << 32 | number))


def draws(start, count):
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def floats(start, count):
    """The first `count` draws of a stream as floats in [0, 1)."""
    return (draws(start, count) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def sample_keys(seed, step, shards, batch):
    """Of all samples of a step, in the order of shards."""
    keys = []
    for shard in range(shards):
        start = stream_start(seed, SAMPLES, shard)
        keys += [int(k) for k in draws(stream_start(start ^ step, SAMPLES, shard), batch)]
    return keys


def below(state, bound):
    """The state after it, and a number in [0, bound)."""
    while True:
        state = (state + GAMMA) & MASK
        product = mix(state) * bound
        if (product & MASK) >= (1 << 64) % bound:
            return state, product >> 64


def shifted(image, most, key):
    state, down = below(stream_start(key, SHIFT, 0), 2 * most + 1)
    state, right = below(state, 2 * most + 1)
    result, (rows, columns) = np.zeros_like(image), image.shape[:2]
    for r in range(rows):
        for c in range(columns):
            if 0 <= r - (down - most) < rows and 0 <= c - (right - most) < columns:
                result[r, c] = image[r - (down - most), c - (right - most)]
    return result


def dropout_mask(keys, number, rate, floats_each):
    """Each draw decides over two values, the lower half of it over the first."""
    masks = []
    for key in keys:
        z = draws(stream_start(key, DROPOUT, number), (floats_each + 1) // 2)
        halves = np.stack([z & np.uint64(0xFFFFFFFF), z >> np.uint64(32)], axis=1).flatten()[:floats_each]
        masks.append((halves >= np.uint64(int(rate * 2**32))).astype(np.float32) / np.float32(1 - rate))
    return np.stack(masks)


def pair(value):
    return value if isinstance(value, list) else [value, value]


def window(layer, shape, size_key, stride):
    """Size, stride, [before, after] of rows and of columns, and what comes out."""
    size, stride = pair(layer[size_key]), pair(layer.get("stride", stride))
    given, pads, out = layer.get("padding", "valid"), [], []
    for d in range(2):
        if given == "same":
            places = -(-shape[d] // stride[d])
            all_pads = max((places - 1) * stride[d] + size[d] - shape[d], 0)
            pads.append([all_pads // 2, all_pads - all_pads // 2])
        else:
            pads.append([0 if given == "valid" else pair(given)[d]] * 2)
        out.append((shape[d] + sum(pads[d]) - size[d]) // stride[d] + 1)
    return size, stride, pads, out


def pad(x, pads, value=0.0):
    """x (N, C, H, W)"""
    return functional.pad(x, (pads[1][0], pads[1][1], pads[0][0], pads[0][1]), value=value)


def glorot(seed, number, shape, fan_in, fan_out):
    limit = np.float32(math.sqrt(6.0 / (fan_in + fan_out)))
    u = floats(stream_start(seed, WEIGHTS, number), int(np.prod(shape)))
    return (limit * (np.float32(2) * u - np.float32(1))).reshape(shape)


ACTIVATIONS = {"relu": functional.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def permutation(seed, number, count):
    state = stream_start(seed, ORDER, number)
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        while True:
            state = (state + GAMMA) & MASK
            product = mix(state) * (i + 1)
            if (product & MASK) >= (1 << 64) % (i + 1):
                break
        j = product >> 64
        order[i], order[j] = order[j], order[i]
    return order


def read_idx(name, header_bytes):
    with gzip.open(os.path.join(ROOT, "data/mnist", name + ".gz")) as file:
        return np.frombuffer(file.read(), dtype=np.uint8)[header_bytes:]


class Context:
    """What a pass needs besides its input."""
    training, keys = False, []


def build(model, seed):
    """Parameters in the arena's order, the numbers of those that are trained, and a function from samples (N, ...)
    and a Context to outputs."""
    tensors, trained, steps, shape = [], [], [], list(model["input"])

    def add(array, train=True):
        tensors.append(torch.tensor(array, requires_grad=train))
        if train:
            trained.append(len(tensors) - 1)
        return len(tensors) - 1

    def conv2d(layer):
        size, stride, pads, out = window(layer, shape, "kernel", 1)
        filters, channels = layer["filters"], shape[2]
        w = add(glorot(seed, len(tensors), (*size, channels, filters), size[0] * size[1] * channels,
                       size[0] * size[1] * filters))
        b = add(np.zeros(filters, np.float32))
        steps.append(lambda x, context: functional.conv2d(
            pad(x.permute(0, 3, 1, 2), pads), tensors[w].permute(3, 2, 0, 1), tensors[b],
            stride=stride).permute(0, 2, 3, 1))
        return [*out, filters]

    def max_pool(layer):
        size, stride, pads, out = window(layer, shape, "size", layer["size"])
        steps.append(lambda x, context: functional.max_pool2d(
            pad(x.permute(0, 3, 1, 2), pads, -math.inf), size, stride).permute(0, 2, 3, 1))
        return [*out, shape[2]]

    def avg_pool(layer):
        size, stride, pads, out = window(layer, shape, "size", layer["size"])

        def step(x, context):
            x = x.permute(0, 3, 1, 2)
            there = functional.avg_pool2d(pad(torch.ones_like(x), pads), size, stride)
            return (functional.avg_pool2d(pad(x, pads), size, stride) / there).permute(0, 2, 3, 1)

        steps.append(step)
        return [*out, shape[2]]

    def dense(layer):
        units = layer["units"]
        w = add(glorot(seed, len(tensors), (shape[0], units), shape[0], units))
        b = add(np.zeros(units, np.float32))
        steps.append(lambda x, context: x @ tensors[w] + tensors[b])
        return [units]

    def embedding(layer):
        w = add(glorot(seed, len(tensors), (layer["vocabulary"], layer["size"]), layer["vocabulary"],
                       layer["size"]))
        steps.append(lambda x, context: functional.embedding(x.long(), tensors[w]))
        return [shape[0], layer["size"]]

    def batch_norm(layer):
        channels = shape[-1]
        w, b = add(np.ones(channels, np.float32)), add(np.zeros(channels, np.float32))
        mean, var = add(np.zeros(channels, np.float32), False), add(np.ones(channels, np.float32), False)

        def step(x, context):
            rows = x.reshape(-1, channels)
            return functional.batch_norm(rows, tensors[mean], tensors[var], tensors[w], tensors[b],
                                         context.training, layer.get("rate", 0.1),
                                         layer.get("epsilon", 1e-5)).reshape(x.shape)

        steps.append(step)
        return shape

    def dropout(layer, number):
        def step(x, context):
            if not context.training:
                return x
            mask = dropout_mask(context.keys, number, layer["rate"], x[0].numel())
            return x * torch.tensor(mask).reshape(x.shape)

        steps.append(step)
        return shape

    for number, layer in enumerate(model["layers"]):
        kind = layer["type"]
        if kind == "flatten":
            shape = [int(np.prod(shape))]
            steps.append(lambda x, context: x.reshape(x.shape[0], -1))
        elif kind == "softmax":
            steps.append(lambda x, context: functional.softmax(x, -1))
        elif kind in ACTIVATIONS:
            steps.append(lambda x, context, f=ACTIVATIONS[kind]: f(x))
        elif kind == "dropout":
            shape = dropout(layer, number)
        else:
            shape = {"conv2d": conv2d, "max_pool": max_pool, "avg_pool": avg_pool, "dense": dense,
                     "embedding": embedding, "batch_norm": batch_norm}[kind](layer)
        if layer.get("activation", "linear") != "linear":
            steps.append(lambda x, context, f=ACTIVATIONS[layer["activation"]]: f(x))

    def forward(x, context):
        for step in steps:
            x = step(x, context)
        return x

    return tensors, trained, forward


def loss_of(kind, outputs, answers):
    if kind == "softmax_cross_entropy":
        return functional.cross_entropy(outputs, answers)
    if kind == "cross_entropy":
        return functional.nll_loss(torch.log(outputs), answers)
    if answers.dtype == torch.int64:
        answers = functional.one_hot(answers, outputs.shape[1]).float()
    return functional.mse_loss(outputs, answers)


def optimizer_of(recipe, parameters, momentum):
    settings = recipe.get("optimizer", "sgd")
    settings = settings if isinstance(settings, dict) else {"type": settings}
    decay, lr = recipe.get("weight_decay", 0), recipe["lr"]
    if settings["type"] in ("sgd", "nesterov"):
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay,
                               nesterov=settings["type"] == "nesterov")
    kind = torch.optim.Adam if settings["type"] == "adam" else torch.optim.AdamW
    return kind(parameters, lr=lr, betas=(settings.get("beta1", 0.9), settings.get("beta2", 0.999)),
                eps=settings.get("epsilon", 1e-8), weight_decay=decay)


def rate_at(recipe, done, steps_per_epoch, epochs):
    """As muster/trainer.h has it at enum trainer_schedule."""
    lr, schedule = recipe["lr"], recipe.get("schedule", "constant")
    schedule = schedule if isinstance(schedule, dict) else {"type": schedule}
    warm = round(schedule.get("warmup_epochs", 0) * steps_per_epoch)
    lowest = schedule.get("min_lr", 0)
    if done < warm:
        return lr * (done + 1) / (warm + 1)
    at = done - warm
    if schedule["type"] == "step":
        every = round(schedule["every_epochs"] * steps_per_epoch)
        return max(lowest, lr * schedule["factor"] ** (at // every))
    if schedule["type"] == "cosine":
        return lowest + (lr - lowest) * (1 + math.cos(math.pi * at / (steps_per_epoch * epochs - warm))) / 2
    return lr


def run(model, values, answers, batch, shards, lr, momentum, seed, recipe=None, data=None):
    """`values` as the layers take them; `recipe` as in a recipe file; `data` goes into the result."""
    recipe = {"lr": lr, **(recipe or {})}
    tensors, trained, forward = build(model, seed)
    first_weights = [float(t.detach().flatten()[i]) for t in tensors for i in (0, 1, -1) if t.dim() > 1]
    optimizer = optimizer_of(recipe, [tensors[i] for i in trained], momentum)
    order, context = permutation(seed, 0, len(values)), Context()
    losses, accuracies = [], []
    for step in range(STEPS):
        places = order[step * shards * batch:(step + 1) * shards * batch]
        context.training, context.keys = True, sample_keys(seed, step, shards, batch)
        x = values[places]
        if recipe.get("shift"):
            x = np.stack([shifted(one, recipe["shift"], key) for one, key in zip(x, context.keys)])
        outputs, y = forward(torch.tensor(x), context), torch.tensor(answers[places])
        loss = loss_of(recipe.get("loss", model["loss"]), outputs, y)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(recipe, step, STEPS // 2, 2)
        optimizer.zero_grad()
        loss.backward()
        if "clip_norm" in recipe:
            torch.nn.utils.clip_grad_norm_([tensors[i] for i in trained], recipe["clip_norm"])
        optimizer.step()
        losses.append(float(loss.detach()))
        accuracies.append(float((outputs.argmax(1) == y).float().mean()) if y.dtype == torch.int64 else 0.0)
    context.training = False
    tested = values[:TESTED], torch.tensor(answers[:TESTED])
    test_loss = loss_of(recipe.get("loss", model["loss"]), forward(torch.tensor(tested[0]), context), tested[1])
    flat = np.concatenate([t.detach().numpy().flatten() for t in tensors])
    chosen = sorted(set(np.linspace(0, len(flat) - 1, SAMPLED_PARAMETERS).astype(int).tolist()))
    return {
        "model": model, "batch": batch, "shards": shards, "lr": lr, "momentum": momentum, "seed": seed,
        "recipe": recipe, "data": data,
        "parameters": len(flat), "first_samples": order[:8],
        "first_weights": [float(np.float32(w)) for w in first_weights],
        "losses": losses, "accuracies": accuracies, "test_loss": float(test_loss.detach()),
        "places": chosen, "values": [float(flat[i]) for i in chosen],
    }


def small_data(seed, count, size, kind):
    """Samples of whole numbers below 7, or of floats, with labels below 3 or targets of 2 floats."""
    draw = floats(seed, count * size).reshape(count, size)
    values = np.floor(draw * 7).astype(np.float32) if kind == "numbers" else np.round(draw * 4 - 2, 3)
    if kind == "targets":
        answers = np.round(floats(seed + 1, count * 2).reshape(count, 2) * 2 - 1, 3).astype(np.float32)
        return values, answers, {"values": values.flatten().tolist(), "targets": answers.flatten().tolist()}
    labels = (values.sum(axis=1).astype(np.int64)) % 3
    return values, labels, {"values": values.flatten().tolist(), "labels": labels.tolist()}


def main():
    torch.set_num_threads(1)
    images = read_idx("train-images-idx3-ubyte", 16).reshape(-1, 28, 28, 1)
    images = images.astype(np.float32) / np.float32(255)
    labels = read_idx("train-labels-idx1-ubyte", 8).astype(np.int64)
    with open(os.path.join(ROOT, "trainer/models/mnist-cnn.json"), encoding="utf-8") as file:
        published = json.load(file)
    loss = "softmax_cross_entropy"
    two_convolutions = {
        "name": "two-convolutions", "input": [28, 28, 1], "loss": loss,
        "layers": [{"type": "conv2d", "filters": 4, "kernel": [5, 3], "activation": "relu"},
                   {"type": "conv2d", "filters": 6, "kernel": [3, 5]}, {"type": "relu"}, {"type": "flatten"},
                   {"type": "dense", "units": 10}]}
    perceptron = {
        "name": "perceptron", "input": [28, 28, 1], "loss": loss,
        "layers": [{"type": "flatten"}, {"type": "dense", "units": 40, "activation": "relu"},
                   {"type": "dense", "units": 20, "activation": "relu"}, {"type": "dense", "units": 10}]}
    runs = [
        run(published, images, labels, 64, 1, 0.001, 0.0, 1),
        run(published, images, labels, 8, 3, 0.01, 0.0, 5),
        run(two_convolutions, images, labels, 16, 2, 0.05, 0.9, 2),
        run(perceptron, images, labels, 10, 3, 0.1, 0.5, 18446744073709551615),
    ]
    pools = {
        "name": "pools", "input": [28, 28, 1], "loss": loss,
        "layers": [{"type": "conv2d", "filters": 4, "kernel": 5, "stride": 2, "padding": "same",
                    "activation": "tanh"},
                   {"type": "max_pool", "size": [3, 2], "stride": [2, 1], "padding": "same"},
                   {"type": "conv2d", "filters": 6, "kernel": [3, 4], "stride": [1, 2], "padding": [1, 2],
                    "activation": "sigmoid"},
                   {"type": "avg_pool", "size": 3, "stride": 2, "padding": 1}, {"type": "flatten"},
                   {"type": "dense", "units": 10}]}
    normed = {
        "name": "normed", "input": [28, 28, 1], "loss": loss,
        "layers": [{"type": "conv2d", "filters": 4, "kernel": 3, "stride": 2},
                   {"type": "batch_norm", "activation": "relu"}, {"type": "max_pool", "size": 2},
                   {"type": "dropout", "rate": 0.25}, {"type": "flatten"}, {"type": "dense", "units": 21},
                   {"type": "batch_norm", "rate": 0.3, "epsilon": 0.001}, {"type": "tanh"},
                   {"type": "dropout", "rate": 0.5}, {"type": "dense", "units": 10}]}
    soft = {
        "name": "soft", "input": [28, 28, 1], "loss": "cross_entropy",
        "layers": [{"type": "flatten"}, {"type": "dense", "units": 12}, {"type": "sigmoid"},
                   {"type": "dense", "units": 10}, {"type": "softmax"}]}
    embedded = {
        "name": "embedded", "input": [4], "loss": loss,
        "layers": [{"type": "embedding", "vocabulary": 7, "size": 5}, {"type": "flatten"},
                   {"type": "dense", "units": 8, "activation": "relu"}, {"type": "dense", "units": 3}]}
    fitted = {
        "name": "fitted", "input": [5], "loss": "mse",
        "layers": [{"type": "dense", "units": 9, "activation": "tanh"}, {"type": "dense", "units": 2}]}
    runs += [
        run(pools, images, labels, 12, 2, 0.1, 0.9, 3, {"schedule": {"type": "cosine", "warmup_epochs": 0.3}}),
        run(normed, images, labels, 8, 3, 0.05, 0.9, 4,
            {"optimizer": "nesterov", "shift": 2, "weight_decay": 0.01, "clip_norm": 1}),
        run(soft, images, labels, 16, 2, 0.5, 0.0, 6,
            {"schedule": {"type": "step", "every_epochs": 0.6, "factor": 0.5, "min_lr": 0.2}}),
        run(soft, images, labels, 16, 1, 0.5, 0.5, 7, {"loss": "mse", "weight_decay": 0.001}),
        run(perceptron, images, labels, 16, 2, 0.01, 0.0, 8,
            {"optimizer": {"type": "adam", "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4}, "weight_decay": 0.01}),
        run(perceptron, images, labels, 16, 2, 0.01, 0.0, 9,
            {"optimizer": {"type": "adamw", "epsilon": 1e-4}, "weight_decay": 0.1, "clip_norm": 0.5,
             "schedule": {"type": "cosine", "min_lr": 0.001}}),
    ]
    values, answers, data = small_data(11, 400, 4, "numbers")
    runs.append(run(embedded, values, answers, 10, 2, 0.2, 0.9, 10, None, data))
    values, answers, data = small_data(13, 400, 5, "targets")
    runs.append(run(fitted, values, answers, 10, 2, 0.2, 0.0, 11, None, data))
    # Seeds beyond 2^53 do not survive as JSON numbers.
    for one in runs:
        one["seed"] = str(one["seed"])
    json.dump({"made_with": "PyTorch " + torch.__version__, "runs": runs}, sys.stdout, indent=None,
              separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
