#include "worker/train/batch_loading.h"

#include <algorithm>

namespace phub::train {

Status BatchLoading::load(data::Loader& loader, std::uint64_t epoch, std::uint64_t step,
                          nn::Program& program) {
  if (program.loads_bytes()) {
    loader.load(epoch, step, bytes_);
    labels_ = bytes_.labels;
    return send(loader.dataset(), program);
  }
  loader.load(epoch, step, reals_);
  labels_ = reals_.labels;
  return program.load(reals_.images, labels_);
}

Status BatchLoading::load_in_order(const data::Dataset& dataset, std::size_t first,
                                   nn::Program& program) {
  const std::size_t images = std::min<std::size_t>(program.batch(), dataset.images() - first);
  if (program.loads_bytes()) {
    bytes_.labels.resize(program.batch());
    data::load_in_order(dataset, first, bytes_);
    labels_ = std::span<const nn::Label>(bytes_.labels).first(images);
    return send(dataset, program);
  }
  reals_.labels.resize(program.batch());
  data::load_in_order(dataset, first, reals_);
  labels_ = std::span<const nn::Label>(reals_.labels).first(images);
  return program.load(reals_.images, labels_);
}

Status BatchLoading::send(const data::Dataset& dataset, nn::Program& program) {
  moves_.clear();
  for (const data::ByteBatch::Move& move : bytes_.moves) {
    moves_.push_back({move.down, move.right, move.flip});
  }
  return program.load_bytes({bytes_.pixels, moves_, dataset.mean, dataset.deviation}, labels_);
}

}  // namespace phub::train
