"""Cases of stacks that were installed after the rules were frozen, so that neither rules nor tests know them."""

from __future__ import annotations

from tests.scenarios.stacks.case import CPU, HEALTHY, RESPAWN, Case
from tests.scenarios.stacks.cases import cpu, disk, healthy, network, served

HOMEMADE, FASTAI = ("torch", "train_homemade.py"), ("fastai", "train_fastai.py")
ULTRALYTICS = ("ultralytics", "train_ultralytics.py")
LANCE, DEEPLAKE = ("lance", "train_lance.py"), ("deeplake", "train_deeplake.py")
XARRAY, STORES = ("xarray", "train_xarray.py"), ("stores", "train_stores.py")
TFJAX = ("tfjax", "train_tfjax.py")
HELD_OUT: dict[str, Case] = {
    "Pool.imap disk": disk(*HOMEMADE, "futex", 0.4, "--how pool"),
    "Pool.imap decode": cpu(*HOMEMADE, "spin", 0.2, "--how pool"),
    "ProcessPoolExecutor decode": cpu(*HOMEMADE, "poll", 0.5, "--how processes"),
    "ProcessPoolExecutor healthy": healthy(*HOMEMADE, "futex", 0.8, "--how processes"),
    "ThreadPoolExecutor disk": disk(*HOMEMADE, "sleep", 0.3, "--how threads"),
    "ThreadPoolExecutor decode": cpu(*HOMEMADE, "ioctl", 0.4, "--how threads"),
    "threads and a queue disk": disk(*HOMEMADE, "ioctl", 0.6, "--how queue"),
    "threads and a queue healthy": healthy(*HOMEMADE, "sleep", 0.8, "--how queue"),
    "fastai disk": disk(*FASTAI, "futex", 0.5),
    "fastai decode": cpu(*FASTAI, "poll", 0.3),
    "Ultralytics decode": cpu(*ULTRALYTICS, "futex", 0.35),
    "Ultralytics healthy": healthy(*ULTRALYTICS, "spin", 1.5),
    "Lance stream disk": disk(*LANCE, "futex", 0.5),
    "Lance workers disk": disk(*LANCE, "poll", 0.25, "--how workers"),
    "Lance workers decode": cpu(*LANCE, "sleep", 0.6, "--how workers"),
    "Deep Lake disk": disk(*DEEPLAKE, "ioctl", 0.4),
    "Deep Lake short epochs": cpu(*DEEPLAKE, "futex", 0.5, cause=RESPAWN),
    "Deep Lake short epochs fed": healthy(*DEEPLAKE, "futex", 0.6)._replace(cause=RESPAWN),
    "xarray disk": disk(*XARRAY, "futex", 0.5),
    "xarray compute": cpu(*XARRAY, "sleep", 0.3, "--work 3"),
    "xarray healthy": healthy(*XARRAY, "poll", 0.8),
    "s3torchconnector network": network(*STORES, "futex", 0.6, "--client connector"),
    "s3torchconnector network little": network(*STORES, "sleep", 0.2, "--client connector"),
    "s3torchconnector decode": served(*STORES, CPU, "poll", 0.4, "--client connector --work 3"),
    "obstore network": network(*STORES, "poll", 0.35, "--client obstore"),
    "obstore healthy": served(*STORES, HEALTHY, "futex", -0.6, "--client obstore"),
    "tf.data to JAX disk": disk(*TFJAX, "futex", 0.4),
    "tf.data to JAX decode": cpu(*TFJAX, "sleep", 0.5),
    "tf.data to JAX healthy": healthy(*TFJAX, "poll", 0.6),
}
