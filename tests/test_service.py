"""The service says what the library says, to the last bit; what is wrong is refused by name; logs name nobody."""

import json
import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pandas as pd
import pytest
import uvicorn
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.changes._kind import Inside
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError, MissingExtraError
from holdfast.service import RequestLimits, Service, application, serve
from holdfast.service._body import read_json
from holdfast.service._openapi import openapi
from holdfast.service._run import listen, server_of

CHANGES = hf.PlausibleChanges(0.01)
TOKEN, AUDIT = "a token that nobody guesses", "another one for auditors"
AUDITOR = {"authorization": f"Bearer {AUDIT}"}


@pytest.fixture(scope="module")
def lender():
    """A network, its space, the table, and whom it accepts."""
    table = make_loans(400)
    X, y = table.drop(columns="accepted"), table["accepted"]
    space = hf.FeatureSpace.from_frame(
        X,
        immutable=["age", "dependants"],
        increasing=["months_of_history"],
        steps={"income": 250, "savings": 50},
    )
    network = hf.load_network(
        MLPClassifier((8, 8), max_iter=300, tol=1e-3, random_state=0).fit(space.encode(X), y)
    )
    return network, space, X, network.predict(space.encode(X)) == 1


@contextmanager
def running(app):
    """The application, or a server with one, at an address of its own; and a client."""
    with listen("127.0.0.1", 0) as listener:
        server = app
        if not isinstance(app, uvicorn.Server):
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=30
            ) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def service_of(lender, **options):
    network, space, X, _ = lender
    given = {"space": space, "changes": CHANGES, "target": 1, "generator": hf.RNCE(X), **options}
    return Service(network, **given)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return tmp_path_factory.mktemp("service") / "promises.ledger"


@pytest.fixture(scope="module")
def client(lender, ledger):
    with running(application(service_of(lender, limits=RequestLimits(people=50)))) as client:
        yield client


@pytest.fixture(scope="module")
def recording(lender, ledger):
    service = service_of(lender, ledger=ledger, audited=True)
    with running(application(service, tokens={"audit": AUDIT})) as client:
        yield client


def people_of(X):
    return json.loads(X.to_json(orient="records", double_precision=15))


def row_of(space, person):
    return space.encode(pd.DataFrame([person]))[0]


# ---------------------------------------------------------------- the same answers


def test_certify_says_what_the_library_says_to_the_last_bit(lender, client):
    network, space, X, accepted = lender
    rows = pd.concat([X[accepted].head(25), X[~accepted].head(5)])
    expected = hf.certify(network, rows, 1, CHANGES, space=space)
    answer = client.post("/certify", json={"people": people_of(rows)}).json()
    assert [one["verdict"] for one in answer["people"]] == [str(v) for v in expected.verdict]
    assert {"ROBUST", "NOT_ROBUST"} <= {one["verdict"] for one in answer["people"]}
    assert [one["decided_by"] for one in answer["people"]] == expected.decided_by.tolist()
    assert np.array_equal([one["point"] for one in answer["people"]], space.encode(rows))
    for name in ("margin_lower", "margin_upper"):
        got = np.array([one[name] for one in answer["people"]], dtype=float)
        wanted = getattr(expected, name)
        assert np.array_equal(got, np.where(np.isfinite(wanted), wanted, np.nan), equal_nan=True)
    assert answer["proven_of"] == CHANGES.every_model
    assert answer["measured_not_proven"] is None


def test_explain_says_what_the_library_says_and_reads_back_to_the_certified_point(lender, client):
    network, space, X, accepted = lender
    rows = pd.concat([X[~accepted].head(12), X[accepted].head(1)])
    expected = hf.explain(
        network, rows, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space
    )
    keys = [f"A-{i}" for i in range(len(rows))]
    answer = client.post("/explain", json={"people": people_of(rows), "keys": keys}).json()[
        "people"
    ]
    assert [one["key"] for one in answer] == keys
    assert [one["found"] for one in answer] == expected.found.tolist()
    assert 0 < expected.found.sum() < len(rows)
    assert answer[-1]["reason"] == "already classified as 1"
    for row in np.flatnonzero(expected.found):
        one = answer[row]
        assert np.array_equal(one["point"], expected.points[row])
        assert np.array_equal(one["point"], row_of(space, one["counterfactual"]))
        assert one["verdict"] == str(expected.verdict[row])
        assert one["cost_l1"] == expected.cost_l1[row]
        assert one["advice"] == expected.describe(row)
        before = people_of(rows.iloc[[row]])[0]
        moved = {move["column"]: (move["from"], move["to"]) for move in one["moves"]}
        changed = {k: (before[k], v) for k, v in one["counterfactual"].items() if before[k] != v}
        assert moved == changed
    again = client.post(
        "/certify", json={"people": [one["counterfactual"] for one in answer[:-1]]}
    ).json()
    assert [one["verdict"] for one in again["people"]] == [one["verdict"] for one in answer[:-1]]


def test_another_class_can_be_asked_for(lender, client):
    network, space, X, accepted = lender
    rows = X[~accepted].head(5)
    answer = client.post("/certify", json={"people": people_of(rows), "target": 0}).json()
    expected = hf.certify(network, rows, 0, CHANGES, space=space)
    assert answer["target"] == 0
    assert [one["verdict"] for one in answer["people"]] == [str(v) for v in expected.verdict]


def test_what_is_undecided_in_time_is_unknown(lender):
    network, space, X, accepted = lender
    wide = hf.PlausibleChanges(0.03)
    rows = X[accepted].head(60)
    expected = [str(v) for v in hf.certify(network, rows, 1, wide, space=space).verdict]
    service = service_of(lender, changes=wide)
    got = service.certify({"people": people_of(rows), "time_limit": 1e-9})["people"]
    other = [
        one["verdict"]
        for one, verdict in zip(got, expected, strict=True)
        if one["verdict"] != verdict
    ]
    assert other
    assert set(other) == {"UNKNOWN"}
    assert {one["words"] for one in got if one["verdict"] == "UNKNOWN"} == {"undecided"}
    service.generator = hf.Closest()
    (one,) = service.explain({"people": people_of(X[~accepted].head(1)), "time_limit": 1e-9})[
        "people"
    ]
    assert not one.get("robust")
    assert not one["proven_impossible"]


def test_what_was_measured_is_never_worded_as_a_proof(lender):
    changes = CHANGES.calibrated(Inside(19, 20))
    service = service_of(lender, changes=changes)
    answer = service.certify({"people": people_of(lender[2].head(1))})
    assert answer["measured_not_proven"] == str(changes.inside)
    assert "probab" not in answer["proven_of"]
    assert f"Measured, not proven: {changes.inside}." in openapi(service)["info"]["description"]


def test_a_pipeline_is_asked_in_its_own_columns():
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = make_loans(300)
    X, y = table.drop(columns="accepted"), table["accepted"]
    numbers = X.select_dtypes("number").columns
    labels = [name for name in X.columns if name not in numbers]
    read = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), labels)
    )
    clf = make_pipeline(read, MLPClassifier((6,), max_iter=300, tol=1e-3, random_state=0)).fit(X, y)
    space = hf.FeatureSpace.from_pipeline(clf, X)
    service = Service(clf, space=space, changes=CHANGES, target=1, generator=hf.RNCE(X))
    rows = X[clf.predict(X) == 0].head(3)
    expected = hf.explain(clf, rows, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space)
    answer = service.explain({"people": people_of(rows)})["people"]
    assert np.array_equal([one["point"] for one in answer], expected.points)


# ---------------------------------------------------------------- what is refused


def refused(client, content, path="/certify", kind="application/json"):
    answer = client.post(path, content=content, headers={"content-type": kind})
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "body: expected JSON"),
        (b'{"people": ', "body: expected JSON"),
        (b"\xff", "body: expected JSON in UTF-8"),
        (b"[]", "body: expected an object, got a list"),
        (b'{"people": [], "people": []}', "got 'people' twice"),
        (b'{"people": NaN}', "expected finite numbers, got NaN"),
        (b'{"people": 1e999}', "expected finite numbers, got 1e999"),
        (b'{"people": -Infinity}', "expected finite numbers, got -Infinity"),
        (b'{"people": "\\ud800"}', "body: expected JSON in UTF-8"),
        (b"[" * 100_000, "deeper nesting"),
        (
            b'{"people": ' + b"9" * 5000 + b"}",
            "body: expected numbers that float64 can hold, got one of more than 4,300 digits",
        ),
        (b'{"peple": []}', "expected people, keys, target, time_limit, got 'peple'"),
        (b"{}", "people: expected a list of objects, one for each person, got null"),
        (b'{"people": []}', "got an empty list"),
        (b'{"people": [3]}', "got a number in row 0"),
        (b'{"people": [{}]}', "got no 'income' in row 0"),
    ],
)  # fmt: skip
def test_what_is_no_question_is_refused_by_name(client, content, words):
    status, error = refused(client, content)
    assert status == 422
    assert words in error


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"income": None}, "column 'income': expected a number, got null in row 1"),
        ({"housing": None}, "column 'housing': expected a number or a text, got null in row 1"),
        ({"income": "much"}, "column 'income': expected numbers, got 'much'"),
        ({"income": 2**53 + 1}, "column 'income': expected numbers that float64 can hold"),
        ({"income": 10**400}, "column 'income': expected numbers that float64 can hold"),
        ({"income": 1.5}, "column 'income': expected whole numbers up to 2**53, got 1.5"),
        ({"income": True}, "column 'income': expected a number, got a truth value in row 1"),
        ({"income": [1]}, "column 'income': expected a number, got a list in row 1"),
        ({"housing": {}}, "column 'housing': expected a number or a text, got an object in row 1"),
        ({"housing": "castle"}, "column 'housing': expected one of ['mortgage', "),
        ({"incme": 3}, "got 'incme' too in row 1"),
    ],
)
def test_a_person_who_does_not_fit_is_refused_with_row_and_column(lender, client, changed, words):
    one, other = people_of(lender[2].head(2))
    for path in ("/certify", "/explain"):
        status, error = refused(client, json.dumps({"people": [one, other | changed]}), path)
        assert status == 422
        assert words in error


def test_values_that_the_table_never_shows_are_named(lender, client):
    one, other = people_of(lender[2].head(2))
    answer = client.post("/explain", json={"people": [one, other | {"income": -40_000}]}).json()
    assert "column 'income' is -40000 in row 1, outside its range [" in answer["warnings"][0]
    content = json.dumps({"people": [one, other | {"income": 10**12}]})
    status, error = refused(client, content, "/explain")
    assert status == 422
    assert "column 'income' is 1000000000000 in row 1, outside its range [" in error


def test_a_response_warns_of_columns_without_a_direction(lender):
    _, space, X, accepted = lender
    undecided = hf.FeatureSpace.from_dict(space.to_dict())
    assert "income" in undecided.unstated
    answer = service_of(lender, space=undecided).explain(
        {"people": people_of(X[~accepted].head(5))}
    )
    assert [text for text in answer["warnings"] if "The space states no direction for" in text]


def test_errors_are_those_of_python(lender, client):
    network, space, X, _ = lender
    wrong = X.head(1).reset_index(drop=True).assign(housing="castle")
    with pytest.raises(InvalidInputError) as error:
        hf.certify(network, wrong, 1, CHANGES, space=space)
    assert refused(client, json.dumps({"people": people_of(wrong)}))[1] == str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("target", 7, "target: expected one of [0, 1], got 7"),
        ("target", [1], "target: expected one class, got a list"),
        ("target", True, "target: expected one class, got a truth value"),
        ("keys", ["a", "b"], "keys: expected a list, one for each of the 1 people, got 2 keys"),
        ("keys", [None], "keys: expected a text or a whole number, got None in row 0"),
        ("time_limit", 0, "time_limit: expected a number > 0, got 0"),
        ("time_limit", "1", "time_limit: expected a number > 0, got '1'"),
    ],
)
def test_other_fields_are_refused_by_name(lender, client, field, value, words):
    body = json.dumps({"people": people_of(lender[2].head(1)), field: value})
    assert refused(client, body) == (422, words)


@pytest.mark.parametrize("long", [10**400, "x" * 400])
def test_long_values_are_shortened(lender, client, long):
    person = people_of(lender[2].head(1))[0]
    for body in (
        {"people": [person | {"income": long}]},
        {"people": [person | {"housing": long}]},
        {"people": [person | {str(long): 1}]},
        {"people": [person], "target": long},
        {"people": [person], "time_limit": long},
        {"people": [person], str(long): 1},
    ):
        status, error = refused(client, json.dumps(body))
        assert status == 422
        (value,) = re.findall(r"got '?(\w+\.\.\.\w+)", error)
        assert len(value) <= 80
    for text in (f'{{"people": [], "{long}": 1, "{long}": 1}}', f'{{"people": {10**400}.0}}'):
        assert "..." in refused(client, text)[1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["A-1", "A-2", "A-1"], "keys: expected each once, got 'A-1' again in row 2"),
        (["7", "A-2", 7], "keys: expected each once, got 7 again in row 2"),
        (["A-1", "A-2", "x" * 257], "keys: expected at most 256 characters, none of them"),
        (["A-1", "A-2", 10**256], "keys: expected at most 256 characters, none of them"),
        (["A-1", "A-2", "A\n3"], "a control character, got 'A\\n3' in row 2"),
        (["A-1", "A-2", "A\x7f3"], "a control character, got 'A\\x7f3' in row 2"),
    ],
)
def test_a_key_is_one_person_in_short(lender, client, keys, words):
    people = people_of(lender[2].head(3))
    for path in ("/certify", "/explain"):
        status, error = refused(client, json.dumps({"people": people, "keys": keys}), path)
        assert status == 422
        assert words in error
        assert error.endswith("in row 2")
        assert len(error) < 200
    good = ["x" * 256, "Zoë Ω 3", 7]
    answer = client.post("/certify", json={"people": people, "keys": good}).json()
    assert [one["key"] for one in answer["people"]] == good


def test_a_truth_value_is_a_class_where_classes_are_truth_values(lender):
    network, space, X, _ = lender
    truth = hf.Network(network.weights, network.biases, classes=[False, True])
    service = Service(truth, space=space, changes=CHANGES, target=np.True_)
    people = people_of(X.head(1))
    for asked in ({}, {"target": True}):
        assert service.certify({"people": people, **asked})["target"] is True
    assert service_of(lender).certify({"people": people, "target": 1.0})["target"] == 1


def test_paths_methods_and_kinds_of_content(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/nothing").json() == {"error": "path: unknown; / lists the paths"}
    assert client.post("/audit", json={}).status_code == 404  # no ledger, no audit
    answer = client.get("/certify")
    assert answer.status_code == 405
    assert answer.json() == {"error": "method: expected POST at this path, got GET"}
    assert client.get("/certify").headers["allow"] == "POST"
    assert refused(client, b"{}", kind="text/plain") == (
        415,
        "content-type: expected application/json, got text/plain",
    )


def test_too_much_is_413(lender, client):
    X = lender[2]
    assert refused(client, json.dumps({"people": people_of(X.head(51))})) == (
        413, "people: expected at most 50 at once, got 51",
    )  # fmt: skip
    long = b'{"people": "' + b"x" * 1_000_000 + b'"}'
    assert refused(client, long) == (413, "body: expected at most 1,000,000 bytes, got more")
    chunks = (long[i : i + 4096] for i in range(0, len(long), 4096))
    assert refused(client, chunks)[0] == 413


@pytest.mark.parametrize("sent", [0, 2_000_000])
def test_a_length_beyond_the_limit_is_413_from_the_header_alone(lender, client, sent):
    head = b"POST /certify HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    started = time.perf_counter()
    with socket.create_connection(("127.0.0.1", client.base_url.port)) as raw:
        raw.sendall(head + b"content-length: 2000000\r\n\r\n" + b"x" * sent)
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert time.perf_counter() - started < 5  # a body has 10 seconds
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer
    assert answer.endswith(b'expected at most 1,000,000 bytes, got more"}')


def test_the_token_is_asked_for_everywhere_but_health(lender):
    with running(application(service_of(lender), tokens={"advise": TOKEN})) as client:
        assert client.get("/health").json()["status"] == "ok"
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": TOKEN},
            {"authorization": f"Basic {TOKEN}"},
        ):
            for path in ("/", "/metrics", "/openapi.json", "/nothing"):
                assert client.get(path, headers=headers).status_code == 401
            answer = client.post("/certify", json={}, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert (
            client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        )


def test_a_page_in_a_browser_does_not_get_through(client):
    assert client.get("/metrics", headers={"host": "evil.example:8000"}).status_code == 403
    assert client.get("/metrics", headers={"host": "localhost:8000"}).status_code == 200


def test_beyond_this_machine_only_with_a_token(lender):
    service = service_of(lender)
    with pytest.raises(
        InvalidInputError,
        match=r"0\.0\.0\.0 can be reached by others, so it needs a token for advice",
    ):
        serve(service, host="0.0.0.0")
    with pytest.raises(
        InvalidInputError, match="tokens: expected at least 16 characters for advise, got 5"
    ):
        serve(service, tokens={"advise": "short"})
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InvalidInputError, match="port: cannot listen at"),
    ):
        serve(service, port=taken.getsockname()[1])


@pytest.mark.parametrize("field", ["body", "people", "waiting", "seconds"])
def test_limits_are_positive(field):
    with pytest.raises(InvalidInputError, match=f"{field}: expected"):
        RequestLimits(**{field: 0})


# ---------------------------------------------------------------- busy, slow, broken


class Held(Service):
    """A service that answers when it is told to."""

    release = threading.Event()

    def certify(self, document, deadline):
        assert self.release.wait(20)
        return super().certify(document, deadline)


def test_busy_is_503_and_says_when_to_come_again(lender):
    network, space, X, _ = lender
    service = Held(
        network,
        space=space,
        changes=CHANGES,
        target=1,
        limits=RequestLimits(waiting=1, seconds=1.0),
    )
    body, statuses = {"people": people_of(X.head(1))}, []
    with running(application(service)) as client:
        threads = [
            threading.Thread(target=lambda: statuses.append(client.post("/certify", json=body)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while "holdfast_waiting 1" not in client.get("/metrics").text:
            time.sleep(0.01)
        third = client.post("/certify", json=body)
        assert (third.status_code, third.headers["retry-after"]) == (503, "1")
        assert third.json()["error"].startswith("busy: 1 requests are waiting")
        assert client.get("/health").status_code == 200
        time.sleep(1.2)
        Held.release.set()
        for thread in threads:
            thread.join()
    assert sorted(answer.status_code for answer in statuses) == [200, 503]
    assert "busy: the request waited 1 seconds; retry later" in [
        answer.json().get("error") for answer in statuses
    ]


def test_a_body_that_does_not_come_is_408(lender):
    app = application(service_of(lender, limits=RequestLimits(seconds=0.2)))
    head = b"POST /certify HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    with (
        running(app) as client,
        socket.create_connection(("127.0.0.1", client.base_url.port)) as slow,
    ):
        slow.sendall(head + b'content-length: 100\r\n\r\n{"people":')
        answer = slow.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in answer.lower()


HEADER = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n"


def answered(raw):
    """One answer over a bare connection."""
    raw.sendall(HEADER + b"\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        answer += raw.recv(4096)
    return answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [None, b"", HEADER[:9], HEADER], ids=["none", "a", "line", "head"])
@pytest.mark.parametrize("before", [0, 1])
def test_who_does_not_finish_a_header_is_cut_off(lender, sent, before):
    app = server_of(service_of(lender, limits=RequestLimits(seconds=0.3)), {})
    with (
        running(app) as client,
        socket.create_connection(("127.0.0.1", client.base_url.port), timeout=0.1) as slow,
    ):
        for _ in range(before):
            assert answered(slow)
            time.sleep(0.6)  # between two requests a connection may rest for longer
            assert answered(slow)
        if before and sent is None:
            return
        started, came = time.perf_counter(), b"?"
        with suppress(ConnectionError):
            slow.sendall(sent or b"")
            while came and time.perf_counter() - started < 5:
                with suppress(TimeoutError):
                    # A byte now and then does not help.
                    slow.sendall(b"" if sent is None else b"x")
                    came = slow.recv(1)
                    assert came == b""
        assert time.perf_counter() - started < 3


def test_who_waits_for_an_answer_is_not_cut_off(lender):
    Held.release.clear()
    network, space, X, _ = lender
    held = Held(network, space=space, changes=CHANGES, target=1, limits=RequestLimits(seconds=0.3))
    with running(server_of(held, {})) as client:
        threading.Timer(0.8, Held.release.set).start()
        for _ in range(2):
            answer = client.post("/certify", json={"people": people_of(X.head(1))})
            assert answer.status_code == 200


def test_what_nobody_foresaw_says_no_more_than_that(lender, caplog, monkeypatch):
    service = service_of(lender)
    monkeypatch.setattr(service, "certify", lambda **given: 1 / 0)
    with caplog.at_level(logging.INFO), running(application(service)) as client:
        answer = client.post("/certify", json={})
        assert client.get("/health").status_code == 200
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "an unforeseen error; the log has its type"},
    )
    assert any(
        record.msg.get("error") == "ZeroDivisionError"
        for record in caplog.records
        if isinstance(record.msg, dict)
    )


# ---------------------------------------------------------------- the ledger


def test_a_promise_is_recorded_before_it_is_answered_and_once(lender, recording, ledger):
    _, space, X, accepted = lender
    body = {"people": people_of(X[~accepted].head(2)), "keys": ["Ann", 7]}
    first, second = (recording.post("/explain", json=body).json() for _ in range(2))
    assert (first["ledger"]["added"], second["ledger"]["added"], second["ledger"]["repeated"]) == (
        2,
        0,
        2,
    )
    with hf.Ledger(ledger, create=False) as book:
        assert book.verify(head=first["ledger"]["head"]).intact
        for key, one in zip(["Ann", "7"], first["people"], strict=True):
            (promise,) = book.find(key).to_dict("records")
            assert np.array_equal(
                row_of(space, json.loads(promise["counterfactual"])), one["point"]
            )
            assert promise["verdict"] == one["verdict"] == "ROBUST"
    without = recording.post("/explain", json={"people": body["people"]})
    assert (without.status_code, without.json()["error"]) == (
        422, "keys: expected one for each person, to record promises, got none",
    )  # fmt: skip


def test_audit_of_this_model_and_of_one_to_come(lender, recording, ledger):
    network, _, X, accepted = lender
    recording.post("/explain", json={"people": people_of(X[~accepted].head(1)), "keys": ["Bea"]})
    kept = recording.post("/audit", json={}, headers=AUDITOR).json()
    assert kept["kept"]
    assert kept["totals"]["KEPT_FOR_CERTAIN"] == kept["promises"] > 0
    opposite = [weight.tolist() for weight in network.weights[:-1]] + [
        (-network.weights[-1]).tolist()
    ]
    new = {"weights": opposite, "biases": [bias.tolist() for bias in network.biases]}
    broken = recording.post("/audit", json={"network": new}, headers=AUDITOR).json()
    expected = hf.audit(ledger, hf.Network(**new))
    assert broken["totals"] == {str(status): count for status, count in expected.totals.items()}
    assert not broken["kept"]
    assert "Bea" in [one["key"] for one in broken["not_kept"]]
    for given, words in (
        (3, "network: expected an object"),
        ({"weights": [[[1.0]]]}, "network: expected biases, a list, got null"),
        ({"weights": [[["a"]]], "biases": [[0]]}, "network: "),
        ({"weights": [[[1.0]]], "biases": [[0.0]]}, "because it reads 1 variables"),
    ):
        answer = recording.post("/audit", json={"network": given}, headers=AUDITOR)
        assert answer.status_code == 422
        assert words in answer.json()["error"]


def test_without_the_auditors_token_there_are_totals_alone(lender, recording, ledger):
    recording.post(
        "/explain", json={"people": people_of(lender[2][~lender[3]].head(1)), "keys": ["Cy"]}
    )
    totals = recording.post("/audit", json={}).json()
    assert set(totals) == {"promises", "kept", "totals"}
    assert "not_kept" in recording.post("/audit", json={}, headers=AUDITOR).json()
    own = {"weights": [[[1.0] * 17]], "biases": [[0.0]]}
    answer = recording.post("/audit", json={"network": own})
    assert (answer.status_code, answer.json()["error"]) == (
        422, "network: another model can be audited only with the auditor's token",
    )  # fmt: skip


def test_the_audit_is_closed_unless_it_is_opened(lender, ledger):
    with running(application(service_of(lender, ledger=ledger))) as client:
        assert client.post("/audit", json={}).status_code == 404
        assert "/audit" not in client.get("/openapi.json").json()["paths"]
    with pytest.raises(InvalidInputError, match="audited=True also needs ledger="):
        service_of(lender, audited=True)


def test_each_role_has_its_questions(lender, ledger):
    service = service_of(lender, ledger=ledger, audited=True)
    with running(application(service, tokens={"advise": TOKEN, "audit": AUDIT})) as client:
        advisor = {"authorization": f"Bearer {TOKEN}"}
        body = {"people": people_of(lender[2].head(1))}
        statuses = {
            (path, role): client.post(path, json=asked, headers=headers).status_code
            for path, asked in (("/certify", body), ("/audit", {}))
            for role, headers in (("advise", advisor), ("audit", AUDITOR), ("none", {}))
        }
        assert client.get("/metrics", headers=AUDITOR).status_code == 200
    assert statuses == {
        ("/certify", "advise"): 200, ("/certify", "audit"): 401, ("/certify", "none"): 401,
        ("/audit", "advise"): 200, ("/audit", "audit"): 200, ("/audit", "none"): 401,
    }  # fmt: skip
    for tokens in ({"admin": TOKEN}, {"advise": TOKEN, "audit": TOKEN}):
        with pytest.raises(
            InvalidInputError,
            match="tokens: expected a mapping from roles",
        ):
            application(service, tokens=tokens)


def test_a_body_is_read_in_linear_time_and_off_the_event_loop(lender, client, monkeypatch):
    names = ", ".join(f'"{i}": 1' for i in range(60_000))
    started = time.thread_time()
    with pytest.raises(InvalidInputError, match="got '59999' twice"):
        read_json(f'{{{names}, "59999": 1}}'.encode())
    assert time.thread_time() - started < 2

    def slow(content):
        time.sleep(1.0)
        return read_json(content)

    monkeypatch.setattr("holdfast.service._http.read_json", slow)
    thread = threading.Thread(target=lambda: client.post("/certify", json={}))
    thread.start()
    time.sleep(0.2)
    started = time.perf_counter()
    assert client.get("/health").status_code == 200
    assert time.perf_counter() - started < 0.5
    thread.join()


def test_time_is_kept_with_a_ledger_and_the_answer_is_what_is_recorded(
    lender, tmp_path, monkeypatch
):
    X, accepted = lender[2:]
    wide = hf.PlausibleChanges(0.03)
    service = service_of(lender, changes=wide, ledger=tmp_path / "L")
    service.generator = hf.NNCE(X)
    body = {"people": people_of(X[~accepted].head(60)), "keys": list(range(60))}
    whole = service.explain(body)["people"]

    def again(*given, **more):
        raise AssertionError("certified again")

    monkeypatch.setattr("holdfast.promises._ledger_record.certify_points", again)
    service = service_of(lender, changes=wide, ledger=tmp_path / "M", generator=hf.NNCE(X))
    answer = service.explain({**body, "time_limit": 1e-6})["people"]
    other = [a["key"] for a, b in zip(answer, whole, strict=True) if a["verdict"] != b["verdict"]]
    assert {answer[key]["verdict"] for key in other} == {"UNKNOWN"}
    with hf.Ledger(tmp_path / "M") as book:
        (batch,) = book.promises()
        assert batch.verdicts.tolist() == [one["verdict"] for one in answer]
        assert np.isnan(batch.radius).all()


def test_who_was_erased_is_refused_by_name(lender, tmp_path):
    X, accepted = lender[2:]
    body = {"people": people_of(X[~accepted].head(1)), "keys": ["Ann"]}
    with running(application(service_of(lender, ledger=tmp_path / "L"))) as client:
        assert client.post("/explain", json=body).status_code == 200
        with hf.Ledger(tmp_path / "L") as book:
            book.erase("Ann")
        answer = client.post("/explain", json=body)
        assert answer.status_code == 422
        assert "were erased from this ledger" in answer.json()["error"]
        assert client.post("/explain", json={**body, "keys": ["A-2"]}).status_code == 200


def test_what_cannot_be_recorded_is_not_promised(lender, tmp_path):
    X, accepted = lender[2:]
    path = tmp_path / "promises.ledger"
    with running(application(service_of(lender, ledger=path, audited=True))) as client:
        assert client.post("/audit", json={}).status_code == 503  # no promise yet
        path.write_bytes(b"no ledger" * 1000)
        answer = client.post(
            "/explain", json={"people": people_of(X[~accepted].head(1)), "keys": ["Ann"]}
        )
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("ledger: nothing was recorded, so nothing is promised")
    assert "people" not in answer.json()


# ---------------------------------------------------------------- what is said about it


def test_logs_have_no_personal_data(lender, client, caplog):
    person = people_of(lender[2].head(1))[0]
    with caplog.at_level(logging.INFO, logger="holdfast.service"):
        client.post("/explain?name=Zoe", json={"people": [person], "keys": ["Zoe"]})
        client.post("/certify", json={"people": [person | {"housing": "Zoe"}]})
        client.get("/people/Zoe")
        # The line is written when the answer has gone out, which its reader may know sooner.
        deadline = time.monotonic() + 5
        while sum(one.name == "holdfast.service" for one in caplog.records) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    lines = [record.msg for record in caplog.records if record.name == "holdfast.service"]
    assert [line["path"] for line in lines] == ["/explain", "/certify", "other"]
    assert [line["status"] for line in lines] == [200, 422, 404]
    text = json.dumps(lines)
    assert not [word for word in ("Zoe", str(person["income"]), "127.0.0.1") if word in text]


def test_answers_are_not_held_back(client):
    """Where asyncio does not know that a socket speaks TCP, each answer waits 40 ms for an acknowledgement."""
    times = []
    for _ in range(20):
        started = time.perf_counter()
        client.get("/health")
        times.append(time.perf_counter() - started)
    assert min(times) < 0.03


def test_metrics_are_what_prometheus_reads(lender, client):
    client.post("/certify", json={"people": people_of(lender[2].head(3))})
    text = client.get("/metrics").text
    sample = re.compile(r'^[a-z_]+(\{([a-z]+="[^"\\\n]*",?)*\})? -?[0-9.e+-]+$')
    lines = text.splitlines()
    assert [line for line in lines if not line.startswith("#") and not sample.match(line)] == []
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    asked = 'path="/certify"'
    assert int(values[f'holdfast_requests_total{{{asked},status="200"}}']) >= 1
    assert (
        values[f'holdfast_request_seconds_bucket{{{asked},le="+Inf"}}']
        == values[f"holdfast_request_seconds_count{{{asked}}}"]
    )
    assert float(values["process_resident_memory_bytes"]) > 2**20


def test_the_document_describes_what_is_asked(client):
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/certify",
        "/explain",
        "/health",
        "/metrics",
        "/openapi.json",
        "/",
    }
    asked = document["components"]["schemas"]["Asked"]["example"]
    for path in ("/certify", "/explain"):
        answer = client.post(path, json=asked).json()
        schema = document["components"]["schemas"][f"{path[1:].capitalize()}Answer"]
        assert set(answer) <= set(schema["properties"])
        row = document["components"]["schemas"][
            schema["properties"]["people"]["items"]["$ref"].rsplit("/")[-1]
        ]
        assert set(answer["people"][0]) - {"key"} <= set(row["properties"])
    links = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(links) <= set(document["components"]["schemas"])


def test_it_can_be_sent_to_another_process(lender, ledger):
    service = pickle.loads(pickle.dumps(service_of(lender, ledger=ledger)))
    body = {"people": people_of(lender[2].head(2))}
    assert service.certify(body) == service_of(lender).certify(body)


def test_without_starlette_the_extra_is_named(monkeypatch):
    for name in [
        name for name in sys.modules if name.startswith(("holdfast.service", "starlette"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'holdfast[service]'")):
        __import__("holdfast.service")


# ---------------------------------------------------------------- the command


def test_the_command_in_two_processes_killed(lender, tmp_path):
    network, space, X, accepted = lender
    network.save(tmp_path / "model.npz")
    (tmp_path / "space.json").write_text(json.dumps(space.to_dict()))
    (tmp_path / "token").write_text(TOKEN + "\n")
    X.to_csv(tmp_path / "people.csv", index=False)
    command = "serve --model model.npz --space space.json --candidates people.csv --target 1 --delta 0.01 --port 0"
    options = "--ledger promises.ledger --token-file token --workers 2"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *command.split(), *options.split()],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        url = process.stdout.readline().split()[-1]
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            answer = client.post(
                "/explain", json={"people": people_of(X[~accepted].head(1)), "keys": ["Ann"]}
            ).json()
            assert client.get("/health", headers={"authorization": ""}).json()["status"] == "ok"
        process.send_signal(signal.SIGKILL)
        process.wait()
        # The workers notice that they are alone.
        for _ in range(100):
            try:
                httpx.get(f"{url}/health", timeout=5)
            except httpx.HTTPError:
                break
            time.sleep(0.1)
        else:
            pytest.fail("expected the workers to end, got an answer")
    finally:
        process.kill()
        process.stdout.close()
    with hf.Ledger(tmp_path / "promises.ledger", create=False) as book:
        assert book.verify(head=answer["ledger"]["head"]).intact
        assert len(book.find("Ann")) == 1
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["people"] for line in lines if line.get("path") == "/explain"] == [1]
