#include "server/racks/snapshots_there.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr std::size_t kFileCharsMax = 512;  // another server's words

}  // namespace

SnapshotsThere::SnapshotsThere(std::vector<LinkedServer> servers, std::uint64_t round,
                               std::chrono::milliseconds timeout)
    : servers_(std::move(servers)) {
  for (const LinkedServer& each : servers_) {
    asked_.push_back(each.server->begin_snapshot(round, timeout));
  }
}

bool SnapshotsThere::is_over() const {
  return std::all_of(asked_.begin(), asked_.end(), [](const auto& each) { return each.is_over(); });
}

Result<std::vector<RackFile>> SnapshotsThere::files() {
  std::vector<RackFile> files;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const LinkedServer& there = servers_[i];
    const auto taken = asked_[i]();
    if (!taken) {
      return Status(taken.error().code(),
                    fmt::format("rack {} ({}): {}", there.rack, there.address,
                                printable(taken.error().message(), kFileCharsMax)));
    }
    const std::string& file = taken->front();
    files.push_back(
        {there.rack, there.address, printable(file.substr(0, file.rfind(" at ")), kFileCharsMax)});
  }
  return files;
}

}  // namespace phub::server
