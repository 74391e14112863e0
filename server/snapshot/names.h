// How tenants and jobs become names of folders and files, and back.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace phub::server {

// "default" for the default tenant, whose id is 0, else NAME~ID.
std::string snapshot_folder_of(const std::string& tenant, std::uint32_t tenant_id);
// The id in such a name; none: it is no tenant's folder.
std::optional<std::uint32_t> tenant_id_of_folder(const std::string& folder);

// Of any job's name. What is too long for a file system is cut, and told apart by a hash of the
// whole.
std::string snapshot_file_of(const std::string& job);

}  // namespace phub::server
