"""Tables arrive as the files say, whichever form they come in; downloads are whole, resumed and checked, or refused."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import pickle
import re
import shutil
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast import FeatureSpace
from holdfast.cli import app
from holdfast.datasets import load, make_loans, names
from holdfast.datasets._catalogue import Download, Facts
from holdfast.datasets._places import cache_folder, fetch
from holdfast.errors import DatasetNotFoundError, DownloadError, FileFormatError, InvalidInputError
from holdfast.features import Direction, Kind, Schema

FILES = ["adult", "california_housing", "compas", "gmc", "heloc"]
CARLA = ["adult", "compas", "gmc", "heloc"]
runner = CliRunner()


@pytest.fixture(autouse=True)
def nobody_home(monkeypatch, tmp_path):
    """No folder, an empty cache, and no way to the network."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOLDFAST_MIRROR", "http://127.0.0.1:9")


@pytest.fixture
def given(monkeypatch, data_dir):
    """The public tables in $HOLDFAST_DATA."""
    monkeypatch.setenv("HOLDFAST_DATA", str(data_dir))
    return data_dir


@pytest.fixture(scope="module")
def manifest(data_dir):
    described = json.loads((data_dir / "MANIFEST.json").read_text(encoding="utf-8"))["datasets"]
    return {entry["name"]: entry for entry in described}


# ---------------------------------------------------------------------- what is in the tables


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_what_its_file_says(given, manifest, name):
    data = load(name)
    raw = pd.read_csv(given / f"{name}.csv.gz")
    assert data.path == given / f"{name}.csv.gz"
    assert list(data.frame.columns) == list(
        Schema.load(given / f"{name}.schema.json").feature_names
    )
    np.testing.assert_array_equal(data.frame.to_numpy(), raw[data.frame.columns].to_numpy())
    np.testing.assert_array_equal(data.target, raw[manifest[name]["target"]])
    assert data.target.name == manifest[name]["target"]
    assert (len(data), len(data.frame.columns)) == (
        manifest[name]["rows"],
        manifest[name]["features"],
    )
    assert {str(k): v for k, v in data.target.value_counts().items()} == manifest[name][
        "class_counts"
    ]
    assert Facts.of(name).rows == manifest[name]["rows"]
    # The dtypes are those that the space gives back, so that advice reads like the table.
    pd.testing.assert_frame_equal(
        data.space.decode(data.space.encode(data.X)).head(99), data.X.head(99)
    )


@pytest.mark.parametrize("name", FILES)
def test_the_packaged_schema_says_what_the_benchmark_schema_says(data_dir, name):
    ours, theirs = Facts.of(name).schema, Schema.load(data_dir / f"{name}.schema.json")
    assert (ours.target, ours.desirable, ours.classes) == (
        theirs.target,
        theirs.desirable,
        theirs.classes,
    )
    for actionability in ("schema", "carla", "free") if name in CARLA else ("schema", "free"):
        for kinds in ("schema", "carla") if name in CARLA else ("schema",):
            options = {"actionability": actionability, "kinds": kinds}
            assert ours.features(**options) == theirs.features(**options)


def test_gmc_repeats_rows_only_to_be_as_in_the_paper(given):
    once, paper = load("gmc"), load("gmc", as_in_paper=True)
    assert (len(once), len(paper)) == (115_527, 131_209)
    assert paper.y.value_counts().to_dict() == {1: 107_686, 0: 3 * 7_841}
    pd.testing.assert_frame_equal(paper.X.head(len(once)), once.X)
    first = ~paper.X.index.duplicated()
    pd.testing.assert_frame_equal(paper.X[first], once.X)
    copies = paper.X[~first]
    np.testing.assert_array_equal(copies.to_numpy(), once.X.loc[copies.index].to_numpy())
    assert set(paper.y[~first]) == {0}


def test_nothing_else_is_repeated(given):
    for name in [name for name in names() if name != "gmc"]:
        pd.testing.assert_frame_equal(load(name).X, load(name, as_in_paper=True).X)


def test_tables_that_need_no_file():
    iris, loans = load("iris", download=False), load("loans", download=False)
    assert (iris.path, loans.path) == (None, None)
    assert iris.y.value_counts().to_dict() == {0: 50, 1: 50, 2: 50}
    pd.testing.assert_frame_equal(loans.X.assign(accepted=loans.y), make_loans())
    for data in (iris, loans):
        points = data.space.encode(data.X)
        assert points.min() >= 0.0
        assert points.max() <= 1.0
        assert data.space.satisfied(data.X, data.X).all()
        pd.testing.assert_frame_equal(data.space.decode(points), data.X.set_axis(range(len(data))))


def test_whoever_applies_fits_the_space_of_loans():
    space = load("loans").space
    for seed in range(3):
        people = make_loans(3000, seed=seed)
        points = space.encode(people)
        assert points.min() >= 0.0
        assert points.max() <= 1.0


def test_a_dataset_unpacks_pickles_and_speaks(given):
    data = load("heloc", actionability="free")
    X, space, y = data
    assert X is data.frame is data.X
    assert y is data.target is data.y
    assert space is data.space
    assert all(feature.direction is Direction.FREE for feature in space.features)
    assert data.wanted == 1
    assert "leak" in data.description
    assert all(caveat in data.description for caveat in data.caveats)
    assert "9,871 rows" in data.description
    again = pickle.loads(pickle.dumps(data))
    pd.testing.assert_frame_equal(again.frame, data.frame)
    assert again.space == data.space


def test_options_reach_the_space(given):
    carla = load("compas", actionability="carla", kinds="carla", encoding="onehot").space
    path = given / "compas.schema.json"
    assert carla == FeatureSpace.from_schema(
        path, actionability="carla", kinds="carla", encoding="onehot"
    )
    with pytest.raises(InvalidInputError, match="actionability"):
        load("compas", actionability="mine")


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("adult", {"age", "sex"}),
        ("compas", {"age", "race", "sex"}),
        ("gmc", {"age"}),
        ("heloc", set()),
        ("california_housing", set()),
        ("iris", set()),
        ("loans", {"age"}),
    ],
)
def test_every_table_knows_what_carla_calls_immutable(given, name, fixed):
    space = load(name, actionability="carla", kinds="carla").space
    assert {
        feature.name for feature in space.features if feature.direction is Direction.IMMUTABLE
    } == fixed
    assert {feature.kind for feature in space.features} <= {
        Kind.CONTINUOUS,
        Kind.CATEGORICAL,
        Kind.BINARY,
    }


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(InvalidInputError, match=r"expected one of .*'adult'.* got 'titanic'"):
        load("titanic")


# ---------------------------------------------------------------------- the files that a download fetches


def old_parser(text: str) -> float:
    """The decimal parser of pandas before 1.2, whose noise is in CARLA's gmc: digits first, then powers of ten."""
    digits, _, exponent = text.partition("E")
    whole, _, decimals = digits.partition(".")
    number, power, left = float(int(whole + decimals)), 10.0, len(decimals) - int(exponent or 0)
    while left:
        if left & 1:
            number /= power
        left, power = left >> 1, power * power
    return number


def carla_bytes(folder: Path, name: str) -> bytes:
    """CARLA's own file, rebuilt from the table: line ends, decimals and noise as there."""
    data = gzip.decompress((folder / f"{name}.csv.gz").read_bytes())
    if name == "adult":
        return data
    if name == "compas":
        return data.replace(b"\n", b"\r\n")
    table = pd.read_csv(io.BytesIO(data))
    if name == "heloc":
        return table.astype("float64").to_csv(index=False).encode()
    ratios = ["RevolvingUtilizationOfUnsecuredLines", "DebtRatio"]
    as_written = pd.read_csv(io.BytesIO(data), usecols=ratios, dtype=str)
    noisy = {column: [old_parser(text) for text in as_written[column]] for column in ratios}
    table = table.assign(**noisy).astype(
        {"MonthlyIncome": "float64", "NumberOfDependents": "float64"}
    )
    return table.to_csv(index=False).encode()


@pytest.fixture(scope="module")
def carla_files(data_dir, tmp_path_factory):
    """A folder that looks like CARLA's repository."""
    folder = tmp_path_factory.mktemp("carla")
    for name in CARLA:
        (folder / Facts.of(name).download.file).write_bytes(carla_bytes(data_dir, name))
    return folder


@pytest.mark.parametrize("name", CARLA)
def test_what_is_pinned_is_carla_s_file_and_gives_the_same_frame(
    monkeypatch, given, carla_files, manifest, name
):
    pinned, stated = Facts.of(name).download, manifest[name]["carla_file"]
    content = (carla_files / pinned.file).read_bytes()
    assert (
        hashlib.sha256(content).hexdigest() == pinned.sha256 == stated.get("sha256", pinned.sha256)
    )
    assert (
        hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == stated["git_blob_sha1"]
    )
    source = next(
        entry for entry in manifest[name]["sources"] if "carla-recourse" in entry["repository"]
    )
    assert pinned.address.split("/")[3:] == [
        "carla-recourse",
        "cf-data",
        source["commit"],
        stated["path"],
    ]
    ours = load(name)
    monkeypatch.setenv("HOLDFAST_DATA", str(carla_files))
    theirs = load(name)
    assert theirs.path == carla_files / pinned.file
    pd.testing.assert_frame_equal(ours.frame, theirs.frame, check_exact=True)
    pd.testing.assert_series_equal(ours.target, theirs.target)
    assert ours.space == theirs.space


def test_the_census_archive_gives_the_same_frame(monkeypatch, given, tmp_path):
    ours = load("california_housing")
    values = pd.read_csv(given / "california_housing.csv.gz")
    households = (values["Population"] / values["AveOccup"]).round()
    raw = {
        "longitude": values["Longitude"],
        "latitude": values["Latitude"],
        "age": values["HouseAge"].astype(float),
        "rooms": (values["AveRooms"] * households).round(),
        "bedrooms": (values["AveBedrms"] * households).round(),
        "population": values["Population"].astype(float),
        "households": households,
        "income": values["MedInc"],
        "value": (values["MedHouseVal"] * 100_000).round(),
    }
    content = pd.DataFrame(raw).to_csv(index=False, header=False).encode()
    with tarfile.open(tmp_path / "cal_housing.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("CaliforniaHousing/cal_housing.data")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    theirs = load("california_housing")
    pd.testing.assert_frame_equal(ours.frame, theirs.frame, check_exact=True)
    pd.testing.assert_series_equal(ours.target, theirs.target)


def test_the_archive_is_the_one_that_scikit_learn_pins():
    from sklearn.datasets import _california_housing as theirs

    pinned = Facts.of("california_housing").download
    assert (pinned.address, pinned.sha256) == (theirs.ARCHIVE.url, theirs.ARCHIVE.checksum)


# ---------------------------------------------------------------------- where files are looked for


def test_the_folder_comes_before_the_cache(monkeypatch, data_dir, carla_files, tmp_path):
    cached = cache_folder() / "compas.csv"
    cached.parent.mkdir()
    shutil.copy(carla_files / "compas.csv", cached)
    assert load("compas").path == cached
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("HOLDFAST_DATA", str(folder))
    assert load("compas").path == cached
    shutil.copy(data_dir / "compas.csv.gz", folder)
    assert load("compas").path == folder / "compas.csv.gz"


def test_a_schema_in_the_folder_is_used(monkeypatch, data_dir, tmp_path):
    shutil.copy(data_dir / "compas.csv.gz", tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    assert load("compas").space["priors_count"].direction is Direction.INCREASING
    schema = json.loads((data_dir / "compas.schema.json").read_text(encoding="utf-8"))
    priors = next(column for column in schema["columns"] if column["name"] == "priors_count")
    priors["actionability"] = "decrease_only"
    (tmp_path / "compas.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    assert load("compas").space["priors_count"].direction is Direction.DECREASING
    priors |= {"actionability": "increase_only", "carla_immutable": True}
    (tmp_path / "compas.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    assert (
        load("compas", actionability="carla").space["priors_count"].direction is Direction.IMMUTABLE
    )


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/holdfast"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/holdfast"),
        ("darwin", {"XDG_CACHE_HOME": "xdg"}, "home/Library/Caches/holdfast"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/holdfast"),
        ("win32", {}, "home/AppData/Local/holdfast"),
        ("linux", {"HOLDFAST_CACHE": "own"}, "own"),
    ],
)
def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch, platform, variables, expected):
    for name in ("HOLDFAST_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"age,sex\n1,Male\n", "'two_year_recid'"),
        (b"not a gzip file", "has no table compas"),
        (b"", "has no table compas"),
    ],
)
def test_a_file_that_is_not_the_table_is_refused_by_name(monkeypatch, tmp_path, content, complaint):
    (tmp_path / "compas.csv").write_bytes(content)
    if b"gzip" in content:
        (tmp_path / "compas.csv").rename(tmp_path / "compas.csv.gz")
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    with pytest.raises(FileFormatError, match=rf"compas\.csv.*{complaint}"):
        load("compas")


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [("", "missing"), ("young", "expected numbers in column 'age'"), ("34.5", "whole numbers")],
)
def test_spoilt_cells_are_refused(monkeypatch, data_dir, tmp_path, cell, complaint):
    lines = gzip.decompress((data_dir / "compas.csv.gz").read_bytes()).decode().splitlines()
    lines[1] = ",".join([cell, *lines[1].split(",")[1:]])
    (tmp_path / "compas.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    with pytest.raises(FileFormatError, match=complaint):
        load("compas")


# ---------------------------------------------------------------------- downloads, from a server of our own


class Server(http.server.ThreadingHTTPServer):
    """Hands out `content` under any name; can cut the line, or answer with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = np.random.default_rng(0).bytes(300_000)
        self.cut_after: int | None = None
        self.status = 200
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content[: self.server.cut_after])

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server(monkeypatch):
    with Server() as running:
        thread = threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        monkeypatch.setenv("HOLDFAST_MIRROR", running.url + "/")
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def wanted(server):
    return Download(
        "http://nowhere.invalid/table.csv", "table.csv", hashlib.sha256(server.content).hexdigest()
    )


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", CARLA)
def test_load_downloads_once(server, carla_files, given, monkeypatch, name):
    here = load(name)
    monkeypatch.delenv("HOLDFAST_DATA")
    file = Facts.of(name).download.file
    server.content = (carla_files / file).read_bytes()
    data = load(name)
    assert data.path == cache_folder() / file
    pd.testing.assert_frame_equal(data.frame, here.frame, check_exact=True)
    assert load(name, download=False).path == data.path
    assert server.asked == 1


def test_a_download_is_whole(server, wanted, tmp_path):
    path = fetch(wanted, tmp_path / "a" / "b")
    assert path.read_bytes() == server.content
    assert left(path.parent) == {"table.csv"}
    assert fetch(wanted, path.parent) == path
    assert server.asked == 1


@pytest.mark.parametrize(
    "instead", ["the last byte", "a page that asks for a password", "a longer file"]
)
def test_a_wrong_file_is_refused_and_removed(server, wanted, tmp_path, instead):
    whole = server.content
    server.content = {"the last byte": whole[:-1] + b"!", "a longer file": whole + b"!"}.get(
        instead, instead.encode()
    )
    with pytest.raises(
        FileFormatError, match=rf"{server.url}/table.csv: expected .* SHA-256 {wanted.sha256}, got"
    ):
        fetch(wanted, tmp_path)
    assert left(tmp_path) == set()


def test_what_broke_off_is_not_kept(server, wanted, tmp_path):
    server.cut_after = 100_000
    with pytest.raises(DownloadError, match="broke after 100,000 of 300,000 bytes"):
        fetch(wanted, tmp_path)
    assert left(tmp_path) == set()
    server.cut_after = None
    assert fetch(wanted, tmp_path).read_bytes() == server.content
    assert left(tmp_path) == {"table.csv"}


def test_a_damaged_file_in_the_cache_is_fetched_again(server, wanted, tmp_path):
    (tmp_path / "table.csv").write_bytes(server.content[:1000])
    assert fetch(wanted, tmp_path).read_bytes() == server.content


def test_many_at_once_leave_one_whole_file(server, wanted, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: fetch(wanted, tmp_path), range(8)))
    assert {path.read_bytes() for path in paths} == {server.content}
    assert left(tmp_path) == {"table.csv"}


def test_a_mirror_may_be_a_folder(server, wanted, tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_bytes(server.content)
    monkeypatch.setenv("HOLDFAST_MIRROR", tmp_path.as_uri())
    assert fetch(wanted, tmp_path / "cache").read_bytes() == server.content
    assert server.asked == 0


def test_a_cache_that_cannot_be_written_is_named(server, wanted, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DownloadError, match="expected a folder that can be written"):
        fetch(wanted, tmp_path / "file" / "cache")


def test_the_server_s_no_is_passed_on(server, wanted, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match="404 Not Found"):
        fetch(wanted, tmp_path)


def test_a_bar_is_shown_on_request(server, wanted, tmp_path, capsys):
    fetch(wanted, tmp_path, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "table.csv" in shown.err
    assert "300,000 of 300,000 (100%)" in shown.err


@pytest.mark.parametrize("download", [True, False])
def test_without_a_file_or_a_network_it_says_what_to_do(monkeypatch, tmp_path, download):
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "mine"))
    with pytest.raises(DatasetNotFoundError) as caught:
        load("gmc", download=download)
    message = str(caught.value)
    assert str(tmp_path / "mine") in message
    assert "gmc.csv.gz, gmc.csv, give_me_some_credit.csv" in message
    assert "http://127.0.0.1:9/give_me_some_credit.csv" in message
    assert str(tmp_path / "cache" / "give_me_some_credit.csv") in message
    assert "set HOLDFAST_DATA to a folder" in message
    assert ("download=False" in message) == (not download)
    assert isinstance(caught.value, FileNotFoundError)


def test_without_a_mirror_files_come_from_where_they_live(monkeypatch):
    monkeypatch.delenv("HOLDFAST_MIRROR")
    urls = [facts.download.url for facts in map(Facts.of, FILES)]
    assert all(url.startswith("https://") for url in urls)


# ---------------------------------------------------------------------- on paper and on the command line


@pytest.mark.parametrize("name", names())
def test_the_page_says_what_the_facts_say(root, name):
    page = (root / "docs" / "datasets.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    facts = Facts.of(name)
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        name,
        facts.title,
        f"{facts.rows:,}",
        f"{len(facts.schema.feature_names)}",
        f"{len(facts.classes)}",
        f"class {facts.wanted}, {facts.classes[facts.wanted]}",
        facts.licence.partition(";")[0],
    ]


def test_the_list(given, monkeypatch, tmp_path):
    for name in FILES:
        if name != "heloc":
            shutil.copy(given / f"{name}.csv.gz", tmp_path)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    shown = runner.invoke(app, ["datasets"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    rows = {
        cells[0]: cells
        for line in shown.output.splitlines()
        if len(cells := re.split(r"\s{2,}", line.strip())) > 5
    }
    assert set(names()) <= set(rows)
    assert rows["adult"][1:5] == ["48,832", "13", "2", "in $HOLDFAST_DATA"]
    assert rows["heloc"][4] == "not here: will be downloaded"
    assert rows["iris"][4] == "comes with scikit-learn"
    assert rows["gmc"][5] == "Kaggle rules"


@pytest.mark.parametrize("name", names())
def test_the_details(name):
    shown = runner.invoke(app, ["datasets", name])
    assert shown.exit_code == 0
    facts = Facts.of(name)
    assert all(f"caveat: {caveat}" in shown.output for caveat in facts.caveats)
    for fact in (facts.licence, facts.source, facts.derivation, facts.paper):
        assert fact in shown.output
    assert (facts.download.url if facts.download else "comes with") in shown.output


def test_a_table_and_its_space_are_written(given, tmp_path):
    table, space = tmp_path / "compas.csv", tmp_path / "compas.json"
    shown = runner.invoke(app, ["datasets", "compas", "--out", str(table), "--schema", str(space)])
    assert shown.exit_code == 0, shown.output
    data = load("compas")
    written = pd.read_csv(table, index_col="row")
    pd.testing.assert_frame_equal(written.drop(columns="score"), data.X, check_names=False)
    np.testing.assert_array_equal(written["score"], data.y)
    assert FeatureSpace.from_dict(json.loads(space.read_text(encoding="utf-8"))) == data.space


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["titanic"], "expected one of"),
        (["compas", "--out", "table.csv"], "set HOLDFAST_DATA"),
        (["iris", "--out", "table.xyz"], "ends in"),
        (["--out", "table.csv"], "also need NAME"),
        (["iris", "--schema", "no/such/folder.json"], "existing folder"),
    ],
)
def test_what_cannot_be_shown_or_written_is_one_line(monkeypatch, tmp_path, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    shown = runner.invoke(app, ["datasets", *arguments])
    assert shown.exit_code == 2
    assert complaint in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
