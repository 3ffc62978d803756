"""Retrain today's model as a later training run would: fine-tuned, from scratch, or without some rows.

retrain    retrain                  draws the rows and the seeds, and trains
result     RetrainedModels          the models, and the distance of each from today's
           each_model               one model after the other, from a list, an iterator or a result
trainers   fine_tune, train_anew    train a scikit-learn classifier further or from scratch, with its preprocessing
           train_on                 refit trees, or add trees to them
           gradient_steps           a few passes of Adam over a logistic regression (scikit-learn has none)
"""

from holdfast.retraining._result import RetrainedModels, layer_distances
from holdfast.retraining._retrain import Retrain, retrain

__all__ = ["Retrain", "RetrainedModels", "layer_distances", "retrain"]
