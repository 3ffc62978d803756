"""How far a network can move over Δ: sound bounds, batched, for any array library.

layers   the one thing that walks a network: forwards over boxes, forwards on sides, backwards with multipliers
balls    Δ in a p-norm, where all parameters share one radius
"""
