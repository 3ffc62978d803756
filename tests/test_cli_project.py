"""The project file: seven commands without options, what overrides it, and what is wrong with a bad one."""

import json
import tomllib

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import _project as project
from holdfast.cli import app
from holdfast.cli._tables import read_table

START = "init --model model.npz --data people.csv --index id --target 1 --delta 0.02"
CHAIN = (START, "schema", "explain", "letters", "ledger add", "audit new.npz", "check")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with a model and a table, in which commands are typed; and next month's models."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(6, 3)), rng.normal(size=(1, 6))]
    biases = [rng.normal(size=6), rng.normal(size=1)]
    network = hf.Network(weights, biases)
    points = rng.uniform(-1, 1, size=(200, 3)).round(3)
    rejected = points[network.predict(points) == 0][:6]
    people = pd.DataFrame(rejected, columns=["income", "debt", "savings"])
    people.insert(0, "id", [f"p{i}" for i in range(len(people))])
    people.to_csv(tmp_path / "people.csv", index=False)
    network.save(tmp_path / "model.npz")
    near = [one + rng.uniform(-0.02, 0.02, one.shape) for one in (*weights, *biases)]
    hf.Network(near[:2], near[2:]).save(tmp_path / "new.npz")
    hf.Network([-one for one in weights], biases).save(tmp_path / "far.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line, code=0):
    """One command as typed; its output on one line."""
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def test_seven_commands_need_no_option_twice(folder):
    said = [run(line) for line in CHAIN]
    assert "from holdfast.toml: model, data, index, schema " in said[1]
    assert (
        "from holdfast.toml: model, data, index, target, schema, delta, recourse, certificates"
        in said[2]
    )
    advice = read_table(folder / "recourse.csv", index="id")
    n = int(advice["found"].sum())
    assert n == len(advice) == 6
    assert (advice["verdict"] == "ROBUST").all()
    assert len(list((folder / "letters").glob("*.txt"))) == n
    assert f"{n} promises recorded" in said[4]
    assert f"KEPT_FOR_CERTAIN │ {n} │" in said[5]
    assert f"{n} of {n} certificates hold" in said[6]
    # The same certificates as by hand, with every option.
    line = "certificates recourse.csv --model model.npz --data people.csv --index id --target 1 --delta 0.02"
    run(f"--no-config {line} --schema schema.json --out by-hand.jsonl")
    ids = [
        [json.loads(text)["id"] for text in (folder / name).read_text().splitlines()]
        for name in ("certificates.jsonl", "by-hand.jsonl")
    ]
    assert ids[0] == ids[1]
    assert "6 people, 6 with advice." in run("report")
    assert "6 of 6 promises are not kept" in run("audit far.npz", code=3)


def test_reasons_compare_with_the_accepted_people_of_the_table(folder):
    network = hf.Network.load("model.npz")
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, size=(60, 3)).round(3)
    more = pd.DataFrame(points, columns=["income", "debt", "savings"])
    more.insert(0, "id", [f"q{i}" for i in range(len(more))])
    alone = pd.read_csv("people.csv")
    people = pd.concat([alone, more], ignore_index=True)
    for table, compared in ((alone, {"middle"}), (people, {"accepted"})):
        table.to_csv("people.csv", index=False)
        run(f"{START} --force")
        run("schema --overwrite")
        run("explain")
        written = read_table(folder / "recourse.csv", index="id")
        told = [json.loads(cell) for cell in written["main_reasons"].dropna()]
        assert {one[4] for reasons in told for one in reasons} == compared
    accepted = people[["income", "debt", "savings"]]
    accepted = accepted[network.predict(accepted.to_numpy()) == 1].median()
    usual = {one[0]: one[1] for reasons in told for one in reasons}
    assert len(usual) > 1
    assert usual == pytest.approx({name: accepted[name] for name in usual})


def test_promises_that_are_not_proven_are_counted(folder):
    for line in (START, "schema", "explain --delta 0.0001"):
        run(line)
    said = run("ledger add --delta 5")
    assert "6 promises recorded, 0 of them proven, 0 rows without advice skipped." in said
    assert "0 promises recorded, 0 rows" in run("ledger add --delta 5")


def test_certificates_of_another_model_are_one_line(folder):
    for line in CHAIN[:3]:
        run(line)
    said = run("check --model far.npz", code=3)
    assert "error: certificates.jsonl was made for another model than far.npz" in said
    assert "REJECTED" not in said
    assert "0 of 6 certificates hold" in said
    # One certificate that is wrong in another way: each is named.
    lines = (folder / "certificates.jsonl").read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace("ROBUST", "UNKNOWN")
    (folder / "certificates.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = run("check --model far.npz", code=3)
    assert said.count("is REJECTED") == 6
    assert "another model" not in said


def test_letters_without_their_advice_are_written_again(folder):
    for line in CHAIN[:4]:
        run(line)
    manifest = pd.read_csv("letters/manifest.csv").drop(columns="advice")
    manifest.to_csv("letters/manifest.csv", index=False)
    said = run("report", code=2)
    assert (
        "manifest.csv has no column 'advice'; write the letters again: `holdfast letters`" in said
    )


def test_an_audit_of_radii_for_each_parameter_reads_well(folder):
    network = hf.Network.load("model.npz")
    radii = [np.full(one.shape, 0.02) for one in network.weights]
    biases = [np.full(one.shape, 0.02) for one in network.biases]
    changes = hf.PlausibleChanges(radii, biases=biases)
    (folder / "changes.json").write_text(json.dumps(changes.to_dict()), encoding="utf-8")
    start = START.replace("--delta 0.02", "--changes changes.json")
    for line in (start, "schema", "explain", "ledger add"):
        run(line)
    assert "inside their radius for each parameter, at most 0.02" in run("audit new.npz")


def test_init_refuses_a_delta_for_trees(folder):
    people = pd.read_csv("people.csv").drop(columns="id")
    trees = DecisionTreeClassifier(max_depth=2).fit(
        people, people["debt"] > people["debt"].median()
    )
    joblib.dump(trees, "model.pkl")
    line = "--model model.pkl --trust-pickle --data people.csv --index id --target True"
    said = run(f"init {line} --delta 0.02", code=2)
    assert not (folder / "holdfast.toml").exists()
    run(f"init {line}")
    assert run("schema --trust-pickle")
    refused = run("explain --trust-pickle --delta 0.02", code=2)
    assert "an ensemble of trees" in said
    assert said in refused
    run(f"init {line} --margin 0.1 --force")


def test_explain_is_the_librarys_closest(folder):
    for line in CHAIN[:3]:
        run(line)
    space = hf.FeatureSpace.from_schema(folder / "schema.json")
    expected = hf.explain(
        hf.Network.load(folder / "model.npz"),
        read_table(folder / "people.csv", index="id"),
        target=1,
        changes=hf.PlausibleChanges(0.02),
        generator=hf.Closest(),
        space=space,
    )
    written = read_table(folder / "recourse.csv", index="id")
    names = list(space.names)
    pd.testing.assert_frame_equal(
        written[names], expected.counterfactuals[names], check_exact=True, check_dtype=False
    )


def test_options_override_the_file(folder):
    run(START)
    run("schema")
    said = run("explain --delta 0.001 --rows 2 --out few.csv")
    assert "under every model" not in said
    assert "delta = 0.001" in said
    assert "First" not in said
    assert "All 2 with advice:" in said
    assert len(read_table(folder / "few.csv")) == 2
    # The project's own files are left alone.
    assert not (folder / "recourse.csv").exists()
    assert not (folder / "certificates.jsonl").exists()
    # Another kind of change takes the place of delta.
    assert "0.2 below today's" in run("certify --margin 0.2")
    assert "--model" in run("--no-config explain", code=2)


def test_paths_are_relative_to_the_file(folder, monkeypatch):
    run(START)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert "--model" in run("certify", code=2)
    run("--config ../holdfast.toml schema")
    assert (folder / "schema.json").exists()
    assert "from ../holdfast.toml: model" in run("--config ../holdfast.toml certify")


def test_init_writes_what_it_was_given(folder):
    (folder / "holdfast.toml").write_text("edited", encoding="utf-8")
    assert "--force replaces it" in run(START, code=2)
    assert (folder / "holdfast.toml").read_text(encoding="utf-8") == "edited"
    words = ["init", "--model", "model.npz", "--data", "people.csv", "--target", "1"]
    words += ["--margin", "0.5", "--drop", "id", "--sender", 'A "B" Bank\\nStreet', "--force"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    values = tomllib.loads((folder / "holdfast.toml").read_text(encoding="utf-8"))
    chain = {key: project.KEYS[key].example for key in project.CHAIN}
    assert values == chain | {
        "model": "model.npz",
        "data": "people.csv",
        "target": 1,
        "drop": ["id"],
        "margin": 0.5,
        "sender": 'A "B" Bank\nStreet',
    }


def test_every_key_can_be_written_and_read(folder):
    examples = {name: key.example for name, key in project.KEYS.items()}
    text = project.text_of(examples)
    assert tomllib.loads(text) == examples
    # Without values every key is a comment with a valid example.
    bare = project.text_of({})
    assert tomllib.loads(bare) == {}
    entries = [line[2:] for line in bare.splitlines() if " = " in line]
    assert tomllib.loads("\n".join(entries)) == examples
    for command, uses in project.USES.items():
        assert {use.lstrip(">?") for use in uses.values()} <= set(project.KEYS), command


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--model gone.npz --data people.csv --target 1", "'gone.npz' does not exist"),
        ("--model model.npz --data gone.csv --target 1", "'gone.csv' does not exist"),
        ("--model model.npz --data people.csv --target 1 --index who", "has no column 'who'"),
        ("--model model.npz --data people.csv --target 1 --label who", "has no column 'who'"),
        ("--model model.npz --data people.csv --target 7", "--target: the model has no class '7'"),
        (
            "--model model.npz --data people.csv --target 1 --delta 0.1 --margin 1",
            "--delta and --margin exclude each other",
        ),
    ],
)
def test_init_checks_what_it_is_given(folder, line, complaint):
    assert complaint in run(f"init {line}", code=2)
    assert not (folder / "holdfast.toml").exists()


BAD = {
    "model = ": "holdfast.toml: expected TOML, got:",
    'modell = "model.npz"': "holdfast.toml: the key 'modell' is not known; use model, data",
    "model = 3": 'holdfast.toml: model must be a path in quotes, such as model = "model.npz"; it is 3',
    'delta = "small"': "holdfast.toml: delta must be a number, or a list with one for each layer",
    "delta = true": "delta must be a number",
    "target = []": "target must be a text in quotes or a number",
    "delta = 0.1\nmargin = 1.0": "holdfast.toml: delta and margin are both set; keep one of them",
    "trust_pickle = true": "trust_pickle cannot be set here",
    'model = "gone.npz"': 'holdfast.toml: model = "gone.npz" does not exist; correct the path',
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_named_with_its_key(folder, text):
    (folder / "holdfast.toml").write_text(text, encoding="utf-8")
    said = run("certify --data people.csv --target 1", code=2)
    assert BAD[text] in said
    assert "Usage: holdfast explain" in run("explain --help")
    run("methods")


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("explain", "holdfast schema"),
        ("letters", "holdfast explain"),
        ("audit new.npz", "holdfast ledger add"),
        ("check", "holdfast explain"),
    ],
)
def test_a_step_that_is_missing_is_named(folder, line, first):
    run(START)
    if line == "letters":
        run("schema")
    assert f"does not exist; run `{first}` first" in run(line, code=2)


def test_the_file_opens_no_pickle(folder):
    frame = read_table(folder / "people.csv", index="id")
    model = LogisticRegression().fit(frame.to_numpy(), [0, 1, 0, 1, 0, 1])
    joblib.dump(model, folder / "model.pkl")
    run(START.replace("model.npz", "model.pkl"))
    run("schema --trust-pickle")
    assert "add --trust-pickle" in run("certify", code=2)
    assert "rows provably keep class 1" in run("certify --trust-pickle")


def test_delta_with_a_history_retrains_nothing(folder):
    run(START)
    said = run("delta model.npz new.npz --coverage 0.5")
    assert "from holdfast.toml: index" in said


def test_risk_and_delta_write_where_changes_are_read(folder):
    text = 'model = "model.npz"\ndata = "people.csv"\nindex = "id"\ntarget = 1\nchanges = "changes.json"\n'
    (folder / "holdfast.toml").write_text(text, encoding="utf-8")
    assert 'changes = "changes.json" does not exist; run `holdfast delta` first' in run(
        "certify", code=2
    )
    run("delta new.npz model.npz --coverage 0.5")
    assert (folder / "changes.json").exists()
    assert "rows provably keep class 1" in run("certify")


def test_explain_leaves_no_certificates_of_other_advice(folder):
    for line in CHAIN[:3]:
        run(line)
    before = (folder / "certificates.jsonl").read_text(encoding="utf-8")
    # The project's own file, as typed.
    assert "certificates: " in run("explain --immutable debt --out ./recourse.csv")
    after = (folder / "certificates.jsonl").read_text(encoding="utf-8")
    assert after != before
    run("certificates --out by-hand.jsonl")
    ids = [
        [json.loads(text)["id"] for text in (folder / name).read_text().splitlines()]
        for name in ("certificates.jsonl", "by-hand.jsonl")
    ]
    assert ids[0] == ids[1]
    # Without a Δ nothing is certified.
    toml = (folder / "holdfast.toml").read_text(encoding="utf-8")
    (folder / "holdfast.toml").write_text(toml.replace("delta = ", "# delta = "), encoding="utf-8")
    assert "the earlier" in run("explain --method mce")
    assert not (folder / "certificates.jsonl").exists()


def test_a_report_elsewhere_has_the_projects_certificates(folder):
    for line in CHAIN[:3]:
        run(line)
    identity = json.loads((folder / "certificates.jsonl").read_text().splitlines()[0])["id"]
    run("report --out elsewhere.html")
    assert identity in (folder / "elsewhere.html").read_text(encoding="utf-8")


def test_a_ledger_without_a_promise_is_not_created(folder):
    for line in CHAIN[:2]:
        run(line)
    run("explain --immutable income --immutable debt --immutable savings")
    assert "no promise to record, and promises.ledger is not created" in run("ledger add")
    assert not (folder / "promises.ledger").exists()
    run("report")


def test_a_report_links_only_letters_of_its_own_advice(folder):
    for line in CHAIN[:4]:
        run(line)
    run("report")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("letters/letter-p") == 6
    assert "Letters of other advice" not in page
    before = read_table(folder / "recourse.csv", index="id")
    run("explain --immutable debt")
    after = read_table(folder / "recourse.csv", index="id")
    same = (before[["income", "debt", "savings"]] == after[["income", "debt", "savings"]]).all(
        axis=1
    )
    same |= ~before["found"] & ~after["found"]
    run("report")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not same.all()
    for key, kept in same.items():
        assert (f"letters/letter-{key}.html" in page) is bool(kept)
    assert f"Letters of other advice are left out: {(~same).sum()}." in page
