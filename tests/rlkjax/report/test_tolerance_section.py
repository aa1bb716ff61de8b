"""The table of what the reference measured."""

from reading import Page

from rlkjax.report import tolerance


def line(**values):
    return {"kind": "reference", "iteration": 4, "compared": 40, "past": 0, **values}


def test_nothing_where_nothing_was_computed_again():
    assert tolerance.section([{"kind": "update", "steps": 3}]) == ""


def test_equal_bits_are_said():
    text = Page(tolerance.section([line(buffers={})])).text
    assert "computed 1 iteration again and compared 40 buffers each time; every bit is" in text


def test_the_largest_of_each_measure_is_shown():
    first = {"max_abs": 2e-6, "max_rel": 0.5, "max_scaled": 1e-7, "max_ulp": 3, "differing": 0.25}
    second = {
        "max_abs": 1e-6,
        "max_rel": None,
        "max_scaled": 2e-7,
        "max_ulp": 70000,
        "differing": 0,
    }
    lines = [line(buffers={"segment/obs": first}), line(buffers={"segment/obs": second})]
    text = Page(tolerance.section(lines)).text
    assert "buffers that differ: 1, all within their thresholds." in text
    assert "segment/obs 2e-06 0.5 2e-07 70,000 25.000%" in text


def test_what_is_past_a_threshold_is_counted():
    lines = [line(buffers={"<b>": {"max_abs": None}}, past=2)]
    found = Page(tolerance.section(lines))
    assert "buffers that differ: 1, 2 times past one." in found.text
    assert "b" not in found.tags and "<b> not finite" in found.text


def test_the_furthest_buffers_come_first_and_the_rest_is_counted():
    buffers = {f"b{k:02}": {"max_scaled": 1e-9 * k} for k in range(20)}
    text = Page(tolerance.section([line(buffers={**buffers, "wild": {"max_abs": 1.0}})])).text
    assert text.index("wild") < text.index("b19") < text.index("b18") < text.index("b05")
    assert "b04" not in text and "5 more are nearer" in text


def test_odd_lines_are_no_error():
    for odd in (7, [], {"x": 3}, {"x": {"max_abs": "y"}}):
        assert "section" in tolerance.section([line(buffers=odd)])
