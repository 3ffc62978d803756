"""Linear and mixed-integer programs: `relaxation` proves bounds, `recourse` and `encode` write the programs."""
