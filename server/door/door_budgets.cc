#include "server/door/door_budgets.h"

namespace phub::server {
namespace {

// Costs a second and at once: 500 handshakes a second may fail, or 2,000 be silent; beyond what a
// rack's workers could need. One address has half of it.
constexpr double kPerSecond = 2000;
constexpr double kAtOnce = 4000;
constexpr double kOwnPerSecond = kPerSecond / 2;
constexpr double kOwnAtOnce = kAtOnce / 2;
// Kept for addresses that have hardly failed.
constexpr double kReserve = kAtOnce;
// What an address must have left to come in when only the reserve is left.
constexpr double kHardlyFailed = kOwnAtOnce / 2;
// Of those who were let in before the first of them had failed: so they are out for half a second
// at a time, however many they were.
constexpr double kOwnDebtMax = kOwnPerSecond / 2;
constexpr double kDebtMax = kPerSecond / 2;
// Known apart: about 800 KiB. A network that has more addresses than this is a flood.
constexpr std::size_t kAddressesMax = 4096;

}  // namespace

DoorBudgets::DoorBudgets(Clock::time_point now)
    : all_(kPerSecond, kAtOnce + kReserve, now, kDebtMax) {}

TokenBucket DoorBudgets::fresh(Clock::time_point now) {
  return {kOwnPerSecond, kOwnAtOnce, now, kOwnDebtMax};
}

bool DoorBudgets::admits(std::string_view address, Clock::time_point now) {
  const double left = all_.left(now);
  if (left < 1) return false;
  const auto found = found_.find(address);
  if (found == found_.end()) return true;
  return found->second->budget.left(now) >= (left < kReserve ? kHardlyFailed : 1);
}

void DoorBudgets::charge(std::string_view address, double cost, Clock::time_point now) {
  if (const auto found = found_.find(address); found != found_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
  } else {
    if (recent_.size() >= kAddressesMax) {
      found_.erase(recent_.back().address);
      recent_.pop_back();
    }
    recent_.push_front(
        {.address = std::string(address), .budget = fresh(now), .share = fresh(now)});
    found_.emplace(recent_.front().address, recent_.begin());
  }
  Own& own = recent_.front();
  own.budget.take(now, cost);
  if (own.share.left(now) < 1) return;
  own.share.take(now, cost);
  all_.take(now, cost);
}

void DoorBudgets::prove(std::string_view address, Clock::time_point now) {
  const auto found = found_.find(address);
  if (found != found_.end()) found->second->budget = fresh(now);
}

}  // namespace phub::server
