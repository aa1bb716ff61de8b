"""The certificate on a page, and the command that traces it."""

import pytest
from reading import Page

from rlkjax import certificates, launch
from rlkjax.certify import as_mapping
from rlkjax.learner import make_stages
from rlkjax.report import certificate, computed
from rlkjax.report.facts import read_facts
from rlkjax.report.page import NOTHING

DIGEST = "cd" * 32
STAGE = {
    "primitives": {"defined": {"add": 3, "mul": 2}, "control": {}},
    "jaxpr": "ef" * 32,
    "depends_on": [
        {"cause": "order of the sum", "line": f"<b>.py:{k}", "primitives": ("reduce_sum",)}
        for k in range(11)
    ],
}


def test_stages_causes_and_lines():
    found = Page(certificate.section({"update": STAGE}, DIGEST, DIGEST))
    assert "The one that the run recorded." in found.text and "b" not in found.tags
    assert f"stage update program {'ef' * 32} arithmetic that rounds add 3, mul 2" in found.text
    assert "order of the sum <b>.py:0: reduce_sum" in found.text
    assert "<b>.py:7" in found.text and "<b>.py:8" not in found.text
    assert "and 3 more lines" in found.text and "control" not in found.text


def test_another_digest_and_none():
    stage = {**STAGE, "depends_on": []}
    text = Page(certificate.section({"update": stage}, DIGEST, "00" * 32)).text
    assert f"NOT the one that the run recorded, {'00' * 32}" in text
    assert "The bits can depend on nothing but the inputs." in text
    assert "The run recorded none" in Page(certificate.section({}, DIGEST, None)).text


@pytest.mark.parametrize("numerics", ["native", "exact"])
def test_the_stages_of_a_run(run, configure, numerics):
    config = configure(f"numerics={numerics}")
    facts = read_facts(run)
    stages = make_stages(config, launch.make_environment(config))
    found = certificates.certify_stages(stages, numerics)
    digest = certificates.digest(found)
    records = {**facts.records, 0: {**facts.genesis, "certificate": digest}}
    made = computed.with_certificate(NOTHING, config, facts._replace(records=records))
    text = Page(made.certificate).text
    assert f"{digest} The one that the run recorded." in text
    for name, each in found.items():
        assert f"stage {name} program {as_mapping(each)['jaxpr']}" in text
    assert ("nothing but the inputs" in text) == (numerics == "exact")
    assert ("order of the sum" in text) == (numerics == "native")
