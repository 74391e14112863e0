#include "server/tenants/key_allowance.h"

#include <fmt/format.h>

namespace phub::server {

KeyAllowance::Share::~Share() {
  if (bytes_ == 0) return;
  const std::lock_guard lock(taken_->mutex);
  const auto found = taken_->bytes.find(tenant_);
  found->second -= bytes_;
  if (found->second == 0) taken_->bytes.erase(found);
}

Status KeyAllowance::take(const std::string& tenant, std::uint64_t bytes, Share& share) {
  if (bytes == 0) return {};
  const std::lock_guard lock(taken_->mutex);
  const auto found = taken_->bytes.find(tenant);
  const std::uint64_t before = found == taken_->bytes.end() ? 0 : found->second;
  if (before + bytes > allowed_) {
    constexpr std::uint64_t kMebibyte = 1024 * 1024;
    return {
        Code::kResourceExhausted,
        fmt::format("keys: those of tenant \"{}\"'s jobs, joins under way included, take {} "
                    "MiB, and {} MiB are allowed; wait for other joins, end a job, or use fewer "
                    "keys",
                    tenant, (before + bytes) / kMebibyte, allowed_ / kMebibyte)};
  }
  taken_->bytes[tenant] = before + bytes;
  share.taken_ = taken_;
  share.tenant_ = tenant;
  share.bytes_ += bytes;
  return {};
}

}  // namespace phub::server
