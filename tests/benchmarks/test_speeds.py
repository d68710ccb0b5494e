"""The file of the speeds names the device that was timed."""

import speeds


def test_the_device_is_the_one_that_is_timed_and_not_the_cpu_that_starts_the_cases():
    assert speeds.device_of(["mt10_env"], ["device=cuda:1"]) == "cuda:1"
    assert speeds.device_of(["mt10_env"], []) == "cpu"  # the default
    assert speeds.device_of(["mt10_mlp", "mt10_env"], []) == "cuda"  # that of its preset


def test_it_is_published(monkeypatch):
    published = {}
    monkeypatch.setattr(speeds.sys, "argv", ["speeds.py", "--cases", "mt10_env"])
    monkeypatch.setattr(speeds, "measure_together", lambda cases, words: {case: {} for case in cases})
    monkeypatch.setattr(speeds, "origin", lambda device: {"device": f"name of {device}"})
    monkeypatch.setattr(speeds, "publish", lambda result, out: published.update(result))
    speeds.main()
    assert (published["device"], published["tasks"]) == ("name of cuda", {"mt10_env": {}})
