// Pooling, which cuDNN calls resampling.
#include <cudnn_graph.h>

#include <array>
#include <memory>
#include <utility>

#include "worker/cuda/cudnn/operations.h"

namespace phub::nn::cuda {
namespace {

cudnnResampleMode_t cudnn_mode(PoolMode mode) {
  switch (mode) {
    case PoolMode::kMax:
      return CUDNN_RESAMPLE_MAXPOOL;
    case PoolMode::kAverageWithPadding:
      return CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
    case PoolMode::kAverageWithoutPadding:
      return CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  }
  return CUDNN_RESAMPLE_MAXPOOL;
}

Result<const CudnnDescriptor*> keep_window(const OperationBuilder& builder, PoolMode mode,
                                           const Window2d& window) {
  auto part = std::make_unique<CudnnDescriptor>(builder.library, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  const auto fractions = [&part](cudnnBackendAttributeName_t name, const Pair& pair) {
    const std::array<cudnnFraction_t, 2> values = {{{pair[0], 1}, {pair[1], 1}}};
    part->set(name, CUDNN_TYPE_FRACTION, 2, values.data());
  };
  part->set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, cudnn_mode(mode))
      .type(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE,
           mode == PoolMode::kMax ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD)
      .integer(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 2);
  fractions(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, window.size);
  fractions(CUDNN_ATTR_RESAMPLE_STRIDES, window.stride);
  fractions(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, window.pad_before);
  fractions(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, window.pad_after);
  return builder.keep(std::move(part), "pooling window");
}

}  // namespace

OperationBuilder::Built OperationBuilder::operator()(const PoolForwardOp& op) const {
  PHUB_ASSIGN_OR_RETURN(const CudnnDescriptor* kept, keep_window(*this, op.mode, op.window));
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  operation->descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, tensor(op.x))
      .descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, tensor(op.y))
      .descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, *kept);
  if (op.index != op.x) {
    operation->descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, tensor(op.index));
  }
  PHUB_RETURN_IF_ERROR(operation->finalize("pooling"));
  return operation;
}

OperationBuilder::Built OperationBuilder::operator()(const PoolBackwardOp& op) const {
  PHUB_ASSIGN_OR_RETURN(const CudnnDescriptor* kept, keep_window(*this, op.mode, op.window));
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  operation->descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, tensor(op.dy))
      .descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, tensor(op.dx))
      .descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, *kept);
  if (op.index != op.dy) {
    operation->descriptor(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, tensor(op.index));
  }
  PHUB_RETURN_IF_ERROR(operation->finalize("backward of pooling"));
  return operation;
}

}  // namespace phub::nn::cuda
