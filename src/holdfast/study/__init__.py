"""Studies: many methods on many tables, which can be interrupted and resumed, and the tables of the paper.

run            benchmark                   run methods on tables, models, deltas and seeds
tables         StudyTable                  people, labels, feature space, and the target class
situation      Situation, Protocol         one table, model and seed: halves, models, retrained models, people
methods        StudyMethod                 a generator by name, and its deltas
deltas         read_deltas                 numbers, or values measured on the models
cells          answer, judge               a method's advice, and its verdicts
store          StudyStore                  finished work, in a folder
specification  describe, digest            the inputs of a piece of work, and its name
result         BenchmarkResult             frames, Markdown, pictures, files
recipes        Recipe, RECIPES             kinds of real change of a model
survival       Survival                    the share of promises kept under each kind of change
markdown       table, filled_page          tables, and pages from the templates in the folder `pages`
changes_page   run_changes, render         promises kept under each kind of change on public tables, as a page
paper          run_paper, render           the experiments of the paper, with its figures next to ours
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
