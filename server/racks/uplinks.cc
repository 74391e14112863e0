#include "server/racks/uplinks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/process/make_thread.h"
#include "server/racks/snapshots_there.h"

namespace phub::server {

template <typename Do>
void Uplinks::with(std::uint64_t job_id, Do todo) {
  const std::lock_guard lock(mutex_);
  const auto found = uplinks_.find(job_id);
  if (found != uplinks_.end()) todo(*found->second);
}

Status Uplinks::check_racks(const std::vector<RackSpec>& racks) const {
  if (directory_.may_grow()) return {};
  const std::vector<RackEntry> known = directory_.racks();
  const auto has_name = [](const std::string& name) {
    return [&name](const RackEntry& entry) { return entry.name == name; };
  };
  for (std::size_t i = 0; i < racks.size(); ++i) {
    const std::string& name = racks[i].name;
    if (std::any_of(known.begin(), known.end(), has_name(name))) continue;
    std::string names;
    for (const RackEntry& entry : known) names += (names.empty() ? "" : ", ") + entry.name;
    return {Code::kInvalidArgument,
            fmt::format("racks[{}].name: this server knows no rack \"{}\", only {}; take one of "
                        "these, or list it in `directory` of every server's configuration and "
                        "start the servers again",
                        i, name, names)};
  }
  return {};
}

Status Uplinks::check_place(std::uint32_t server_index, std::size_t servers) const {
  const std::string own = directory_.own_rack();
  const std::vector<RackEntry> racks = directory_.racks();
  const auto rack = std::find_if(racks.begin(), racks.end(),
                                 [&](const RackEntry& entry) { return entry.name == own; });
  if (rack == racks.end() || rack->servers.size() < servers) return {};
  const auto place =
      std::find(rack->servers.begin(), rack->servers.end(), directory_.own_address());
  const auto index = place - rack->servers.begin();
  if (place == rack->servers.end() || index == server_index) return {};
  return {Code::kFailedPrecondition,
          fmt::format("server_index: {}, but {} is server {} of rack {} (counted from 0); list a "
                      "rack's servers as `phubctl racks` does, at every worker and in the "
                      "directory of every server",
                      server_index, directory_.own_address(), index, own)};
}

// Those that are over go here. Their threads want nothing any more.
Status Uplinks::open(const LinkedRack& job) {
  std::vector<std::unique_ptr<Uplink>> over;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return {};
  for (auto entry = uplinks_.begin(); entry != uplinks_.end();) {
    if (!entry->second->is_over()) {
      ++entry;
      continue;
    }
    over.push_back(std::move(entry->second));
    entry = uplinks_.erase(entry);
  }
  return make_thread("a job's links to other racks", [&] {
    uplinks_[job.job_id] =
        std::make_unique<Uplink>(job, options_, UplinkParts{directory_, *data_plane_, *events_});
  });
}

void Uplinks::complete(std::uint64_t job_id) {
  with(job_id, [](Uplink& uplink) { uplink.complete(); });
}

void Uplinks::know_end(std::uint64_t job_id, std::uint64_t last_step) {
  with(job_id, [&](Uplink& uplink) { uplink.know_end(last_step); });
}

void Uplinks::diagnose(std::uint64_t job_id, const std::string& rack,
                       const std::string& suspicion) {
  with(job_id, [&](Uplink& uplink) { uplink.diagnose(rack, suspicion); });
}

Result<std::unique_ptr<RackSnapshots>> Uplinks::snapshot(std::uint64_t job_id, std::uint64_t round,
                                                         std::chrono::milliseconds timeout) {
  std::vector<LinkedServer> servers;
  with(job_id, [&](Uplink& uplink) { servers = uplink.linked(); });
  if (servers.empty()) {
    return Status(Code::kFailedPrecondition,
                  "this rack is not linked with the job's other racks, so nobody could go on from "
                  "what it has; ask again while the job runs");
  }
  return std::unique_ptr<RackSnapshots>(
      std::make_unique<SnapshotsThere>(std::move(servers), round, timeout));
}

void Uplinks::close(std::uint64_t job_id, const std::string& reason) {
  with(job_id, [&](Uplink& uplink) { uplink.close(reason); });
}

void Uplinks::close_all() {
  std::map<std::uint64_t, std::unique_ptr<Uplink>> all;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    all = std::exchange(uplinks_, {});
  }
  for (auto& [job_id, uplink] : all) uplink->close("the server stopped");
}

}  // namespace phub::server
