"""The tests' host-run CUDA device, for programs that load the CUDA module: tests/host_cuda."""
import contextlib
import os

import server

BUILD = os.path.join(os.path.dirname(server.DAEMON), "tests")
MODULE = os.path.join(BUILD, "host_cuda", "tensord_cuda.so")
# Threads of a block share memory that is thread-local on the host.
DRIVER = {"LD_LIBRARY_PATH": os.path.join(BUILD, "fake_cuda") + ":" + os.path.join(BUILD, "host_cuda", "fake_nvrtc"),
          "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=1048576"}

# The same with the management library, of which there is a fake, too.
MANAGED = {**DRIVER, "LD_LIBRARY_PATH": DRIVER["LD_LIBRARY_PATH"] + ":" + os.path.join(BUILD, "fake_nvml")}


@contextlib.contextmanager
def environment(**settings):
    before = {k: os.environ.get(k) for k in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for k, v in before.items():
            os.environ.pop(k) if v is None else os.environ.update({k: v})


def gpu_flags(*flags):
    return ("--devices=gpu", "--device_module=" + MODULE, *flags)
