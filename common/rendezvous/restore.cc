#include "common/rendezvous/restore.h"

#include <memory>
#include <optional>

#include "common/rendezvous/pending_call.h"
#include "common/rendezvous/server_calls.h"
#include "proto/control.pb.h"

namespace phub::client {
namespace {

// A call to one server, with its messages.
struct AskedRestore {
  std::unique_ptr<ServerCalls> calls;
  control::RestoreRequest request;
  control::RestoreReply reply;
  std::optional<PendingCall> call;  // last: it uses the others
};

}  // namespace

Status restore_all(const std::vector<std::string>& addresses, const std::vector<std::string>& files,
                   const std::string& job, std::chrono::milliseconds timeout,
                   const ClientSecurity& security, const std::stop_token& stop) {
  std::vector<std::unique_ptr<AskedRestore>> asked;
  for (std::size_t server = 0; server < addresses.size(); ++server) {
    auto one = std::make_unique<AskedRestore>();
    PHUB_ASSIGN_OR_RETURN(one->calls, ServerCalls::create(addresses[server], security, server));
    one->request.set_file(files[server]);
    one->request.set_name(job);
    one->request.set_by_workers(true);
    const auto only = [raw = one.get()](std::size_t number) {
      return number == 0 ? &raw->request : nullptr;
    };
    one->call.emplace(
        *one->calls, timeout,
        CallMessages{
            .method = "Restore", .request = only, .reply = &one->reply, .service = kSnapshots},
        stop);
    asked.push_back(std::move(one));
  }
  Status first;
  for (const auto& one : asked) {
    const Status restored = one->call->wait();
    if (first.ok()) first = restored;
  }
  return first;
}

}  // namespace phub::client
