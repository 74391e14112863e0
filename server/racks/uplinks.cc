#include "server/racks/uplinks.h"

#include <utility>
#include <vector>

namespace phub::server {

template <typename Do>
void Uplinks::with(std::uint64_t job_id, Do todo) {
  const std::lock_guard lock(mutex_);
  const auto found = uplinks_.find(job_id);
  if (found != uplinks_.end()) todo(*found->second);
}

// Those that are over go here: never under the table's mutex, which their threads may want.
void Uplinks::open(const LinkedRack& job) {
  std::vector<std::unique_ptr<Uplink>> over;
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  for (auto entry = uplinks_.begin(); entry != uplinks_.end();) {
    if (!entry->second->is_over()) {
      ++entry;
      continue;
    }
    over.push_back(std::move(entry->second));
    entry = uplinks_.erase(entry);
  }
  uplinks_[job.job_id] =
      std::make_unique<Uplink>(job, options_, UplinkParts{directory_, *data_plane_, *events_});
}

void Uplinks::complete(std::uint64_t job_id) {
  with(job_id, [](Uplink& uplink) { uplink.complete(); });
}

void Uplinks::diagnose(std::uint64_t job_id, const std::string& rack,
                       const std::string& suspicion) {
  with(job_id, [&](Uplink& uplink) { uplink.diagnose(rack, suspicion); });
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
