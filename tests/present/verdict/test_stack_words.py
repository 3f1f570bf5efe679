"""The words of advice that depend on the library that reads the data."""

import pytest

from iotop_ai.present.verdict.stack_words import more_threads, pack_files


@pytest.mark.parametrize(
    ("reader", "begin"),
    [
        ("lmdb", "read the LMDB in the order of its keys and shuffle blocks"),
        ("hdf5", "if its data is HDF5, use larger chunks"),
        ("datasets", "if its data is a Hugging Face dataset, use flatten_indices() after shuffle()"),
        ("dali", "pack files into shards of 100 MB"),
        ("", "pack files into shards of 100 MB"),
    ],
)
def test_small_reads_are_cured_by_the_library_that_makes_them(reader: str, begin: str) -> None:
    text = pack_files({"reader": reader, "read_size_bytes": 8192.0})
    assert text.startswith(begin)
    assert text.endswith(": its reads are 8 KB each")


def test_the_threads_of_dali_have_their_own_settings() -> None:
    assert "prefetch_queue_depth" in more_threads({"reader": "dali"})
    assert "prefetch queue" in more_threads({"reader": "lmdb"})
