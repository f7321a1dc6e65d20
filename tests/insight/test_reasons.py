"""Every reason for which an instance can be passed over has words."""

import re
from pathlib import Path

from insight.causes import REASONS
from routing import filters
from routing.states import TaskError


def test_each_filters_reason_has_words_in_both_languages():
    source = Path(filters.__file__).read_text()
    named = set(re.findall(r'"([A-Z_]{3,})"', source)) | set(re.findall(r"TaskError\.([A-Z_]+)", source))
    assert {"TAGS", "NEEDS", "BUSY", TaskError.LOOP_DETECTED} <= named
    assert [name for name in sorted(named) if name not in REASONS] == []
