"""Data sets, samplers and the loader that turns them into batches."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.data.collate import default_collate
from halon.data.dataset import Dataset, Subset, TensorDataset, random_split
from halon.data.loader import DataLoader, WorkersNotAvailable
from halon.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "RandomSampler", "Sampler", "SequentialSampler",
    "Subset", "TensorDataset", "WorkersNotAvailable", "default_collate", "random_split",
]  # fmt: skip
