"""Label groups by how many training texts carry a label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from fusion.errors import ConfigError
from fusion.labels import Bounds, bounded_groups, parse_bounds

EURLEX57K = {"frequent": "50..", "few": "1..49", "zero": 0}


def test_every_number_of_texts_is_in_one_group() -> None:
    groups = parse_bounds(EURLEX57K)
    assert groups == (Bounds("frequent", 50, None), Bounds("few", 1, 49), Bounds("zero", 0, 0))
    assert list(map(str, groups)) == ["frequent: 50..", "few: 1..49", "zero: 0"]
    counts = np.array([0, 1, 49, 50, 51, 1_000_000, 0])
    expected = ["zero", "few", "few", "frequent", "frequent", "frequent", "zero"]
    assert bounded_groups(counts, groups).tolist() == expected
    assert bounded_groups(np.empty(0, np.int64), groups).tolist() == []


def test_any_names_and_any_number_of_groups() -> None:
    groups = parse_bounds(
        {f"from {10**n}": f"{10**n} .. {10 ** (n + 1) - 1}" for n in range(4)} | {"new": "0", "x": "10000.."}
    )
    assert bounded_groups(np.array([0, 9, 10, 9999, 10000]), groups).tolist() == [
        "new",
        "from 1",
        "from 10",
        "from 1000",
        "x",
    ]
    assert bounded_groups(np.array([0, 7]), parse_bounds({"everything": "0.."})).tolist() == ["everything"] * 2


def test_they_are_written_in_yaml() -> None:
    text = "{frequent: 50.., few: 1..49, zero: 0}"
    assert parse_bounds(yaml.safe_load(text)) == parse_bounds(EURLEX57K)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "there are none"),
        ({**EURLEX57K, "": "60.."}, "must not be empty"),
        ({" few": "0.."}, "begin or end with a space"),
        ({"few\x1b[31m": "0.."}, "must not hold control characters"),
        ({"few\nxmtc-fusion: error: forged": "0.."}, "must not hold control characters"),
        ({"few": "\u0663..", "zero": "0..2"}, "is not a range"),
        ({"all": "0.."}, "all labels together"),
        ({"few": "0..4", "Few": "5.."}, "by capitals alone"),
        ({"frequent": "50..", "few": "1..49"}, "no group has labels of 0 texts; 'few: 1..49' is the lowest"),
        ({"frequent": "5.."}, r"no group has labels of 0\.\.4 texts"),
        ({"frequent": "50..", "few": "0..50"}, "'few: 0..50' and 'frequent: 50..' overlap at 50 texts"),
        ({"a": "0..", "b": "7.."}, "'a: 0..' and 'b: 7..' overlap at 7 texts"),
        ({"frequent": "50..", "few": "1..40", "zero": 0}, r"of 41\.\.49 texts \('few: 1..40', 'frequent: 50..'\)"),
        ({"frequent": "50..", "few": "1..48", "zero": 0}, r"of 49 texts \('few: 1..48', 'frequent: 50..'\)"),
        ({"few": "0..9"}, r"of more than 9 texts: 'few: 0\.\.'\?"),
        ({"few": "9..0"}, "ends below its beginning"),
        ({"few": "-1..5"}, "is not a range"),
        ({"few": 1.5}, "is not a range"),
        ({"few": True}, "is not a range"),
        ({"few": None}, "is not a range"),
        ({"few": "..5"}, "is not a range"),
    ],
)
def test_what_cannot_be_groups_is_refused(groups: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_bounds(groups)
