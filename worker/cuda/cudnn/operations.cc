#include "worker/cuda/cudnn/operations.h"

#include <cudnn_graph.h>

#include <memory>
#include <utility>

namespace phub::nn::cuda {
namespace {

cudnnPointwiseMode_t cudnn_mode(PointwiseMode mode) {
  switch (mode) {
    case PointwiseMode::kAdd:
      return CUDNN_POINTWISE_ADD;
    case PointwiseMode::kSubtract:
      return CUDNN_POINTWISE_SUB;
    case PointwiseMode::kMultiply:
      return CUDNN_POINTWISE_MUL;
    case PointwiseMode::kRelu:
      return CUDNN_POINTWISE_RELU_FWD;
    case PointwiseMode::kReluBackward:
      return CUDNN_POINTWISE_RELU_BWD;
  }
  return CUDNN_POINTWISE_IDENTITY;
}

OperationBuilder::Built finished(DescriptorPointer operation, const char* what) {
  PHUB_RETURN_IF_ERROR(operation->finalize(what));
  return operation;
}

// What the three directions of a convolution call their attributes.
struct ConvolutionNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t image, weights, output, convolution, alpha, beta;
};

ConvolutionNames names_of(ConvolutionOp::Direction direction) {
  switch (direction) {
    case ConvolutionOp::Direction::kForward:
      break;
    case ConvolutionOp::Direction::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionOp::Direction::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

}  // namespace

Result<const CudnnDescriptor*> OperationBuilder::keep(DescriptorPointer part,
                                                      const char* what) const {
  PHUB_RETURN_IF_ERROR(part->finalize(what));
  parts.push_back(std::move(part));
  return parts.back().get();
}

OperationBuilder::Built OperationBuilder::operator()(const ConvolutionOp& op) const {
  constexpr Pair kDilations = {1, 1};
  auto window = std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window->integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2)
      .type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, op.window.pad_before)
      .integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, op.window.pad_after)
      .integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, op.window.stride)
      .integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, kDilations);
  PHUB_ASSIGN_OR_RETURN(const CudnnDescriptor* kept, keep(std::move(window), "window"));
  const ConvolutionNames names = names_of(op.direction);
  auto operation = std::make_unique<CudnnDescriptor>(library, names.type);
  operation->descriptor(names.image, tensor(op.image))
      .descriptor(names.weights, tensor(op.weights))
      .descriptor(names.output, tensor(op.output))
      .descriptor(names.convolution, *kept)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  return finished(std::move(operation), "convolution");
}

OperationBuilder::Built OperationBuilder::operator()(const PointwiseOp& op) const {
  auto mode = std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  mode->set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, cudnn_mode(op.mode))
      .type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  PHUB_ASSIGN_OR_RETURN(const CudnnDescriptor* kept, keep(std::move(mode), "pointwise mode"));
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation->descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *kept);
  if (op.mode == PointwiseMode::kReluBackward) {
    operation->descriptor(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, tensor(op.first))
        .descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(op.second))
        .descriptor(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, tensor(op.output));
    return finished(std::move(operation), "relu backward");
  }
  operation->descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(op.first))
      .descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(op.output));
  if (op.mode != PointwiseMode::kRelu) {
    operation->descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(op.second));
  }
  return finished(std::move(operation), "pointwise operation");
}

OperationBuilder::Built OperationBuilder::operator()(const MatmulOp& op) const {
  auto matmul = std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul->type(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  PHUB_ASSIGN_OR_RETURN(const CudnnDescriptor* kept, keep(std::move(matmul), "matmul type"));
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation->descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(op.a))
      .descriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(op.b))
      .descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensor(op.c))
      .descriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, *kept);
  return finished(std::move(operation), "matmul");
}

}  // namespace phub::nn::cuda
