#include "server/snapshot/names.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "server/tenants/tenant.h"

namespace phub::server {
namespace {

constexpr std::string_view kWorkerSuffix = ".worker.safetensors";

// A name may hold anything; a file's holds letters, digits, '-' and '_', and %XX for the rest.
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = std::isalnum(byte) != 0 || c == '-' || c == '_';
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

// Of any job's name. What is too long for a file system is cut, and told apart by a hash of the
// whole.
std::string plain_job(const std::string& job) {
  constexpr std::size_t kCharactersMax = 160;
  const std::string name = plain(job);
  if (name.size() <= kCharactersMax) return name;
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{}~{:016x}", name.substr(0, kCharactersMax), hash);
}

// The inverse of plain_job and of a folder's name, without what tells cut names and tenants of one
// name apart.
std::string written_name(std::string_view text) {
  text = text.substr(0, text.find('~'));
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      name += static_cast<char>(byte);
      i += 2;
    } else {
      name += text[i];
    }
  }
  return name;
}

}  // namespace

// The job's name has no other dots than those here.
Asker asker_of(std::string_view file) {
  return file.ends_with(kWorkerSuffix) ? Asker::kWorker : Asker::kAdministrator;
}

std::string snapshot_folder_of(const std::string& tenant, std::uint32_t tenant_id) {
  return tenant_id == 0 ? plain(tenant) : fmt::format("{}~{}", plain(tenant), tenant_id);
}

std::optional<std::uint32_t> tenant_id_of_folder(const std::string& folder) {
  if (folder == kDefaultTenant) return 0;
  const std::size_t tilde = folder.find('~');
  if (tilde == std::string::npos) return std::nullopt;
  std::uint32_t id = 0;
  const char* const end = folder.data() + folder.size();
  const auto parsed = std::from_chars(folder.data() + tilde + 1, end, id);
  if (parsed.ec != std::errc() || parsed.ptr != end || id == 0) return std::nullopt;
  return id;
}

std::string snapshot_prefix_of(const std::string& job) { return plain_job(job) + "."; }

std::string snapshot_file_of(const std::string& job, std::uint64_t round, Asker asked_by) {
  return fmt::format("{}{:012}{}", snapshot_prefix_of(job), round,
                     asked_by == Asker::kWorker ? kWorkerSuffix : kSnapshotSuffix);
}

std::optional<SnapshotName> parse_snapshot_name(std::string_view file) {
  for (const std::string_view suffix : {kWorkerSuffix, kSnapshotSuffix}) {
    if (!file.ends_with(suffix)) continue;
    file.remove_suffix(suffix.size());
    const std::size_t dot = file.rfind('.');
    if (dot == std::string_view::npos) return {};
    SnapshotName known{.job = written_name(file.substr(0, dot))};
    const char* const end = file.data() + file.size();
    const auto parsed = std::from_chars(file.data() + dot + 1, end, known.round);
    if (parsed.ec != std::errc() || parsed.ptr != end) return {};
    return known;
  }
  return {};
}

std::string tenant_of_snapshot_folder(std::string_view folder) { return written_name(folder); }

}  // namespace phub::server
