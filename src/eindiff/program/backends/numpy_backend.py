"""NumPy, with SciPy for special functions: operations are written in its words."""

from eindiff.program.backends.backend import Backend
from eindiff.program.lower.functions import HELPERS

BACKEND = Backend(
    "numpy",
    imports={
        "np.": "import numpy as np",
        "linalg.": "from scipy import linalg",
        "special.": "from scipy import special",
    },
    names={"np.*": "np.", "linalg.*": "linalg.", "special.*": "special."},
    helpers=HELPERS,
    functional=False,
)
