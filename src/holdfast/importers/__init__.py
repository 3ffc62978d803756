"""Read a fitted classifier of another library as a `Network`, exactly, or raise an error that names the obstacle.

model    Model, same_preprocessing          the network, and how a raw table becomes what the network reads; if two
                                            models prepare a table alike, their parameters can be compared
files    load_model, load_network           any model, or the path of a file that holds one
         read_model                         .onnx, .npz, .skops; pickles only with the caller's permission
chain    Chain                              affine -> ReLU -> affine ...: the layers that every reader collects
objects  sklearn, torch, onnx               one reader for each library, imported only for a model of that library
"""

from holdfast.importers._files import load_model, load_network, read_model
from holdfast.importers._model import Model

__all__ = ["Model", "load_model", "load_network", "read_model"]
