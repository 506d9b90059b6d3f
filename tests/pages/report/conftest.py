import pytest
from chromium import chromium


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found
