// How many bytes the keys of a tenant's jobs may take, those of joins under way included.
//
// Any thread. What was taken may be given back after the allowance is gone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace phub::server {

class KeyAllowance {
  struct Taken {
    std::mutex mutex;
    std::map<std::string, std::uint64_t> bytes;  // of tenants that have any
  };

 public:
  explicit KeyAllowance(std::uint64_t bytes_of_tenant) : allowed_(bytes_of_tenant) {}

  // Some of a tenant's bytes, given back when it is destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : taken_(std::move(other.taken_)),
          tenant_(std::move(other.tenant_)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share();

   private:
    friend class KeyAllowance;
    std::shared_ptr<Taken> taken_;
    std::string tenant_;
    std::uint64_t bytes_ = 0;
  };

  // Adds to a share, which is always the same tenant's. Errors: kResourceExhausted with the
  // figures.
  Status take(const std::string& tenant, std::uint64_t bytes, Share& share);

 private:
  const std::uint64_t allowed_;
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace phub::server
