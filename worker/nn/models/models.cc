#include "worker/nn/models/models.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "worker/nn/models/build.h"

namespace phub::nn {
namespace {

using models::ResnetLayout;
using models::Target;

constexpr Shape kMnist{1, 28, 28};
constexpr Shape kCifar{3, 32, 32};
constexpr Shape kImagenet{3, 224, 224};

struct Model {
  ModelInfo info;
  Result<Graph> (*build)(const Target& target);
};

template <int kDepth>
Result<Graph> vgg(const Target& target) {
  return models::vgg(target, kDepth);
}

template <int kBlocks>
Result<Graph> resnet_cifar(const Target& target) {
  return models::resnet_cifar(target, kBlocks);
}

template <ResnetLayout kLayout>
Result<Graph> resnet(const Target& target) {
  return models::resnet(target, kLayout);
}

constexpr ResnetLayout kResnet18{.blocks = {2, 2, 2, 2}, .bottleneck = false};
constexpr ResnetLayout kResnet34{.blocks = {3, 4, 6, 3}, .bottleneck = false};
constexpr ResnetLayout kResnet50{.blocks = {3, 4, 6, 3}};
constexpr ResnetLayout kResnet101{.blocks = {3, 4, 23, 3}};
constexpr ResnetLayout kResnet152{.blocks = {3, 8, 36, 3}};
constexpr ResnetLayout kResnet269{.blocks = {3, 30, 48, 8}};
constexpr ResnetLayout kResnext50{.blocks = {3, 4, 6, 3}, .groups = 32, .width = 4};
constexpr ResnetLayout kResnext269{.blocks = {3, 30, 48, 8}, .groups = 32, .width = 4};

constexpr Model kModels[] = {
    {{"lenet", kMnist, 10, "LeNet-5 as Caffe trains it (LeCun et al. 1998)"}, models::lenet},
    {{"fcn5", kMnist, 10, "five fully connected layers (Shi et al. 2016)"}, models::fcn5},
    {{"resnet20", kCifar, 10, "ResNet-20 for CIFAR (He et al. 2016)"}, resnet_cifar<3>},
    {{"resnet32", kCifar, 10, "ResNet-32 for CIFAR"}, resnet_cifar<5>},
    {{"resnet56", kCifar, 10, "ResNet-56 for CIFAR"}, resnet_cifar<9>},
    {{"resnet110", kCifar, 10, "ResNet-110 for CIFAR"}, resnet_cifar<18>},
    {{"alexnet", kImagenet, 1000, "AlexNet (Krizhevsky 2014)"}, models::alexnet},
    {{"alexnet_bn", {3, 227, 227}, 1000, "AlexNet with batch normalisation (Jia et al. 2018)"},
     models::alexnet_bn},
    {{"vgg11", kImagenet, 1000, "VGG-11 (Simonyan and Zisserman 2015)"}, vgg<11>},
    {{"vgg16", kImagenet, 1000, "VGG-16"}, vgg<16>},
    {{"vgg19", kImagenet, 1000, "VGG-19"}, vgg<19>},
    {{"googlenet", kImagenet, 1000, "GoogLeNet (Szegedy et al. 2015)"}, models::googlenet},
    {{"inception_v3", {3, 299, 299}, 1000, "Inception-v3 (Szegedy et al. 2016)"},
     models::inception_v3},
    {{"resnet18", kImagenet, 1000, "ResNet-18 (He et al. 2016)"}, resnet<kResnet18>},
    {{"resnet34", kImagenet, 1000, "ResNet-34"}, resnet<kResnet34>},
    {{"resnet50", kImagenet, 1000, "ResNet-50, strides in the 3 x 3 (v1.5)"}, resnet<kResnet50>},
    {{"resnet101", kImagenet, 1000, "ResNet-101"}, resnet<kResnet101>},
    {{"resnet152", kImagenet, 1000, "ResNet-152"}, resnet<kResnet152>},
    {{"resnet269", kImagenet, 1000, "ResNet-269: stages of 3, 30, 48 and 8 blocks"},
     resnet<kResnet269>},
    {{"resnext50_32x4d", kImagenet, 1000, "ResNeXt-50 32x4d (Xie et al. 2017)"},
     resnet<kResnext50>},
    {{"resnext269_32x4d", kImagenet, 1000, "ResNeXt-269 32x4d: ResNet-269's stages"},
     resnet<kResnext269>},
};

std::string names() {
  std::string all;
  for (const Model& model : kModels) {
    if (!all.empty()) all += ", ";
    all += model.info.name;
  }
  return all;
}

bool has_zero_scale(const Graph& graph) {
  const auto& layers = graph.layers();
  return std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
    const auto* norm = std::get_if<BatchNorm>(&layer.kind);
    return norm != nullptr && norm->zero_scale;
  });
}

}  // namespace

std::span<const ModelInfo> model_list() {
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> all;
    for (const Model& model : kModels) all.push_back(model.info);
    return all;
  }();
  return infos;
}

Result<Graph> make_model(std::string_view name, const ModelOptions& options) {
  const auto* model = std::find_if(std::begin(kModels), std::end(kModels),
                                   [&](const Model& each) { return each.info.name == name; });
  if (model == std::end(kModels)) {
    return Status(Code::kInvalidArgument,
                  "model \"" + std::string(name) + "\" is unknown: use one of " + names());
  }
  auto graph =
      model->build({.image = options.image.value_or(model->info.image),
                    .classes = options.classes == 0 ? model->info.classes : options.classes,
                    .zero_gamma = options.zero_gamma});
  if (!graph) return graph.error().with_context("model " + std::string(name));
  if (options.zero_gamma && !has_zero_scale(*graph)) {
    return Status(Code::kInvalidArgument,
                  "model " + std::string(name) + " has no residual blocks: leave zero_gamma out");
  }
  return graph;
}

Graph lenet(std::uint32_t classes) { return *make_model("lenet", {.classes = classes}); }

Graph resnet20(std::uint32_t classes) { return *make_model("resnet20", {.classes = classes}); }

}  // namespace phub::nn
