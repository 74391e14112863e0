#include "worker/nn/network.h"

#include <utility>

#include "common/base/check.h"

namespace phub::nn {

Result<std::unique_ptr<Network>> Network::create(const Graph& graph, Backend& backend,
                                                 const NetworkOptions& options) {
  if (options.batch == 0) {
    return Status(Code::kInvalidArgument, "train.batch is 0: give at least one image for a step");
  }
  std::unique_ptr<Network> network(new Network());
  PHUB_RETURN_IF_ERROR(network->build(graph, backend, options));
  return network;
}

Result<std::unique_ptr<Network>> Network::create(const Graph& graph,
                                                 std::unique_ptr<Backend> backend,
                                                 const NetworkOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto network, create(graph, *backend, options));
  network->own_backend_ = std::move(backend);
  return network;
}

Status Network::build(const Graph& graph, Backend& backend, const NetworkOptions& options) {
  backend_ = &backend;
  batch_ = options.batch;
  for (TensorId id = 0; id < graph.tensors(); ++id) {
    PHUB_ASSIGN_OR_RETURN(auto tensor,
                          backend.make_tensor({.shape = graph.shape(id),
                                               .batch = options.batch,
                                               .gradient = id > 0 || options.input_gradient,
                                               .output = id + 1 == graph.tensors()}));
    tensors_.push_back(std::move(tensor));
  }
  for (const Layer& layer : graph.layers()) {
    const KeyRange keys{static_cast<std::uint32_t>(parameters_.size()),
                        static_cast<std::uint32_t>(layer.parameters.size())};
    parameters_.insert(parameters_.end(), layer.parameters.begin(), layer.parameters.end());
    steps_.push_back({nullptr, keys, {}});
  }
  labels_.reserve(batch_);
  logits_.resize(output_elements());
  logit_gradients_.resize(output_elements());
  gradient_taken_.assign(graph.tensors(), false);
  // Backward order: the last reader of a tensor is the first to write its gradient; the others
  // write to a view, which is then added.
  for (std::size_t index = steps_.size(); index-- > 0;) {
    PHUB_RETURN_IF_ERROR(
        build_step(graph, backend, index).with_context("layer " + graph.layers()[index].name));
  }
  return {};
}

Status Network::build_step(const Graph& graph, Backend& backend, std::size_t index) {
  const Layer& layer = graph.layers()[index];
  Step& step = steps_[index];
  std::vector<Tensor*> inputs;
  for (const TensorId id : layer.inputs) {
    Tensor* tensor = tensors_[id].get();
    if (tensor->has_gradient() && gradient_taken_[id]) {
      PHUB_ASSIGN_OR_RETURN(auto view, backend.make_view(*tensor));
      PHUB_ASSIGN_OR_RETURN(auto accumulate, backend.make_accumulate(*tensor, *view));
      step.accumulate.push_back(std::move(accumulate));
      tensor = view.get();
      views_.push_back(std::move(view));
    }
    gradient_taken_[id] = true;
    inputs.push_back(tensor);
  }
  PHUB_ASSIGN_OR_RETURN(step.op, backend.make_op(layer, inputs, *tensors_[index + 1]));
  return {};
}

FeatureMaps Network::feature_maps() const {
  FeatureMaps bytes;
  for (TensorId id = 0; id < tensors_.size(); ++id) {
    if (id > 0 && steps_[id - 1].op->leaves_output()) continue;
    bytes.values += tensors_[id]->value_bytes();
    if (tensors_[id]->has_gradient()) bytes.gradients += tensors_[id]->value_bytes();
  }
  for (const auto& view : views_) bytes.gradients += view->value_bytes();
  bytes.mapped = backend_->mapped_bytes();
  return bytes;
}

std::vector<StateBuffer> Network::buffers() {
  std::vector<StateBuffer> all;
  for (Step& step : steps_) {
    for (StateBuffer& buffer : step.op->buffers()) all.push_back(std::move(buffer));
  }
  return all;
}

Status Network::bind(std::span<const Binding> bindings) {
  const std::vector<TypedBinding> typed = as_typed(bindings);
  PHUB_RETURN_IF_ERROR(check_bindings(parameters_, {.keys = typed}));
  for (Step& step : steps_) {
    PHUB_RETURN_IF_ERROR(step.op->bind(bindings.subspan(step.keys.first, step.keys.count)));
  }
  return {};
}

Status Network::forward(Mode mode, Hooks& hooks) {
  for (std::size_t layer = 0; layer < steps_.size(); ++layer) {
    Step& step = steps_[layer];
    if (step.keys.count > 0) PHUB_RETURN_IF_ERROR(hooks.weights_needed(step.keys));
    PHUB_RETURN_IF_ERROR(run(LayerPass::kForward, layer, [&] { return step.op->forward(mode); }));
  }
  return {};
}

Status Network::load(std::span<const float> images, const Labels& labels) {
  PHUB_CHECK(labels.size() <= batch_, "at most a label for each image");
  input().write_value(images);
  labels_.assign(labels.first.begin(), labels.first.end());
  second_labels_.assign(labels.second.begin(), labels.second.end());
  shares_.assign(labels.share.begin(), labels.share.end());
  return {};
}

Status Network::read_output(std::span<float> host) {
  output().read_value(host);
  return {};
}

Status Network::start_loss(const LossOptions& options) {
  PHUB_CHECK(labels_.size() == batch_, "a label for each image");
  output().read_value(logits_);
  loss_ =
      softmax_cross_entropy(logits_, {labels_, second_labels_, shares_}, logit_gradients_, options);
  output().write_gradient(logit_gradients_);
  return {};
}

Status Network::backward(Hooks& hooks) {
  if (loss_) {
    const Loss loss = *std::exchange(loss_, std::nullopt);
    PHUB_RETURN_IF_ERROR(hooks.loss_known(loss));
  }
  for (std::size_t layer = steps_.size(); layer-- > 0;) {
    Step& step = steps_[layer];
    PHUB_RETURN_IF_ERROR(run(LayerPass::kBackward, layer, [&] { return step.op->backward(); }));
    if (step.keys.count > 0) PHUB_RETURN_IF_ERROR(hooks.grad_ready(step.keys));
    for (const auto& accumulate : step.accumulate) {
      PHUB_RETURN_IF_ERROR(
          run(LayerPass::kBackward, layer, [&] { return accumulate->backward(); }));
    }
  }
  return {};
}

}  // namespace phub::nn
