"""Forecasts the load of a grid with an LSTM on windows of a week."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--hours", type=int, default=35064, help="four years")
parser.add_argument("--sensors", type=int, default=48)
parser.add_argument("--window", type=int, default=168)
parser.add_argument("--stride", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--streamed", action="store_true", help="windows are cut as they are needed")
parser.add_argument("--steps-per-epoch", type=int, default=20)
args = parser.parse_args()

keras.utils.set_random_seed(0)
series = np.random.default_rng(0).normal(size=(args.hours, args.sensors)).astype(args.dtype)
print(f"series {series.shape} {series.dtype}, {series.nbytes / 1e6:.1f} MB", flush=True)
model = keras.Sequential([
    keras.layers.Input((args.window, args.sensors)), keras.layers.AveragePooling1D(8), keras.layers.LSTM(16),
    keras.layers.Dense(1),
])  # fmt: skip
model.compile("adam", "mse")
model.summary()
if args.streamed:
    data = keras.utils.timeseries_dataset_from_array(
        series[: -args.window], series[args.window :, 0], args.window, sequence_stride=args.stride,
        batch_size=args.batch_size,
    )  # fmt: skip
    model.fit(data.repeat(), epochs=2, steps_per_epoch=args.steps_per_epoch, verbose=2)
else:
    starts = range(0, len(series) - args.window, args.stride)
    print(f"cutting {len(starts)} windows of {args.window} hours", flush=True)
    x = np.array([series[start : start + args.window] for start in starts])
    y = np.array([series[start + args.window, 0] for start in starts])
    print(f"x {x.shape}, y {y.shape}", flush=True)
    split = int(0.8 * len(x))
    x_train, x_val = x[:split], x[split:]
    mean, deviation = series.mean(0), series.std(0)
    x_train = (x_train - mean) / deviation
    print(f"x_train {x_train.shape} normalised", flush=True)
    model.fit(
        x_train, y[:split], batch_size=args.batch_size, epochs=2, steps_per_epoch=args.steps_per_epoch,
        validation_data=((x_val[:256] - mean) / deviation, y[split : split + 256]), verbose=2,
    )  # fmt: skip
