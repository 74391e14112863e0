// VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
// recognition", 2015), configurations A, D and E, without batch normalisation as there and in
// torchvision.
#include "common/base/check.h"
#include "worker/nn/models/build.h"

namespace phub::nn::models {
namespace {

// Convolutions in each of the five stages.
std::vector<int> stages_of(int depth) {
  switch (depth) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    default:
      PHUB_CHECK(depth == 19, "VGG has 11, 16 or 19 layers here");
      return {2, 2, 4, 4, 4};
  }
}

}  // namespace

Result<Graph> vgg(const Target& target, int depth) {
  constexpr std::uint32_t kMostChannels = 512;
  Builder net(target.image);
  TensorId x = 0;
  int number = 0;  // torchvision numbers all layers of this half, convolutions or not
  const auto feature = [&](const LayerKind& kind) {
    x = net.add("features." + std::to_string(number++), kind, x);
  };
  std::uint32_t channels = 64;
  for (const int convolutions : stages_of(depth)) {
    for (int i = 0; i < convolutions; ++i) {
      feature(Convolution{.channels = channels, .window = {3, 1, 1}});
      feature(Relu{});
    }
    feature(Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}});
    channels = std::min(2 * channels, kMostChannels);
  }
  // torchvision's adaptive pool is the identity for 224 x 224, and is left out.
  x = net.add("classifier.0", InnerProduct{.outputs = 4096}, x);
  x = net.add("classifier.1", Relu{}, x);
  x = net.add("classifier.2", Dropout{}, x);
  x = net.add("classifier.3", InnerProduct{.outputs = 4096}, x);
  x = net.add("classifier.4", Relu{}, x);
  x = net.add("classifier.5", Dropout{}, x);
  net.add("classifier.6", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
