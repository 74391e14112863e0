#include "worker/train/batch_loading.h"

#include <chrono>
#include <utility>

namespace phub::train {

BatchLoading::BatchLoading(const data::Images& images, const data::BatchOrder& order,
                           const FeedOptions& options, nn::Executor& executor)
    : executor_(executor),
      facts_(images.facts()),
      yields_(options.yields),
      feeder_(images, order,
              {.form = executor.byte_input() == nullptr ? data::Form::kNumbers : data::Form::kBytes,
               .threads = options.threads,
               .ahead = options.ahead,
               .end = options.end,
               .cpus = options.cpus}) {}

nn::ByteImages BatchLoading::bytes_of(const data::Batch& batch,
                                      std::vector<nn::ImageMove>& moves) const {
  moves.clear();
  for (const data::Move& move : batch.moves) moves.push_back({move.down, move.right, move.flip});
  return {batch.bytes, moves, facts_.mean, facts_.deviation};
}

Status BatchLoading::load(std::uint64_t index) {
  if (ahead_.is_begun && ahead_.index == index) return take_ahead();
  forget_ahead();
  PHUB_RETURN_IF_ERROR(feeder_.load(index, batch_));
  if (feeder_.form() == data::Form::kNumbers)
    return executor_.load(batch_.numbers, labels_of(batch_));
  return executor_.byte_input()->load_bytes(bytes_of(batch_, moves_), labels_of(batch_));
}

Status BatchLoading::begin_ahead(std::uint64_t index) {
  forget_ahead();
  nn::ByteInput* const input = executor_.byte_input();
  if (input == nullptr) return {};
  PHUB_ASSIGN_OR_RETURN(const auto pixels, input->pixels_ahead());
  if (pixels.empty()) return {};
  ahead_.batch.bytes = pixels;
  ahead_.index = index;
  ahead_.is_sent = false;
  ahead_.is_begun = true;
  // A thread a batch, for milliseconds of a step's tens. Where there can be no more threads, it is
  // made when it is taken (libstdc++).
  ahead_.made = std::async(std::launch::async | std::launch::deferred,
                           [this, index] { return feeder_.load(index, ahead_.batch); });
  return {};
}

Status BatchLoading::send_ahead() {
  if (!ahead_.is_begun || ahead_.is_sent) return {};
  if (ahead_.made.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
  ahead_.is_sent = true;
  PHUB_RETURN_IF_ERROR(ahead_.made.get());
  return executor_.byte_input()->send_ahead(bytes_of(ahead_.batch, ahead_.moves),
                                            labels_of(ahead_.batch));
}

Status BatchLoading::take_ahead() {
  if (!ahead_.is_sent) {
    ahead_.made.wait();
    PHUB_RETURN_IF_ERROR(send_ahead());
  }
  ahead_.is_begun = false;
  std::swap(batch_.labels, ahead_.batch.labels);
  std::swap(batch_.receipts, ahead_.batch.receipts);
  return executor_.byte_input()->load_ahead();
}

void BatchLoading::forget_ahead() {
  if (!ahead_.is_begun) return;
  if (!ahead_.is_sent) ahead_.made.wait();
  ahead_.is_begun = false;
}

}  // namespace phub::train
