"""Tests of the pricing rules against a year of quotes; quotes.npy is written by `python test_pricing.py`."""

import os

import numpy as np
import pytest


@pytest.fixture(scope="session")
def quotes():
    path = os.environ.get("QUOTES", "quotes.npy")
    if os.environ.get("QUOTES_MMAP") == "1":
        return np.load(path, mmap_mode="r")
    return np.load(path).astype(os.environ.get("QUOTES_DTYPE", "float64"))


@pytest.mark.parametrize("desk", ["fx", "rates", "credit", "equity", "metals", "energy"])
@pytest.mark.parametrize("day", range(8))
def test_mid_lies_between_bid_and_ask(quotes, desk, day):
    rows = quotes[day * 40_000 : (day + 1) * 40_000]
    mid = (rows[:, 0] + rows[:, 1]) / 2
    assert (mid >= rows[:, 0] - 1e-3).all() and (mid <= rows[:, 1] + 1e-3).all()


@pytest.mark.parametrize("window", [5, 20, 60, 120, 250])
def test_volatility_is_finite(quotes, window):
    returns = np.diff(np.log(quotes[: 200 * window, 0]))
    assert np.isfinite(returns.reshape(-1)[: 100 * window].std())


def test_no_crossed_quotes(quotes):
    for begin in range(0, len(quotes), 100_000):
        part = quotes[begin : begin + 100_000]
        assert (part[:, 0] <= part[:, 1]).all()


if __name__ == "__main__":
    generator = np.random.default_rng(3)
    table = generator.uniform(90, 110, (1_000_000, 40)).astype("float32")
    table[:, 1] = table[:, 0] + 0.05
    np.save("quotes.npy", table)
