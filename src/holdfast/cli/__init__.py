"""The command ``holdfast``.

app       all commands, each in a module of its name: it reads files, calls a verb, shows and writes what comes of it
options   options that commands share, in groups; a function as a command; errors as one line
tables    tables of people, points and advice
screens   lines and tables on stdout, complaints on stderr
wording   what the library says of its arguments, in the words of the command line
"""

from holdfast.cli._app import app, main

__all__ = ["app", "main"]
