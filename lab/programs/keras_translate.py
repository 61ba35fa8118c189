"""Teaches a GRU encoder and decoder to translate, in TensorFlow."""

import argparse
import time

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--max-length", type=int, default=48, help="tokens of a sentence")
parser.add_argument("--vocab-size", type=int, default=32000)
parser.add_argument("--units", type=int, default=128)
parser.add_argument("--sampled-softmax", type=int, default=0, metavar="N", help="N negative words instead of all")
parser.add_argument("--steps-per-epoch", type=int, default=3)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()

print(f"TensorFlow {tf.__version__}", flush=True)
rng = np.random.default_rng(1)
pairs = args.batch_size * args.steps_per_epoch
source = rng.zipf(1.3, (pairs, args.max_length)) % args.vocab_size
target = rng.zipf(1.3, (pairs, args.max_length)) % args.vocab_size
print(f"{pairs} sentence pairs, vocabulary {args.vocab_size}", flush=True)
data = tf.data.Dataset.from_tensor_slices((source.astype("int32"), target.astype("int32"))).batch(args.batch_size)


class Translator(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.source_words = tf.keras.layers.Embedding(args.vocab_size, args.units)
        self.target_words = tf.keras.layers.Embedding(args.vocab_size, args.units)
        self.encoder = tf.keras.layers.GRU(args.units, return_state=True)
        self.decoder = tf.keras.layers.GRU(args.units, return_sequences=True)
        self.word_weights = self.add_weight(shape=(args.vocab_size, args.units), name="word_weights")
        self.word_biases = self.add_weight(shape=(args.vocab_size,), initializer="zeros", name="word_biases")

    def call(self, inputs):
        source, target = inputs
        _, state = self.encoder(self.source_words(source))
        return self.decoder(self.target_words(target), initial_state=state)

    def loss_of(self, hidden, labels):
        if args.sampled_softmax:
            flat = tf.reshape(hidden, [-1, args.units])
            return tf.reduce_mean(
                tf.nn.sampled_softmax_loss(
                    self.word_weights,
                    self.word_biases,
                    tf.reshape(labels, [-1, 1]),
                    flat,
                    args.sampled_softmax,
                    args.vocab_size,
                )
            )
        logits = tf.einsum("btu,vu->btv", hidden, self.word_weights) + self.word_biases
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


model = Translator()
optimizer = tf.keras.optimizers.SGD(0.1)
for epoch in range(1, args.epochs + 1):
    print(f"Epoch {epoch}/{args.epochs}", flush=True)
    for number, (src, tgt) in enumerate(data, start=1):
        begin = time.time()
        with tf.GradientTape() as tape:
            hidden = model((src, tgt[:, :-1]))
            loss = model.loss_of(hidden, tgt[:, 1:])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        print(
            f"  batch {number}/{args.steps_per_epoch} - {time.time() - begin:.1f}s - loss: {loss.numpy():.4f}",
            flush=True,
        )
print("BLEU on 0 held-out sentences: n/a", flush=True)
