"""Codes of authenticator apps: the published vectors, the window, the URI and its QR code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest
import zxingcpp

from accounts.mfa import totp_algorithm
from tests.accounts.mfa.factor_requests import SECRET

AT = datetime(2024, 5, 1, 10, 0, 10, tzinfo=UTC)
STEP = int(AT.timestamp()) // 30


# RFC 6238, appendix B, in six digits
@pytest.mark.parametrize(
    ("unix", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_match_test_vectors_of_rfc_6238(unix: int, code: str) -> None:
    assert totp_algorithm.code_at(unix // 30, secret=SECRET) == code
    assert totp_algorithm.matching_step(code, secret=SECRET, at=datetime.fromtimestamp(unix, UTC)) == unix // 30


@pytest.mark.parametrize(("offset", "is_good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_code_is_accepted_one_step_before_and_after(offset: int, is_good: bool) -> None:
    code = totp_algorithm.code_at(STEP + offset, secret=SECRET)
    assert totp_algorithm.matching_step(code, secret=SECRET, at=AT) == (STEP + offset if is_good else None)


@pytest.mark.parametrize("pattern", [" {} ", "\t{}\n"])
def test_surrounding_white_space_is_ignored(pattern: str) -> None:
    code = totp_algorithm.code_at(STEP, secret=SECRET)
    assert totp_algorithm.matching_step(pattern.format(code), secret=SECRET, at=AT) == STEP


@pytest.mark.parametrize("change", [lambda code: code[:5], lambda code: code + "0", lambda code: "", lambda code: "é"])
def test_malformed_code_is_rejected(change) -> None:  # type: ignore[no-untyped-def]
    assert (
        totp_algorithm.matching_step(change(totp_algorithm.code_at(STEP, secret=SECRET)), secret=SECRET, at=AT) is None
    )


@pytest.mark.parametrize("written", [SECRET.lower(), f" {SECRET} ", "JBSWY3DPEHPK3PXP", "JBSWY3DP", "JBSWY3A="])
def test_secret_is_accepted_in_usual_notations(written: str) -> None:
    bare = written.strip().rstrip("=").upper()
    assert totp_algorithm.code_at(STEP, secret=written) == totp_algorithm.code_at(STEP, secret=bare)


def test_malformed_secret_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"base32|padding|digit"):
        totp_algorithm.code_at(STEP, secret="not base32!")


def test_a_new_secret_has_160_random_bits() -> None:
    made = {totp_algorithm.new_secret() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch("[A-Z2-7]{32}", secret) for secret in made)


def test_uri_has_parts_in_customary_order() -> None:
    assert totp_algorithm.uri(issuer="app.example.com", account="user@example.com", secret=SECRET) == (
        "otpauth://totp/app.example.com:user@example.com?algorithm=SHA1&digits=6&issuer=app.example.com&period=30"
        f"&secret={SECRET}"
    )


@pytest.mark.parametrize("name", ["A & B", "a=b", "a+b", "a#b", "a/b", "a?b", "a:b", "50 %", "Zoë", '"<&>'])
def test_names_are_escaped_in_uri(name: str) -> None:
    uri = totp_algorithm.uri(issuer=name, account=f"{name}@example.com", secret=SECRET)
    parts = urlsplit(uri)
    issuer, _, account = parts.path.removeprefix("/").partition(":")
    assert (unquote(issuer), unquote(account)) == (name, f"{name}@example.com")
    assert parse_qs(parts.query) == {
        "algorithm": ["SHA1"], "digits": ["6"], "issuer": [name], "period": ["30"], "secret": [SECRET],
    }  # fmt: skip
    assert parts.fragment == ""
    assert "+" not in uri
    assert " " not in uri


def test_name_too_long_for_qr_code_is_rejected() -> None:
    longest = "x" * 128
    totp_algorithm.qr_code(totp_algorithm.uri(issuer=longest, account="a" * 255, secret=SECRET))
    for issuer in (longest + "x", "\u20ac" * 100, "x" * 1_000_000):
        with pytest.raises(totp_algorithm.UriTooLong):
            totp_algorithm.uri(issuer=issuer, account="a", secret=SECRET)


@pytest.mark.parametrize("issuer", ["app.example.com", "x" * 128, "\u20ac" * 50])
@pytest.mark.parametrize("account", ["user@example.com", "zoë & co+1@example.com", "x" * 200])
def test_qr_code_is_readable_by_decoder(account: str, issuer: str) -> None:
    uri = totp_algorithm.uri(issuer=issuer, account=account, secret=SECRET)
    svg = totp_algorithm.qr_code(uri)
    assert "#" not in svg
    assert "%" not in svg
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>")
    assert decode_image(svg, level="H" if len(uri) <= 300 else "L") == uri


def decode_image(svg: str, *, level: str = "H") -> str:
    """The text of the QR code, which has this level of error correction."""
    root = ET.fromstring(svg)
    side = int(root.attrib["width"])
    assert (side % 3, root.attrib["height"], root.attrib["viewBox"]) == (0, str(side), f"0 0 {side // 3} {side // 3}")
    white, black = (path.attrib for path in root)
    modules = side // 3
    assert (white["fill"], white["d"], black["fill"]) == ("white", f"M0 0h{modules}v{modules}h-{modules}z", "black")
    picture = bytearray(b"\xff" * side * side)
    runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", black["d"])
    assert "".join(f"M{x} {y}h{width}v1h-{width}z" for x, y, width in runs) == black["d"]
    for x, y, width in ((int(part) for part in run) for run in runs):
        assert 4 <= x <= modules - 5
        assert 4 <= y <= modules - 5
        for line in range(3 * y, 3 * y + 3):
            start = line * side + 3 * x
            picture[start : start + 3 * width] = bytes(3 * width)
    (barcode,) = zxingcpp.read_barcodes(memoryview(picture).cast("B", shape=[side, side]))
    assert (barcode.format, barcode.ec_level) == (zxingcpp.BarcodeFormat.QRCode, level)
    return str(barcode.text)
