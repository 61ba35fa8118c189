"""Predicts segmentation masks of satellite tiles with Keras."""

import argparse

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--tiles", type=int, default=200)
parser.add_argument("--tile-size", type=int, default=256)
parser.add_argument("--classes", type=int, default=21)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--argmax-in-model", action="store_true")
parser.add_argument("--write-batches", action="store_true", help="write masks batch by batch")
args = parser.parse_args()


def tiles():
    for seed in range(args.tiles):
        yield np.random.default_rng(seed).random((args.tile_size, args.tile_size, 3), dtype=np.float32)


inputs = tf.keras.Input((args.tile_size, args.tile_size, 3))
x = tf.keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
x = tf.keras.layers.Conv2DTranspose(args.classes, 3, strides=2, padding="same", activation="softmax")(x)
if args.argmax_in_model:
    x = tf.keras.layers.Lambda(lambda y: tf.cast(tf.argmax(y, axis=-1), tf.uint8))(x)
model = tf.keras.Model(inputs, x)
model.summary()
signature = tf.TensorSpec((args.tile_size, args.tile_size, 3), tf.float32)
dataset = tf.data.Dataset.from_generator(tiles, output_signature=signature).batch(args.batch_size)

counts = np.zeros(args.classes, np.int64)


def count(masks):
    masks = masks if args.argmax_in_model else masks.argmax(-1)
    return np.bincount(masks.ravel(), minlength=args.classes)


if args.write_batches:
    for number, batch in enumerate(dataset):
        masks = model.predict_on_batch(batch)
        np.save("masks.npy", masks)
        counts += count(masks)
        if number % 10 == 9:
            print(f"batch {number + 1} written", flush=True)
else:
    masks = model.predict(dataset, verbose=2)
    print(f"predicted {masks.shape} {masks.dtype}", flush=True)
    counts += count(masks)
print(f"pixels by class: {counts.tolist()}", flush=True)
