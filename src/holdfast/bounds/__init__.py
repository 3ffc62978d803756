"""Sound bounds of a network over Δ, batched, for any array library.

layers   the only code that walks a network: forwards over boxes, forwards on sides, backwards with multipliers
balls    Δ in a p-norm, with one radius for all parameters together
"""
