"""Pictures of results, each drawn by one function from one set of values. They read in black and white.

drawing     what every picture shares
certified   certificates, and how many points survive which change
advice      what recourse asks for, costs and withstands
delta       how delta was chosen
studies     what survives against what it costs
"""

from holdfast.presentation.pictures import advice, certified, delta, studies

__all__ = ["advice", "certified", "delta", "studies"]
