"""How many CPU threads the engines of this process may use."""

import os

# Read by OpenMP, OpenBLAS and MKL when they are loaded: so set before any engine is imported.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads(count: int | None) -> None:
    """Sets the limit for libraries that are not loaded yet. None leaves it to them (and to the environment)."""
    if count is not None:
        for variable in VARIABLES:
            os.environ[variable] = str(count)
