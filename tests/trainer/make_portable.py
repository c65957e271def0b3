#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/portable: what OpenCV (python3-opencv) makes of our ONNX files, and torch (python3-torch) of our
safetensors and npz files, for the first 100 test images of MNIST.

    make_portable.py BUILD

BUILD/tests/trainer/test_trainer_portable writes the models. python3-onnx checks that the ONNX files are right.
"""

import gzip
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import cv2
import numpy
import onnx
import torch
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = HERE / "data" / "portable"
IMAGES = 100


def images():
    with gzip.open(ROOT / "data/mnist/t10k-images-idx3-ubyte.gz") as file:
        data = file.read(16 + IMAGES * 784)
    values = numpy.frombuffer(data, numpy.uint8, offset=16).reshape(IMAGES, 1, 28, 28)
    return values.astype(numpy.float32) / numpy.float32(255)


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    body = data[8 + size:]
    return {name: torch.from_numpy(numpy.frombuffer(body[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]).copy())
            for name, t in header.items()}


def conv(w, name, x, **options):
    return functional.conv2d(x, w[name + ".weight"].permute(3, 2, 0, 1), w[name + ".bias"], **options)


def dense(w, name, x):
    return x @ w[name + ".weight"] + w[name + ".bias"]


def flat(x):
    return x.permute(0, 2, 3, 1).flatten(1)


def norm(w, name, x):
    return functional.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], w[name + ".weight"],
                                 w[name + ".bias"], eps=1e-5)


def mnist_cnn(w, x):
    x = flat(conv(w, "conv2d_1", x).relu())
    return dense(w, "dense_2", dense(w, "dense_1", x).relu())


def mnist_lenet(w, x):
    for name in ("conv2d_1", "conv2d_2"):
        x = functional.max_pool2d(conv(w, name, x).relu(), 2)
    return dense(w, "dense_2", dense(w, "dense_1", flat(x)).relu())


def many_layers(w, x):
    x = functional.pad(x, (2, 2, 0, 1))  # "same", 28 x 28 by 3 x 5 in steps of 2 x 1
    x = norm(w, "batch_norm_1", conv(w, "conv2d_1", x, stride=(2, 1))).tanh()  # 14 x 28
    x = functional.pad(x, (0, 1, 0, 1))  # 7 x 14 windows of 3 x 3 in steps of 2, cut at the far edges
    ones = functional.avg_pool2d(functional.pad(torch.ones(1, 1, 14, 28), (0, 1, 0, 1)), 3, 2)
    x = functional.avg_pool2d(x, 3, 2) / ones
    x = conv(w, "conv2d_2", x).sigmoid()
    x = functional.max_pool2d(x, (2, 3)).relu()
    x = norm(w, "batch_norm_2", dense(w, "dense_1", flat(x)).tanh())
    return dense(w, "dense_2", x)


MODELS = {"mnist-cnn": mnist_cnn, "mnist-lenet": mnist_lenet, "many-layers": many_layers}


def main():
    x = images()
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = pathlib.Path(sys.argv[1]).resolve() / "tests/trainer/test_trainer_portable"
        subprocess.run([program], env={**os.environ, "MUSTER_PORTABLE_OUT": name}, check=True)
        for model, run in MODELS.items():
            onnx.checker.check_model(onnx.load(folder / f"{model}.onnx"), full_check=True)
            network = cv2.dnn.readNetFromONNX(str(folder / f"{model}.onnx"))
            outputs = []
            for image in x:
                network.setInput(image[None])
                outputs.append(network.forward().reshape(-1))
            opencv = numpy.stack(outputs).astype("<f4")
            weights = read_safetensors(folder / f"{model}.safetensors")
            with numpy.load(folder / f"{model}.npz") as archive:
                assert set(archive) == set(weights)
                assert all((archive[key] == weights[key].numpy()).all() for key in archive)
            with torch.no_grad():
                torchs = run(weights, torch.from_numpy(x)).numpy().astype("<f4")
            print(model, "OpenCV and torch differ by", abs(opencv - torchs).max())
            (OUT / f"{model}-opencv.f32").write_bytes(opencv.tobytes())
            (OUT / f"{model}-torch.f32").write_bytes(torchs.tobytes())
            for kind in ("onnx", "npz", "safetensors"):
                digest = hashlib.sha256((folder / f"{model}.{kind}").read_bytes()).hexdigest()
                (OUT / f"{model}.{kind}.sha256").write_text(digest, encoding="ascii")


if __name__ == "__main__":
    main()
