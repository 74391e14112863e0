#include "worker/train/batch_loading.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace phub::train {
namespace {

nn::ByteImages images_of(const data::Dataset& dataset, const data::ByteBatch& batch,
                         std::vector<nn::ImageMove>& moves) {
  moves.clear();
  for (const data::ByteBatch::Move& move : batch.moves) {
    moves.push_back({move.down, move.right, move.flip});
  }
  return {batch.pixels, moves, dataset.mean, dataset.deviation};
}

}  // namespace

Status BatchLoading::load(data::Loader& loader, std::uint64_t epoch, std::uint64_t step,
                          nn::Executor& executor) {
  if (ahead_.dataset != nullptr && ahead_.epoch == epoch && ahead_.step == step) {
    return take_ahead(executor);
  }
  forget_ahead();
  if (nn::ByteInput* const input = executor.byte_input()) {
    own_pixels(loader.dataset(), executor.batch());
    loader.load(epoch, step, bytes_.batch);
    labels_ = bytes_.batch.labels;
    return send(loader.dataset(), *input);
  }
  loader.load(epoch, step, reals_);
  labels_ = reals_.labels;
  return executor.load(reals_.images, labels_);
}

Status BatchLoading::load_in_order(const data::Dataset& dataset, std::size_t first,
                                   nn::Executor& executor) {
  forget_ahead();
  const std::size_t images = std::min<std::size_t>(executor.batch(), dataset.images() - first);
  if (nn::ByteInput* const input = executor.byte_input()) {
    own_pixels(dataset, executor.batch());
    bytes_.batch.labels.resize(executor.batch());
    data::load_in_order(dataset, first, bytes_.batch);
    labels_ = std::span<const nn::Label>(bytes_.batch.labels).first(images);
    return send(dataset, *input);
  }
  reals_.labels.resize(executor.batch());
  data::load_in_order(dataset, first, reals_);
  labels_ = std::span<const nn::Label>(reals_.labels).first(images);
  return executor.load(reals_.images, labels_);
}

void BatchLoading::own_pixels(const data::Dataset& dataset, std::uint32_t batch) {
  pixels_.resize(batch * dataset.image_bytes());
  bytes_.batch.pixels = pixels_;
}

Status BatchLoading::send(const data::Dataset& dataset, nn::ByteInput& input) {
  return input.load_bytes(images_of(dataset, bytes_.batch, bytes_.moves), labels_);
}

Status BatchLoading::begin_ahead(data::Loader& loader, std::uint64_t epoch, std::uint64_t step,
                                 nn::Executor& executor) {
  forget_ahead();
  nn::ByteInput* const input = executor.byte_input();
  if (input == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(const auto pixels, input->pixels_ahead());
  if (pixels.empty()) return {};
  ahead_.bytes.batch.pixels = pixels;
  ahead_.dataset = &loader.dataset();
  ahead_.epoch = epoch;
  ahead_.step = step;
  ahead_.is_sent = false;
  // A thread a batch, for milliseconds of a step's tens. Where there can be no more threads, it is
  // made when it is taken (libstdc++).
  ahead_.made =
      std::async(std::launch::async | std::launch::deferred,
                 [this, &loader, epoch, step] { loader.load(epoch, step, ahead_.bytes.batch); });
  return {};
}

Status BatchLoading::send_ahead(nn::Executor& executor) {
  if (ahead_.dataset == nullptr || ahead_.is_sent) return {};
  if (ahead_.made.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
  ahead_.is_sent = true;
  return executor.byte_input()->send_ahead(
      images_of(*ahead_.dataset, ahead_.bytes.batch, ahead_.bytes.moves),
      ahead_.bytes.batch.labels);
}

Status BatchLoading::take_ahead(nn::Executor& executor) {
  ahead_.made.wait();
  PHUB_RETURN_IF_ERROR(send_ahead(executor));
  ahead_.dataset = nullptr;
  std::swap(bytes_, ahead_.bytes);
  labels_ = bytes_.batch.labels;
  return executor.byte_input()->load_ahead();
}

void BatchLoading::forget_ahead() {
  if (ahead_.dataset == nullptr) return;
  ahead_.made.wait();
  ahead_.dataset = nullptr;
}

}  // namespace phub::train
