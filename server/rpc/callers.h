// Tells the control port's listener whose calls have succeeded, and what has come whole.
//
// gRPC calls it from its own threads, for every call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/door/control_listener.h"

namespace phub::server {

// Who pays for a call that has succeeded, or was admitted: a tenant, or "" for administrators and
// where there are no tenants; nothing: it is not known any more. `job_id`: the caller is a member
// of that job, or joins it by a ticket; 0: the metadata say who it is. Any thread.
using PayerOf = std::function<std::optional<std::string>(const grpc::ServerContextBase& context,
                                                         std::uint64_t job_id)>;

// The listener is told the peer of each call that was answered with OK, or whose answer began
// before its end, as that of an admitted join does, and of each message that came whole. But for
// calls of the health service, which answers everybody. It outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    ControlListener& listener, PayerOf payer_of);

}  // namespace phub::server
