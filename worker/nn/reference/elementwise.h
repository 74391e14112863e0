// What moves, adds and masks elements: ReLU, sums, concatenation, dropout, the plain shortcut.
#pragma once

#include <algorithm>
#include <vector>

#include "worker/nn/dropout.h"
#include "worker/nn/reference/tensor.h"

namespace phub::nn::reference {

template <typename T>
class ReluOp : public Op {
 public:
  explicit ReluOp(const Ends<T>& ends) : in_(ends.input), out_(ends.output) {}

  Status forward(Mode) override {
    for (std::size_t i = 0; i < out_.elements(); ++i) {
      out_.value()[i] = std::max(in_.value()[i], T{0});
    }
    return {};
  }
  Status backward() override {
    if (!in_.has_gradient()) return {};
    for (std::size_t i = 0; i < out_.elements(); ++i) {
      in_.gradient()[i] = out_.value()[i] > T{0} ? out_.gradient()[i] : T{0};
    }
    return {};
  }

 private:
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
};

template <typename T>
class AddOp : public Op {
 public:
  AddOp(const Add& layer, std::span<ReferenceTensor<T>* const> inputs, ReferenceTensor<T>& output)
      : relu_(layer.relu), inputs_(inputs.begin(), inputs.end()), out_(output) {}

  Status forward(Mode) override {
    for (std::size_t i = 0; i < out_.elements(); ++i) {
      const T sum = inputs_[0]->value()[i] + inputs_[1]->value()[i];
      out_.value()[i] = relu_ ? std::max(sum, T{0}) : sum;
    }
    return {};
  }
  Status backward() override {
    for (ReferenceTensor<T>* input : inputs_) {
      if (!input->has_gradient()) continue;
      for (std::size_t i = 0; i < out_.elements(); ++i) {
        const bool passes = !relu_ || out_.value()[i] > T{0};
        input->gradient()[i] = passes ? out_.gradient()[i] : T{0};
      }
    }
    return {};
  }

 private:
  bool relu_;
  std::vector<ReferenceTensor<T>*> inputs_;
  ReferenceTensor<T>& out_;
};

template <typename T>
class ConcatOp : public Op {
 public:
  ConcatOp(std::span<ReferenceTensor<T>* const> inputs, ReferenceTensor<T>& output)
      : inputs_(inputs.begin(), inputs.end()), out_(output) {}

  Status forward(Mode) override {
    for_each_element([&](ReferenceTensor<T>& input, std::size_t from, std::size_t to) {
      out_.value()[to] = input.value()[from];
    });
    return {};
  }
  Status backward() override {
    for_each_element([&](ReferenceTensor<T>& input, std::size_t from, std::size_t to) {
      if (input.has_gradient()) input.gradient()[from] = out_.gradient()[to];
    });
    return {};
  }

 private:
  // Calls visit(input, index in it, index in the output).
  template <typename Visit>
  void for_each_element(Visit visit) const {
    std::size_t first = 0;
    for (ReferenceTensor<T>* input : inputs_) {
      const std::size_t channels = input->shape().channels;
      for (std::size_t i = 0; i < input->elements(); ++i) {
        visit(*input, i, i / channels * out_.shape().channels + first + i % channels);
      }
      first += channels;
    }
  }

  std::vector<ReferenceTensor<T>*> inputs_;
  ReferenceTensor<T>& out_;
};

template <typename T>
class DropoutOp : public Op {
 public:
  DropoutOp(const std::string& name, const Dropout& layer, const Ends<T>& ends,
            const std::uint64_t& noise)
      : name_(name), ratio_(layer.ratio), in_(ends.input), out_(ends.output), noise_(noise) {}

  Status forward(Mode mode) override {
    forward_noise_ = noise_;
    if (mode == Mode::kTraining) {
      apply(in_.value(), out_.value());
    } else {
      std::copy(in_.value().begin(), in_.value().end(), out_.value().begin());
    }
    return {};
  }
  Status backward() override {
    if (in_.has_gradient()) apply(out_.gradient(), in_.gradient());
    return {};
  }

 private:
  void apply(std::span<const T> from, std::span<T> to) const {
    const DropoutMask mask(forward_noise_, name_, ratio_);
    const T scale = T{1} / (T{1} - static_cast<T>(ratio_));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = mask.keeps(i) ? from[i] * scale : T{0};
  }

  std::string name_;
  float ratio_;
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
  const std::uint64_t& noise_;
  std::uint64_t forward_noise_ = 0;
};

template <typename T>
class SubsampleOp : public Op {
 public:
  SubsampleOp(const Subsample& layer, const Ends<T>& ends)
      : stride_(layer.stride), in_(ends.input), out_(ends.output) {}

  Status forward(Mode) override {
    std::fill(out_.value().begin(), out_.value().end(), T{0});
    for_each_kept([&](std::size_t from, std::size_t to) { out_.value()[to] = in_.value()[from]; });
    return {};
  }
  Status backward() override {
    if (!in_.has_gradient()) return {};
    std::fill(in_.gradient().begin(), in_.gradient().end(), T{0});
    for_each_kept(
        [&](std::size_t from, std::size_t to) { in_.gradient()[from] = out_.gradient()[to]; });
    return {};
  }

 private:
  template <typename Visit>
  void for_each_kept(Visit visit) const {
    const std::size_t before = (out_.shape().channels - in_.shape().channels) / 2;
    for (std::size_t image = 0; image < out_.batch(); ++image) {
      for (std::size_t row = 0; row < out_.shape().height; ++row) {
        for (std::size_t column = 0; column < out_.shape().width; ++column) {
          const std::size_t from = in_.offset(image, row * stride_, column * stride_);
          const std::size_t to = out_.offset(image, row, column) + before;
          for (std::size_t c = 0; c < in_.shape().channels; ++c) visit(from + c, to + c);
        }
      }
    }
  }

  std::size_t stride_;
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
};

template <typename T>
class AccumulateOp : public Op {
 public:
  AccumulateOp(ReferenceTensor<T>& tensor, ReferenceTensor<T>& view)
      : tensor_(tensor), view_(view) {}

  Status forward(Mode) override { return {}; }
  Status backward() override {
    for (std::size_t i = 0; i < tensor_.elements(); ++i) {
      tensor_.gradient()[i] += view_.gradient()[i];
    }
    return {};
  }

 private:
  ReferenceTensor<T>& tensor_;
  ReferenceTensor<T>& view_;
};

}  // namespace phub::nn::reference
