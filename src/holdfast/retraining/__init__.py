"""Models as a later training run would leave them: fine-tuned, trained anew, or trained without some rows.

retrain    retrain                  draws the rows and the seeds, and trains
result     RetrainedModels          the models, and how far each lies from today's
           each_model               one model after the other, out of whatever holds them
trainers   fine_tune, train_anew    how a scikit-learn classifier is trained again, its preprocessing kept
           train_on                 how trees are trained on, their structure kept
           gradient_steps           a few passes of Adam over a logistic regression, which scikit-learn has not
"""

from holdfast.retraining._result import RetrainedModels, layer_distances
from holdfast.retraining._retrain import Retrain, retrain

__all__ = ["Retrain", "RetrainedModels", "layer_distances", "retrain"]
