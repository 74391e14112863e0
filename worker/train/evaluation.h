// How well a network does on a data set: loss, top-1, top-5.
//
// Functions; the calling thread is the backend's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"
#include "worker/data/images.h"
#include "worker/nn/executor.h"
#include "worker/train/batch_loading.h"
#include "worker/train/session.h"

namespace phub::train {

struct Evaluation {
  std::uint64_t images = 0;
  double loss = 0.0;                // natural-log cross-entropy, mean over the images
  double top1 = 0.0;                // share of the images, from 0 to 1
  std::optional<double> top5 = {};  // where there are more than five classes
  double seconds = 0.0;
};

// After each batch: the logits [images][classes] of its images, and the share that is done.
using OnEvaluated = std::function<void(std::span<const float> logits, double done)>;

// All images in order, as a test sees them, in inference mode. REQUIRES: bound.
Result<Evaluation> evaluate(nn::Executor& network, const data::Images& images,
                            const FeedOptions& feed, nn::Hooks& hooks,
                            const OnEvaluated& on_evaluated = {});

// Chooses what is evaluated: is told of the test images, whose facts what it returns must have.
using ChooseImages =
    std::function<Result<std::unique_ptr<data::Images>>(const data::ImageFacts& test)>;

// The test images of `options`, or those that `choose` gives, on the parameters and statistics in a
// checkpoint, ours or PyTorch's; without a server. Errors name the field, or the file and its
// tensor, and the cure.
Result<Evaluation> evaluate_checkpoint(const SessionOptions& options,
                                       const std::filesystem::path& checkpoint,
                                       const OnEvaluated& on_evaluated,
                                       const ChooseImages& choose = {});

}  // namespace phub::train
