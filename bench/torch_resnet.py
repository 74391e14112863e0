"""ResNet-20 for small images in PyTorch, layer by layer what `phub-worker model resnet20` shows.

He et al., "Deep residual learning for image recognition" (2016), section 4.2, shortcuts without
parameters (option A). For the comparisons beside this file.
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
        self.stride = stride
        self.padding = (outputs - inputs) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.padding > 0:
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, self.padding, self.padding))
        return functional.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self, channels: int = 3, classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(16, 16, 1)
        self.layer2 = self._stage(16, 32, 2)
        self.layer3 = self._stage(32, 64, 2)
        self.fc = nn.Linear(64, classes)

    @staticmethod
    def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        first = Block(inputs, outputs, stride)
        return nn.Sequential(first, Block(outputs, outputs, 1), Block(outputs, outputs, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))
