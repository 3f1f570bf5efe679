"""TensorFlow: TFRecord files through tf.data, in a plain loop, or with --fit in Keras's loop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from clock import Clock, options
from images import jpegs

RECORDS = 64
AUTOTUNE = tf.data.AUTOTUNE


def prepare(folder: Path, megabytes: int) -> None:
    images = jpegs(megabytes)
    shard = 0
    while True:
        chunk = [image for _, image in zip(range(RECORDS), images, strict=False)]
        if not chunk:
            return
        with tf.io.TFRecordWriter(str(folder / f"train-{shard:05}.tfrecord")) as writer:
            for label, image in enumerate(chunk):
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label % 10])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        shard += 1


def dataset_of(a: argparse.Namespace) -> tf.data.Dataset:
    shapes = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, shapes)
        if not a.work:
            raw = tf.io.decode_raw(tf.strings.substr(example["image"], 0, 12288), tf.uint8)
            return tf.cast(raw, tf.float32)[:64], example["label"]
        for _ in range(a.work):
            image = tf.image.resize(tf.io.decode_jpeg(example["image"], channels=3), (224, 224))
            image = tf.image.random_flip_left_right(image)
        return tf.reshape(image, [-1])[:64], example["label"]

    files = sorted(str(path) for path in Path(a.data).glob("*.tfrecord"))
    records = tf.data.TFRecordDataset(files, num_parallel_reads=a.workers).repeat()
    return records.map(parse, num_parallel_calls=a.workers).batch(a.batch).prefetch(AUTOTUNE)


def loop(a: argparse.Namespace, clock: Clock) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.SGD(0.001)

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            losses = tf.keras.losses.sparse_categorical_crossentropy(labels, model(images / 255.0), from_logits=True)
        gradients = tape.gradient(losses, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for images, labels in clock.batches(dataset_of(a)):
        step(images, labels)
        clock.compute()


def fit(a: argparse.Namespace, clock: Clock) -> None:
    def arrived(first: tf.Tensor) -> tf.Tensor:
        clock.arrived()
        return first

    def done(loss: tf.Tensor) -> tf.Tensor:
        clock.compute()
        clock.wait()
        return loss

    class Timed(tf.keras.Sequential):
        def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
            images, labels = data
            first = tf.py_function(arrived, [images[0, 0]], tf.float32)
            images = tf.concat([tf.reshape(first, [1, 1]), tf.reshape(images, [1, -1])[:, 1:]], 1)
            out = super().train_step((tf.reshape(images, [-1, 64]), labels))
            tf.py_function(done, [images[0, 0]], tf.float32)
            return out

    model = Timed([tf.keras.Input((64,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.SGD(0.001), loss=loss)
    model.fit(dataset_of(a), steps_per_epoch=1 << 20, epochs=1, verbose=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fit", action="store_true")
    a = options(parser)
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
    else:
        (fit if a.fit else loop)(a, Clock(a))


if __name__ == "__main__":
    main()
