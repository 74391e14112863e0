// Inception-v3 (Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016)
// as torchvision has it, without the auxiliary classifier: see googlenet.cc.
#include "worker/nn/models/build.h"

namespace phub::nn::models {
namespace {

const Window k3x3{.kernel = 3, .stride = 1, .padding = 1};
const Window k5x5{.kernel = 5, .stride = 1, .padding = 2};
const Window k1x7{.kernel = {1, 7}, .stride = 1, .padding = {0, 3}};
const Window k7x1{.kernel = {7, 1}, .stride = 1, .padding = {3, 0}};
const Window k1x3{.kernel = {1, 3}, .stride = 1, .padding = {0, 1}};
const Window k3x1{.kernel = {3, 1}, .stride = 1, .padding = {1, 0}};
const Window kReduce{.kernel = 3, .stride = 2};

// One block: names its layers and remembers what is read and what its branches gave.
class InceptionBlock {
 public:
  InceptionBlock(Builder& net, std::string name, TensorId input)
      : net_(net), name_(std::move(name)), input_(input) {}

  TensorId convolve(const std::string& part, TensorId from, std::uint32_t channels,
                    const Window& window = {}) {
    return basic_convolution(net_, name_ + "." + part, from,
                             {.channels = channels, .window = window});
  }
  // A branch of one convolution after another.
  struct Step {
    std::string part;
    std::uint32_t channels;
    Window window;
  };
  TensorId chain(const std::vector<Step>& steps) {
    TensorId x = input_;
    for (const Step& step : steps) x = convolve(step.part, x, step.channels, step.window);
    return x;
  }
  // The branch of an average and a 1 x 1 convolution.
  TensorId average(std::uint32_t channels) {
    const Pool pool{.kind = PoolKind::kAverage, .window = k3x3, .count_padding = true};
    return convolve("branch_pool", net_.add(name_ + ".avg_pool", pool, input_), channels);
  }
  TensorId maximum() {
    return net_.add(name_ + ".max_pool", Pool{PoolKind::kMax, kReduce}, input_);
  }
  TensorId pair(const std::string& part, TensorId from) {
    const TensorId a = convolve(part + "a", from, 384, k1x3);
    const TensorId b = convolve(part + "b", from, 384, k3x1);
    return net_.add(name_ + "." + part, Concat{}, {a, b});
  }
  TensorId concat(std::vector<TensorId> branches) {
    return net_.add(name_, Concat{}, std::move(branches));
  }

 private:
  Builder& net_;
  std::string name_;
  TensorId input_;
};

// 35 x 35: figure 5 of the paper.
TensorId inception_a(InceptionBlock block, std::uint32_t pool_channels) {
  const TensorId one = block.chain({{"branch1x1", 64, {}}});
  const TensorId five = block.chain({{"branch5x5_1", 48, {}}, {"branch5x5_2", 64, k5x5}});
  const TensorId twice = block.chain(
      {{"branch3x3dbl_1", 64, {}}, {"branch3x3dbl_2", 96, k3x3}, {"branch3x3dbl_3", 96, k3x3}});
  return block.concat({one, five, twice, block.average(pool_channels)});
}

// 35 x 35 to 17 x 17.
TensorId inception_b(InceptionBlock block) {
  const TensorId three = block.chain({{"branch3x3", 384, kReduce}});
  const TensorId twice = block.chain(
      {{"branch3x3dbl_1", 64, {}}, {"branch3x3dbl_2", 96, k3x3}, {"branch3x3dbl_3", 96, kReduce}});
  return block.concat({three, twice, block.maximum()});
}

// 17 x 17: figure 6, with n = 7. `inner` channels between the convolutions of a branch.
TensorId inception_c(InceptionBlock block, std::uint32_t inner) {
  const TensorId one = block.chain({{"branch1x1", 192, {}}});
  const TensorId seven = block.chain(
      {{"branch7x7_1", inner, {}}, {"branch7x7_2", inner, k1x7}, {"branch7x7_3", 192, k7x1}});
  const TensorId twice = block.chain({{"branch7x7dbl_1", inner, {}},
                                      {"branch7x7dbl_2", inner, k7x1},
                                      {"branch7x7dbl_3", inner, k1x7},
                                      {"branch7x7dbl_4", inner, k7x1},
                                      {"branch7x7dbl_5", 192, k1x7}});
  return block.concat({one, seven, twice, block.average(192)});
}

// 17 x 17 to 8 x 8.
TensorId inception_d(InceptionBlock block) {
  const TensorId three = block.chain({{"branch3x3_1", 192, {}}, {"branch3x3_2", 320, kReduce}});
  const TensorId seven = block.chain({{"branch7x7x3_1", 192, {}},
                                      {"branch7x7x3_2", 192, k1x7},
                                      {"branch7x7x3_3", 192, k7x1},
                                      {"branch7x7x3_4", 192, kReduce}});
  return block.concat({three, seven, block.maximum()});
}

// 8 x 8: figure 7, whose branches fork at their ends.
TensorId inception_e(InceptionBlock block) {
  const TensorId one = block.chain({{"branch1x1", 320, {}}});
  const TensorId three = block.pair("branch3x3_2", block.chain({{"branch3x3_1", 384, {}}}));
  const TensorId twice = block.pair(
      "branch3x3dbl_3", block.chain({{"branch3x3dbl_1", 448, {}}, {"branch3x3dbl_2", 384, k3x3}}));
  return block.concat({one, three, twice, block.average(192)});
}

// 299 x 299 to 35 x 35.
TensorId stem(Builder& net) {
  const Pool pool{PoolKind::kMax, kReduce};
  TensorId x = basic_convolution(net, "Conv2d_1a_3x3", 0, {.channels = 32, .window = kReduce});
  x = basic_convolution(net, "Conv2d_2a_3x3", x, {.channels = 32, .window = {.kernel = 3}});
  x = basic_convolution(net, "Conv2d_2b_3x3", x, {.channels = 64, .window = k3x3});
  x = net.add("maxpool1", pool, x);
  x = basic_convolution(net, "Conv2d_3b_1x1", x, {.channels = 80});
  x = basic_convolution(net, "Conv2d_4a_3x3", x, {.channels = 192, .window = {.kernel = 3}});
  return net.add("maxpool2", pool, x);
}

}  // namespace

Result<Graph> inception_v3(const Target& target) {
  Builder net(target.image);
  TensorId x = stem(net);
  x = inception_a({net, "Mixed_5b", x}, 32);
  x = inception_a({net, "Mixed_5c", x}, 64);
  x = inception_a({net, "Mixed_5d", x}, 64);
  x = inception_b({net, "Mixed_6a", x});
  x = inception_c({net, "Mixed_6b", x}, 128);
  x = inception_c({net, "Mixed_6c", x}, 160);
  x = inception_c({net, "Mixed_6d", x}, 160);
  x = inception_c({net, "Mixed_6e", x}, 192);
  x = inception_d({net, "Mixed_7a", x});
  x = inception_e({net, "Mixed_7b", x});
  x = inception_e({net, "Mixed_7c", x});
  x = net.add("avgpool", GlobalAveragePool{}, x);
  x = net.add("dropout", Dropout{}, x);
  net.add("fc", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
