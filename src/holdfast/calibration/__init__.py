"""Choose delta or a margin from evidence about retrained models, with a stated probability.

incremental  delta_incremental    the distance that fine-tuning on new data covers (the paper's delta_inc)
validation   delta_validation     the least delta whose recourse every retrained model accepts (the paper's delta_val)
conformal    delta_calibrated     a delta that the next retraining stays within, with a stated probability
risk         risk_calibrated      the least setting, for any kind of change, at which the next model breaks few promises
"""

from holdfast.calibration._conformal import CalibratedDelta, delta_calibrated, least_history
from holdfast.calibration._incremental import IncrementalDelta, delta_incremental
from holdfast.calibration._result import ChosenDelta
from holdfast.calibration._risk import CalibratedRisk, risk_bounds, risk_calibrated
from holdfast.calibration._validation import ValidationDelta, delta_validation

__all__ = [
    "CalibratedDelta",
    "CalibratedRisk",
    "ChosenDelta",
    "IncrementalDelta",
    "ValidationDelta",
    "delta_calibrated",
    "delta_incremental",
    "delta_validation",
    "least_history",
    "risk_bounds",
    "risk_calibrated",
]
