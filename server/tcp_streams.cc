#include "server/tcp_streams.h"

#include "server/connection.h"

namespace phub::server {

Status TcpStreams::begin(Core& core, std::uint32_t core_index, const Shard& shard,
                         std::uint32_t worker, const std::optional<transport::StreamKeys>& keys) {
  std::unique_ptr<transport::SealedStream> sealed;
  if (keys) {
    PHUB_ASSIGN_OR_RETURN(sealed, transport::SealedStream::create(*keys, transport::Role::kServer,
                                                                  &bad_tags_[core_index]));
  }
  core.call([&] {
    const Connection* connection = shard.connections[worker];
    if (connection == nullptr) return;
    auto& endpoint = static_cast<transport::TcpEndpoint&>(*connection->endpoint);
    endpoint.begin(connection->peer, std::move(sealed));
  });
  return {};
}

std::uint64_t TcpStreams::bad_tags() const {
  std::uint64_t count = 0;
  for (const Counter& counter : bad_tags_) count += counter.value();
  return count;
}

}  // namespace phub::server
