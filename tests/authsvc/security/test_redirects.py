"""Redirect targets: permitted ones, their normalization, and added parameters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from authsvc.conf import url_patterns
from authsvc.security import redirects

AuthConfig = Callable[..., object]

LOCAL = (
    "http://localhost:8000/*",
    "http://*.localhost:8000/*",
    "http://*:12345/*",
    "http://**:12345/*",
)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("a.c", "abc", False),
        ("a*c", "abbbc", True),
        ("a*c", "ac", True),
        ("a*c", "a.c", False),
        ("a*c", "a/c", False),
        ("a**c", "a/b.c", True),
        ("a***c", "a/b.c", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "a/c", False),
        ("[abc]", "b", True),
        ("[abc]", "d", False),
        ("[!abc]", "d", True),
        ("[!abc]", "a", False),
        ("[a-c]", "b", True),
        ("[a-c]", "-", False),
        ("[!a-c]", "d", True),
        ("[!a-c]", "c", False),
        ("[ab-d]", "-", True),
        ("[ab-d]", "c", False),
        ("[^a]", "^", True),
        ("[^a]", "b", False),
        (r"[\]a]", "]", True),
        (r"[\d]", "d", True),
        (r"[\d]", "7", False),
        ("{cat,dog}s", "dogs", True),
        ("{cat,dog}s", "cows", False),
        ("{a,{b,c}*}", "cxx", True),
        ("{a,}b", "b", True),
        ("a,b", "a,b", True),
        ("a}", "a}", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"a\\", "a\\", True),
        ("A", "a", False),
        ("https://x.dev/*", "https://x.dev", False),
        ("https://x.dev/*", "https://x.dev/a?b=c", True),
        ("https://x.dev/(a|b)+", "https://x.dev/a", False),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert url_patterns.compile_pattern(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern", ["[", "[]", "[!]", "[!", "[a", "[a-", "[a-]", "[a-z0]", "[z-a]", "{", "{a", "{a,{b}", "a\\", "[\\]"]
)
def test_an_unfinished_pattern_does_not_compile(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        url_patterns.compile_pattern(pattern)


@pytest.mark.parametrize(
    ("url", "permitted"),
    [
        ("http://localhost:8000/path", True),
        ("http://localhost:8000/", True),
        ("http://localhost:8000/path?param=1", True),
        ("http://localhost:8000/path#a/b.c", True),
        ("http://localhost:8000?param=1", True),
        ("http://localhost:8000", False),
        ("http:\\\\localhost:8000", False),
        ("http://localhost:3000", False),
        ("http://localhost:8000/path/to/page", False),
        ("http://localhost:8000/a.html", True),
        ("http://a.localhost:8000/path", True),
        ("http://123?.localhost:8000/path", False),
        ("http://evil?.localhost:8000/path", False),
        ("http://evil#.localhost:8000/path", False),
        ("http://evil\\.localhost:8000/path", False),
        ("http://123.123.123.123?localhost:8000/path", False),
        ("http://[65e7:9410:d8b6:e227:58cd:e55b:8fc0:206d]?localhost:8000/path", False),
        ("http://65e7:9410:d8b6:e227:58cd:e55b:8fc0:206d?localhost:8000/path", False),
        ("http://somewhere:12345/path", True),
        ("http://somewhere.dev:12345/path", True),
        ("http://some_where.dev:12345/path", False),
        ("http://-somewhere.dev:12345/path", False),
        ("", False),
        ("/path", False),
        ("//example.com/path", False),
        ("example.com", False),
        ("https://", False),
        ("https://example.com:port/", False),
        ("https://example.com:65536/", False),
        ("https://[::1/", False),
        ("https://exa mple.com/", False),
        ("https://example.com/\x00", False),
        ("\x01https://example.com/", False),
        ("https://example.com/\x7f", False),
        ("https://example.com/\ud800", False),
    ],
)
def test_targets_are_matched_against_the_allow_list(auth_config: AuthConfig, url: str, permitted: bool) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": LOCAL})
    assert redirects.is_permitted(url) is permitted


@pytest.mark.parametrize(
    ("site", "url", "permitted"),
    [
        ("https://example.com", "https://example.com/dashboard", True),
        ("https://example.com", "https://example.com:443/dashboard", True),
        ("https://example.com", "https://example.com:8443/dashboard", False),
        ("https://example.com:8443", "https://example.com:8443/dashboard", True),
        ("https://example.com:8443", "https://example.com/dashboard", False),
        ("https://example.com", "http://example.com/dashboard", False),
        ("http://example.com", "http://example.com/dashboard", True),
        ("http://example.com", "https://example.com/dashboard", False),
        ("https://example.com", "HTTPS://EXAMPLE.com", True),
        ("https://EXAMPLE.com/app", "https://example.com/", True),
        ("https://example.com", "https:\\\\example.com\\dashboard", True),
        ("https://example.com", "ftp://example.com/p", False),
        ("https://example.com", "https://evil.example.com/p", False),
        ("https://example.com", "https://example.com.evil.com/p", False),
        ("https://example.com", "https://evil.com", False),
        ("https://example.com", "https://evil.com\\.example.com", False),
        ("https://example.com", "https://evil.com\t.example.com/", False),
        ("https://example.com", "https:/\\evil.com/example.com", False),
        ("https://example.com", "https://example.com@evil.com/", False),
        ("https://example.com", "https://user@example.com/", False),
        ("https://example.com", "https://:secret@example.com/", False),
        ("https://example.com", "javascript://example.com/x", False),
        ("https://example.com", "JaVa\nScript://example.com/x", False),
        ("https://example.com", "vbscript://example.com/x", False),
        ("https://example.com", "data:text/html,x", False),
        ("https://example.com", "blob:https://example.com/x", False),
        ("https://example.com", "file://example.com/x", False),
        ("javascript://example.com", "javascript://example.com/x", False),
        ("http://localhost:3000", "http://localhost:8080/cb", True),
        ("http://192.168.1.5:3000", "http://192.168.1.5:3000/cb", True),
        ("http://192.168.1.5:3000", "http://192.168.1.5/cb", False),
        ("com.example.app://Home", "com.example.app://home/x", True),
        ("com.example.app://", "com.example.app://home/x", False),
        ("not a url", "https://example.com/", False),
    ],
)
def test_the_host_of_the_site_is_permitted(auth_config: AuthConfig, site: str, url: str, permitted: bool) -> None:
    auth_config(site={"url": site, "allow_list": ()})
    assert redirects.is_permitted(url) is permitted


LOOPBACK_TARGETS = (
    "http://127.0.0.1:9/x",
    "https://127.8.9.10/x",
    "http://[0:0:0:0:0:0:0:1]:123/path",
    "http://[::1]:123/p",
    "http://[::ffff:127.0.0.1]/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://localhost:8080/cb",
    "https://LOCALHOST/",
)
OTHER_ADDRESSES = (
    "http://123/",
    "http://0.0.0.0/",
    "http://10.0.0.1:12345/p",
    "http://0xa.1:12345/p",
    "http://[::ffff:10.0.0.1]/",
    "http://[fe80::1]:12345/p",
    "http://localhost.evil.example/",
)


@pytest.mark.parametrize("site", ["http://localhost:3000", "http://127.0.0.1:3000", "https://[::1]:3000"])
def test_a_loopback_site_permits_loopback_targets(auth_config: AuthConfig, site: str) -> None:
    auth_config(site={"url": site, "allow_list": ()})
    assert [url for url in LOOPBACK_TARGETS if not redirects.is_permitted(url)] == []
    assert [url for url in OTHER_ADDRESSES if redirects.is_permitted(url)] == []


@pytest.mark.parametrize("site", ["https://example.com", "https://localhost.example.com", "localhost://app"])
def test_another_site_permits_no_loopback_target(auth_config: AuthConfig, site: str) -> None:
    auth_config(site={"url": site, "allow_list": ()})
    assert [url for url in (*LOOPBACK_TARGETS, *OTHER_ADDRESSES) if redirects.is_permitted(url)] == []


@pytest.mark.parametrize(
    ("entry", "url", "permitted"),
    [
        ("http://127.0.0.1:9/*", "http://127.0.0.1:9/x", True),
        ("http://127.0.0.1:9/*", "http://127.0.0.1:10/x", False),
        ("http://127.0.0.1:9/*", "http://0x7f.1:9/x", True),
        (r"http://\[::1\]:9/*", "http://[0::1]:9/x", True),
        ("http://localhost:*/cb", "http://localhost:8080/cb", True),
        ("http://localhost:*/cb", "http://127.0.0.1:8080/cb", False),
        ("**:12345/*", "http://127.0.0.1:12345/path", True),
        ("**:12345/*", "http://10.0.0.1:12345/path", False),
        ("**:12345/*", "http://[fe80::1]:12345/p", False),
        ("exp://*.*.*.*:8081/**", "exp://192.168.1.1:8081/--/x", True),
        ("exp://*.*.*.*:8081/**", "exp://127.0.0.1:9/x", False),
        ("exp://123**", "exp://123:8081/--/x", False),
    ],
)
def test_an_entry_can_name_a_loopback_address_but_no_other(
    auth_config: AuthConfig, entry: str, url: str, permitted: bool
) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": (entry,)})
    assert redirects.is_permitted(url) is permitted


@pytest.mark.parametrize(
    ("entry", "url", "permitted"),
    [
        ("http://*.dev:3000", "http://foo.bar.dev:3000", False),
        ("http://*.*.dev:3000", "http://foo.bar.dev:3000", True),
        ("http://test.dev:3000/*", "http://test.dev:3000/bar/foo", False),
        ("http://test.dev:3000/*/*", "http://test.dev:3000/bar/foo", True),
        ("http://test.dev:3000/bar/*", "http://test.dev:3000/bar/../foo", False),
        ("https://x.dev/*", "https://x.dev/callback.html", True),
        ("https://x.dev/*", "https://x.dev/v1.2/a", False),
        ("https://x.dev/**", "https://x.dev/v1.2/a.b/c", True),
        ("https://x.dev/**", "https://x.dev.evil.example/", False),
        ("https://*.x.dev/*", "https://a.b.x.dev/c.d", False),
        ("https://**.x.dev/*", "https://a.b.x.dev/c.d", True),
        ("https://**.x.dev/*", "https://evil.example/.x.dev/c", False),
        ("https://**.x.dev/*", "https://evil.example:443/a.x.dev/c", False),
        ("https://**/cb", "https://any.example/a/b/cb", True),
        ("https://**", "https://any.example/a/b", True),
        ("https://x.dev**", "https://x.dev/a/b", True),
        ("https://x-*.dev", "https://x-evil.example.dev", False),
        (r"https:[/]/*.x.dev", "https://evil.example.x.dev", False),
        (r"https:{/,//}*.x.dev/*", "https://evil.example.x.dev/a", False),
        ("{https,http}://*.x.dev/*", "http://a.x.dev/b.c", True),
        ("{https,http}://*.x.dev/*", "http://a.b.x.dev/b.c", False),
        ("https://{x.dev/a,*.y.dev}/*", "https://a.b.y.dev/c", False),
        ("com.example.app:/*", "com.example.app:/a.b", True),
        ("com.example.app:*", "com.example.app:a.b", True),
        ("http://*.example.org/*", "http://something#.example.org/abc", False),
        ("http://*.example.org/*", "http://japanese。.example.org/abc", False),
        ("http://*.example.org/*", "http://japanese.example。org/abc", True),
        ("com.example.app://**", "com.example.app://sign-in/v2", True),
        ("com.example.app://**", "com.example.app://", True),
        ("com.example.app://", "com.example.app://", True),
        ("com.example.app:///", "com.example.app:///", True),
        ("twitter://timeline", "twitter://timeline", True),
        ("twitter://timeline", "twitter://timeline2", False),
        ("https://x.dev/cb", "https://X.dev/cb", True),
        ("https://x.dev/cb", "https://x.dev/CB", False),
    ],
)
def test_an_entry_permits_what_it_matches(auth_config: AuthConfig, entry: str, url: str, permitted: bool) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": (entry,)})
    assert redirects.is_permitted(url) is permitted


@pytest.mark.parametrize(
    ("header", "query", "referer", "target"),
    [
        (None, "http://localhost:8000/q", None, "http://localhost:8000/q"),
        ("", "http://localhost:8000/q", None, "http://localhost:8000/q"),
        ("http://localhost:8000/h", "http://localhost:8000/q", None, "http://localhost:8000/h"),
        ("https://evil.com", "http://localhost:8000/q", None, "HTTPS://example.com/Start?a=ö"),
        (None, "https://evil.com", "http://localhost:8000/r", "http://localhost:8000/r"),
        (None, None, "http://localhost:8000/r", "http://localhost:8000/r"),
        (None, "https://evil.com", "https://evil.com", "HTTPS://example.com/Start?a=ö"),
        (None, None, None, "HTTPS://example.com/Start?a=ö"),
    ],
)
def test_the_first_permitted_candidate_is_the_target(
    auth_config: AuthConfig, header: str | None, query: str | None, referer: str | None, target: str
) -> None:
    auth_config(site={"url": "HTTPS://example.com/Start?a=ö", "allow_list": LOCAL})
    assert redirects.resolve(header=header, query=query, referer=referer) == target


@pytest.mark.parametrize(
    ("requested", "target"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com?a=b", "https://example.com?a=b"),
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
        ("https://example.com/#/a", "https://example.com/#/a"),
        ("https://example.com/ä b", "https://example.com/%C3%A4%20b"),
        ("com.example.app://", "com.example.app://"),
        ("HTTPS://EXAMPLE.COM/A", "https://example.com/A"),
        ("https:\\\\example.com\\a", "https://example.com/a"),
        ("https:example.com", "https://example.com/"),
        (" https://example.com/a ", "https://example.com/a"),
        ("https://example.com/a\r\nSet-Cookie: b", "https://example.com/aSet-Cookie:%20b"),
        ("https://example.com/a/%2e%2e/b", "https://example.com/b"),
        ("https://@example.com/", "https://example.com/"),
        ("https://0xa.1/", "https://example.com"),
    ],
)
def test_a_target_is_returned_unchanged_unless_browsers_read_it_differently(
    auth_config: AuthConfig, requested: str, target: str
) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": ("com.example.app://**",)})
    assert redirects.resolve(header=None, query=requested, referer=None) == target


def test_a_target_of_2_kib_is_the_longest(auth_config: AuthConfig) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": ("**",)})
    for start in ("https://example.com/", "https://other.example/"):
        longest = start + "a" * (2048 - len(start))
        assert redirects.is_permitted(longest)
        assert not redirects.is_permitted(longest + "a")
        assert not redirects.is_permitted(longest[:-1] + "é")


def test_a_hostile_target_takes_one_step_per_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of states that a match visits, because a duration would depend on the machine."""
    pattern = url_patterns.compile_pattern("https://" + "**a*a" * 20 + "/end")
    visited: set[int] = set()
    follow = pattern.follow

    def follow_and_count(states: int) -> int:
        visited.add(states)
        return follow(states)

    monkeypatch.setattr(pattern, "follow", follow_and_count)
    assert not pattern.matches("https://" + "a" * 2000)
    assert len(visited) <= 2008


def test_a_changed_allow_list_applies_at_once(auth_config: AuthConfig) -> None:
    auth_config(site={"allow_list": ()})
    assert not redirects.is_permitted("https://x.dev/a")
    auth_config(site={"allow_list": ("https://x.dev/*",)})
    assert redirects.is_permitted("https://x.dev/a")


@pytest.mark.parametrize(
    ("target", "start"),
    [
        ("https://x/", "https://x/#"),
        ("https://x/#", "https://x/#"),
        ("https://x/#/", "https://x/#/&"),
        ("https://x/#a#b", "https://x/#a#b&"),
        ("https://x/#/in?a=1&access_token=x&access%5Ftoken=y&sb&b", "https://x/#/in?a=1&b&"),
    ],
)
def test_a_fragment_is_joined_in_key_order(target: str, start: str) -> None:
    location = redirects.with_fragment(target, {"token_type": "bearer", "access_token": "a b", "sb": ""})
    assert location == f"{start}access_token=a+b&sb=&token_type=bearer"


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("https://x.dev/cb", "https://x.dev/cb?code=1+2"),
        ("https://x.dev/cb?z=1&a=2&z=0#f", "https://x.dev/cb?a=2&code=1+2&z=1&z=0#f"),
        ("https://x.dev/cb?code=old&code&b", "https://x.dev/cb?b=&code=1+2"),
        ("https://x.dev/cb?q=%ff%C3%A4+%26", "https://x.dev/cb?code=1+2&q=%FF%C3%A4+%26"),
        ("com.example.app://", "com.example.app://?code=1+2"),
        ("https://x.dev/ä b#ö", "https://x.dev/%C3%A4%20b?code=1+2#%C3%B6"),
    ],
)
def test_a_query_is_rewritten_in_key_order(target: str, location: str) -> None:
    assert redirects.with_query(target, {"code": "1 2"}) == location


REFUSAL = {
    "error_description": "Email link is invalid or has expired",
    "error": "access_denied",
    "error_code": "otp_expired",
}
ENCODED = "error=access_denied&error_code=otp_expired&error_description=Email+link+is+invalid+or+has+expired"


@pytest.mark.parametrize(
    ("target", "in_query", "location"),
    [
        ("https://example.com/?test=param", False, f"https://example.com/?test=param#{ENCODED}&sb="),
        ("https://example.com/?b=1&a=2#old#older", False, f"https://example.com/?b=1&a=2#old#older&{ENCODED}&sb="),
        ("https://example.com/#old", True, f"https://example.com/?{ENCODED}#old&{ENCODED}&sb="),
        ("https://example.com/?error=x&z=1&a=2", True, f"https://example.com/?a=2&{ENCODED}&z=1#{ENCODED}&sb="),
    ],
)
@pytest.mark.parametrize("mark", [{}, {"sb": ""}])
def test_an_error_is_joined_to_the_fragment(target: str, in_query: bool, location: str, mark: dict[str, str]) -> None:
    assert redirects.with_error(target, {**REFUSAL, **mark}, in_query=in_query) == location


@pytest.mark.parametrize("target", ["https://x.dev/\r\nSet-Cookie: a", "https://x.dev/?\r\nb#\r\nc", "https://x.dev/ü"])
def test_locations_contain_no_line_break(target: str) -> None:
    values = {"message": "a\r\nb ü"}
    for location in (
        redirects.with_fragment(target, values),
        redirects.with_query(target, values),
        redirects.with_error(target, values, in_query=True),
    ):
        assert location.isascii()
        assert not set(location) & set("\r\n ")
