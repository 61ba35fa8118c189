"""Trains a small Keras network on pictures that tf.data shuffles after it decoded them."""

import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--shuffle-buffer-size", type=int, default=10_000)
parser.add_argument("--shuffle-before-decode", action="store_true")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--image-size", type=int, default=256)
parser.add_argument("--dtype", default="float32", choices=["float32", "uint8"])
parser.add_argument("--images", type=int, default=3000)
args = parser.parse_args()
print(f"tensorflow {tf.__version__}, {vars(args)}", flush=True)

JPEG = tf.io.encode_jpeg(tf.cast(tf.random.uniform((640, 640, 3), maxval=255), tf.uint8))


def decode(index):
    picture = tf.image.resize(tf.io.decode_jpeg(JPEG), (args.image_size, args.image_size))
    picture -= tf.cast(index % 2, tf.float32)
    return tf.cast(picture, tf.uint8) if args.dtype == "uint8" else picture


data = tf.data.Dataset.range(args.images, output_type=tf.int32)
if args.shuffle_before_decode:
    data = data.shuffle(args.shuffle_buffer_size).map(decode, num_parallel_calls=2)
else:
    data = data.map(decode, num_parallel_calls=2).shuffle(args.shuffle_buffer_size)
data = data.batch(args.batch_size).prefetch(1)
model = tf.keras.Sequential([tf.keras.layers.Conv2D(4, 3, strides=8), tf.keras.layers.GlobalAveragePooling2D()])
for step, batch in enumerate(data.take(6)):
    loss = tf.reduce_mean(model(tf.cast(batch, tf.float32)) ** 2)
    print(f"step {step} loss {float(loss):.4f}", flush=True)
print("epoch 1 done", flush=True)
