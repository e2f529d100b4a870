"""The hooks under the rules of the service: pytest company."""

from company.hooks import add_plan
from hooks.api import Hook
from hooks.testing import run


def test_users_without_a_plan_have_the_free_one() -> None:
    payload = {"claims": {"sub": "1", "app_metadata": {}}, "authentication_method": "password"}
    assert run(add_plan, payload, hook=Hook.CUSTOM_ACCESS_TOKEN)["claims"]["plan"] == "free"
