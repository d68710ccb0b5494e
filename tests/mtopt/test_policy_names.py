"""Names of policies."""

from polytask.mtopt.policy_names import acts_as, policy_name, version_of


def test_names_can_be_read_back():
    assert policy_name(12) == "q:12"
    assert policy_name(12, "lift-any") == "q:12:lift-any"
    assert (version_of("q:12"), acts_as("q:12")) == (12, None)
    assert (version_of("q:12:lift-any"), acts_as("q:12:lift-any")) == (12, "lift-any")


def test_scripts_and_people_are_version_0():
    for name in ("scripted-pick", "upload", "q:x", "q:1:"):
        assert (version_of(name), acts_as(name)) == (0, None)
