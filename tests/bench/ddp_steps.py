#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of training steps of mnist-cnn in torch, by itself or with DistributedDataParallel over gloo.

ddp_steps.py --data FOLDER --steps N [--rank R --world N --master ADDRESS:PORT --interface NAME]

One thread, batch 64, SGD. With others: each setting of DDP in turn (bucket sizes, gradients as views of the
buckets); prints a line of JSON for each: setting, least and median milliseconds a step. The first steps are not counted.
"""
import argparse
import datetime
import json
import os
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn import Conv2d, Flatten, Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BATCH = 64
SETTINGS = [(bucket, view) for bucket in (1, 4, 25) for view in (False, True)]


def read_idx(path, skip):
    with open(path, "rb") as file:
        return numpy.frombuffer(file.read(), dtype=numpy.uint8)[skip:]


def make_model():
    torch.manual_seed(1)
    return Sequential(Conv2d(1, 32, 3), ReLU(), Flatten(), Linear(21632, 128), ReLU(), Linear(128, 10))


def time_steps(model, images, labels, options, warm_up):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    order = numpy.random.RandomState(options.rank).permutation(len(labels))
    times = []
    for step in range(options.steps + warm_up):
        start = time.perf_counter()
        first = step * BATCH % (len(labels) - BATCH)
        chosen = order[first : first + BATCH]
        x = torch.from_numpy(images[chosen].astype(numpy.float32) / 255)
        y = torch.from_numpy(labels[chosen].astype(numpy.int64))
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[warm_up:])


def tell(setting, times):
    line = {"setting": setting, "min_ms": round(times[0], 3), "median_ms": round(times[len(times) // 2], 3)}
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--master")
    parser.add_argument("--interface")
    options = parser.parse_args()
    torch.set_num_threads(1)
    images = read_idx(f"{options.data}/train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(f"{options.data}/train-labels-idx1-ubyte", 8)
    if options.world == 1:
        tell("alone", time_steps(make_model(), images, labels, options, 5))
        return
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{options.master}",
        rank=options.rank,
        world_size=options.world,
        timeout=datetime.timedelta(seconds=60),
    )
    for bucket, view in SETTINGS:
        model = DistributedDataParallel(make_model(), bucket_cap_mb=bucket, gradient_as_bucket_view=view)
        times = time_steps(model, images, labels, options, 2)
        if options.rank == 0:
            tell(f"bucket {bucket} MiB{', views' if view else ''}", times)
        dist.barrier()


main()
