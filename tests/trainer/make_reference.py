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
WEIGHTS, ORDER = 1, 2  # enum trainer_rng_stream
STEPS = 20
SAMPLED_PARAMETERS = 400


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def stream_start(seed, kind, number):
    return mix(seed ^ mix(kind << 32 | number))


def floats(start, count):
    """The first `count` draws of a stream as floats in [0, 1)."""
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def glorot(seed, number, shape, fan_in, fan_out):
    limit = np.float32(math.sqrt(6.0 / (fan_in + fan_out)))
    u = floats(stream_start(seed, WEIGHTS, number), int(np.prod(shape)))
    return (limit * (np.float32(2) * u - np.float32(1))).reshape(shape)


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


def build(model, seed):
    """Parameters in the arena's order, and a function from images (N, H, W, C) to logits."""
    tensors, steps, shape = [], [], list(model["input"])

    def add(array):
        tensors.append(torch.tensor(array, requires_grad=True))
        return len(tensors) - 1

    for layer in model["layers"]:
        if layer["type"] == "conv2d":
            rows, columns = layer["kernel"]
            filters, channels = layer["filters"], shape[2]
            w = add(glorot(seed, len(tensors), (rows, columns, channels, filters), rows * columns * channels,
                           rows * columns * filters))
            b = add(np.zeros(filters, np.float32))
            shape = [shape[0] - rows + 1, shape[1] - columns + 1, filters]
            steps.append(lambda x, w=w, b=b: functional.conv2d(
                x.permute(0, 3, 1, 2), tensors[w].permute(3, 2, 0, 1), tensors[b]).permute(0, 2, 3, 1))
        elif layer["type"] == "flatten":
            shape = [int(np.prod(shape))]
            steps.append(lambda x: x.reshape(x.shape[0], -1))
        elif layer["type"] == "dense":
            units = layer["units"]
            w = add(glorot(seed, len(tensors), (shape[0], units), shape[0], units))
            b = add(np.zeros(units, np.float32))
            shape = [units]
            steps.append(lambda x, w=w, b=b: x @ tensors[w] + tensors[b])
        elif layer["type"] == "relu":
            steps.append(functional.relu)
        if layer.get("activation") == "relu":
            steps.append(functional.relu)

    def forward(x):
        for step in steps:
            x = step(x)
        return x

    return tensors, forward


def run(model, images, labels, batch, shards, lr, momentum, seed):
    tensors, forward = build(model, seed)
    first_weights = [float(t.detach().flatten()[i]) for t in tensors[::2] for i in (0, 1, -1)]
    optimizer = torch.optim.SGD(tensors, lr=lr, momentum=momentum)
    order = permutation(seed, 0, len(images))
    losses, accuracies = [], []
    for step in range(STEPS):
        places = order[step * shards * batch:(step + 1) * shards * batch]
        x = torch.tensor(images[places].astype(np.float32) / np.float32(255))
        y = torch.tensor(labels[places].astype(np.int64))
        logits = forward(x)
        loss = functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        accuracies.append(float((logits.argmax(1) == y).float().mean()))
    flat = np.concatenate([t.detach().numpy().flatten() for t in tensors])
    chosen = sorted(set(np.linspace(0, len(flat) - 1, SAMPLED_PARAMETERS).astype(int).tolist()))
    return {
        "model": model, "batch": batch, "shards": shards, "lr": lr, "momentum": momentum, "seed": seed,
        "parameters": len(flat), "first_samples": order[:8],
        "first_weights": [float(np.float32(w)) for w in first_weights],
        "losses": losses, "accuracies": accuracies,
        "places": chosen, "values": [float(flat[i]) for i in chosen],
    }


def main():
    torch.set_num_threads(1)
    images = read_idx("train-images-idx3-ubyte", 16).reshape(-1, 28, 28, 1)
    labels = read_idx("train-labels-idx1-ubyte", 8)
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
    # Seeds beyond 2^53 do not survive as JSON numbers.
    for one in runs:
        one["seed"] = str(one["seed"])
    json.dump({"made_with": "PyTorch " + torch.__version__, "runs": runs}, sys.stdout, indent=None,
              separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
