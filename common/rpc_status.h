// Status <-> grpc::Status, the same mapping at both ends of the control plane.
//
// Pure functions; any thread. Included by control-plane files only, because of gRPC.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/status.h"

namespace phub {

// Limit of one control message, at both ends: a join with 1e6 keys of 40 characters fits.
inline constexpr int kMaxControlMessageBytes = 64 * 1024 * 1024;

grpc::Status to_grpc(const Status& status);

// Codes that gRPC itself makes are mapped to the nearest Code.
Status from_grpc(const grpc::Status& status);

}  // namespace phub
