"""Pictures of results, each drawn by one function from one set of values. They read in black and white.

drawing     what every picture shares
certified   certificates, and how many points survive which change
advice      what recourse asks for, costs and withstands
delta       how delta was chosen
studies     what survives against what it costs
"""

from holdfast.presentation.pictures import _advice as advice
from holdfast.presentation.pictures import _certified as certified
from holdfast.presentation.pictures import _delta as delta
from holdfast.presentation.pictures import _studies as studies

__all__ = ["advice", "certified", "delta", "studies"]
