"""The jobs on a Dask cluster come to the same grades as on one machine."""

from __future__ import annotations

import json
import warnings

import grading_course as tiny
import pytest
from grading_course import LESSON, hand_in, perfect

from autograder.grading import grade as grading
from autograder.grading import sandbox

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(bool(sandbox.why_no_sandbox()), reason=sandbox.why_no_sandbox() or ""),
]


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_two_workers_gives_the_same_grades(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    for number in range(4):
        hand_in(here, f"s{number}", perfect(here, tiny_total_gb=f"tiny_total_gb = {6 * (number + 5)}"))
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            for scheduler in (None, cluster.scheduler_address):
                options = grading.Options(jobs=2, seed=11, scheduler=scheduler, quiet=True)
                assert grading.grade(here, LESSON, options, say=lambda text: None) == 0
                notebooks = [tiny.graded_notebook(here, f"s{n}") for n in range(4)]
                kept.append(((here.root / "autograder" / "grades.csv").read_bytes(), json.dumps(notebooks)))
                for path in (here.root / "autograder" / "results" / LESSON).glob("*.json"):
                    path.unlink()
    assert kept[0] == kept[1]


def test_a_scheduler_that_does_not_answer_is_one_line(tmp_path):
    here = tiny.make_course(tmp_path / "course")
    hand_in(here, "s", perfect(here))
    options = grading.Options(scheduler="tcp://127.0.0.1:9", quiet=True)
    with pytest.raises(grading.Refused, match="no Dask scheduler answers"):
        grading.grade(here, LESSON, options, say=lambda text: None)
