// The names of the built-in models and the bounds of their images, for checks of configurations;
// worker/nn/models builds them, and a test holds the two together.
#pragma once

#include <cstdint>
#include <string_view>

namespace phub {

inline constexpr std::string_view kModelNames[] = {
    "lenet",           "fcn5",      "resnet20",     "resnet32",  "resnet56",
    "resnet110",       "alexnet",   "alexnet_bn",   "vgg11",     "vgg16",
    "vgg19",           "googlenet", "inception_v3", "resnet18",  "resnet34",
    "resnet50",        "resnet101", "resnet152",    "resnet269", "resnext50_32x4d",
    "resnext269_32x4d"};

// The most an image may have of rows, columns or channels.
inline constexpr std::uint32_t kPixelsMax = 65'536;

}  // namespace phub
