"""A fitted classifier of another library becomes a `Network`, exactly, or is refused by the name of what cannot.

model    Model, same_preprocessing          the network, and how a raw table becomes what the network reads; whether
                                            two models read it alike, so that parameters can be compared
files    load_model, load_network           any model, or the path of a file that holds one
         read_model                         .onnx, .npz, .skops; pickles only on trust
chain    Chain                              affine -> ReLU -> affine ...: what every reader builds up
objects  sklearn, torch, onnx               one reader for each library, imported only when a model of it comes
"""

from holdfast.importers._files import load_model, load_network, read_model
from holdfast.importers._model import Model

__all__ = ["Model", "load_model", "load_network", "read_model"]
