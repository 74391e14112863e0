#include "worker/train/stages/stages.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "worker/nn/graph/resize.h"

namespace phub::train {
namespace {

constexpr const char* kProgressive = "data.progressive: ";

std::string pixels_of(const nn::Shape& image) {
  return std::to_string(image.height) + " x " + std::to_string(image.width);
}

Status check_side(std::uint32_t side, const nn::Shape& image) {
  if (image.height != image.width) {
    return {Code::kInvalidArgument, kProgressive +
                                        ("the network takes images of " + pixels_of(image)) +
                                        " pixels, and stages have square ones: remove it, or "
                                        "choose a square model.image"};
  }
  if (side < image.height) return {};
  return {Code::kInvalidArgument, kProgressive + ("side " + std::to_string(side)) +
                                      " is not below the network's images of " + pixels_of(image) +
                                      " pixels, which the last epochs have: lower it"};
}

}  // namespace

Result<std::unique_ptr<Stages>> Stages::create(std::span<const StageOptions> stages,
                                               const nn::Graph& graph,
                                               const data::ImageSets& sets) {
  std::unique_ptr<Stages> made(new Stages);
  for (const StageOptions& each : stages) {
    PHUB_RETURN_IF_ERROR(check_side(each.side, graph.input_shape()));
    auto resized = nn::resize(graph, each.side);
    if (!resized) return resized.error().with_context("data.progressive");
    Stage stage{.end_epoch = each.end_epoch, .graph = std::move(*resized)};
    stage.own_train = sets.train->at_size(each.side, each.side);
    stage.own_test = sets.test->at_size(each.side, each.side);
    if (!stage.own_train || !stage.own_test) {
      return Status(
          Code::kInvalidArgument,
          kProgressive + std::string("the set has images of one size: choose a data.format of "
                                     "encoded images, or remove it"));
    }
    stage.train = stage.own_train.get();
    stage.test = stage.own_test.get();
    made->stages_.push_back(std::move(stage));
  }
  Stage last{.end_epoch = std::numeric_limits<std::uint64_t>::max(), .graph = graph};
  last.train = sets.train.get();
  last.test = sets.test.get();
  made->stages_.push_back(std::move(last));
  made->present_ = made->stages_.size() - 1;
  return made;
}

std::size_t Stages::place_of(std::uint64_t epoch) const {
  const auto place = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& each) { return epoch < each.end_epoch; });
  return static_cast<std::size_t>(place - stages_.begin());
}

Result<std::unique_ptr<nn::Executor>> Stages::make_network(StagedExecutor::Make make) {
  PHUB_ASSIGN_OR_RETURN(auto network,
                        StagedExecutor::create(stages_.back().graph, std::move(make)));
  network_ = network.get();
  return std::unique_ptr<nn::Executor>(std::move(network));
}

Status Stages::begin(std::uint64_t epoch) {
  if (is_begun(epoch)) return {};
  const std::size_t place = place_of(epoch);
  const nn::Graph& graph = stages_[place].graph;
  PHUB_RETURN_IF_ERROR(network_->change_to(graph).with_context(
      kProgressive + ("images of " + pixels_of(graph.input_shape())) + " pixels"));
  present_ = place;
  return {};
}

}  // namespace phub::train
