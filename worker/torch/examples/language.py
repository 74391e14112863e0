"""A small transformer that learns the next character of a text, as one worker of several. Lines of PHub end with a
comment that says so.

    phubrun -n 2 python language.py                       # on this project's own documents
    phubrun -n 2 python language.py book.txt
"""
import argparse
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import phub.torch  # PHub

CHARACTERS = 256  # bytes


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2)
                   for each in self.qkv(self.norm1(x)).split(width, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        attended = scores.masked_fill(future, float("-inf")).softmax(3) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """With the defaults 10.7 million parameters."""

    def __init__(self, width=384, depth=6, heads=6, length=128):
        super().__init__()
        self.characters, self.places = nn.Embedding(CHARACTERS, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CHARACTERS, bias=False)

    def forward(self, text):
        x = self.characters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def passages(text, batch, length, random):
    """So many, from anywhere, and what comes after each character of them."""
    starts = torch.randint(len(text) - length, (batch,), generator=random)
    rows = torch.stack([text[start:start + length + 1] for start in starts.tolist()]).long()
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, data):
    text, after = data
    return F.cross_entropy(model(text).flatten(0, 1), after.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="*", type=pathlib.Path,
                        help="files (default: this project's documents)")
    parser.add_argument("--batch-size", type=int, default=8, help="passages of a step, of each worker (default 8)")
    parser.add_argument("--length", type=int, default=128, help="characters of a passage (default 128)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not args.text:
        args.text = sorted((pathlib.Path(__file__).resolve().parent / "../../..").rglob("README.md"))
    text = torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in args.text)), dtype=torch.uint8)
    if len(text) <= args.length:
        parser.error(f"text: {len(text)} characters, and a passage has {args.length}")

    torch.manual_seed(args.seed)
    model = Transformer(args.width, args.depth, length=args.length)
    optimizer = phub.torch.Optimizer(  # PHub
        model.named_parameters(), rule="adamw", lr=args.lr, weight_decay=0.01, clip_norm=1.0, model=model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    random = torch.Generator().manual_seed(args.seed + phub.rank())  # PHub: each worker its own passages
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, passages(text, args.batch_size, args.length, random))
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            print(f"step {step} of {args.steps} loss {loss.item():.4f}")
    optimizer.synchronize()


if __name__ == "__main__":
    main()
