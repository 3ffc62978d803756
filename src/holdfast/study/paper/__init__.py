"""The experiments of the paper, with its printed figures next to ours."""
