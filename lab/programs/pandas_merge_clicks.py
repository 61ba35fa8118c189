"""Attributes clicks to the impressions of their campaign."""

import argparse
import logging

import numpy as np
import pandas as pd

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
log = logging.getLogger("attribution")

parser = argparse.ArgumentParser()
parser.add_argument("--impressions", type=int, default=400_000)
parser.add_argument("--clicks", type=int, default=120_000)
parser.add_argument("--campaigns", type=int, default=400)
parser.add_argument("--campaigns-at-a-time", type=int, default=0, help="0 joins all at once")
parser.add_argument("--downcast", action="store_true", help="32-bit columns")
args = parser.parse_args()

rng = np.random.default_rng(11)
integer, real = ("int32", "float32") if args.downcast else ("int64", "float64")
impressions = pd.DataFrame(
    {
        "campaign_id": rng.integers(0, args.campaigns, args.impressions).astype(integer),
        "shown_at": rng.uniform(0, 86_400, args.impressions).astype(real),
        "cost": rng.gamma(2.0, 0.01, args.impressions).astype(real),
    }
)
clicks = pd.DataFrame(
    {
        "campaign_id": rng.integers(0, args.campaigns, args.clicks).astype(integer),
        "clicked_at": rng.uniform(0, 86_400, args.clicks).astype(real),
    }
)
log.info("impressions: %d rows, %.1f MB", len(impressions), impressions.memory_usage(deep=True).sum() / 1e6)
log.info("clicks: %d rows, %.1f MB", len(clicks), clicks.memory_usage(deep=True).sum() / 1e6)


def attributed(impressions, clicks):
    pairs = impressions.merge(clicks, on="campaign_id", how="inner")
    delay = pairs["clicked_at"] - pairs["shown_at"]
    return pairs.loc[(delay >= 0) & (delay < 1800)].groupby("campaign_id")["cost"].agg(["sum", "count"])


size = args.campaigns_at_a_time or args.campaigns
parts = []
for number, first in enumerate(range(0, args.campaigns, size), start=1):
    those = range(first, first + size)
    log.info("batch %d: campaigns %d to %d, merging on campaign_id", number, those[0], those[-1])
    parts.append(
        attributed(impressions[impressions["campaign_id"].isin(those)], clicks[clicks["campaign_id"].isin(those)])
    )
result = pd.concat(parts)
log.info("attributed %d pairs of %d campaigns, cost %.2f", result["count"].sum(), len(result), result["sum"].sum())
