// Makes batches of a set in an order: normalised numbers, or bytes for a device that moves and
// normalises them itself. Mixed images are moved here in both forms, so the device is told no
// moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/feed/order.h"
#include "worker/data/images.h"

namespace phub::data {

enum class Form { kNumbers, kBytes };

struct Batch {
  std::vector<float> numbers;  // [image][row][column][channel], moved and normalised
  // Or bytes, as the set has them, which are still to be moved.
  std::vector<std::uint8_t> own_bytes;
  std::span<std::uint8_t> bytes;  // own_bytes, or memory of who asks for the batch
  std::vector<Move> moves;        // [image]
  std::vector<std::uint16_t> labels;
  // Only where the order mixes: the label of the image that this one is mixed with, and the share
  // of the own label.
  std::vector<std::uint16_t> second_labels;
  std::vector<float> shares;
  std::vector<Receipt> receipts;  // [image]
};

// Any thread may call, with a reader of its own. The set and the order outlive the maker.
class BatchMaker {
 public:
  BatchMaker(const Images& images, const BatchOrder& order, Form form);

  // Gives a batch its memory. `bytes` stays where it has the size already.
  void prepare(Batch& batch) const;
  // Makes the images [first, first + count) of batch `index`. Parts of one batch may be made by
  // several threads at a time. Errors: the reader's. REQUIRES: prepare; even numbers where the
  // order mixes.
  Status make(ImageReader& reader, std::uint64_t index, std::uint32_t first, std::uint32_t count,
              Batch& batch) const;

  const Images& images() const { return images_; }
  const BatchOrder& order() const { return order_; }
  Form form() const { return form_; }

 private:
  Status make_pairs(ImageReader& reader, std::uint64_t index, std::uint32_t first,
                    std::uint32_t count, Batch& batch) const;
  // Calls `visit` with each pixel of the moved image, null for a black one.
  template <typename Visit>
  void for_each_pixel(const Image& image, const Move& move, Visit visit) const;
  void move_bytes(const Image& image, const Move& move, std::span<std::uint8_t> out) const;
  void write(const Image& image, const Move& move, std::span<float> out) const;

  const Images& images_;
  const BatchOrder& order_;
  Form form_;
  std::vector<float> normalised_;  // [channel][pixel value]
};

}  // namespace phub::data
