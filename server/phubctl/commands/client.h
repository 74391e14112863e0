// A connection to a daemon's Admin service, and what every command is given.
//
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/credentials_folder.h"
#include "common/text/message_json.h"
#include "proto/control.grpc.pb.h"
#include "proto/probe.grpc.pb.h"
#include "proto/racks.grpc.pb.h"

namespace phub::phubctl {

class AdminClient {
 public:
  // Errors: kInvalidArgument for an address that does not parse, for credentials that are wrong or
  // would go to another host in clear.
  static Result<std::unique_ptr<AdminClient>> create(const std::string& address,
                                                     std::chrono::milliseconds timeout,
                                                     const CredentialFiles& credentials = {});

  // Calls `method` of the stub within `timeout`, or the client's own. Errors: the server's, or
  // kUnavailable with the cure when none answers.
  template <typename Stub, typename Request, typename Reply>
  Status call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
              const Request& request, Reply& reply,
              std::optional<std::chrono::milliseconds> timeout = {}) {
    grpc::ClientContext context;
    const std::chrono::milliseconds longest = timeout.value_or(timeout_);
    const Wait wait{longest, std::chrono::system_clock::now() + longest};
    context.set_deadline(wait.deadline);
    if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
    return explain(
        (std::get<std::unique_ptr<Stub>>(stubs_).get()->*method)(&context, request, &reply), wait);
  }

  const std::string& address() const { return address_; }

 private:
  AdminClient(std::string address, std::chrono::milliseconds timeout, std::string token)
      : address_(std::move(address)), timeout_(timeout), token_(std::move(token)) {}
  struct Wait {
    std::chrono::milliseconds timeout;
    std::chrono::system_clock::time_point deadline;
  };
  Status explain(const grpc::Status& status, const Wait& wait) const;

  const std::string address_;
  const std::chrono::milliseconds timeout_;
  const std::string token_;  // empty: none
  std::shared_ptr<grpc::Channel> channel_;
  std::tuple<std::unique_ptr<control::Admin::Stub>, std::unique_ptr<control::Snapshots::Stub>,
             std::unique_ptr<control::Racks::Stub>, std::unique_ptr<control::Probes::Stub>>
      stubs_;
};

// Writes a line or several to standard output.
void print(const std::string& text);

// In local time; "never" for 0.
std::string time_text(std::int64_t unix_seconds);

struct Session {
  AdminClient& client;
  bool as_json = false;
  std::string tenant = {};  // whose jobs are meant; empty: the server decides
  // A request about the job of that name.
  template <typename Request>
  Request about(const std::string& job) const {
    Request request;
    request.set_name(job);
    request.set_tenant(tenant);
    return request;
  }
  // Another server, with the same credentials.
  std::function<Result<std::unique_ptr<AdminClient>>(const std::string& address)> connect = {};

  // The outcome of a call about a job; of one that was not found, with the tenants that have a job
  // of that name, as far as the caller sees them.
  Status with_other_tenants(const std::string& job, Status outcome) const;

  // Calls `method` and prints the reply: as JSON, or as `text(reply)` says it. `job`: that the call
  // is about, if with_other_tenants is wanted.
  template <typename Stub, typename Request, typename Reply, typename Text>
  Status show(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
              const Request& request, const Text& text, const std::string& job = {}) const {
    Reply reply;
    PHUB_RETURN_IF_ERROR(with_other_tenants(job, client.call(method, request, reply)));
    print(as_json ? message_json(reply) : text(reply));
    return {};
  }
};

}  // namespace phub::phubctl
