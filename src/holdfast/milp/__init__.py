"""Linear programs: `relaxation` proves bounds, `recourse` writes what a person may do and what models accept."""
