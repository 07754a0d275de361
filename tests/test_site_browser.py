"""The built site in a real browser: from the folder, and from a server under a sub-path; light, dark, wide, narrow."""

import functools
import os
import shutil
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from site_project import get_project

CHROMIUM = shutil.which("chromium")
WIDE, NARROW = 1280, 390
PAGES = {
    "landing": "index.html",
    "edition": "editions/2026.11/index.html",
    "rehearsal": "editions/rehearsal/index.html",
    "notebook": "editions/2026.11/notebooks/read_session.html",
    "published": "published/2026.10.html",
    "study": "studies/l4/index.html",
    "comparison": "comparisons/2026.10-beside-2026.9.html",
    "methods": "methods.html",
    "parameters": "parameters.html",
    "levels": "levels.html",
    "dictionary": "data-dictionary.html",
    "data": "data.html",
    "search": "search.html",
}
MAIN = ("landing", "edition", "rehearsal", "notebook", "published", "parameters")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return get_project(tmp_path_factory)[1]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        said = "no chromium is found: 'apt-get install chromium', or set CI_NO_BROWSER=1 to leave these tests out"
        (pytest.skip if os.environ.get("CI_NO_BROWSER") else pytest.fail)(said)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


def is_fault(request):
    """Whether a request failed for another reason than that the test went on to the next page."""
    return request.failure != "net::ERR_ABORTED"


@contextmanager
def open_page(browser, width=WIDE, scheme="light"):
    """Open a page that keeps what went wrong, and what it asked for, in `page.faults` and `page.asked`."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.faults, page.asked = [], []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on(
        "requestfailed", lambda request: page.faults.append(f"failed: {request.url}") if is_fault(request) else None
    )
    page.on("response", lambda answer: page.faults.append(answer.url) if answer.status >= 400 else None)
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


@pytest.fixture(scope="module")
def served(site, tmp_path_factory):
    """Serve the site under a sub-path, and nothing else."""
    top = tmp_path_factory.mktemp("served")
    (top / "guides").mkdir()
    (top / "guides" / "compile study").symlink_to(site, target_is_directory=True)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(top)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/guides/compile%20study/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_pages_load_from_the_folder_and_ask_nothing_of_the_network(browser, site):
    with open_page(browser) as page:
        for name in PAGES.values():
            page.goto((site / name).as_uri())
        assert page.faults == []
        assert [url for url in page.asked if not url.startswith(("file://", "data:"))] == []
        assert len(page.asked) > len(PAGES)


def test_pages_load_under_a_sub_path_of_a_server(browser, served):
    with open_page(browser) as page:
        for name in PAGES.values():
            page.goto(served + name, wait_until="networkidle")
        assert page.faults == []
        assert [url for url in page.asked if not url.startswith((served, "data:"))] == []


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_no_page_scrolls_sideways(browser, site, width):
    with open_page(browser, width) as page:
        for name in PAGES.values():
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_tables_and_figures_are_seen(browser, site, width):
    with open_page(browser, width) as page:
        page.goto((site / PAGES["edition"]).as_uri())
        for image in page.locator("article img").all():
            image.scroll_into_view_if_needed()
            assert image.evaluate("one => one.complete && one.naturalWidth > 0")
            box = image.bounding_box()
            assert box["width"] > 0.6 * min(width, 500)
            assert box["height"] > 50
            assert box["x"] + box["width"] <= width
        assert page.locator("article img").count() >= 12
        first = page.locator("article table").first
        assert first.is_visible()
        assert "default" in first.inner_text()


def test_a_wide_table_scrolls_within_the_page(browser, site):
    with open_page(browser, NARROW) as page:
        page.goto((site / PAGES["dictionary"]).as_uri())
        box = page.locator(".pst-scrollable-table-container").first
        assert box.evaluate("one => one.scrollWidth > one.clientWidth")
        assert box.evaluate("one => getComputedStyle(one).overflowX") == "auto"


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_search_finds_a_level(browser, site, served, kind):
    top = served if kind == "server" else site.as_uri() + "/"
    with open_page(browser) as page:
        page.goto(f"{top}search.html?q=graphs-only")
        page.get_by_text("Search finished").wait_for()
        found = page.locator("#search-results ul.search li a").evaluate_all("all => all.map(one => one.href)")
        assert any("/levels.html" in link for link in found)
        assert page.faults == []
        page.goto(f"{top}search.html?q=nosuchlevel")
        page.get_by_text("did not match any documents").wait_for()
        assert page.locator("#search-results li").count() == 0


def test_a_hidden_table_opens(browser, site):
    with open_page(browser) as page:
        page.goto((site / PAGES["edition"]).as_uri())
        table = page.locator("article details table").first
        assert not table.is_visible()
        page.locator("article details summary").first.click()
        assert table.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", MAIN)
def test_axe_finds_no_fault(browser, served, name, scheme):
    with open_page(browser, scheme=scheme) as page:
        page.goto(served + PAGES[name])
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        # colours that are on their way from one theme to the other are nobody's to read
        page.evaluate("Promise.allSettled(document.getAnimations().map(one => one.finished))")
        results = Axe().run(page)
        faults = [
            f"{one['id']} ({one['impact']}): {node['html'][:160]} {node['failureSummary'][:300]}"
            for one in results.response["violations"]
            for node in one["nodes"]
        ]
        assert faults == []
        assert len(results.response["passes"]) > 15


def test_axe_finds_no_fault_on_a_telephone(browser, served):
    with open_page(browser, NARROW) as page:
        page.goto(served + PAGES["edition"])
        assert Axe().run(page).violations_count == 0
