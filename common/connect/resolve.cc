#include "common/connect/resolve.h"

#include <netdb.h>

#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace phub::client {
namespace {

using Addresses = std::vector<SocketAddress>;

Result<Addresses> look_up_with(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Status(Code::kUnavailable,
                  host + " port " + std::to_string(port) + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Addresses all;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = all.emplace_back();
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.bytes = each->ai_addrlen;
  }
  return all;
}

}  // namespace

Result<Addresses> look_up_by_system(const std::string& host, std::uint16_t port) {
  return look_up_with(host, port, 0);
}

Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::milliseconds timeout, const LookUp& look_up) {
  if (auto number = look_up_with(host, port, AI_NUMERICHOST)) return number;
  const auto promise = std::make_shared<std::promise<Result<Addresses>>>();
  auto found = promise->get_future();
  try {
    // It has copies of all that it uses: it may outlive this call.
    std::thread([promise, look_up, host, port] {
      promise->set_value(look_up(host, port));
    }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, "a thread to look up " + host + ": " + error.what());
  }
  if (found.wait_for(timeout) == std::future_status::ready) return found.get();
  return Status(Code::kDeadlineExceeded, host + " port " + std::to_string(port) +
                                             ": no name server has said its address in " +
                                             std::to_string(timeout.count()) +
                                             " ms; give a number, or see to the host's resolver");
}

}  // namespace phub::client
