// Calls to an etcd, each within a deadline, with errors that name the member.
//
// One thread calls; `stop` may come from any.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "proto/etcd/rpc.grpc.pb.h"
#include "server/directory/directory.h"

namespace phub::server {

class EtcdCalls {
 public:
  // Reads the files; calls nobody. Errors: kInvalidArgument names the field and the file.
  static Result<std::unique_ptr<EtcdCalls>> create(const EtcdOptions& options);

  // The member that is asked now.
  const std::string& endpoint() const { return options_.endpoints[member_]; }
  void use_next_member() { member_ = (member_ + 1) % options_.endpoints.size(); }

  // For the calls that follow; where there is no user nothing. The password is read again.
  Status authenticate();

  struct Lease {
    std::int64_t id = 0;
    std::chrono::seconds lasts{0};  // from the call on
  };
  Result<Lease> grant_lease();
  // Lasts 0: it is over.
  Result<Lease> keep_alive(std::int64_t lease_id);
  // After `stop` too, within a second.
  Status revoke(std::int64_t lease_id);
  Status put(const std::string& key, std::int64_t lease_id);

  struct Listed {
    std::uint64_t keys = 0;  // under the prefix, those that were not read included
    std::int64_t revision = 0;
  };
  // Gives `take` every key under the prefix, as of one revision, at most `keys_max`.
  Result<Listed> list(std::size_t keys_max,
                      const std::function<void(const etcdserverpb::KeyValue&)>& take);

  // For a watch of the same member: its stub, and what its calls carry.
  etcdserverpb::Watch::Stub watch_stub() const;
  void prepare(grpc::ClientContext& context) const;
  // All keys under the prefix, from this revision on.
  etcdserverpb::WatchRequest watch_request(std::int64_t revision) const;

  // Ends the call that is under way, and those that follow at once.
  void stop();

 private:
  EtcdCalls(const EtcdOptions& options, std::vector<std::shared_ptr<grpc::Channel>> channels)
      : options_(options), channels_(std::move(channels)) {}
  Status outcome_of(std::string_view what, const grpc::Status& status) const;
  std::chrono::seconds as_asked(std::int64_t ttl) const;
  Status call(std::string_view what,
              const std::function<grpc::Status(grpc::ClientContext&)>& attempt);

  const EtcdOptions options_;
  const std::vector<std::shared_ptr<grpc::Channel>> channels_;  // by endpoint
  std::size_t member_ = 0;
  std::string token_;

  std::mutex mutex_;  // guards the two below
  grpc::ClientContext* under_way_ = nullptr;
  bool is_stopped_ = false;
};

}  // namespace phub::server
