"""The command ``holdfast``.

app       all commands, each in a module of its name: it reads files, calls a verb, shows and writes the result
options   options that commands share, in groups; a function as a command; errors as one line
help      required options first, then groups; the class of every command
project   holdfast.toml: values for options that are not typed
tables    tables of people, points and advice
screens   lines and tables on stdout, errors and warnings on stderr
wording   messages of the library in the words of the command line
"""

from holdfast.cli._app import app, main

__all__ = ["app", "main"]
