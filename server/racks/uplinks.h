// All jobs' uplinks: what the job table sees of them.
//
// Owned by the daemon; any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "server/racks/uplink.h"

namespace phub::server {

class Uplinks final : public RackLinks {
 public:
  // `directory` outlives it.
  Uplinks(UplinkOptions options, const Directory& directory)
      : options_(std::move(options)), directory_(directory) {}

  // REQUIRES: called once, before any other call. Both outlive it, or its close_all.
  void attach(DataPlane& data_plane, RackEvents& events) {
    data_plane_ = &data_plane;
    events_ = &events;
  }

  Status check_racks(const std::vector<RackSpec>& racks) const override;
  Status check_place(std::uint32_t server_index, std::size_t servers) const override;
  Status open(const LinkedRack& job) override;
  void complete(std::uint64_t job_id) override;
  void know_end(std::uint64_t job_id, std::uint64_t last_step) override;
  void diagnose(std::uint64_t job_id, const std::string& rack,
                const std::string& suspicion) override;
  Result<std::unique_ptr<RackSnapshots>> snapshot(std::uint64_t job_id, std::uint64_t round,
                                                  std::chrono::milliseconds timeout) override;
  void close(std::uint64_t job_id, const std::string& reason) override;
  // Leaves everywhere, and waits for it; nothing is opened any more.
  void close_all();

 private:
  template <typename Do>
  void with(std::uint64_t job_id, Do todo);

  const UplinkOptions options_;
  const Directory& directory_;
  DataPlane* data_plane_ = nullptr;
  RackEvents* events_ = nullptr;
  std::mutex mutex_;
  bool is_closed_ = false;
  std::map<std::uint64_t, std::unique_ptr<Uplink>> uplinks_;
};

}  // namespace phub::server
