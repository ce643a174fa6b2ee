"""Functions of SciPy that make arrays of what they get, for traced arrays: imported where SciPy's own are seen."""
