#include "server/snapshot/store.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/base/folder.h"
#include "common/base/unique_fd.h"

namespace phub::server {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

std::uint64_t mebibytes(std::uint64_t bytes) { return (bytes + kMebibyte - 1) / kMebibyte; }

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

SnapshotInfo info_of(const std::string& file, const SnapshotHead& head, std::uint64_t bytes) {
  return {.file = file,
          .tenant = head.tenant,
          .tenant_id = SnapshotStore::tenant_id_of(file),
          .job = head.spec.name,
          .round = head.round,
          .bytes = bytes,
          .created = head.created,
          .sha256 = head.sha256};
}

// So that a new folder in it is there after a loss of power.
void sync_folder(const std::string& folder) {
  const UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle) ::fsync(handle.get());
}

std::string folder_of(const Tenant& tenant) { return snapshot_folder_of(tenant.name, tenant.id); }

}  // namespace

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::create(const SnapshotStoreOptions& options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (!error) fs::permissions(options.folder, fs::perms::owner_all, error);
  if (error) {
    return Status(Code::kPermissionDenied,
                  fmt::format("state_folder: cannot make {}: {}; may this user write there?",
                              options.folder, error.message()));
  }
  std::unique_ptr<SnapshotStore> store(new SnapshotStore(options));
  store->remove_unfinished();
  return store;
}

void SnapshotStore::remove_unfinished() const {
  std::error_code error;
  for (const std::string& tenant : names_in(options_.folder)) {
    const fs::path folder = fs::path(options_.folder) / tenant;
    for (const std::string& name : names_in(folder)) {
      if (is_unfinished_safetensors(name)) fs::remove(folder / name, error);
    }
  }
}

Result<SnapshotStore::Room> SnapshotStore::admit(const Tenant& tenant, std::uint64_t bytes) {
  const std::string folder = folder_of(tenant);
  const std::lock_guard lock(mutex_);
  const Taken written = written_in(folder);
  PHUB_RETURN_IF_ERROR(check_files(tenant, written.files + admitted_[folder].files));
  const std::uint64_t used = written.bytes + admitted_[folder].bytes;
  const std::uint64_t quota = tenant.quotas.disk_mib;
  if (quota != 0 && used + bytes > quota * kMebibyte) {
    return Status(Code::kResourceExhausted,
                  fmt::format("the snapshot needs {} MiB on the disk, tenant \"{}\" has {} MiB of "
                              "its quota of {} MiB, those that are kept included; keep fewer "
                              "(snapshots_kept), or let an administrator raise it (`phubctl tenant "
                              "set {} --disk-mib N`)",
                              mebibytes(bytes), tenant.name, mebibytes(used), quota, tenant.name));
  }
  PHUB_RETURN_IF_ERROR(check_disk(bytes));
  admitted_[folder].bytes += bytes;
  ++admitted_[folder].files;
  return Room(this, [this, folder, bytes](const void* /*store*/) {
    const std::lock_guard ended(mutex_);
    admitted_[folder].bytes -= bytes;
    --admitted_[folder].files;
  });
}

Status SnapshotStore::check_files(const Tenant& tenant, std::uint64_t files) const {
  if (options_.files_of_tenant == 0 || files < options_.files_of_tenant) return {};
  return {Code::kResourceExhausted,
          fmt::format("tenant \"{}\" has {} snapshots, and snapshots_of_tenant allows {}; delete "
                      "some (`phubctl snapshot delete FILE`), keep fewer of each job "
                      "(snapshots_kept), let those of ended jobs expire (snapshots_expire_s), or "
                      "raise it",
                      tenant.name, files, options_.files_of_tenant)};
}

std::uint64_t SnapshotStore::admitted_bytes() const {
  return std::accumulate(
      admitted_.begin(), admitted_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& entry) { return sum + entry.second.bytes; });
}

// Of all tenants together, and what there is.
Status SnapshotStore::check_disk(std::uint64_t bytes) const {
  const std::uint64_t under_way = admitted_bytes();
  if (options_.limit_bytes != 0) {
    std::uint64_t all = under_way;
    for (const std::string& folder : names_in(options_.folder)) all += written_in(folder).bytes;
    if (all + bytes > options_.limit_bytes) {
      return {Code::kResourceExhausted,
              fmt::format("the snapshot needs {} MiB on the disk, all have {} MiB of the {} MiB of "
                          "snapshots_limit_mib; remove some from state_folder, or raise it",
                          mebibytes(bytes), mebibytes(all), mebibytes(options_.limit_bytes))};
    }
  }
  std::error_code error;
  const auto space = fs::space(options_.folder, error);
  if (error || space.available >= under_way + bytes + kSpareBytes) return {};
  return {Code::kResourceExhausted,
          fmt::format("the snapshot needs {} MiB on the disk, where {} MiB are free, {} MiB of "
                      "them for snapshots under way and {} MiB to spare; make room in state_folder",
                      mebibytes(bytes), mebibytes(space.available), mebibytes(under_way),
                      mebibytes(kSpareBytes))};
}

// What is half written was admitted and counts there.
SnapshotStore::Taken SnapshotStore::written_in(const std::string& folder) const {
  Taken taken;
  std::error_code error;
  const fs::path path = fs::path(options_.folder) / folder;
  for (const std::string& name : names_in(path)) {
    if (is_unfinished_safetensors(name)) continue;
    const std::uint64_t size = fs::file_size(path / name, error);
    if (error) continue;
    taken.bytes += size;
    ++taken.files;
  }
  return taken;
}

std::uint64_t SnapshotStore::bytes_of(const Tenant& tenant) const {
  const std::string folder = folder_of(tenant);
  const std::lock_guard lock(mutex_);
  const auto found = admitted_.find(folder);
  return written_in(folder).bytes + (found == admitted_.end() ? 0 : found->second.bytes);
}

Result<SnapshotInfo> SnapshotStore::write(const JobSpec& spec, const CopiedJob& copied,
                                          Asker asked_by, const SampleLedger& samples) {
  const SnapshotHead head{.spec = spec,
                          .tenant = copied.layout.tenant,
                          .round = copied.copy->round,
                          .created = now_utc(),
                          .sha256 = {},
                          .core_load_bytes = copied.layout.core_load_bytes,
                          .samples = samples};
  PHUB_ASSIGN_OR_RETURN(
      const SnapshotParts parts,
      snapshot_parts(head, *copied.copy, *copied.layout.plan, copied.layout.server_index));
  const std::string folder = snapshot_folder_of(head.tenant, copied.layout.tenant_id);
  const std::string file = folder + "/" + snapshot_file_of(spec.name, head.round, asked_by);
  const fs::path path = fs::path(options_.folder) / file;
  std::error_code error;
  if (fs::create_directory(path.parent_path(), error)) sync_folder(options_.folder);
  PHUB_RETURN_IF_ERROR(write_safetensors(path, parts.tensors, parts.metadata));
  SnapshotInfo info = info_of(file, head, fs::file_size(path, error));
  info.sha256 = parts.metadata.at("sha256");
  const std::lock_guard lock(mutex_);
  remove_oldest(folder, spec.name, asked_by);
  return info;
}

void SnapshotStore::remove_oldest(const std::string& folder, const std::string& job,
                                  Asker asked_by) const {
  if (options_.kept == 0) return;
  const fs::path path = fs::path(options_.folder) / folder;
  const std::string prefix = snapshot_prefix_of(job);
  std::error_code error;
  // By when they were written: a job that starts anew under its name has small round numbers again.
  std::vector<std::pair<fs::file_time_type, std::string>> mine;
  for (const std::string& name : names_in(path)) {
    if (!name.starts_with(prefix) || !name.ends_with(kSnapshotSuffix)) continue;
    if (asker_of(name) != asked_by) continue;
    mine.emplace_back(fs::last_write_time(path / name, error), name);
  }
  std::sort(mine.begin(), mine.end());
  for (std::size_t i = 0; i + options_.kept < mine.size(); ++i) {
    fs::remove(path / mine[i].second, error);
  }
}

std::vector<SnapshotInfo> SnapshotStore::list(const Sees& sees) const {
  std::vector<SnapshotInfo> snapshots;
  for (const std::string& folder : names_in(options_.folder)) {
    if (sees != nullptr && !sees(tenant_id_of_folder(folder))) continue;
    std::vector<SnapshotInfo> its = index_.list(options_.folder, folder);
    std::move(its.begin(), its.end(), std::back_inserter(snapshots));
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const SnapshotInfo& a, const SnapshotInfo& b) {
    return std::tie(a.tenant, a.job, a.round, a.file) < std::tie(b.tenant, b.job, b.round, b.file);
  });
  return snapshots;
}

std::vector<std::string> SnapshotStore::expire(std::chrono::seconds age,
                                               const std::vector<NeededSnapshots>& needed) {
  std::vector<std::string> gone;
  std::error_code error;
  const auto before = fs::file_time_type::clock::now() - age;
  for (const std::string& folder : names_in(options_.folder)) {
    const auto owner = tenant_id_of_folder(folder);
    if (!owner) continue;  // an administrator's own
    for (const std::string& name : names_in((fs::path(options_.folder) / folder).string())) {
      if (!name.ends_with(kSnapshotSuffix)) continue;
      const std::string file = folder + "/" + name;
      const bool is_needed = std::any_of(needed.begin(), needed.end(), [&](const auto& job) {
        return file == job.starts_from ||
               (job.tenant_id == *owner && name.starts_with(snapshot_prefix_of(job.job)));
      });
      const auto written = fs::last_write_time(fs::path(options_.folder) / file, error);
      if (is_needed || error || written > before) continue;
      if (remove(file)) gone.push_back(file);
    }
  }
  return gone;
}

// Only what the folder lists can be named: no path leads out of it.
Result<fs::path> SnapshotStore::path_of(const std::string& file) const {
  const std::size_t slash = file.find('/');
  const std::string tenant = file.substr(0, slash);
  const auto tenants = names_in(options_.folder);
  if (slash != std::string::npos && std::binary_search(tenants.begin(), tenants.end(), tenant)) {
    const auto names = names_in((fs::path(options_.folder) / tenant).string());
    if (std::binary_search(names.begin(), names.end(), file.substr(slash + 1))) {
      return fs::path(options_.folder) / file;
    }
  }
  return no_snapshot(file);
}

Result<SnapshotHead> SnapshotStore::head(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  PHUB_ASSIGN_OR_RETURN(const TensorMetadata metadata, read_safetensors_metadata(path));
  return head_of(metadata);
}

Result<std::uint64_t> SnapshotStore::file_bytes(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error) return no_snapshot(file);
  return bytes;
}

Result<std::uint64_t> SnapshotStore::remove(const std::string& file) {
  if (!file.ends_with(kSnapshotSuffix)) return no_snapshot(file);
  const std::lock_guard lock(mutex_);
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t bytes, file_bytes(file));
  std::error_code error;
  if (!fs::remove(path, error) && !error) return no_snapshot(file);
  if (error) {
    return Status(Code::kPermissionDenied, fmt::format("cannot remove {}: {}; who owns it?",
                                                       path.string(), error.message()));
  }
  sync_folder(path.parent_path().string());
  return bytes;
}

Status SnapshotStore::no_snapshot(const std::string& file) {
  return {Code::kNotFound,
          fmt::format("there is no snapshot \"{}\"; `phubctl snapshots` lists them", file)};
}

std::optional<std::uint32_t> SnapshotStore::tenant_id_of(const std::string& file) {
  const std::size_t slash = file.find('/');
  if (slash == std::string::npos) return std::nullopt;
  return tenant_id_of_folder(file.substr(0, slash));
}

Result<SnapshotHead> SnapshotStore::verify(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  PHUB_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::open(path));
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, head_of(reader->metadata()));
  PHUB_RETURN_IF_ERROR(server::verify(*reader, head).with_context("snapshot " + file));
  return head;
}

Result<std::shared_ptr<const JobCopy>> SnapshotStore::load(const std::string& file,
                                                           const Plan& plan,
                                                           std::uint32_t server_index) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  PHUB_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::open(path));
  PHUB_ASSIGN_OR_RETURN(const SnapshotHead head, head_of(reader->metadata()));
  Result<std::shared_ptr<JobCopy>> copy = job_copy_from(*reader, head, plan, server_index);
  if (!copy) return copy.error().with_context("snapshot " + file);
  return std::shared_ptr<const JobCopy>(std::move(*copy));
}

}  // namespace phub::server
