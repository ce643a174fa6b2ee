"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_info

PACKAGES = (
    "eindiff", "numpy", "scipy", "opt_einsum", "jax", "torch", "tensorflow", "tensorflow-cpu", "autograd", "casadi",
    "asdex",
)  # fmt: skip


def describe(threads: int) -> dict[str, Any]:
    """The processor, its memory, the linear algebra library, and the versions of everything."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "threads": threads,
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "blas": _blas(),
        "load": round(os.getloadavg()[0], 2),
        "versions": {name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        frequency = next((line.partition(":")[2].strip() for line in lines if line.startswith("cpu MHz")), "")
        return f"{name} ({float(frequency):.0f} MHz)" if frequency else name
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _blas() -> str:
    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    kernels = next((x["architecture"] for x in threadpool_info() if "architecture" in x), None)
    return f"{found['name']} {found['version']}" + (f" with kernels for {kernels}" if kernels else "")
