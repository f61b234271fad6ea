"""The weights that tests/gpu/bench gives its models, by name: the same for every engine, and everywhere (no library draws them).

All are cut out of one short run of numbers, again and again: a checkpoint of 400 MB packs into a few. How fast a model is does not
depend on them, as long as no value overflows or vanishes.
"""
import math
import zlib

import numpy as np

PERIOD = 4093  # a prime: rows of a matrix do not repeat each other


def numbers():
    """PERIOD numbers from 0 to 1: splitmix64, their upper 24 bits."""
    z = (np.arange(1, PERIOD + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    for shift, by in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(by)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -24)


NUMBERS = numbers()


def between(name, shape, low, high):
    run = np.roll(NUMBERS, zlib.crc32(name.encode()) % PERIOD) * np.float32(high - low) + np.float32(low)
    return np.resize(run, shape)


def kernel(name, shape, fan_in, gain=1.0):
    most = gain * math.sqrt(3.0 / fan_in)
    return between(name, shape, -most, most)


def bias(name, n):
    return between(name, (n,), -0.05, 0.05)


def batch_norm(name, n, gain):
    """gamma, beta, moving mean, moving variance"""
    return (gain * between(name + "/gamma", (n,), 0.75, 1.25), between(name + "/beta", (n,), -0.1, 0.1), between(name + "/mean", (n,), -0.1, 0.1),
            between(name + "/variance", (n,), 0.75, 1.25))


def layer_norm(name, n):
    return between(name + "/gamma", (n,), 0.75, 1.25), between(name + "/beta", (n,), -0.1, 0.1)


def lstm(name, n_in, units):
    """kernel, recurrent kernel, bias; gates in the order input, forget, cell, output"""
    return (kernel(name + "/kernel", (n_in, 4 * units), n_in), kernel(name + "/recurrent", (units, 4 * units), units), bias(name + "/bias", 4 * units))
