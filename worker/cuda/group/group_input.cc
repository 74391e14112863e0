#include "worker/cuda/group/group_input.h"

#include "common/base/check.h"
#include "common/base/splitmix.h"

namespace phub::nn::cuda {

std::uint64_t noise_of(std::uint64_t noise, std::size_t rank) {
  return rank == 0 ? noise : splitmix64(noise, rank);
}

void GroupInput::set_noise(std::uint64_t noise) {
  for (std::size_t rank = 0; rank < gpus_.count(); ++rank) {
    gpus_.all()[rank].passes->feed().set_noise(noise_of(noise, rank));
  }
}

Labels GroupInput::labels_of(std::size_t rank, const Labels& labels) const {
  PHUB_CHECK(labels.size() <= batch(), "at most a label for each image");
  const std::size_t part = gpus_.first().options().batch;
  return labels.part(rank * part, part);
}

Status GroupInput::load(std::span<const float> images, const Labels& labels) {
  PHUB_CHECK(images.size() == elements(), "images of a whole batch");
  return gpus_.each([&](std::size_t rank, DevicePasses& passes) {
    const std::size_t part = passes.input_elements();
    return passes.feed().load(images.subspan(rank * part, part), labels_of(rank, labels));
  });
}

Status GroupInput::load_bytes(const ByteImages& images, const Labels& labels) {
  PHUB_CHECK(images.pixels.size() == elements() && images.moves.size() == batch(),
             "images of a whole batch");
  return gpus_.each([&](std::size_t rank, DevicePasses& passes) {
    const std::size_t part = passes.input_elements();
    ByteImages own = images;
    own.pixels = images.pixels.subspan(rank * part, part);
    own.moves = images.moves.subspan(rank * passes.options().batch, passes.options().batch);
    return passes.feed().load_bytes(own, labels_of(rank, labels));
  });
}

}  // namespace phub::nn::cuda
