"""The progress bar: silent unless asked for or watched, and it moves."""

import sys

import numpy as np

import holdfast as hf
from holdfast import _progress
from holdfast._progress import progress_bar


def test_silent_by_default_where_nobody_looks(capsys):
    with progress_bar("work", 10**6, wanted=None, long=10) as advance:
        advance(5)
    assert capsys.readouterr().err == ""


def test_shown_in_a_log_when_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "_EVERY", 0.0)
    with progress_bar("work", 3, wanted=True, long=10) as advance:
        # Nobody is done, but somebody works.
        for done in (0, 1, 1, 1, 0):
            advance(done)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "work: 0 of 3 (0%), 0 s",
        "work: 1 of 3 (33%), 0 s; about 0 s to go",
        "work: 2 of 3 (67%), 0 s; about 0 s to go",
        "work: 3 of 3 (100%), 0 s",
    ]


def test_shown_as_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar("work", 3, wanted=None, long=3) as advance:
        advance(3)
    assert "3/3" in capsys.readouterr().err


def test_where_nobody_has_an_answer_there_is_a_sign_of_life(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "_EVERY", 0.0)
    net, table = hf.Network([[[1.0, 1.0]]], [[-1.0]]), np.random.default_rng(0).random((400, 2))
    result = hf.explain(
        net,
        table[:3] / 9.0,
        target=1,
        changes=hf.PlausibleChanges(5.0),
        generator=hf.RNCE(table, certified_candidates=False),
        progress=True,
    )
    assert not result.found.any()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "explain: 0 of 3 (0%), 0 s"
    assert len(said) > 2
    assert said[-1] == "explain: 3 of 3 (100%), 0 s"


def test_radii_and_certificates_are_counted_to_the_last_row(capsys, tmp_path):
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, size=(12, 3))
    deep = hf.Network(
        [rng.normal(size=(6, 3)), rng.normal(size=(5, 6)), rng.normal(size=(1, 5))],
        [[0.1] * 6, [0.1] * 5, [0.5]],
    )
    linear = hf.Network([[[1.0, -1.0, 0.5]]], [[0.0]])
    for network, options in (
        (deep, {}), (linear, {}), (linear, {"norm": 2}), (deep, {"changes": hf.PlausibleShift(0.1)}),
    ):  # fmt: skip
        quiet = hf.certified_radius(network, points, 1, **options)
        assert capsys.readouterr().err == ""
        shown = hf.certified_radius(network, points, 1, progress=True, **options)
        assert "12 of 12 (100%)" in capsys.readouterr().err
        assert (shown.lower == quiet.lower).all()
    certificates = hf.certify(deep, points, 1, hf.PlausibleChanges(0.01))
    hf.write_certificates(certificates, tmp_path / "all.jsonl", progress=True)
    assert "12 of 12 (100%)" in capsys.readouterr().err
