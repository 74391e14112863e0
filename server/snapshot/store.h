// The snapshots of a server: files in one folder, called as names.h says, a folder for each tenant;
// folders of other names are administrators'.
//
// Owned by the daemon; any control thread. Files are written under another name and renamed, the
// last few of each job are kept: of those that workers asked for as many as of the others, so that
// a job's checkpoints do not push out what an administrator kept. What is read is verified before
// it is used. Nothing is written that was not admitted: it counts from then on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/job/spec.h"
#include "server/plane/data_plane.h"
#include "server/snapshot/file.h"
#include "server/snapshot/index.h"
#include "server/snapshot/info.h"
#include "server/snapshot/names.h"
#include "server/tenants/tenant.h"

namespace phub::server {

struct SnapshotStoreOptions {
  std::string folder;
  std::uint32_t kept = 3;             // of a job and of one kind of asker, the oldest go; 0: all
  std::uint64_t limit_bytes = 0;      // of all tenants together; 0: none
  std::uint32_t files_of_tenant = 0;  // each tenant's at most; 0: no bound
};

// The snapshots that a live job needs. Its own do not expire, nor does the one that it is to start
// from.
struct NeededSnapshots {
  std::uint32_t tenant_id = 0;
  std::string job;
  std::string starts_from = {};  // empty: from none
};

class SnapshotStore {
 public:
  // Room that a snapshot may take; it counts until this is destroyed, which is before the store.
  using Room = std::shared_ptr<const void>;

  // What stays free on the disk for other things, such as the server's state.
  static constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;

  // Makes the folder, for its owner only, and removes what a killed process left half written.
  static Result<std::unique_ptr<SnapshotStore>> create(const SnapshotStoreOptions& options);

  // Whether a file of so many bytes may be written for the tenant. Errors: kResourceExhausted with
  // what is asked for, what is taken and what is allowed.
  Result<Room> admit(const Tenant& tenant, std::uint64_t bytes);

  // REQUIRES: it was admitted. Writers do not wait for each other.
  Result<SnapshotInfo> write(const JobSpec& spec, const CopiedJob& copied,
                             Asker asked_by = Asker::kAdministrator,
                             const SampleLedger& samples = {});

  const std::string& folder() const { return options_.folder; }

  // On the disk or admitted.
  std::uint64_t bytes_of(const Tenant& tenant) const;

  // Sorted by tenant, job and round. Files that are no snapshots are left out. `sees` says whether
  // those of an owner are wanted, before any of them is read; null: all are.
  using Sees = std::function<bool(std::optional<std::uint32_t> owner)>;
  std::vector<SnapshotInfo> list(const Sees& sees = nullptr) const;

  // Removes tenants' files that were written longer ago and that no job needs; which.
  std::vector<std::string> expire(std::chrono::seconds age,
                                  const std::vector<NeededSnapshots>& needed);

  // Whose folder a file is in, whether it is there or not; none: no tenant's.
  static std::optional<std::uint32_t> tenant_id_of(const std::string& file);
  static Status no_snapshot(const std::string& file);

  // Removes it, whole or damaged: its bytes count no more. Returns them. Who reads it reads on.
  // Errors: kNotFound, kPermissionDenied.
  Result<std::uint64_t> remove(const std::string& file);

  // What the snapshot says of itself. Errors: kNotFound, kDataLoss.
  Result<SnapshotHead> head(const std::string& file) const;
  // Errors: kNotFound.
  Result<std::uint64_t> file_bytes(const std::string& file) const;
  // The head again, and its data is verified.
  Result<SnapshotHead> verify(const std::string& file) const;

  // What a job with this plan starts from.
  Result<std::shared_ptr<const JobCopy>> load(const std::string& file, const Plan& plan,
                                              std::uint32_t server_index) const;

 private:
  explicit SnapshotStore(SnapshotStoreOptions options) : options_(std::move(options)) {}
  Result<std::filesystem::path> path_of(const std::string& file) const;
  void remove_unfinished() const;
  void remove_oldest(const std::string& folder, const std::string& job, Asker asked_by) const;
  struct Taken {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
  };
  Taken written_in(const std::string& folder) const;
  Status check_files(const Tenant& tenant, std::uint64_t files) const;
  std::uint64_t admitted_bytes() const;
  Status check_disk(std::uint64_t bytes) const;

  const SnapshotStoreOptions options_;
  mutable SnapshotIndex index_;
  mutable std::mutex mutex_;               // what follows, renaming and removing
  std::map<std::string, Taken> admitted_;  // under way, by tenant's folder
};

}  // namespace phub::server
