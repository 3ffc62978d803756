"""The progress bar: silent unless asked for or watched, and it moves."""

import numpy as np

import holdfast as hf
from holdfast._progress import progress_bar


def test_silent_by_default_where_nobody_looks(capsys):
    with progress_bar("work", 10**6, wanted=None, long=10) as advance:
        advance(5)
    assert capsys.readouterr().err == ""


def test_shown_on_stderr_when_asked_for(capsys):
    with progress_bar("work", 3, wanted=True, long=10) as advance:
        for _ in range(3):
            advance(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "work" in captured.err
    assert "3/3" in captured.err


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
        assert "12/12" in capsys.readouterr().err
        assert (shown.lower == quiet.lower).all()
    certificates = hf.certify(deep, points, 1, hf.PlausibleChanges(0.01))
    hf.write_certificates(certificates, tmp_path / "all.jsonl", progress=True)
    assert "12/12" in capsys.readouterr().err
