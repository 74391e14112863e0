#include "worker/data/feed/deliveries.h"

#include <utility>

namespace phub::data {

void Deliveries::add(std::uint64_t index, std::span<const Receipt> receipts) {
  if (!std::exchange(is_begun_, true)) {
    const std::uint64_t begin = order_.batch_end(index) - order_.global_batch();
    now_.epoch = order_.epoch_at(begin);
    next_.epoch = now_.epoch + 1;
    is_cut_ = begin % order_.images() > 0;
  }
  end_ = order_.batch_end(index);
  std::uint32_t slot = 0;
  for (const Receipt& receipt : receipts) {
    const std::uint64_t epoch = order_.epoch_at(order_.position(index, slot++));
    if (receipt.origin == Origin::kUntold) continue;
    EpochDeliveries& of = epoch == now_.epoch ? now_ : next_;
    of.sum += receipt.hash;
    of.own += receipt.origin == Origin::kOwnMemory ? 1 : 0;
    of.peer += receipt.origin == Origin::kPeer ? 1 : 0;
    of.source += receipt.origin == Origin::kSource ? 1 : 0;
  }
}

std::optional<EpochDeliveries> Deliveries::take_over() {
  if (!is_begun_ || order_.epoch_at(end_) == now_.epoch) return std::nullopt;
  EpochDeliveries over = std::exchange(now_, std::exchange(next_, {}));
  next_.epoch = now_.epoch + 1;
  over.is_whole = !std::exchange(is_cut_, false);
  return over;
}

std::optional<EpochDeliveries> Deliveries::rest() const {
  return now_.samples() > 0 ? std::optional(now_) : std::nullopt;
}

}  // namespace phub::data
