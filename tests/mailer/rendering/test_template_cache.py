"""The template cache: fetches, refreshes, and fallbacks to the last valid or built-in template."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from authsvc.messaging import EmailType
from mailer.rendering import renderer, template_cache
from mailer.rendering.template_cache import TemplateCache
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response
from tests.timeouts import wait_until

TYPE = EmailType.CONFIRMATION
MAX_AGE, RETRY = 600.0, 10.0
BUILT_IN = "Confirm your email address"
DOWN = Response(status=500)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def page(text: str) -> Response:
    return Response(body=text.encode())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> TemplateCache:
    return TemplateCache(clock=clock)


@pytest.fixture
def peer(auth_config: ChangeConfig) -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        auth_config(mailer={"templates": {"confirmation": f"{running.url}/t.html"}})
        yield running


def body(cache: TemplateCache, type: EmailType = TYPE) -> str:
    """The HTML of an email; of the built-in body only its heading."""
    html = renderer.render_templates(cache.get(type), type, {}).html
    return BUILT_IN if f">{BUILT_IN}<" in html else html


def test_a_fresh_template_is_used(cache: TemplateCache, clock: Clock, peer: HttpPeer) -> None:
    peer.respond(page("one"), page("two"))
    for later in (0.0, 1.0, MAX_AGE - 1.5):
        clock.now += later
        assert body(cache) == "one"
    assert len(peer.received) == 1


def test_an_expired_template_is_replaced(cache: TemplateCache, clock: Clock, peer: HttpPeer) -> None:
    peer.respond(page("one"), page("two"))
    assert body(cache) == "one"
    clock.now += MAX_AGE
    assert body(cache) == "two"
    clock.now += MAX_AGE - 1
    assert body(cache) == "two"
    assert len(peer.received) == 2


def test_an_expired_template_is_used_while_fetching_fails(
    cache: TemplateCache, clock: Clock, peer: HttpPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.respond(page("one"), DOWN, DOWN, page("two"))
    body(cache)
    clock.now += MAX_AGE
    assert body(cache) == "one"
    clock.now += RETRY - 0.1
    assert body(cache) == "one"
    assert len(peer.received) == 2
    clock.now += 0.1
    assert body(cache) == "one"
    assert len(peer.received) == 3
    clock.now += RETRY
    assert body(cache) == "two"
    assert [(record.__dict__["event"], record.__dict__["mail_type"]) for record in caplog.records] == [
        ("templatemailer_template_body_http_error", "confirmation")
    ] * 2


@pytest.mark.parametrize(
    ("response", "event"),
    [
        (DOWN, "templatemailer_template_body_http_error"),
        (page("{{ nope }}"), "templatemailer_template_body_parse_error"),
    ],
)
def test_the_built_in_body_is_cached_while_fetching_fails(
    response: Response,
    event: str,
    cache: TemplateCache,
    clock: Clock,
    peer: HttpPeer,
    auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    auth_config(mailer={"subjects": {"confirmation": "Ours"}})
    peer.respond(response, page("one"))
    assert body(cache) == BUILT_IN
    assert renderer.render_templates(cache.get(TYPE), TYPE, {}).subject == "Ours"
    [record] = caplog.records
    assert (record.levelno, record.__dict__["event"], record.__dict__["mail_type"]) == (
        logging.ERROR,
        event,
        "confirmation",
    )
    clock.now += MAX_AGE - 1
    assert body(cache) == BUILT_IN
    assert len(peer.received) == 1
    clock.now += 1
    assert body(cache) == "one"


def test_changed_settings_take_effect_at_once(cache: TemplateCache, peer: HttpPeer, auth_config: ChangeConfig) -> None:
    peer.respond(page("one"), path="/t.html")
    peer.respond(page("two"), path="/u.html")
    assert body(cache) == "one"
    auth_config(mailer={"templates": {"confirmation": f"{peer.url}/u.html"}})
    assert body(cache) == "two"
    auth_config(mailer={"subjects": {"confirmation": "New"}})
    assert renderer.render_templates(cache.get(TYPE), TYPE, {}).subject == "New"
    auth_config(mailer={"templates": {}})
    assert body(cache) == BUILT_IN


def test_a_failing_new_url_does_not_restore_the_old_template(
    cache: TemplateCache, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    peer.respond(page("one"), path="/t.html")
    assert body(cache) == "one"
    auth_config(mailer={"templates": {"confirmation": f"{peer.url}/missing.html"}})
    assert body(cache) == BUILT_IN


def test_an_invalid_subject_is_logged_once_per_load(
    cache: TemplateCache, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(mailer={"subjects": {"confirmation": "{{ if }"}})
    for _ in range(3):
        assert renderer.render_templates(cache.get(TYPE), TYPE, {}).subject == "Confirm Your Signup"
    [record] = caplog.records
    assert record.__dict__["event"] == "templatemailer_template_subject_parse_error"


def test_threads_that_need_the_same_template_share_one_fetch(cache: TemplateCache, peer: HttpPeer) -> None:
    peer.respond(Response(body=b"one", delay=0.3), page("two"))
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(body(cache))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["one"] * 8
    assert len(peer.received) == 1


def test_a_fresh_template_is_available_during_a_refresh(
    cache: TemplateCache, clock: Clock, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"template_reloading_enabled": True})
    peer.respond(page("one"), Response(hang=True))
    body(cache)
    clock.now += 0.95 * MAX_AGE
    refreshing = threading.Thread(target=cache.refresh, daemon=True)
    refreshing.start()
    wait_until(lambda: len(peer.received) == 2, "the second request")
    assert body(cache) == "one"
    peer.stopping.set()
    refreshing.join()


# Refreshing in the background


def test_a_refresh_fetches_only_missing_templates(
    cache: TemplateCache, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    places = dict.fromkeys(["confirmation", "recovery", "password_changed_notification"], f"{peer.url}/t.html")
    auth_config(mailer={"templates": places, "template_reloading_enabled": True})
    peer.respond(page("one"))
    cache.refresh()
    cache.refresh()
    assert len(peer.received) == 2  # a notice that is switched off needs none
    assert body(cache, EmailType.RECOVERY) == "one"
    assert len(peer.received) == 2


def test_a_refresh_precedes_expiry(
    cache: TemplateCache, clock: Clock, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"template_reloading_enabled": True})
    peer.respond(page("one"), DOWN, page("two"))
    body(cache)
    clock.now += 0.9 * MAX_AGE
    cache.refresh()
    assert len(peer.received) == 1
    clock.now += 1
    cache.refresh()
    cache.refresh()
    assert len(peer.received) == 2
    assert body(cache) == "one"
    clock.now += RETRY
    cache.refresh()
    assert body(cache) == "two"
    assert len(peer.received) == 3


def test_a_refresh_replaces_the_built_in_body(
    cache: TemplateCache, clock: Clock, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"template_reloading_enabled": True})
    peer.respond(DOWN, DOWN, page("one"))
    assert body(cache) == BUILT_IN
    for expected in (1, 2, 3, 3):
        assert len(peer.received) == expected
        clock.now += RETRY
        cache.refresh()
    assert body(cache) == "one"


def test_refreshes_pause_while_no_email_is_sent(
    cache: TemplateCache, clock: Clock, peer: HttpPeer, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"template_reloading_enabled": True})
    peer.respond(page("one"))
    clock.now += 20 * 60 + 1
    cache.refresh()
    assert peer.received == []
    body(cache)
    clock.now += 20 * 60
    cache.refresh()
    assert len(peer.received) == 2


def test_refreshing_is_off_by_default(cache: TemplateCache, peer: HttpPeer) -> None:
    cache.refresh()
    assert peer.received == []


@pytest.mark.parametrize(("retry", "pause"), [(10, 2.5), (1, 1), (0, 1), (60, 15)])
def test_the_refresh_interval_follows_the_retry_interval(retry: int, pause: float, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"template_retry_interval": timedelta(seconds=retry)})
    assert template_cache.refresh_interval() == timedelta(seconds=pause)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_lock_of_its_parent(auth_config: ChangeConfig) -> None:
    with HttpPeer() as peer:
        peer.respond(Response(hang=True))
        auth_config(mailer={"templates": {"confirmation": peer.url}})
        waiting = threading.Thread(target=template_cache.shared.get, args=(TYPE,), daemon=True)
        waiting.start()
        wait_until(lambda: peer.received, "a request")
        auth_config(mailer={"templates": {}})
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(0 if template_cache.shared.get(TYPE).text else 1)
        _, status = os.waitpid(child, 0)
        peer.stopping.set()
        waiting.join()
    assert status == 0
