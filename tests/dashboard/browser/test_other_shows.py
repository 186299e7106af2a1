"""Other things a page can be made of: a folder of answers, windows over counts, and a server that wants the token."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Address
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.server import PageServer
from tests import oracle
from tests.dashboard.browser.looking import SHOWN, WAIT, page_of, shown

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

SCORES = [(number * 7919 % 101) / 2 for number in range(200)]
ASKED = oracle.Asked(4, 40, 20)
Q = '"'  # in a selector


@pytest.fixture
def folder(tmp_path):
    """The answers of a query over the last forty objects, as a table that somebody saved."""
    query = sb.TopK(name="last forty", k=4, size=40, slide=20)
    table = sb.replay(query, None, SCORES, list(range(200)))
    pq.write_table(table, tmp_path / "answers.parquet")
    return tmp_path


def test_answers_in_a_folder_over_counts(look, folder):
    rows = [(float(score), number) for number, score in enumerate(SCORES)]
    expected = {}
    for _, end, rank, id_, score in oracle.count_answers(ASKED, rows):
        expected.setdefault(end, []).append((rank, str(id_), score))
    ends = sorted(expected)
    with FolderShow(folder) as show, PageServer(show, Address("127.0.0.1", 0)) as server:
        page = look(server.url)
        page.wait_for_selector(f".card time[datetime={Q}{ends[-1]}{Q}]")
        assert [(rank, id_, float(score)) for rank, id_, score in shown(page, "last forty")] == expected[ends[-1]]
        page.get_by_role("link", name="last forty over time").click()
        page.wait_for_selector(".bump .trace")
        slider = page.get_by_role("slider", name="Window")
        expect(slider).to_have_attribute("max", str(len(ends) - 1))  # all windows are known
        slider.fill("2")
        page.wait_for_selector(f".time-parts time[datetime={Q}{ends[2]}{Q}]")
        seen = page.locator(".time-parts table.ranking").evaluate(SHOWN)
        assert [(rank, id_, float(score)) for rank, id_, score in seen] == expected[ends[2]]
        page.context.close()


def test_elsewhere_the_token_is_asked_for_and_taken(browser):
    show = LiveShow("guarded")
    with PageServer(show, Address("0.0.0.0", 0)) as server:
        base = f"http://127.0.0.1:{server.port}/"
        context = browser.new_context()
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.goto(base)
        page.wait_for_selector(".banner")
        assert "token" in page.locator(".banner").inner_text()
        context.close()
        with page_of(browser, f"{base}#token={server.token}") as (page, looked):
            assert page.locator(".banner").count() == 0
            page.wait_for_selector(".hint")
        assert looked.wrong == []
