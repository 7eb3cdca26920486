"""What tests of nights share."""

from __future__ import annotations

import pytest

from tests.nights import Texts, good_texts


@pytest.fixture(scope="session")
def texts() -> Texts:
    return good_texts()
