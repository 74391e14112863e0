#include "server/tenants/tenant.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace phub::server {
namespace {

constexpr std::size_t kNameCharsMax = 64;
constexpr std::uint32_t kWeightMax = 1000;
constexpr std::uint64_t kMibMax = std::uint64_t{1} << 40;
constexpr std::uint64_t kMebibyte = 1024 * 1024;

std::uint64_t mebibytes(std::uint64_t bytes) { return (bytes + kMebibyte - 1) / kMebibyte; }

}  // namespace

Status validate_tenant_name(std::string_view field, std::string_view name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!name.empty() && name.size() <= kNameCharsMax && is_plain) return {};
  return {Code::kInvalidArgument,
          fmt::format("{}: must have 1 to {} letters, digits, dots, dashes or underscores", field,
                      std::size_t{kNameCharsMax})};
}

std::string name_of_deleted(const Tenant& tenant) {
  return fmt::format("{}~{}", tenant.name, tenant.id);
}

Status validate(const Quotas& quotas) {
  if (quotas.weight == 0 || quotas.weight > kWeightMax) {
    return {Code::kInvalidArgument, fmt::format("weight: {}, allowed are 1 to {}", quotas.weight,
                                                std::uint32_t{kWeightMax})};
  }
  for (const auto& [field, mib] :
       {std::pair("memory_mib", quotas.memory_mib), std::pair("disk_mib", quotas.disk_mib)}) {
    if (mib <= kMibMax) continue;
    return {Code::kInvalidArgument,
            fmt::format("{}: {}, at most {} are allowed", field, mib, std::uint64_t{kMibMax})};
  }
  return {};
}

Status admit_job(const Tenant& tenant, const Usage& usage, std::uint64_t connections) {
  const Quotas& quotas = tenant.quotas;
  if (quotas.jobs != 0 && usage.jobs + 1 > quotas.jobs) {
    return {Code::kResourceExhausted,
            fmt::format("tenant \"{}\" has {} live jobs and its quota is {}; close one, or let an "
                        "administrator raise it (`phubctl tenant set {} --jobs N`)",
                        tenant.name, usage.jobs, quotas.jobs, tenant.name)};
  }
  if (quotas.connections != 0 && usage.connections + connections > quotas.connections) {
    return {
        Code::kResourceExhausted,
        fmt::format(
            "the job needs {} connections (workers x tcp_streams x cores), tenant \"{}\" has {} of "
            "its quota of {}; use fewer workers, or let an administrator raise it "
            "(`phubctl tenant set {} --connections N`)",
            connections, tenant.name, usage.connections, quotas.connections, tenant.name)};
  }
  return {};
}

Status admit_memory(const Tenant& tenant, const Usage& usage, std::uint64_t bytes,
                    std::string_view what) {
  const std::uint64_t allowed = tenant.quotas.memory_mib;
  if (allowed == 0 || usage.memory_bytes + bytes <= allowed * kMebibyte) return {};
  return {Code::kResourceExhausted,
          fmt::format("{} needs {} MiB, tenant \"{}\" has {} MiB of its quota of {} MiB; end "
                      "another job, or let an administrator raise it (`phubctl tenant set {} "
                      "--memory-mib N`)",
                      what, mebibytes(bytes), tenant.name, mebibytes(usage.memory_bytes), allowed,
                      tenant.name)};
}

}  // namespace phub::server
