"""NumPy, with SciPy for special functions. Large arrays are changed in place."""

from eindiff.program.backends.backend import Backend
from eindiff.program.backends.numpy_factors import FACTOR_HELPERS
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.backends.words import EAGER, FUNCTIONS, NUMPY

BACKEND = Backend(
    "numpy",
    "np.",
    imports={
        "np.": "import numpy as np",
        "linalg.": "from scipy import linalg",
        "special.": "from scipy import special",
    },
    words={**NUMPY, **EAGER},
    functions=FUNCTIONS,
    helpers={**NUMPY_HELPERS, **FACTOR_HELPERS},
    functional=False,
)
