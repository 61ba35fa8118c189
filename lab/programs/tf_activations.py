"""Trains a convolutional network in Keras on random pictures."""

import argparse

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--filters", type=int, default=32)
args = parser.parse_args()

images = np.random.rand(64, args.image_size, args.image_size, 3).astype("float32")
labels = np.random.randint(0, 10, 64)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(args.filters, 3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(args.filters, 3, padding="same", activation="relu", strides=2),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(10),
    ]
)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, batch_size=args.batch_size, epochs=1, verbose=2)
print("epoch 1 done", flush=True)
