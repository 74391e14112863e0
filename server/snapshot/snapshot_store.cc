#include "server/snapshot/snapshot_store.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <tuple>

#include "common/base/folder.h"

namespace phub::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kWorkerSuffix = ".worker.safetensors";

// Tells apart who asked for a file of a job: its name has no other dots than those here.
Asker asker_of(std::string_view file) {
  return file.ends_with(kWorkerSuffix) ? Asker::kWorker : Asker::kAdministrator;
}

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

// A job's name may hold anything; a file's holds letters, digits, '-' and '_', and %XX for the
// rest.
std::string file_name_of(const std::string& job) {
  std::string name;
  for (const char c : job) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = std::isalnum(byte) != 0 || c == '-' || c == '_';
    name += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return name;
}

// A job's file: what is too long for a file system is cut, and told apart by a hash of the whole.
std::string file_name_of_job(const std::string& job) {
  constexpr std::size_t kCharactersMax = 160;
  const std::string name = file_name_of(job);
  if (name.size() <= kCharactersMax) return name;
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{}~{:016x}", name.substr(0, kCharactersMax), hash);
}

// Of tensors of one name a file could hold only one.
Status check_names(const TensorFile& file) {
  std::set<std::string> names{"__metadata__"};
  for (const NamedTensor& tensor : file.tensors) {
    if (names.insert(tensor.name).second) continue;
    return {Code::kFailedPrecondition,
            fmt::format("its keys cannot be told apart in a file: two tensors would have the name "
                        "\"{}\"; rename a key",
                        tensor.name)};
  }
  return {};
}

// The reverse of file_name_of; empty for what is no such name.
std::string name_of_file(const std::string& file) {
  std::string name;
  for (std::size_t i = 0; i < file.size(); ++i) {
    unsigned char byte = static_cast<unsigned char>(file[i]);
    if (byte == '%') {
      const char* const end = file.data() + std::min(i + 3, file.size());
      const auto parsed = std::from_chars(file.data() + i + 1, end, byte, 16);
      if (parsed.ec != std::errc() || parsed.ptr != file.data() + i + 3) return "";
      i += 2;
    }
    name += static_cast<char>(byte);
  }
  return name;
}

SnapshotInfo info_of(const std::string& file, const SnapshotHead& head, std::uint64_t bytes) {
  return {.file = file,
          .tenant = head.tenant,
          .job = head.spec.name,
          .round = head.round,
          .bytes = bytes,
          .created = head.created,
          .sha256 = head.sha256};
}

}  // namespace

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::create(const std::string& folder,
                                                             std::uint32_t kept) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) {
    return Status(Code::kPermissionDenied, fmt::format("state_folder: cannot make {}: {}; may this "
                                                       "user write there?",
                                                       folder, error.message()));
  }
  return std::unique_ptr<SnapshotStore>(new SnapshotStore(folder, kept));
}

Result<SnapshotInfo> SnapshotStore::write(const JobSpec& spec, const CopiedJob& copied,
                                          Asker asked_by) {
  const SnapshotHead head{.spec = spec,
                          .tenant = copied.shape.tenant,
                          .round = copied.copy->round,
                          .created = now_utc(),
                          .sha256 = {},
                          .core_load_bytes = copied.shape.core_load_bytes};
  const TensorFile tensors =
      snapshot_file(head, *copied.copy, *copied.shape.plan, copied.shape.server_index);
  PHUB_RETURN_IF_ERROR(check_names(tensors));
  const std::string tenant = file_name_of(head.tenant);
  const std::string file =
      fmt::format("{}/{}.{:012}{}", tenant, file_name_of_job(spec.name), head.round,
                  asked_by == Asker::kWorker ? kWorkerSuffix : kSuffix);
  const std::lock_guard lock(mutex_);
  std::error_code error;
  fs::create_directories(fs::path(folder_) / tenant, error);
  PHUB_RETURN_IF_ERROR(write_safetensors(fs::path(folder_) / file, tensors));
  remove_oldest(head.tenant, spec.name, asked_by);
  PHUB_ASSIGN_OR_RETURN(const SnapshotHead written, head_of(tensors));
  return info_of(file, written, fs::file_size(fs::path(folder_) / file, error));
}

void SnapshotStore::remove_oldest(const std::string& tenant, const std::string& job,
                                  Asker asked_by) const {
  if (kept_ == 0) return;
  const fs::path folder = fs::path(folder_) / file_name_of(tenant);
  const std::string prefix = file_name_of_job(job) + ".";
  std::error_code error;
  // By when they were written: a job that starts anew under its name has small round numbers again.
  std::vector<std::pair<fs::file_time_type, std::string>> mine;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) continue;
    if (asker_of(name) != asked_by) continue;
    mine.emplace_back(fs::last_write_time(folder / name, error), name);
  }
  std::sort(mine.begin(), mine.end());
  for (std::size_t i = 0; i + kept_ < mine.size(); ++i) fs::remove(folder / mine[i].second, error);
}

std::vector<SnapshotInfo> SnapshotStore::list() const {
  std::vector<SnapshotInfo> snapshots;
  for (const std::string& tenant : names_in(folder_)) {
    for (const std::string& name : names_in((fs::path(folder_) / tenant).string())) {
      if (!name.ends_with(kSuffix)) continue;
      const fs::path path = fs::path(folder_) / tenant / name;
      const auto metadata = read_safetensors_metadata(path);
      if (!metadata) continue;
      const auto head = head_of({.tensors = {}, .metadata = *metadata});
      std::error_code error;
      if (head)
        snapshots.push_back(info_of(tenant + "/" + name, *head, fs::file_size(path, error)));
    }
  }
  std::sort(snapshots.begin(), snapshots.end(), [](const SnapshotInfo& a, const SnapshotInfo& b) {
    return std::tie(a.tenant, a.job, a.round, a.file) < std::tie(b.tenant, b.job, b.round, b.file);
  });
  return snapshots;
}

// Only what the folder lists can be named: no path leads out of it.
Result<fs::path> SnapshotStore::path_of(const std::string& file) const {
  const std::size_t slash = file.find('/');
  const std::string tenant = file.substr(0, slash);
  const auto tenants = names_in(folder_);
  if (slash != std::string::npos && std::binary_search(tenants.begin(), tenants.end(), tenant)) {
    const auto names = names_in((fs::path(folder_) / tenant).string());
    if (std::binary_search(names.begin(), names.end(), file.substr(slash + 1))) {
      return fs::path(folder_) / file;
    }
  }
  return no_snapshot(file);
}

Result<TensorFile> SnapshotStore::read(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  return read_safetensors(path);
}

Result<SnapshotHead> SnapshotStore::head(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const fs::path path, path_of(file));
  PHUB_ASSIGN_OR_RETURN(auto metadata, read_safetensors_metadata(path));
  return head_of({.tensors = {}, .metadata = std::move(metadata)});
}

Status SnapshotStore::no_snapshot(const std::string& file) {
  return {Code::kNotFound,
          fmt::format("there is no snapshot \"{}\"; `phubctl snapshots` lists them", file)};
}

std::string SnapshotStore::tenant_of(const std::string& file) {
  const std::size_t slash = file.find('/');
  return slash == std::string::npos ? "" : name_of_file(file.substr(0, slash));
}

Result<SnapshotHead> SnapshotStore::verify(const std::string& file) const {
  PHUB_ASSIGN_OR_RETURN(const TensorFile tensors, read(file));
  PHUB_ASSIGN_OR_RETURN(SnapshotHead head, head_of(tensors));
  PHUB_RETURN_IF_ERROR(server::verify(tensors, head).with_context("snapshot " + file));
  return head;
}

Result<std::shared_ptr<const JobCopy>> SnapshotStore::load(const std::string& file,
                                                           const Plan& plan,
                                                           std::uint32_t server_index) const {
  const std::string what = "snapshot " + file;
  PHUB_ASSIGN_OR_RETURN(const TensorFile tensors, read(file));
  PHUB_ASSIGN_OR_RETURN(const SnapshotHead head, head_of(tensors));
  PHUB_RETURN_IF_ERROR(server::verify(tensors, head).with_context(what));
  Result<std::shared_ptr<JobCopy>> copy = job_copy_from(tensors, head, plan, server_index);
  if (!copy) return copy.error().with_context(what);
  return std::shared_ptr<const JobCopy>(std::move(*copy));
}

}  // namespace phub::server
