"""Trains a U-Net for segmentation with Lightning."""

import argparse

import lightning as L
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--accumulate_grad_batches", type=int, default=1)
parser.add_argument("--crop_size", type=int, default=256)
parser.add_argument("--precision", default="32-true")
parser.add_argument("--grad_checkpointing", action="store_true")
parser.add_argument("--max_steps", type=int, default=3)
args = parser.parse_args()


class Scenes(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.rand(3, args.crop_size, args.crop_size), torch.randint(0, 19, (args.crop_size, args.crop_size))


def double(inputs, outputs):
    layers = []
    for count in (inputs, outputs):
        layers += [nn.Conv2d(count, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.down = nn.ModuleList([double(3, width), double(width, 2 * width), double(2 * width, 4 * width)])
        self.up = nn.ModuleList([double(6 * width, 2 * width), double(3 * width, width)])
        self.head = nn.Conv2d(width, 19, 1)

    def block(self, layers, x):
        return checkpoint(layers, x, use_reentrant=False) if args.grad_checkpointing else layers(x)

    def forward(self, x):
        skips = []
        for layers in self.down:
            x = self.block(layers, x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = skips.pop()
        for layers in self.up:
            x = nn.functional.interpolate(x, scale_factor=2)
            x = self.block(layers, torch.cat([x, skips.pop()], 1))
        return self.head(x)

    def training_step(self, batch, index):
        images, masks = batch
        loss = nn.functional.cross_entropy(self(images), masks)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


L.seed_everything(0)
print(f"hparams: {vars(args)}", flush=True)
trainer = L.Trainer(
    accelerator="cpu",
    max_steps=args.max_steps,
    precision=args.precision,
    accumulate_grad_batches=args.accumulate_grad_batches,
    logger=False,
    enable_checkpointing=False,
    log_every_n_steps=1,
)
trainer.fit(UNet(), DataLoader(Scenes(), batch_size=args.batch_size))
