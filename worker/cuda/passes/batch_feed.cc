#include "worker/cuda/passes/batch_feed.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <variant>

#include "common/base/check.h"
#include "worker/nn/dropout.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<BatchFeed>> BatchFeed::create(Runtime& runtime, const LoweredRunner& runner,
                                                     const Graph& graph, std::uint32_t batch) {
  const Shape& shape = graph.input_shape();
  if (shape.channels > kChannelsMax) {
    return Status(Code::kInvalidArgument, "images of " + std::to_string(shape.channels) +
                                              " channels are not offered on GPUs: use at most 4, "
                                              "or train.backend: \"onednn\"");
  }
  std::unique_ptr<BatchFeed> feed(new BatchFeed(runtime, runner, shape, batch));
  feed->has_dropout_ =
      std::any_of(graph.layers().begin(), graph.layers().end(),
                  [](const Layer& layer) { return std::holds_alternative<Dropout>(layer.kind); });
  for (Slot& slot : feed->slots_) PHUB_RETURN_IF_ERROR(feed->make(slot));
  return feed;
}

BatchFeed::BatchFeed(Runtime& runtime, const LoweredRunner& runner, const Shape& shape,
                     std::uint32_t batch)
    : runtime_(runtime),
      runner_(runner),
      shape_(shape),
      batch_(batch),
      pixels_(batch * shape.elements()) {
  const std::size_t words = batch * sizeof(std::int32_t);
  layout_.shares = pixels_ * sizeof(float);
  layout_.second_labels = layout_.shares + words;
  layout_.labels = layout_.second_labels + words;
  layout_.tops = layout_.labels + words;
  layout_.lefts = layout_.tops + words;
  layout_.flips = layout_.lefts + words;
  layout_.end = layout_.flips + batch;
}

Status BatchFeed::make(Slot& slot) {
  const std::string what = "a batch of images";
  PHUB_ASSIGN_OR_RETURN(slot.pinned, runtime_.pinned_memory(layout_.end, what));
  PHUB_ASSIGN_OR_RETURN(slot.device, runtime_.device_memory(layout_.end, what));
  PHUB_ASSIGN_OR_RETURN(slot.sent, runtime_.make_event());
  PHUB_ASSIGN_OR_RETURN(slot.read, runtime_.make_event());
  const std::size_t keys = runner_.lowered().layers.size() * sizeof(std::uint64_t);
  PHUB_ASSIGN_OR_RETURN(slot.keys, runtime_.pinned_memory(keys, "dropout's keys"));
  PHUB_ASSIGN_OR_RETURN(slot.keys_sent, runtime_.make_event());
  return {};
}

Status BatchFeed::write_labels(const Labels& labels) {
  PHUB_CHECK(labels.size() <= batch_, "at most a label for each image");
  const Block& to = *next().pinned;
  std::ranges::copy(labels.first, to.as<std::int32_t>(layout_.labels));
  std::ranges::copy(labels.second, to.as<std::int32_t>(layout_.second_labels));
  std::ranges::copy(labels.share, to.as<float>(layout_.shares));
  next().labels = labels.size();
  next().is_mixed = labels.are_mixed();
  // The device has read what was in it.
  return runtime_.wait(Stream::kUpload, *next().read);
}

void BatchFeed::write_moves(std::span<const ImageMove> moves) {
  const Block& to = *next().pinned;
  auto* top = to.as<std::int32_t>(layout_.tops);
  auto* left = to.as<std::int32_t>(layout_.lefts);
  auto* flip = to.as<std::uint8_t>(layout_.flips);
  for (const ImageMove& move : moves) {
    *top++ = -move.down;
    *left++ = move.flip ? move.right : -move.right;  // the kernel mirrors the window
    *flip++ = move.flip ? 1 : 0;
  }
}

Status BatchFeed::send(std::size_t from, std::size_t bytes) {
  return runtime_.copy(next().device->as<std::byte>(from), next().pinned->as<std::byte>(from),
                       bytes, Stream::kUpload);
}

Status BatchFeed::load(std::span<const float> images, const Labels& labels) {
  PHUB_CHECK(images.size() == pixels_, "images of a whole batch");
  Slot& to = next();
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(*to.sent));
  std::memcpy(to.pinned->address, images.data(), images.size_bytes());
  PHUB_RETURN_IF_ERROR(write_labels(labels));
  to.is_bytes = false;
  PHUB_RETURN_IF_ERROR(send(0, layout_.labels + labels.size() * sizeof(std::int32_t)));
  PHUB_RETURN_IF_ERROR(runtime_.record(*to.sent, Stream::kUpload));
  to.is_sent = true;
  return load_ahead();
}

Status BatchFeed::load_bytes(const ByteImages& images, const Labels& labels) {
  PHUB_CHECK(images.pixels.size() == pixels_, "images of a whole batch");
  PHUB_ASSIGN_OR_RETURN(const auto to, pixels_ahead());
  std::memcpy(to.data(), images.pixels.data(), to.size());
  ByteImages sent = images;
  sent.pixels = to;
  PHUB_RETURN_IF_ERROR(send_ahead(sent, labels));
  return load_ahead();
}

Result<std::span<std::uint8_t>> BatchFeed::pixels_ahead() {
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(*next().sent));
  next().is_sent = false;
  return std::span(next().pinned->as<std::uint8_t>(), pixels_);
}

Status BatchFeed::send_ahead(const ByteImages& images, const Labels& labels) {
  Slot& to = next();
  PHUB_CHECK(images.pixels.data() == to.pinned->address, "pixels where pixels_ahead said");
  PHUB_CHECK(!to.is_sent, "sent once");
  PHUB_CHECK(images.moves.size() == batch_, "a move for each image");
  PHUB_CHECK(images.mean.size() == shape_.channels && images.deviation.size() == shape_.channels,
             "a mean and a deviation for each channel");
  PHUB_RETURN_IF_ERROR(write_labels(labels));
  write_moves(images.moves);
  std::copy(images.mean.begin(), images.mean.end(), to.mean);
  std::copy(images.deviation.begin(), images.deviation.end(), to.deviation);
  to.is_bytes = true;
  PHUB_RETURN_IF_ERROR(send(0, pixels_));
  const std::size_t rest = to.is_mixed ? layout_.shares : layout_.labels;
  PHUB_RETURN_IF_ERROR(send(rest, layout_.end - rest));
  to.is_sent = true;
  return runtime_.record(*to.sent, Stream::kUpload);
}

Status BatchFeed::load_ahead() {
  PHUB_CHECK(next().is_sent, "sent before it is loaded");
  next().is_sent = false;
  current_ = 1 - current_;
  is_prepared_ = false;
  return {};
}

kernels::cuda::PrepareImages BatchFeed::preparation() {
  const BufferId input = runner_.lowered().input;
  const Dimensions& dimensions = runner_.lowered().buffer(input).dimensions;
  const Slot& from = now();
  kernels::cuda::PrepareImages images{.source = from.device->address,
                                      .top = nullptr,
                                      .left = nullptr,
                                      .flip = nullptr,
                                      .target = runner_.address(input),
                                      .mean = {0.0F, 0.0F, 0.0F, 0.0F},
                                      .deviation = {1.0F, 1.0F, 1.0F, 1.0F},
                                      .bytes = from.is_bytes,
                                      .type = runner_.type_of(input),
                                      .images = batch_,
                                      .source_height = shape_.height,
                                      .source_width = shape_.width,
                                      .channels = shape_.channels,
                                      .height = shape_.height,
                                      .width = shape_.width,
                                      .padded_channels = dimensions[1]};
  if (!from.is_bytes) return images;
  images.top = from.device->as<std::int32_t>(layout_.tops);
  images.left = from.device->as<std::int32_t>(layout_.lefts);
  images.flip = from.device->as<std::uint8_t>(layout_.flips);
  std::copy_n(from.mean, shape_.channels, images.mean);
  std::copy_n(from.deviation, shape_.channels, images.deviation);
  return images;
}

Status BatchFeed::prepare() {
  if (is_prepared_) return {};
  is_prepared_ = true;
  PHUB_RETURN_IF_ERROR(runtime_.wait(Stream::kCompute, *now().sent));
  PHUB_RETURN_IF_ERROR(runtime_.launch(preparation(), Stream::kCompute));
  return runtime_.record(*now().read, Stream::kCompute);
}

Status BatchFeed::labels_were_read() { return runtime_.record(*now().read, Stream::kCompute); }

const std::int32_t* BatchFeed::device_labels() const {
  return slots_[current_].device->as<std::int32_t>(layout_.labels);
}

const std::int32_t* BatchFeed::device_second_labels() const {
  const Slot& from = slots_[current_];
  return from.is_mixed ? from.device->as<std::int32_t>(layout_.second_labels) : nullptr;
}

const float* BatchFeed::device_shares() const {
  const Slot& from = slots_[current_];
  return from.is_mixed ? from.device->as<float>(layout_.shares) : nullptr;
}

Status BatchFeed::send_noise() {
  if (!has_dropout_ || sent_noise_ == noise_) return {};
  Slot& from = slots_[++noises_ % 2];
  PHUB_RETURN_IF_ERROR(runtime_.synchronise(*from.keys_sent));
  auto* keys = from.keys->as<std::uint64_t>();
  const std::vector<std::string>& layers = runner_.lowered().layers;
  // The ratio decides the threshold, not the key.
  for (std::size_t i = 0; i < layers.size(); ++i)
    keys[i] = DropoutMask(noise_, layers[i], 0.0F).key();
  PHUB_RETURN_IF_ERROR(runtime_.copy(runner_.dropout_keys(), keys,
                                     layers.size() * sizeof(std::uint64_t), Stream::kCompute));
  sent_noise_ = noise_;
  return runtime_.record(*from.keys_sent, Stream::kCompute);
}

}  // namespace phub::nn::cuda
