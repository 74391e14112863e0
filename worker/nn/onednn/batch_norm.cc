#include <algorithm>

#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

using dnnl::normalization_flags;
using Memory = dnnl::memory;

// oneDNN wants scale and shift as one array [2][channels]; they are two keys of the exchange.
class BatchNormOp : public Op {
 public:
  BatchNormOp(const std::string& name, const BatchNorm& layer, OnednnTensor& input,
              OnednnTensor& output, Context& context)
      : context_(context), name_(name), momentum_(layer.momentum), relu_(layer.relu) {
    const Memory::dim channels = input.shape().channels;
    channels_ = input.shape().channels;
    images_pixels_ = static_cast<float>(input.batch()) *
                     static_cast<float>(input.shape().height * input.shape().width);
    const Memory::desc statistics({channels}, Memory::data_type::f32, Memory::format_tag::a);
    const Memory::desc pair({2, channels}, Memory::data_type::f32, Memory::format_tag::nc);
    for (Memory* memory : {&mean_, &variance_, &running_mean_, &running_variance_}) {
      *memory = Memory(statistics, context.engine);
    }
    scale_shift_ = Memory(pair, context.engine);
    scale_shift_gradient_ = Memory(pair, context.engine);
    std::fill_n(floats(running_mean_), channels_, 0.0F);
    std::fill_n(floats(running_variance_), channels_, 1.0F);
    make_calls(layer, input, output);
  }

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.size() == 2, "scale and shift");
    std::copy(bindings.begin(), bindings.end(), bindings_);
    return {};
  }

  Status forward(Mode mode) override {
    for (std::size_t i = 0; i < 2; ++i) {
      std::copy_n(bindings_[i].parameter.data(), channels_, floats(scale_shift_) + i * channels_);
    }
    if (mode == Mode::kInference) return inference_.run(context_);
    PHUB_RETURN_IF_ERROR(training_.run(context_));
    // The running variance is that of an unbiased estimate, as in PyTorch.
    const float unbiased = images_pixels_ > 1.0F ? images_pixels_ / (images_pixels_ - 1.0F) : 1.0F;
    for (std::size_t c = 0; c < channels_; ++c) {
      float& mean = floats(running_mean_)[c];
      float& variance = floats(running_variance_)[c];
      mean += momentum_ * (floats(mean_)[c] - mean);
      variance += momentum_ * (floats(variance_)[c] * unbiased - variance);
    }
    return {};
  }

  Status backward() override {
    PHUB_RETURN_IF_ERROR(backward_.run(context_));
    for (std::size_t i = 0; i < 2; ++i) {
      std::copy_n(floats(scale_shift_gradient_) + i * channels_, channels_,
                  bindings_[i].gradient.data());
    }
    return {};
  }

  std::vector<Buffer> buffers() override {
    return {{name_ + ".running_mean", {floats(running_mean_), channels_}},
            {name_ + ".running_var", {floats(running_variance_), channels_}}};
  }

 private:
  static float* floats(const Memory& memory) {
    return static_cast<float*>(memory.get_data_handle());
  }

  template <typename PrimitiveDesc>
  Memory scratchpad(const PrimitiveDesc& desc) {
    return context_.scratchpad.view(desc.scratchpad_desc(), context_.engine);
  }

  void make_calls(const BatchNorm& layer, const OnednnTensor& input, const OnednnTensor& output) {
    normalization_flags flags = normalization_flags::use_scale_shift;
    if (relu_) flags |= normalization_flags::fuse_norm_relu;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const Memory::desc image = image_desc(input.batch(), input.shape());
    const dnnl::batch_normalization_forward::primitive_desc training(
        {dnnl::prop_kind::forward_training, image, layer.epsilon, flags}, attr, context_.engine);
    const dnnl::batch_normalization_forward::primitive_desc inference(
        {dnnl::prop_kind::forward_inference, image, layer.epsilon,
         flags | normalization_flags::use_global_stats},
        attr, context_.engine);
    const dnnl::batch_normalization_backward::primitive_desc backward(
        {dnnl::prop_kind::backward, image, image, layer.epsilon, flags}, attr, context_.engine,
        training);
    Memory workspace;  // the ReLU's mask
    if (relu_) workspace = Memory(training.workspace_desc(), context_.engine);
    Memory input_gradient = input.gradient();
    if (!input.has_gradient()) input_gradient = Memory(image, context_.engine);
    training_ = Call(dnnl::batch_normalization_forward(training),
                     {{DNNL_ARG_SRC, input.value()},
                      {DNNL_ARG_SCALE_SHIFT, scale_shift_},
                      {DNNL_ARG_MEAN, mean_},
                      {DNNL_ARG_VARIANCE, variance_},
                      {DNNL_ARG_DST, output.value()},
                      {DNNL_ARG_WORKSPACE, workspace},
                      {DNNL_ARG_SCRATCHPAD, scratchpad(training)}});
    inference_ = Call(dnnl::batch_normalization_forward(inference),
                      {{DNNL_ARG_SRC, input.value()},
                       {DNNL_ARG_SCALE_SHIFT, scale_shift_},
                       {DNNL_ARG_MEAN, running_mean_},
                       {DNNL_ARG_VARIANCE, running_variance_},
                       {DNNL_ARG_DST, output.value()},
                       {DNNL_ARG_SCRATCHPAD, scratchpad(inference)}});
    backward_ = Call(dnnl::batch_normalization_backward(backward),
                     {{DNNL_ARG_SRC, input.value()},
                      {DNNL_ARG_SCALE_SHIFT, scale_shift_},
                      {DNNL_ARG_MEAN, mean_},
                      {DNNL_ARG_VARIANCE, variance_},
                      {DNNL_ARG_DIFF_DST, output.gradient()},
                      {DNNL_ARG_WORKSPACE, workspace},
                      {DNNL_ARG_DIFF_SRC, input_gradient},
                      {DNNL_ARG_DIFF_SCALE_SHIFT, scale_shift_gradient_},
                      {DNNL_ARG_SCRATCHPAD, scratchpad(backward)}});
  }

  Context& context_;
  std::string name_;
  float momentum_;
  bool relu_;
  std::size_t channels_ = 0;
  float images_pixels_ = 0.0F;
  Memory mean_, variance_, running_mean_, running_variance_;
  Memory scale_shift_, scale_shift_gradient_;
  Binding bindings_[2];
  Call training_, inference_, backward_;
};

}  // namespace

std::unique_ptr<Op> make_batch_norm(const std::string& name, const BatchNorm& layer,
                                    OnednnTensor& input, OnednnTensor& output, Context& context) {
  return std::make_unique<BatchNormOp>(name, layer, input, output, context);
}

}  // namespace phub::nn::onednn
