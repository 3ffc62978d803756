"""Sound bounds on what a network can say after a plausible change, for a whole table at once.

abstraction   the interval network: today's parameters and how far each layer may move
interval      interval propagation: one pass, exact up to one hidden layer
linear        backward linear bounds with multipliers: tighter, and what branch and bound is made of
rounding      how far floating point can be from the exact value of any of these
"""
