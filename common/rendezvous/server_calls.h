// Calls to one server's control plane: with this worker's proof, within a deadline, again while the
// server says that this may help, and with errors in words.
//
// Any thread. Connects at the first call.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/status.h"
#include "common/rendezvous/client_security.h"
#include "common/rpc/address.h"
#include "proto/control.grpc.pb.h"

namespace phub::client {

// What a worker shows at the rendezvous, with every call.
struct JoinProof {
  std::string tenant;
  std::string token;
  std::uint64_t job_id = 0;  // of the nonce
  std::string nonce;

  bool is_secret() const { return !token.empty() || !nonce.empty(); }
  // For the header "authorization". Empty: nothing.
  std::string metadata() const;
};

class ServerCalls {
 public:
  using Stub = control::Rendezvous::Stub;

  // Arguments and errors: those of Rendezvous::create.
  static Result<std::unique_ptr<ServerCalls>> create(const std::string& address,
                                                     const ClientSecurity& security,
                                                     std::size_t server);

  template <typename Method, typename Request, typename Reply>
  Status call(Method method, const Request& request, Reply& reply,
              std::chrono::milliseconds timeout, const std::stop_token& stop = {}) {
    return until(
        timeout,
        [&](grpc::ClientContext& context) {
          return (stub_.get()->*method)(&context, request, &reply);
        },
        stop);
  }
  // For a call that is more than one message each way. `stop`: ends it with kAborted.
  Status until(std::chrono::milliseconds timeout,
               const std::function<grpc::Status(grpc::ClientContext&)>& attempt,
               const std::stop_token& stop = {});
  // For a call that is made once, without waiting: before it, and what came of it.
  void prepare(grpc::ClientContext& context, std::chrono::system_clock::time_point deadline) const;
  Status outcome_of(const grpc::Status& status, std::chrono::milliseconds timeout) const;

  Stub& stub() { return *stub_; }
  const std::string& address() const { return text_; }
  const std::string& host() const { return parsed_.host; }
  const std::string& tenant() const { return proof_.tenant; }

 private:
  ServerCalls(Address parsed, std::string text, JoinProof proof,
              const std::shared_ptr<grpc::Channel>& channel);

  const Address parsed_;
  const std::string text_;
  const JoinProof proof_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace phub::client
