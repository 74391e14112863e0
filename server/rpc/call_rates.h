// How often tenants may call: more is refused with the figures.
//
// Any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "common/base/status.h"
#include "server/door/token_bucket.h"

namespace phub::server {

class CallRates {
 public:
  // Of each tenant.
  CallRates(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Errors: kResourceExhausted.
  Status admit(const std::string& tenant, TokenBucket::Clock::time_point now);

 private:
  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  std::map<std::string, TokenBucket> rates_;  // of who has ever called; administrators make tenants
};

}  // namespace phub::server
