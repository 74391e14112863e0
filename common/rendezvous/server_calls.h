// Calls to one server's control plane: with this worker's proof, within a deadline, and with errors
// in words. gRPC's threads make them.
//
// Any thread. Connects at the first call.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/rendezvous/client_security.h"
#include "common/rpc/address.h"

namespace phub::client {

// What a worker shows at the rendezvous, with every call.
struct JoinProof {
  std::string tenant;
  std::string token;
  std::uint64_t job_id = 0;  // of the nonce
  std::string nonce;
  std::string run = {};  // ClientSecurity's, in a header of its own

  bool is_secret() const { return !token.empty() || !nonce.empty(); }
  // For the header "authorization". Empty: nothing.
  std::string metadata() const;
};

// Services of proto/control.proto.
inline constexpr char kRendezvous[] = "phub.control.Rendezvous";
inline constexpr char kSnapshots[] = "phub.control.Snapshots";

// The messages of one call. They outlive it.
struct CallMessages {
  using Message = google::protobuf::MessageLite;

  std::string method;
  // The request with this number, which lives until the next one is asked for; null: the one before
  // was the last. A call that is made again begins with number 0.
  std::function<const Message*(std::size_t)> request;
  Message* reply;
  const char* service = kRendezvous;
  bool tries_again = true;  // where the server says that it may help
};

struct CallOutcome {
  grpc::Status status;
  std::optional<std::chrono::milliseconds>
      retry_after;   // the server says that another try may help
  std::string peer;  // who answered, as gRPC writes it
};

class ServerCalls {
 public:
  // Arguments and errors: those of Rendezvous::create.
  static Result<std::unique_ptr<ServerCalls>> create(const std::string& address,
                                                     const ClientSecurity& security,
                                                     std::size_t server);

  // Makes the call once, and returns what cancels it. A thread of gRPC's calls `done` once, never
  // within this function. A reply that does not parse is an error.
  // REQUIRES: this object outlives what is returned, which holds the channel (see Rendezvous).
  std::function<void()> begin(CallMessages messages, std::chrono::system_clock::time_point deadline,
                              std::function<void(const CallOutcome&)> done);
  // In words.
  Status outcome_of(const grpc::Status& status, std::chrono::milliseconds timeout) const;
  // Waits while the channel connects. gRPC keeps the socket of a channel that goes meanwhile.
  void settle(std::chrono::system_clock::time_point deadline);

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
};

}  // namespace phub::client
