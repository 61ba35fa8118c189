"""Regression of taxi fares by a small network."""

import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--eval-batch-size", type=int, default=600_000)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--rows", type=int, default=700_000)
parser.add_argument("--squeeze-output", action="store_true", help="predictions of shape (batch,), not (batch, 1)")
args = parser.parse_args()

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("fares")


class Fares(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 1))

    def forward(self, rows):
        out = self.layers(rows)
        return out.squeeze(-1) if args.squeeze_output else out


def evaluate(model, features, fares):
    model.eval()
    total = count = 0
    with torch.inference_mode():
        for inputs, paid in zip(features.split(args.eval_batch_size), fares.split(args.eval_batch_size), strict=True):
            loss = nn.functional.mse_loss(model(inputs), paid)
            total += loss.item() * len(paid)
            count += len(paid)
    return (total / count) ** 0.5


def main():
    torch.manual_seed(0)
    features = torch.randn(args.rows, 16)
    fares = features[:, :4].sum(1) * 3 + 14 + torch.randn(args.rows)
    cut = args.rows // 7
    train = DataLoader(TensorDataset(features[:cut], fares[:cut]), batch_size=args.batch_size, shuffle=True)
    log.info("%d rows to train on, %d to validate on, %d features", cut, args.rows - cut, features.shape[1])
    model = Fares(features.shape[1])
    log.info("model: %d parameters", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for number, (rows, target) in enumerate(train):
            loss = nn.functional.mse_loss(model(rows), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % 100 == 0:
                log.info("epoch %d batch %d/%d loss %.4f", epoch, number, len(train), loss.item())
        log.info("epoch %d validation RMSE %.4f", epoch, evaluate(model, features[cut:], fares[cut:]))


if __name__ == "__main__":
    main()
