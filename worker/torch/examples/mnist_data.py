"""MNIST from IDX files, as torchvision.datasets.MNIST has it: the bundled 8,000 and 2,000 images."""
import gzip
import pathlib

import torch
from torch.utils.data import Dataset

BUNDLED = pathlib.Path(__file__).resolve().parents[3] / "configs" / "data" / "mnist10k"


def _read(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


class MNIST(Dataset):
    """Images as torchvision's ToTensor and Normalize make them, and labels."""

    def __init__(self, root=BUNDLED, train=True):
        part = "train" if train else "test"
        root = pathlib.Path(root)
        images = _read(root / f"{part}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        self.images = (images.float() / 255 - 0.1307) / 0.3081
        self.labels = _read(root / f"{part}-labels-idx1-ubyte.gz", 8).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
