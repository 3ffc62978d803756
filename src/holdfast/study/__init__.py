"""Studies: many methods on many tables, interrupted and resumed at will, and the tables of the paper.

run            benchmark                   what to run on what; the loop; the result
tables         StudyTable                  people, labels, what a person can change, the class they want
situation      Situation, Protocol         one table, model and seed: halves, models, successors, rejected people
methods        StudyMethod                 a generator by name, and the deltas it is asked for
deltas         read_deltas                 numbers, or measured on the models
cells          answer, judge               a method's answers, and their verdicts
store          StudyStore                  what is finished, in a folder
specification  describe, digest            what a piece of work depends on, and its name
result         BenchmarkResult             frames, Markdown, pictures, files
recipes        Recipe, RECIPES             kinds of change: what really becomes of a model
survival       Survival                    which answers survive which kind of change
markdown       table, filled_page          tables, and the pages whose words are in the folder `pages`
changes_page   run_changes, render         what survives which change on public tables, as a page
paper          run_paper, render           the experiments of the paper, with its printed figures beside ours
"""

from holdfast.study._asked import StudyMethod
from holdfast.study._recipes import RECIPES, Recipe
from holdfast.study._result import BenchmarkResult
from holdfast.study._run import benchmark
from holdfast.study._situation import Protocol, Situation
from holdfast.study._survival import Survival

__all__ = [
    "RECIPES",
    "BenchmarkResult",
    "Protocol",
    "Recipe",
    "Situation",
    "StudyMethod",
    "Survival",
    "benchmark",
]
