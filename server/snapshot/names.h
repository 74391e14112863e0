// How a snapshot's file is called: TENANT/JOB.ROUND.safetensors below the store's folder, or
// TENANT/JOB.ROUND.worker.safetensors of what a worker asked for.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace phub::server {

enum class Asker : std::uint8_t { kAdministrator, kWorker };  // a drain is an administrator's

inline constexpr std::string_view kSnapshotSuffix = ".safetensors";

// Tells apart who asked for a file.
Asker asker_of(std::string_view file);
// "default" for the default tenant, whose id is 0, else NAME~ID: what a deleted tenant had is not
// its successor's.
std::string snapshot_folder_of(const std::string& tenant, std::uint32_t tenant_id);
// The id in such a name; none: it is no tenant's folder.
std::optional<std::uint32_t> tenant_id_of_folder(const std::string& folder);
// The beginning of all names of a job's files, with the dot behind the job's.
std::string snapshot_prefix_of(const std::string& job);
std::string snapshot_file_of(const std::string& job, std::uint64_t round, Asker asked_by);

// What a file's name says; the end of a very long job's name is cut.
struct SnapshotName {
  std::string job;
  std::uint64_t round = 0;
};
// `file`: its name without a folder. None: no snapshot has such a name.
std::optional<SnapshotName> parse_snapshot_name(std::string_view file);
// The tenant's name, cut as a job's, or another folder's name.
std::string tenant_of_snapshot_folder(std::string_view folder);

}  // namespace phub::server
