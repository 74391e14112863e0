// Tells the control port's listener whose calls have succeeded, and what has come whole.
//
// gRPC calls it from its own threads, for every call.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "server/control_listener.h"

namespace phub::server {

// The listener is told the peer of each call that was answered with OK, or whose answer began
// before its end, as that of an admitted join does, and of each message that came whole. But for
// calls of the health service, which answers everybody. It outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    ControlListener& listener);

}  // namespace phub::server
