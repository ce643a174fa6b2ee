"""A module for a library other than NumPy: a function and its derivatives, and a call of it at a random point."""

from __future__ import annotations

import json
from collections.abc import Mapping

from eindiff.program.write.module import Module
from eindiff.program.write.script import NAMES_IN_SCRIPT, Script

CONVERTED = {
    "torch": "torch.as_tensor(np.asarray(value))",
    "jax": "jnp.asarray(value)",
    "tensorflow": "tf.constant(np.asarray(value))",
    "cupy": "cp.asarray(value)",
}
IMPORTS = {
    "torch": ["import torch"],
    "jax": ["import jax", "import jax.numpy as jnp"],
    "tensorflow": ["import tensorflow as tf"],
    "cupy": ["import cupy as cp"],
}

MAIN_PART = """

if __name__ == "__main__":
{recipe}
    outputs = f(**{{name: {converted} for name, value in point.items()}}{sizes})
    for label, output in zip({labels}, {outputs}, strict=True):
        print(label, tuple(output.shape))
"""


def library_script(script: Script, sizes: Mapping[str, int], library: str) -> str:
    """A module with the function, and a call of it at the point that a script for NumPy is checked at."""
    if library == "numpy":
        return script.source()
    recipe = "\n".join(f"    {line}" for line in script.recipe())
    module = Module(script.outputs, "f", NAMES_IN_SCRIPT)  # so its names are those of the script
    source = module.program(sizes, library=library).source
    lines = source.splitlines()
    own = [line for line in lines if line.startswith("import ")]
    kept = "\n".join(line for line in lines if not line.startswith("import ") and line != "pass").strip()
    imports = sorted({*own, *IMPORTS[library], "import numpy as np"}, key=lambda line: line.split()[1])
    imports += ["", 'jax.config.update("jax_enable_x64", True)'] if library == "jax" else []
    main = MAIN_PART.format(
        recipe=recipe,
        converted=CONVERTED[library],
        sizes="".join(f", {name}={name}" for name in (module.names.sizes[size] for size in module.unseen)),
        labels=json.dumps(list(script.outputs), ensure_ascii=False),
        outputs="outputs" if len(script.outputs) > 1 else "[outputs]",
    )
    return "\n".join(imports) + "\n\n\n" + kept + "\n" + main
