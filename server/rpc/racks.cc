#include "server/rpc/racks.h"

#include <chrono>

namespace phub::server {

Status RackService::list(Call& call, const control::ListRacksRequest& /*request*/,
                         control::ListRacksReply& reply) {
  if (directory_ == nullptr) return {};
  for (const RackEntry& rack : directory_->racks()) {
    control::RackInfo& info = *reply.add_racks();
    info.set_name(rack.name);
    for (const std::string& server : rack.servers) info.add_servers(server);
  }
  reply.set_own_rack(directory_->own_rack());
  if (!directory_->own_rack().empty()) reply.set_own_address(directory_->own_address());
  if (call.caller.role == Role::kTenant) return {};
  const DirectoryStatus status = directory_->status();
  reply.set_source(status.source);
  reply.set_trouble(status.trouble);
  reply.set_trouble_seconds(std::chrono::duration<double>(status.troubled_for).count());
  reply.set_keys_left_out(status.keys_left_out);
  return {};
}

}  // namespace phub::server
