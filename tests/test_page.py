"""The page's own filters."""

import pytest

from study.publish.page import keep_flags_whole


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("none", "none"),
        (
            "-O0 -cc.cudagraph_mode=NONE",
            '<span class="flag">-O0</span> <span class="flag">-cc.cudagraph_mode=NONE</span>',
        ),
        ("with --enforce-eager on", 'with <span class="flag">--enforce-eager</span> on'),
        ("-1 ms, full-clock - no flag", "-1 ms, full-clock - no flag"),
        (f"--config={'x' * 60}", f"--config={'x' * 60}"),  # longer than a column: it may break
        ("--a=<b> <i>", '<span class="flag">--a=&lt;b&gt;</span> &lt;i&gt;'),
    ],
)
def test_a_line_ends_between_flags_alone(text, html):
    assert keep_flags_whole(text) == html
