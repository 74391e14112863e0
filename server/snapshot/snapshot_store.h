// The snapshots of a server: files in one folder, TENANT/JOB.ROUND.safetensors, or
// TENANT/JOB.ROUND.worker.safetensors of what a worker asked for.
//
// Owned by the daemon; any control thread. Files are written under another name and renamed, the
// last few of each job are kept: of those that workers asked for as many as of the others, so that
// a job's checkpoints do not push out what an administrator kept. What is read is verified before
// it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/data_plane.h"
#include "server/job_spec.h"
#include "server/snapshot/snapshot_file.h"

namespace phub::server {

struct SnapshotInfo {
  std::string file;  // below the folder: what `read` takes
  std::string tenant;
  std::string job;
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
  std::string created;  // UTC
  std::string sha256;
};

enum class Asker : std::uint8_t { kAdministrator, kWorker };  // a drain is an administrator's

class SnapshotStore {
 public:
  // Makes the folder, for its owner only. `kept`: snapshots of a job and of one kind of asker,
  // above that the oldest go; 0: all.
  static Result<std::unique_ptr<SnapshotStore>> create(const std::string& folder,
                                                       std::uint32_t kept);

  Result<SnapshotInfo> write(const JobSpec& spec, const CopiedJob& copied,
                             Asker asked_by = Asker::kAdministrator);

  // Sorted by tenant, job and round. Files that are no snapshots are left out.
  std::vector<SnapshotInfo> list() const;

  // Whose folder a file is in, whether it is there or not; empty: in none.
  static std::string tenant_of(const std::string& file);
  static Status no_snapshot(const std::string& file);

  // What the snapshot says of itself. Errors: kNotFound, kDataLoss.
  Result<SnapshotHead> head(const std::string& file) const;
  // The same, and its data is verified.
  Result<SnapshotHead> verify(const std::string& file) const;

  // What a job with this plan starts from.
  Result<std::shared_ptr<const JobCopy>> load(const std::string& file, const Plan& plan,
                                              std::uint32_t server_index) const;

 private:
  SnapshotStore(std::string folder, std::uint32_t kept) : folder_(std::move(folder)), kept_(kept) {}
  Result<std::filesystem::path> path_of(const std::string& file) const;
  Result<TensorFile> read(const std::string& file) const;
  void remove_oldest(const std::string& tenant, const std::string& job, Asker asked_by) const;

  const std::string folder_;
  const std::uint32_t kept_;
  std::mutex mutex_;  // one writer at a time
};

}  // namespace phub::server
