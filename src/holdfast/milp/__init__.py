"""Mixed-integer programs: `solve` speaks to HiGHS, `encode` writes the least margin over Δ as a program."""
