"""The same question about more rows than fit into memory, or on more machines than one.

batches    over_batches     a verb as a function of batches: what joblib, Dask, Spark and Ray are given
"""

from holdfast.scale._batches import BatchFunction, over_batches

__all__ = ["BatchFunction", "over_batches"]
