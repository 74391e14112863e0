"""ResNet-18 on images of 32 by 32 pixels, as one worker of several. Lines of PHub end with a comment that says so.

    phubrun -n 2 python resnet.py                         # images that are made here
    phubrun -n 2 python resnet.py --data cifar-10-batches-bin
"""
import argparse
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import phub.torch  # PHub

CLASSES = 10


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """11.2 million parameters."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks = []
        for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
            blocks += [Block(before, after, stride), Block(after, after, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, CLASSES)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


def made_images(count, seed):
    """Of each class a pattern, shifted and with noise on it."""
    patterns = F.interpolate(torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(0)), scale_factor=4)
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=random)
    shifts = torch.randint(-4, 5, (count, 2), generator=random).tolist()
    images = torch.stack([patterns[label].roll(shift, (1, 2)) for label, shift in zip(labels.tolist(), shifts)])
    return images + torch.randn(images.shape, generator=random), labels


def cifar10(folder, files):
    """The binary version: a byte of the label, then 3 * 32 * 32 of the image."""
    data = b"".join((pathlib.Path(folder) / name).read_bytes() for name in files)
    rows = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 1 + 3 * 32 * 32)
    return (rows[:, 1:].view(-1, 3, 32, 32).float() - 120) / 64, rows[:, 0].long()


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        correct = sum(model(x).argmax(1).eq(y).sum().item() for x, y in zip(images.split(250), labels.split(250)))
    model.train()
    return correct / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="CIFAR-10's folder of binary batches (default: images that are made)")
    parser.add_argument("--images", type=int, default=2000, help="to make, without --data (default 2000)")
    parser.add_argument("--batch-size", type=int, default=32, help="images of a step, of each worker (default 32)")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    if args.data:
        train = cifar10(args.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
        test = cifar10(args.data, ["test_batch.bin"])
    else:
        train, test = made_images(args.images, 1), made_images(500, 2)
    dataset = phub.torch.shard(torch.utils.data.TensorDataset(*train))  # PHub
    loader = torch.utils.data.DataLoader(dataset, args.batch_size, shuffle=True, drop_last=True)
    model = ResNet18()
    optimizer = phub.torch.Optimizer(  # PHub
        model.named_parameters(), rule="nesterov", lr=args.lr, momentum=0.9, weight_decay=5e-4, model=model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    for epoch in range(1, args.epochs + 1):
        for step, (images, labels) in enumerate(loader, 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} of {len(loader)} loss {loss.item():.4f}")
        optimizer.synchronize()  # PHub: with model= parameters are waited for where forward needs them
        print(f"epoch {epoch} accuracy on the test images {100 * accuracy(model, *test):.1f} %")


if __name__ == "__main__":
    main()
