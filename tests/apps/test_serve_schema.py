"""The server keeps to its own OpenAPI description: schemathesis makes requests from it, good ones and bad ones."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from eindiff.apps.page.app import make_app
from eindiff.apps.page.workers import Workers

WORKERS = Workers(2, 10.0)
APP = make_app(WORKERS, lambda event, **fields: None)
SCHEMA = schemathesis.openapi.from_dict(APP.openapi())
SCHEMA.app = APP
EXAMPLES = 25  # requests to each path


@pytest.fixture(scope="module", autouse=True)
def workers():
    WORKERS.start()
    yield
    WORKERS.stop()


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_description(case):
    """No error of the server, no status and no body that are not described; what is not allowed is refused."""
    answer = case.call()
    assert answer.status_code < 500
    excluded = [checks.negative_data_rejection] if answer.status_code == 413 else []  # that status is unknown to it
    # An expression is any text for a schema, so that those that mean nothing are refused although they fit it.
    case.validate_response(answer, excluded_checks=[*excluded, checks.positive_data_acceptance])
