"""Indexers of several schemas at once, some of which are killed; `helpers/tenant_kills.py` kills as often as asked."""

import pytest
import tenant_kills


@pytest.mark.slow
def test_each_schema_gets_all_of_its_rows():
    assert "bit-equal" in tenant_kills.run(4, 0.5)
