// Whether a server's unix socket is in this thread's network namespace. Set-up only.
//
// A machine's boot id is the same in all of its containers, an abstract socket is to be had in its
// own network namespace only: workers of another container must use tcp. Looking costs the server
// nothing; trying to connect would be a stranger at its door.
#pragma once

#include <string>

namespace phub::transport {

// Where the kernel lists them; of the thread, as namespaces are.
inline constexpr const char* kUnixSockets = "/proc/thread-self/net/unix";

// True also when the list cannot be read (no /proc): then connecting tells.
bool is_in_this_namespace(const std::string& abstract_socket,
                          const std::string& list = kUnixSockets);

}  // namespace phub::transport
