// Tensors of the reference backend: NHWC arrays of T. Used by the backend's thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "worker/nn/ops.h"

namespace phub::nn::reference {

template <typename T>
class ReferenceTensor : public nn::Tensor {
 public:
  explicit ReferenceTensor(const TensorOptions& options)
      : options_(options),
        value_(std::make_shared<std::vector<T>>(options.batch * options.shape.elements())),
        gradient_(options.gradient ? elements() : 0) {}
  // A view: the same value, a gradient of its own.
  explicit ReferenceTensor(const ReferenceTensor* other)
      : options_(other->options_), value_(other->value_), gradient_(other->elements()) {
    options_.gradient = true;
  }

  std::size_t elements() const override { return value_->size(); }
  bool has_gradient() const override { return options_.gradient; }
  void write_value(std::span<const float> host) override { copy(host, value()); }
  void read_value(std::span<float> host) const override { copy(value(), host); }
  void write_gradient(std::span<const float> host) override { copy(host, gradient()); }
  void read_gradient(std::span<float> host) const override { copy(gradient(), host); }

  const Shape& shape() const { return options_.shape; }
  std::size_t batch() const { return options_.batch; }
  std::size_t pixels() const { return batch() * shape().height * shape().width; }
  std::span<T> value() { return *value_; }
  std::span<const T> value() const { return *value_; }
  // REQUIRES: has_gradient.
  std::span<T> gradient() {
    PHUB_CHECK(has_gradient(), "the tensor has a gradient");
    return gradient_;
  }
  std::span<const T> gradient() const {
    PHUB_CHECK(has_gradient(), "the tensor has a gradient");
    return gradient_;
  }

  // Where the channels of a pixel begin.
  std::size_t offset(std::size_t image, std::size_t row, std::size_t column) const {
    return ((image * shape().height + row) * shape().width + column) * shape().channels;
  }

 private:
  template <typename From, typename To>
  static void copy(std::span<From> from, std::span<To> to) {
    PHUB_CHECK(from.size() == to.size(), "host and tensor have the same elements");
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<To>(from[i]);
  }

  TensorOptions options_;
  std::shared_ptr<std::vector<T>> value_;
  std::vector<T> gradient_;
};

// What a layer reads and writes. Both outlive its op.
template <typename T>
struct Ends {
  ReferenceTensor<T>& input;
  ReferenceTensor<T>& output;
};

}  // namespace phub::nn::reference
