"""The figures of the papers: the registry, verdicts, stored results, and the page that is generated from them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.figures import command, gallery, printed, results
from benchmarks.figures.registry import SCALES, Claim, Figure, Order, Panel, Scale, graded, verdicts

from benchmarks import bench_sap, measure, sap_tables, workloads

ROOT = Path(__file__).parents[2]
STORED = ROOT / "benchmarks" / "results" / "figures"
PAGE = ROOT / "docs" / "explanation" / "figures.md"
#: All figures and tables with measurements, as the papers number them.
NUMBERS = {
    "MinTopk": ["figures 7 and 8", "figures 9 and 10", "figures 11 and 12", "figure 13"],
    "SAP": ["table 2", "table 3", "figure 9", "figure 10", *(f"table {n}" for n in range(5, 10)), "appendix F"],
    "MTopS": [f"figures {n} and {n + 1}" for n in (8, 10, 12, 14)],
    "Incomplete streams": ["figure 4", "figure 5 a, b", "figure 5 c, d", *(f"table {n}" for n in range(1, 5))],
    "Uncertain streams": [
        *(f"figure {n}" for n in range(7, 18)),
        "table 9",
        "section 10.2.1, laws",
        *(f"supplement, {varied}" for varied in ("N", "w", "x", "k up to")),
    ],
}


def panel(**lines):
    return Panel("s", "CPU time", "k", (1, 2), lines)


def figure(*panels, orders=(), claims=()):
    return Figure("P", "figure 1", "a title", "k", ("a", "b"), lambda scale: list(panels), orders, claims)


def test_every_figure_of_the_papers_is_registered_once():
    found = {}
    for one in command.FIGURES:
        found.setdefault(one.paper, []).append(one.number)
    assert found == NUMBERS
    slugs = [one.slug for one in command.FIGURES]
    assert len(set(slugs)) == len(slugs)


def test_an_order_that_differs_has_its_reason():
    order = Order("a", "b", "", "because")
    (same,) = verdicts(figure(orders=(order,)), [panel(a=(1.0, 2.0), b=(2.0, 2.0))])
    assert (same.holds, same.why) == ("yes", "")
    (other,) = verdicts(figure(orders=(order,)), [panel(a=(4.0, 1.0), b=(1.0, 1.0))])
    assert (other.holds, other.why) == ("no", "because")
    assert other.measured == "2×; the other way at 1 of 2 places"


def test_higher_is_better_for_rates_and_precision():
    rates = Panel("", "queries per second", "x", (1,), {"a": (10.0,), "b": (5.0,)})
    (found,) = verdicts(figure(orders=(Order("a", "b", "", "why"),)), [rates])
    assert (found.holds, found.measured) == ("yes", "2×")


def test_places_without_a_result_are_not_compared():
    (found,) = verdicts(figure(orders=(Order("a", "b", "", ""),)), [panel(a=(1.0, None), b=(2.0, 1.0))])
    assert found.measured == "0.5×"


def test_grades():
    assert [graded(value, 10.0, 1.0) for value in (10.0, 2.0, 1.0)] == ["yes", "partly", "no"]


def test_results_are_stored_and_read(tmp_path):
    one = figure()
    panels = [
        Panel("s", "m", "k", (1, 2.5, "x"), {"a": (1.0, None, 3.0)}, {"a": (5.0, 6.0, None)}, "s"),
        Panel("t", "m", "k", (1,), {"a": (1.0,)}, logarithmic=False, notes=("a at 1: too slow",)),
    ]
    results.save(one, results.Run(panels, "tiny", 1.25, "2 cores"), tmp_path)
    found = results.load(one, tmp_path)
    assert found.panels == [panels[0], panels[1]._replace(notes=())]
    assert (found.scale, found.machine, found.notes) == ("tiny", "2 cores", ("a at 1: too slow",))
    assert results.load(one._replace(number="figure 2"), tmp_path) is None


def test_a_page_has_numbers_reasons_and_what_is_missing(tmp_path):
    claim = Claim("section 1", "a is fast", "9×", lambda panels: ("3×", "partly"), "a is a sorted array here")
    one = figure(claims=(claim,))._replace(paper="SAP", data=("nothing",))
    run = results.Run([panel(a=(1.0, 2.0), b=(2.0, 2.0))], "tiny", 1.0, "2 cores, 24 GB")
    text = gallery.page([one], {one.slug: run}, "../images")
    assert "| a is fast (section 1) | 9× | 3× | partly |" in text
    assert "*Differs: a is fast.* a is a sorted array here" in text
    gallery.draw(one, run, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size < 50_000
    assert "Not measured: needs nothing." in gallery.page([one], {}, "../images")


def test_printed_tables_have_all_their_numbers():
    sizes = {name: sum(map(len, printed.table(f"sap_table_{name}").values())) for name in "2356789"}
    assert sizes == {"2": 255, "3": 240, "5": 160, "6": 240, "7": 160, "8": 240, "9": 160}
    assert printed.table("sap_table_2")["STOCK", "non-delay"]["m 5"] == 53.6
    assert printed.lines("sap_table_3", "TRIP", ("k 10", "k 7"))["sap"] == (9.5, None)


def test_the_page_is_what_the_stored_results_give():
    runs = {one.slug: found for one in command.FIGURES if (found := results.load(one, STORED))}
    assert len(runs) == len(command.FIGURES)
    assert PAGE.read_text(encoding="utf-8") == command.text(runs), "run: python -m benchmarks figures --only nothing"


def test_every_difference_on_the_page_is_explained():
    assert "No explanation was found." not in PAGE.read_text(encoding="utf-8")


def test_plots_are_small():
    sizes = [path.stat().st_size for path in (ROOT / "docs" / "images").glob("figures-*.png")]
    assert len(sizes) == len(command.FIGURES)
    assert sum(sizes) < 2_000_000


def test_real_streams_are_not_replaced_by_generated_ones(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(workloads, "DATA", tmp_path)
    for stream in (workloads.stock, workloads.trip, workloads.air):
        with pytest.raises(workloads.MissingDataError, match="SKYBAND_TEST_DATA"):
            stream.__wrapped__(10)
    assert workloads.available(("stock", "time-r")) == ("time-r",)
    assert "skipped stock" in capsys.readouterr().out


def test_streams_that_change_with_time_are_measured_over_whole_periods():
    cell = measure.measure_cell("panes", "time-r:4000", 200, 20, 2, 5.0, 3)
    assert cell.objects == 4_000
    assert not cell.skipped
    half = measure.measure_periods("panes", "time-r:4000", 200, 20, 2, 5.0, 2_000)
    assert half.candidates_mean != cell.candidates_mean  # rising and falling halves differ


def test_moving_objects_stay_in_their_region():
    far = workloads.moving(20_000, 100)
    assert far.size == 20_000
    assert far.min() >= 0
    assert far.max() <= math.hypot(70, 60)
    assert np.array_equal(far[:500], workloads.moving(500, 100))


def test_two_figures_at_the_smallest_scale(tmp_path, capsys):
    command.run(scale="tiny", only=("incomplete-streams-figure-4", "uncertain-streams-table-9"), folder=tmp_path)
    assert capsys.readouterr().out.count(" yes") == 2
    text = (tmp_path / "docs" / "explanation" / "figures.md").read_text(encoding="utf-8")
    assert text.count("![") == 2
    assert len(list((tmp_path / "docs" / "images").glob("*.png"))) == 2


@pytest.mark.long
def test_all_figures_at_the_smallest_scale(tmp_path, capsys):
    command.run(scale="tiny", folder=tmp_path)
    output = capsys.readouterr().out
    stored = tmp_path / "benchmarks" / "results" / "figures"
    there = [one for one in command.FIGURES if not workloads.missing(*one.data)]
    assert [one.slug for one in there if results.load(one, stored) is None] == []
    assert output.count("skipped, no") == len(command.FIGURES) - len(there)


def test_a_figure_on_request_is_measured_if_it_is_named(monkeypatch, tmp_path, capsys):
    measured = []

    def measure_it(scale):
        measured.append(scale.name)
        return [panel(a=(1.0, 2.0), b=(2.0, 2.0))]

    one = figure()._replace(paper="SAP", measure=measure_it, on_request=True)
    monkeypatch.setattr(command, "FIGURES", (one,))
    command.run(scale="small", folder=tmp_path)
    assert measured == []
    assert f"--only {one.slug}" in capsys.readouterr().out
    command.run(scale="small", only=("sap-figure-1",), folder=tmp_path)
    command.run(scale="tiny", folder=tmp_path)
    assert measured == ["small", "tiny"]


def test_appendix_f_has_the_papers_hundred_queries_and_is_on_request(monkeypatch):
    (one,) = [one for one in command.FIGURES if one.slug == "sap-appendix-f"]
    assert one.on_request
    assert [one.number for one in command.FIGURES if one.on_request] == ["appendix F"]
    for scale in ("small", "full"):
        for grid in (sap_tables.TABLE_1, sap_tables.TABLE_4):
            drawn = sap_tables._random_queries(grid, sap_tables.SCALES[scale])
            assert len(drawn) == len(set(drawn)) == 100
    called = []
    for name in sap_tables.TABLES:
        monkeypatch.setitem(sap_tables.TABLES, name, lambda scale, name=name: called.append(name) or [{"a": 1}])
    monkeypatch.setattr("sys.argv", ["sap_tables"])
    sap_tables.main()
    assert called == [name for name in sap_tables.TABLES if name != "F"]
    monkeypatch.setattr("sys.argv", ["sap_tables", "F"])
    sap_tables.main()
    assert called[-1] == "F"


def test_rounds_of_the_resolutions_are_whole_periods():
    for stream, period in workloads.PERIODS.items():
        assert bench_sap.round_length(stream) % period == 0
        assert bench_sap.round_length(stream) >= 2 * bench_sap.N
    assert bench_sap.round_length("time-u") == 2 * bench_sap.N
    timed = measure.Timing([1.0, 9.0, 3.0])
    assert (timed.best, timed.median, timed.spread) == (1.0, 3.0, 2.0)


def test_scales_are_those_of_the_command():
    assert list(SCALES) == ["tiny", "small", "full"]
    assert Scale("x", 1.0, 10, 1, few=True).some((1, 2, 3)) == (1, 3)
    assert sap_tables.SCALES.keys() == SCALES.keys()
