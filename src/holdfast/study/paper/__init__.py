"""The experiments of the paper, with its printed figures beside ours."""
