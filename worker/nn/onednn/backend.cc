#include "worker/nn/onednn/backend.h"

#include <map>
#include <string>

#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

// Declared here and not by <omp.h>, which clang looks for in another OpenMP than oneDNN's.
extern "C" void omp_set_num_threads(int threads);

namespace phub::nn {
namespace onednn {
namespace {

// Runs `make`, turning oneDNN's exception into a Status.
template <typename T, typename Make>
Result<std::unique_ptr<T>> guarded(Make make) {
  try {
    return std::unique_ptr<T>(make());
  } catch (const dnnl::error& error) {
    const bool is_full = error.status == dnnl_out_of_memory;
    return Status(is_full ? Code::kResourceExhausted : Code::kInternal,
                  "oneDNN: " + std::string(error.what()) + " (dnnl_status_t " +
                      std::to_string(static_cast<int>(error.status)) + ")");
  }
}

// Whether this processor has what oneDNN needs for convolutions in bf16, there and back.
bool computes_bfloat16() {
  using dnnl::memory;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto desc = [](memory::dims dims, memory::data_type type) {
      return memory::desc(std::move(dims), type, memory::format_tag::any);
    };
    constexpr auto kType = memory::data_type::bf16;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const memory::desc image = desc({1, 16, 8, 8}, kType);
    const memory::desc weights = desc({16, 16, 3, 3}, kType);
    const memory::dims ones = {1, 1};
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, image, weights, image, ones, ones, ones},
        engine);
    const dnnl::convolution_backward_data::primitive_desc backward(
        {kDirect, image, weights, image, ones, ones, ones}, engine, forward);
    return forward && backward;
  } catch (const dnnl::error&) {
    return false;
  }
}

// Who reads a tensor.
struct Readers {
  std::size_t count = 0;
  SumOp* sum = nullptr;  // the last of them that is a sum
};

// Tensors come from this backend's make_tensor and make_view.
OnednnTensor& own(Tensor& tensor) { return static_cast<OnednnTensor&>(tensor); }

class OnednnBackend : public Backend {
 public:
  explicit OnednnBackend(const BackendOptions& options) : context_(options) {}

  std::string_view name() const override { return "onednn"; }

  Result<std::unique_ptr<Tensor>> make_tensor(const TensorOptions& options) override {
    auto tensor =
        guarded<Tensor>([&] { return std::make_unique<OnednnTensor>(options, context_); });
    // The address may have been that of a tensor which is gone.
    if (tensor) readers_.erase(own(**tensor).value().get_data_handle());
    return tensor;
  }

  std::uint64_t mapped_bytes() const override { return context_.images.taken_bytes(); }

  Result<std::unique_ptr<Tensor>> make_view(Tensor& tensor) override {
    return guarded<Tensor>([&] { return std::make_unique<OnednnTensor>(own(tensor), context_); });
  }

  Result<std::unique_ptr<Op>> make_op(const Layer& layer, std::span<Tensor* const> inputs,
                                      Tensor& output) override {
    std::vector<OnednnTensor*> own_inputs;
    for (Tensor* input : inputs) own_inputs.push_back(&own(*input));
    const auto found = readers_.find(own(output).value().get_data_handle());
    const bool has_one = found != readers_.end() && found->second.count == 1;
    const OpSite site{layer.name, own_inputs, own(output),
                      context_,   noise(),    has_one ? found->second.sum : nullptr};
    auto op = guarded<Op>(
        [&] { return std::visit([&](const auto& kind) { return make(kind, site); }, layer.kind); });
    auto* const sum = op ? dynamic_cast<SumOp*>(op->get()) : nullptr;
    for (const OnednnTensor* input : own_inputs) {
      Readers& readers = readers_[input->value().get_data_handle()];
      ++readers.count;
      if (sum != nullptr) readers.sum = sum;
    }
    return op;
  }

  Result<std::unique_ptr<Op>> make_accumulate(Tensor& tensor, Tensor& view) override {
    return guarded<Op>([&] { return onednn::make_accumulate(own(tensor), own(view), context_); });
  }

 private:
  OnednnContext context_;
  // By the address of a tensor's value. Ops are made from the network's end, so all of a tensor's
  // readers are there when the op that writes it is made.
  std::map<const void*, Readers> readers_;
};

}  // namespace
}  // namespace onednn

Result<std::unique_ptr<Backend>> make_onednn_backend(const BackendOptions& options) {
  constexpr std::uint32_t kMaxThreads = 1024;
  if (options.compute_type == DataType::kFloat16) {
    return Status(Code::kInvalidArgument,
                  "train.compute_type: fp16 is not offered on CPUs; use bf16 or fp32");
  }
  if (options.threads == 0 || options.threads > kMaxThreads) {
    return Status(Code::kInvalidArgument, "train.threads is " + std::to_string(options.threads) +
                                              ": give a number from 1 to 1024");
  }
  omp_set_num_threads(static_cast<int>(options.threads));
  if (options.compute_type == DataType::kBfloat16 && !onednn::computes_bfloat16()) {
    return Status(Code::kInvalidArgument,
                  "train.compute_type: oneDNN has no bf16 kernels for this processor, which would "
                  "need AVX-512; use fp32");
  }
  return onednn::guarded<Backend>([&] { return std::make_unique<onednn::OnednnBackend>(options); });
}

}  // namespace phub::nn
