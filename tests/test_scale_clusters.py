"""The same function of batches on clusters: Dask with a worker killed, Spark and Ray where they are installed."""

import contextlib
import os
import shutil
import signal

import joblib
import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from random_networks import random_network


@pytest.fixture(scope="module")
def table():
    """Points with a key, and `certify` as a function of them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (4000, 4)), columns=list("abcd"))
    frame.insert(0, "id", np.arange(len(frame)))
    network = random_network(rng, 4, (8, 8), 1)
    certify = hf.over_batches(
        "certify", network, frame, keep=["id"], target=1, changes=hf.PlausibleChanges(0.02)
    )
    return network, frame, certify


def slowly(function, victim, batch):
    """The function, long enough that a worker can be killed while it is at it: one kills itself, once."""
    if batch["id"].iloc[0] == 2000:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(victim, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
    return function(batch)


# What Dask itself leaves open or says while a worker dies is not ours to mend.
@pytest.mark.filterwarnings("ignore")
def test_dask_with_a_worker_killed_says_what_one_process_says(table, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    network, frame, certify = table
    parts = [frame[start : start + 250] for start in range(0, len(frame), 250)]
    serial = pd.concat(map(certify, parts))
    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(3, **options) as cluster, distributed.Client(cluster) as client:
        split = dd.from_map(lambda i: parts[i], range(16), meta=frame.iloc[:0])
        before = {*client.run(os.getpid).values()}
        asked = split.map_partitions(
            lambda batch: slowly(certify, tmp_path / "killed", batch), meta=certify.meta
        )
        result = client.compute(asked).result(timeout=60)
        assert (tmp_path / "killed").exists()
        assert {*client.run(os.getpid).values()} != before
        pd.testing.assert_frame_equal(result, serial, check_exact=True)
        points, targets = frame[list("abcd")], network.predict(frame[list("abcd")])
        with joblib.parallel_config(backend="dask"):
            ours = hf.certified_radius(network, points, targets)
    theirs = hf.certified_radius(network, points, targets)
    pd.testing.assert_frame_equal(ours.to_frame(), theirs.to_frame(), check_exact=True)


def same(ours, theirs):
    ours = ours.sort_values("id").reset_index(drop=True)
    assert (ours[["id", "verdict", "decided_by"]] == theirs[["id", "verdict", "decided_by"]]).all(
        None
    )
    np.testing.assert_allclose(ours["margin_lower"], theirs["margin_lower"], rtol=0, atol=1e-9)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")
def test_spark_says_what_one_process_says(table, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    from pyspark.sql.pandas.types import from_arrow_schema

    _, frame, certify = table
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, os.sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    try:
        points = session.createDataFrame(frame).repartition(3)
        answers = points.mapInArrow(
            lambda batches: map(certify, batches), from_arrow_schema(certify.schema)
        )
        same(answers.toPandas(), certify(frame))
    finally:
        session.stop()


@pytest.mark.filterwarnings("ignore")
def test_ray_says_what_one_process_says(table):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    _, frame, certify = table
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        points = ray.data.from_pandas(frame)
        answers = points.map_batches(certify, batch_format="pyarrow", batch_size=700)
        same(answers.to_pandas(), certify(frame))
    finally:
        ray.shutdown()
