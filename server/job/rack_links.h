// A job's links to the servers of its other racks, as the job table sees them.
//
// Any control thread. Calls return at once: what they begin is done elsewhere, and comes back as
// RackEvents. They may be made under the table's mutex; events come without it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"

namespace phub::server {

// A job that this server has memory for, so that it may be told to others.
struct LinkedRack {
  std::uint64_t job_id = 0;
  std::string tenant;
  std::string tenant_shared_id = {};
  std::shared_ptr<const JobSpec> spec;
  std::uint32_t own = 0;  // which of its racks this is
  std::vector<std::uint32_t> cores_per_server;
  std::uint32_t server_index = 0;
  std::uint64_t racks_hash = 0;     // of what the plans of all racks have alike
  std::uint64_t rounds_before = 0;  // that a restored job has behind it
};

// A job's file at another rack's server.
struct RackFile {
  std::string rack;
  std::string address;
  std::string file;
};

// Snapshots that other racks' servers are taking. Gone before they are there: given up.
class RackSnapshots {
 public:
  virtual ~RackSnapshots() = default;
  RackSnapshots() = default;
  RackSnapshots(const RackSnapshots&) = delete;
  RackSnapshots& operator=(const RackSnapshots&) = delete;

  virtual bool is_over() const = 0;
  // REQUIRES: is_over. Errors name the rack.
  virtual Result<std::vector<RackFile>> files() = 0;
};

class RackLinks {
 public:
  virtual ~RackLinks() = default;
  RackLinks() = default;
  RackLinks(const RackLinks&) = delete;
  RackLinks& operator=(const RackLinks&) = delete;

  // Whether a job may span these racks. Error: kInvalidArgument names one that this server does not
  // know and never will.
  virtual Status check_racks(const std::vector<RackSpec>& racks) const = 0;
  // Whether this server has the place `server_index` among so many of its rack. Error:
  // kFailedPrecondition where the directory says another; nothing while it knows fewer.
  virtual Status check_place(std::uint32_t server_index, std::size_t servers) const = 0;
  // Becomes a member of the job at the servers of the other racks that have this server's place,
  // and connects this one's cores with theirs. on_linked or on_unlinked follows. Error: there is no
  // thread for that, and nothing follows.
  virtual Status open(const LinkedRack& job) = 0;
  // All workers of this rack are connected: the others are told.
  virtual void complete(std::uint64_t job_id) = 0;
  // All workers of this rack know the last step of a planned end: the others are told.
  virtual void know_end(std::uint64_t job_id, std::uint64_t last_step) = 0;
  // A connection from or to a rack closed: asks that rack why. on_unlinked follows.
  virtual void diagnose(std::uint64_t job_id, const std::string& rack,
                        const std::string& suspicion) = 0;
  // Has the servers of the other racks that have this one's place keep the job as it is when
  // `round` is over. Errors: kFailedPrecondition where it is not linked with them.
  virtual Result<std::unique_ptr<RackSnapshots>> snapshot(std::uint64_t job_id, std::uint64_t round,
                                                          std::chrono::milliseconds timeout) = 0;
  // The job is over here: leaves it there. `reason`: why it failed; empty: all workers left.
  virtual void close(std::uint64_t job_id, const std::string& reason) = 0;
};

// What comes of it.
class RackEvents {
 public:
  virtual ~RackEvents() = default;
  // Another rack is not to be had yet; for who asks why the job does not start.
  virtual void on_delayed(std::uint64_t job_id, const std::string& reason) = 0;
  // Connected with all racks.
  virtual void on_linked(std::uint64_t job_id) = 0;
  // The job cannot go on: `reason` names the rack.
  virtual void on_unlinked(std::uint64_t job_id, const std::string& reason) = 0;
  // Another rack is silent, or the job has failed there. A job with rack_rounds may go on.
  virtual void on_rack_lost(std::uint64_t job_id, const std::string& rack,
                            const std::string& reason) = 0;
  // Another rack says that the job is to end, and after which step; 0: that is not agreed yet.
  virtual void on_end_planned(std::uint64_t job_id, const std::string& reason,
                              std::uint64_t last_step) = 0;
};

}  // namespace phub::server
