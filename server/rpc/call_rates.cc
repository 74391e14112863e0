#include "server/rpc/call_rates.h"

#include <fmt/format.h>

namespace phub::server {

Status CallRates::admit(const std::string& tenant, TokenBucket::Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  TokenBucket& rate =
      rates_.try_emplace(tenant, TokenBucket(per_second_, burst_, now)).first->second;
  if (rate.wait(now) > TokenBucket::Clock::duration::zero()) {
    return {
        Code::kResourceExhausted,
        fmt::format("tenant \"{}\" has made {} calls in a burst, and may make {} a second; call "
                    "less often",
                    tenant, burst_, per_second_)};
  }
  rate.take(now);
  return {};
}

}  // namespace phub::server
