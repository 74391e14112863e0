"""Residual networks for small images in PyTorch, as `phub-worker model resnet20` shows them.

He et al., "Deep residual learning for image recognition" (2016), section 4.2, shortcuts without
parameters (option A). Written so that torch.jit.script takes them, which torch_network.py's are not.
"""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.padding = (outputs - inputs) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.padding > 0:
            x = x[:, :, ::2, ::2]
            x = functional.pad(x, (0, 0, 0, 0, self.padding, self.padding))
        return functional.relu(y + x)


class ResNet(nn.Module):
    """depth: 20, 32, 44, 56 or 110."""

    def __init__(self, depth: int, channels: int = 3, classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks, inputs = [], 16
        for outputs in (16, 32, 64):
            for index in range((depth - 2) // 6):
                blocks.append(Block(inputs, outputs, 2 if index == 0 and outputs > 16 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        return self.fc(self.blocks(x).mean((2, 3)))
