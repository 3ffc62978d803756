"""Studies: many methods on many tables, interrupted and resumed at will, and the tables of the paper."""
