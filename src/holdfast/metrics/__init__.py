"""What recourse is worth: validity, robustness, cost, plausibility, coverage."""
