"""Run a verb on more rows than fit into memory, or on several machines.

batches    over_batches     a verb as a function of batches, for joblib, Dask, Spark and Ray
"""

from holdfast.scale._batches import BatchFunction, over_batches

__all__ = ["BatchFunction", "over_batches"]
