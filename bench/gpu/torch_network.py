"""A network of ours as a PyTorch module: the same layers, from `phub-worker model NAME --textproto`.

So a comparison is between two programs and not between two networks. One layer a line, as
phub-worker writes them.
"""

import re

import torch
from torch import nn
from torch.nn import functional

LAYER = re.compile(r'layer \{ name: "([^"]+)"((?: inputs: "[^"]+")*) (\w+) \{(.*)\} \}')
FIELD = re.compile(r"(\w+): (\[[^\]]*\]|\"[^\"]*\"|[^\s]+)")


def fields_of(text):
    def value(word):
        if word.startswith("["):
            return [int(number) for number in word[1:-1].split(",")]
        if word in ("true", "false"):
            return word == "true"
        return word[1:-1] if word.startswith('"') else float(word)

    return {name: value(word) for name, word in FIELD.findall(text)}


def pair(fields, name, default):
    numbers = fields.get(name, default)
    return (numbers[0], numbers[-1]) if isinstance(numbers, list) else (int(numbers),) * 2


class Subsample(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x):
        x = x[:, :, :: self.stride, :: self.stride]
        before = (self.channels - x.shape[1]) // 2
        return functional.pad(x, (0, 0, 0, 0, before, self.channels - x.shape[1] - before))


def module_of(kind, fields, shapes):
    channels = shapes[0][1]
    window = {name: pair(fields, name, default)
              for name, default in (("kernel", 1), ("stride", 1), ("padding", 0))}
    if kind == "convolution":
        return nn.Conv2d(channels, int(fields["channels"]), window["kernel"], window["stride"],
                         window["padding"], groups=int(fields.get("groups", 1)),
                         bias=fields.get("bias", True))
    if kind == "inner_product":
        inputs = channels * shapes[0][2] * shapes[0][3]
        return nn.Linear(inputs, int(fields["outputs"]), bias=fields.get("bias", True))
    if kind == "pool" and fields.get("kind", "max") == "max":
        return nn.MaxPool2d(window["kernel"], window["stride"], window["padding"],
                            ceil_mode=fields.get("ceil", False))
    if kind == "pool":
        return nn.AvgPool2d(window["kernel"], window["stride"], window["padding"],
                            count_include_pad=fields.get("count_padding", False))
    if kind == "global_average_pool":
        return nn.AdaptiveAvgPool2d(1)
    if kind == "batch_norm":
        norm = nn.BatchNorm2d(channels, fields.get("epsilon", 1e-5), fields.get("momentum", 0.1))
        return nn.Sequential(norm, nn.ReLU(inplace=True)) if fields.get("relu") else norm
    if kind == "relu":
        return nn.ReLU(inplace=True)
    if kind == "dropout":
        return nn.Dropout(fields.get("ratio", 0.5))
    if kind == "subsample":
        return Subsample(int(fields["channels"]), int(fields.get("stride", 1)))
    return nn.Identity()  # add and concat have no state


class Network(nn.Module):
    def __init__(self, text):
        super().__init__()
        image = fields_of(re.search(r"image \{([^}]*)\}", text).group(1))
        self.image = tuple(int(image[name]) for name in ("channels", "height", "width"))
        self.layers = nn.ModuleList()
        self.plan = []  # (name, kind, names of inputs, whether a ReLU follows)
        values = {"input": torch.zeros(2, *self.image)}  # of two, for batch normalisation
        last = "input"
        for name, inputs, kind, rest in LAYER.findall(text):
            fields = fields_of(rest)
            names = re.findall(r'"([^"]+)"', inputs) or [last]
            self.layers.append(module_of(kind, fields, [values[n].shape for n in names]))
            self.plan.append((name, kind, names, kind == "add" and fields.get("relu", False)))
            with torch.no_grad():
                values[name] = self.run(len(self.plan) - 1, [values[n] for n in names])
            last = name

    def run(self, index, inputs):
        _, kind, _, relu = self.plan[index]
        if kind == "add":
            x = inputs[0] + inputs[1]
            return functional.relu(x, inplace=True) if relu else x
        if kind == "concat":
            return torch.cat(inputs, 1)
        if kind == "inner_product":
            return self.layers[index](inputs[0].flatten(1))[:, :, None, None]
        return self.layers[index](inputs[0])

    def forward(self, x):
        values = {"input": x}
        for index, (name, _, names, _) in enumerate(self.plan):
            values[name] = self.run(index, [values[n] for n in names])
        return values[self.plan[-1][0]].flatten(1)
