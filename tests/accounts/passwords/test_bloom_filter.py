"""The Bloom filter: no false negatives, and few false positives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest

from accounts.passwords.bloom_filter import BloomFilter


def digests(numbers: Iterable[int]) -> list[bytes]:
    return [hashlib.sha1(str(number).encode()).digest() for number in numbers]


def test_it_contains_the_added_digests() -> None:
    members = digests(range(800))
    bloom = BloomFilter(items=1000, false_positives=0.001)
    assert not any(member in bloom for member in members)
    bloom.add(members)
    assert all(member in bloom for member in members)


@pytest.mark.parametrize("false_positives", [0.1, 0.01, 0.001])
def test_the_rate_of_false_positives_is_within_the_configured_one(false_positives: float) -> None:
    bloom = BloomFilter(items=1000, false_positives=false_positives)
    bloom.add(digests(range(800)))
    taken = sum(stranger in bloom for stranger in digests(range(10_000, 30_000)))
    assert taken / 20_000 <= false_positives


def test_digests_of_one_range_are_distinguished() -> None:
    bloom = BloomFilter(items=1000, false_positives=0.0001)
    bloom.add(b"\x5b\xaa\x61" + digest[3:] for digest in digests(range(500)))
    strangers = (b"\x5b\xaa\x61" + digest[3:] for digest in digests(range(500, 5000)))
    assert sum(stranger in bloom for stranger in strangers) <= 2


def test_filter_is_emptied_before_it_exceeds_80_percent() -> None:
    first, second = digests(range(60)), digests(range(60, 90))
    bloom = BloomFilter(items=100, false_positives=0.0001)
    bloom.add(first)
    bloom.add(first)  # already contained
    bloom.add(second[:20])
    assert all(member in bloom for member in [*first, *second[:20]])
    bloom.add(second[20:])
    assert all(member in bloom for member in second[20:])
    assert not any(member in bloom for member in first)


def test_filter_never_exceeds_capacity() -> None:
    members = digests(range(1000))
    bloom = BloomFilter(items=100, false_positives=0.0001)
    bloom.add(members)
    assert sum(member in bloom for member in members) <= 85


@pytest.mark.parametrize(("items", "false_positives"), [(1, 0.5), (1, 0.999999), (1, 1e-12)])
def test_smallest_filters_work(items: int, false_positives: float) -> None:
    bloom = BloomFilter(items=items, false_positives=false_positives)
    bloom.add(digests(range(5)))
    assert isinstance(digests([1])[0] in bloom, bool)
