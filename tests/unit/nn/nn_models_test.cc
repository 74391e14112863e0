// The models against published figures.
//
// Parameters and GMACs: the metadata of torchvision 0.29's weights ("num_params" and "_ops", where
// a multiply-add is one), except that inception_v3's documented 27,161,264 parameters are with the
// auxiliary head; inception_v3(aux_logits=False) has 23,834,568. CIFAR's: He et al. 2016, table 6
// (0.27, 0.46, 0.85 and 1.7 million), whose counts leave out batch normalisation.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "worker/nn/graph/cost.h"
#include "worker/nn/models/models.h"

namespace phub::nn {
namespace {

Graph built(std::string_view name, const ModelOptions& options = {}) {
  auto graph = make_model(name, options);
  REQUIRE(graph);
  return std::move(*graph);
}

struct Published {
  const char* name;
  std::uint64_t parameters;
  double giga_multiply_adds;
};

TEST_CASE("Models have the parameters and the operations that torchvision documents") {
  const Published all[] = {
      {"alexnet", 61'100'840, 0.71},    {"vgg11", 132'863'336, 7.61},
      {"vgg16", 138'357'544, 15.47},    {"vgg19", 143'667'240, 19.63},
      {"googlenet", 6'624'904, 1.50},   {"inception_v3", 23'834'568, 5.71},
      {"resnet18", 11'689'512, 1.81},   {"resnet34", 21'797'672, 3.66},
      {"resnet50", 25'557'032, 4.09},   {"resnet101", 44'549'160, 7.80},
      {"resnet152", 60'192'808, 11.51}, {"resnext50_32x4d", 25'028'904, 4.23},
  };
  for (const Published& published : all) {
    INFO(published.name);
    const Graph graph = built(published.name);
    const NetworkCost cost = cost_of(graph);
    REQUIRE(cost.parameters == published.parameters);
    REQUIRE(graph.parameter_elements() == published.parameters);
    // Documented to two digits behind the point.
    REQUIRE(static_cast<double>(cost.multiply_adds) / 1e9 ==
            Approx(published.giga_multiply_adds).margin(0.005));
    REQUIRE(cost.forward_flops == 2 * cost.multiply_adds);
  }
}

TEST_CASE("Networks for small images have the sizes of their papers") {
  // He et al., table 6, in millions, without batch normalisation's two for each channel.
  const std::pair<const char*, double> residual[] = {
      {"resnet20", 0.27}, {"resnet32", 0.46}, {"resnet56", 0.85}, {"resnet110", 1.7}};
  for (const auto& [name, millions] : residual) {
    INFO(name);
    const Graph graph = built(name);
    std::uint64_t weights = 0;
    for (const Layer& layer : graph.layers()) {
      if (std::holds_alternative<BatchNorm>(layer.kind)) continue;
      for (const ParameterSpec& spec : layer.parameters) weights += spec.elements();
    }
    REQUIRE(static_cast<double>(weights) / 1e6 ==
            Approx(millions).margin(millions < 1 ? 0.006 : 0.03));
  }
  REQUIRE(built("lenet").parameter_elements() == 431'080);
  REQUIRE(built("resnet20").parameter_elements() == 269'722);
  // 13,707,264 weights (the record of Shi et al. 2016), and a bias for each output.
  REQUIRE(built("fcn5").parameter_elements() == 13'707'264 + 4096 + 2048 + 1024 + 10);
}

TEST_CASE("Networks without a published count have that of the same layers in PyTorch") {
  // torchvision's ResNet class with Bottleneck and [3, 30, 48, 8]; ResNeXt with groups=32,
  // width_per_group=4. MXNet's symbols call these depths 269.
  REQUIRE(built("resnet269").parameter_elements() == 102'073'384);
  REQUIRE(built("resnext269_32x4d").parameter_elements() == 102'172'968);
  // Krizhevsky et al. 2012 have 60,965,224 with groups and all biases; without the 1,376 biases of
  // the convolutions and with two parameters for each normalised channel.
  REQUIRE(built("alexnet_bn").parameter_elements() == 60'965'224 - 1'376 + 2 * 1'376 + 2 * 256);
}

TEST_CASE("Networks have the shapes of their papers on the way") {
  struct Row {
    const char* model;
    const char* layer;
    Shape shape;
  };
  const Row rows[] = {
      {"lenet", "pool2", {50, 4, 4}},
      {"resnet20", "layer2.0.add", {32, 16, 16}},
      {"resnet110", "layer3.17.add", {64, 8, 8}},
      {"alexnet", "features.12", {256, 6, 6}},
      {"alexnet_bn", "conv1", {96, 55, 55}},
      {"alexnet_bn", "bn_pool5", {256, 6, 6}},
      {"vgg16", "features.30", {512, 7, 7}},
      {"vgg19", "features.36", {512, 7, 7}},
      {"googlenet", "maxpool1", {64, 56, 56}},
      {"googlenet", "inception3a", {256, 28, 28}},
      {"googlenet", "inception4e", {832, 14, 14}},
      {"googlenet", "inception5b", {1024, 7, 7}},
      {"inception_v3", "maxpool2", {192, 35, 35}},
      {"inception_v3", "Mixed_5d", {288, 35, 35}},
      {"inception_v3", "Mixed_6e", {768, 17, 17}},
      {"inception_v3", "Mixed_7c", {2048, 8, 8}},
      {"resnet18", "layer4.1.add", {512, 7, 7}},
      {"resnet50", "maxpool", {64, 56, 56}},
      {"resnet50", "layer1.2.add", {256, 56, 56}},
      {"resnet152", "layer3.35.add", {1024, 14, 14}},
      {"resnet269", "layer4.7.add", {2048, 7, 7}},
      {"resnext269_32x4d", "layer2.29.conv2", {256, 28, 28}},
  };
  for (const Row& row : rows) {
    INFO(row.model << " " << row.layer);
    const Graph graph = built(row.model);
    bool found = false;
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      if (graph.layers()[i].name != row.layer) continue;
      found = true;
      REQUIRE(graph.shape(i + 1) == row.shape);
    }
    REQUIRE(found);
  }
}

TEST_CASE("Parameters have torchvision's names and shapes") {
  struct Row {
    const char* model;
    const char* parameter;
    std::vector<std::uint64_t> shape;
  };
  const Row rows[] = {
      {"alexnet", "features.10.weight", {256, 256, 3, 3}},
      {"alexnet", "classifier.6.bias", {1000}},
      {"vgg11", "features.18.weight", {512, 512, 3, 3}},
      {"vgg16", "classifier.0.weight", {4096, 25088}},
      {"googlenet", "inception4b.branch3.1.conv.weight", {64, 24, 3, 3}},
      {"googlenet", "inception5b.branch4.1.bn.bias", {128}},
      {"inception_v3", "Mixed_6b.branch7x7dbl_4.conv.weight", {128, 128, 7, 1}},
      {"inception_v3", "Mixed_7c.branch3x3dbl_3a.conv.weight", {384, 384, 1, 3}},
      {"resnet18", "layer2.0.downsample.1.weight", {128}},
      {"resnet50", "layer4.0.downsample.0.weight", {2048, 1024, 1, 1}},
      {"resnet50", "fc.bias", {1000}},
      {"resnext50_32x4d", "layer1.0.conv2.weight", {128, 4, 3, 3}},
  };
  for (const Row& row : rows) {
    INFO(row.model << " " << row.parameter);
    bool found = false;
    const Graph graph = built(row.model);
    for (const Layer& layer : graph.layers()) {
      for (const ParameterSpec& spec : layer.parameters) {
        if (spec.name != row.parameter) continue;
        found = true;
        REQUIRE(spec.shape == row.shape);
      }
    }
    REQUIRE(found);
  }
}

TEST_CASE("ResNet-50's training costs three forwards less the first layer's input gradient") {
  const NetworkCost cost = cost_of(built("resnet50"));
  const std::uint64_t first = 2ULL * 64 * 112 * 112 * 7 * 7 * 3;
  REQUIRE(cost.forward_flops + cost.backward_flops == 3 * cost.forward_flops - first);
  REQUIRE(cost.buffers == 53'120);  // torchvision: sum over its running_mean and running_var
}

TEST_CASE("Every listed model is built for other classes and images, or says what does not fit") {
  std::set<std::string_view> seen;
  for (const ModelInfo& info : model_list()) {
    INFO(info.name);
    REQUIRE(seen.insert(info.name).second);
    const Graph graph = built(info.name, {.classes = 7});
    REQUIRE(graph.input_shape() == info.image);
    REQUIRE(graph.output_shape() == Shape{.channels = 7});
    REQUIRE(built(info.name).output_shape().channels == info.classes);
    const Shape larger{info.image.channels, info.image.height + 32, info.image.width + 64};
    REQUIRE(make_model(info.name, {.image = larger}));
  }
  const auto tiny = make_model("vgg16", {.image = Shape{3, 8, 8}});
  REQUIRE_FALSE(tiny);
  REQUIRE(tiny.error().message().find("model vgg16: layer \"features.23\": kernel: 2 rows") == 0);
}

TEST_CASE("An option makes the last normalisation of each residual block start at zero") {
  const auto refused = make_model("lenet", {.zero_gamma = true});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Catch::Contains("leave zero_gamma out"));
  for (const bool zero_gamma : {false, true}) {
    int zeros = 0;
    const Graph graph = built("resnet50", {.zero_gamma = zero_gamma});
    for (const Layer& layer : graph.layers()) {
      const bool last = layer.name.ends_with(".bn3");
      if (!layer.parameters.empty() && layer.parameters[0].fill == Fill::kZero) {
        REQUIRE(last);
        ++zeros;
      }
    }
    REQUIRE(zeros == (zero_gamma ? 16 : 0));
  }
}

}  // namespace
}  // namespace phub::nn
