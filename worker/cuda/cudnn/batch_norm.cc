// The operations of batch normalisation.
#include <cudnn_graph.h>

#include <memory>
#include <utility>

#include "worker/cuda/cudnn/operations.h"

namespace phub::nn::cuda {

OperationBuilder::Built OperationBuilder::operator()(const GenerateStatisticsOp& op) const {
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  operation
      ->set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
      .type(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .descriptor(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, tensor(op.x))
      .descriptor(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensor(op.sum))
      .descriptor(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensor(op.sum_of_squares));
  PHUB_RETURN_IF_ERROR(operation->finalize("statistics"));
  return operation;
}

OperationBuilder::Built OperationBuilder::operator()(const BatchNormForwardOp& op) const {
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation->set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING)
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, tensor(op.x))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, tensor(op.scale))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, tensor(op.bias))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, tensor(op.epsilon))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, tensor(op.momentum))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, tensor(op.running_mean))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, tensor(op.running_variance))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                  tensor(op.next_running_mean))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
                  tensor(op.next_running_variance))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, tensor(op.mean))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, tensor(op.inverse_deviation))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, tensor(op.y));
  PHUB_RETURN_IF_ERROR(operation->finalize("batch normalisation"));
  return operation;
}

OperationBuilder::Built OperationBuilder::operator()(const BatchNormBackwardOp& op) const {
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  operation->set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, tensor(op.x))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, tensor(op.dy))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, tensor(op.scale))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, tensor(op.mean))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, tensor(op.inverse_deviation))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, tensor(op.dscale))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, tensor(op.dbias))
      .descriptor(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, tensor(op.dx));
  PHUB_RETURN_IF_ERROR(operation->finalize("backward of batch normalisation"));
  return operation;
}

OperationBuilder::Built OperationBuilder::operator()(const BatchNormBackwardWeightsOp& op) const {
  auto operation =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
  operation->type(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT)
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, tensor(op.mean))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, tensor(op.inverse_deviation))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, tensor(op.scale))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, tensor(op.x))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, tensor(op.dy))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, tensor(op.dscale))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, tensor(op.dbias))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, tensor(op.dy_factor))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, tensor(op.x_factor))
      .descriptor(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, tensor(op.constant));
  PHUB_RETURN_IF_ERROR(operation->finalize("reductions of batch normalisation"));
  return operation;
}

}  // namespace phub::nn::cuda
