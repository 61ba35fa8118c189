"""Feeds pictures through tf.data, kept in memory after the first epoch."""

import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--cache", default="memory", choices=["memory", "file", "none"])
parser.add_argument("--shuffle-buffer", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--images", type=int, default=2400)
args = parser.parse_args()


def picture(index):
    return tf.random.stateless_uniform((args.image_size, args.image_size, 3), seed=[1, index])


data = tf.data.Dataset.range(args.images, output_type=tf.int32).map(picture)
if args.cache != "none":
    data = data.cache() if args.cache == "memory" else data.cache("pictures.cache")
data = data.shuffle(args.shuffle_buffer).batch(args.batch_size).prefetch(2)
for step, batch in enumerate(data):
    mean = float(tf.reduce_mean(batch))
    if step % 5 == 0:
        print(f"step {step} mean {mean:.4f}", flush=True)
print("epoch 1 done", flush=True)
