// Status <-> grpc::Status, the same mapping at both ends of the control plane.
//
// Pure functions; any thread. Included by control-plane files only, because of gRPC.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/status.h"

namespace phub {

// Limit of one reply of the control plane: that of a job with 1e6 keys of 40 characters fits.
inline constexpr int kMaxControlMessageBytes = 64 * 1024 * 1024;

// Limit of one request: a server that holds many of them, of strangers too, has little to lose.
inline constexpr int kMaxRequestBytes = 128 * 1024;

// Metadata of a reply RESOURCE_EXHAUSTED or UNAVAILABLE: after how many milliseconds the same call
// may succeed.
inline constexpr char kRetryAfterMs[] = "phub-retry-ms";

// The message is cut after 2,000 bytes, and what is no visible text in it is a "?".
grpc::Status to_grpc(const Status& status);

// Codes that gRPC itself makes are mapped to the nearest Code.
Status from_grpc(const grpc::Status& status);

}  // namespace phub
