"""JAX fed by tf.data: TFRecord files, and the step of a small model compiled by JAX."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
from clock import Clock, options
from train_tensorflow import dataset_of, prepare


@jax.jit
def step(weights: jax.Array, images: jax.Array) -> jax.Array:
    def loss(w: jax.Array) -> jax.Array:
        return jnp.mean(jax.nn.logsumexp(images / 255.0 @ w, axis=1))

    return weights - 0.01 * jax.grad(loss)(weights)


def main() -> None:
    a = options()
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
        return
    clock, weights = Clock(a), jnp.ones((64, 10))
    for images, _labels in clock.batches(dataset_of(a).as_numpy_iterator()):
        weights = step(weights, images)
        weights.block_until_ready()
        clock.compute()


if __name__ == "__main__":
    main()
