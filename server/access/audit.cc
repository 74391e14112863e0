#include "server/access/audit.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"
#include "common/base/visible.h"

namespace phub::server {
namespace {

constexpr std::size_t kBytesMax = 512;  // of each word: they may be a caller's

// What is no character, or one that moves the cursor, is shown as '?'.
std::string bounded(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const detail::CodePoint point = detail::first_code_point(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(point.bytes, 1));
    if (shown.size() + character.size() > kBytesMax) break;
    text.remove_prefix(character.size());
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    if (point.bytes == 0 || is_control) {
      shown += '?';
    } else if (point.value == '"') {
      shown += '\'';
    } else {
      shown += character;
    }
  }
  return shown;
}

}  // namespace

void AuditLog::record(const Actor& actor, std::string_view action, std::string_view object,
                      const Status& outcome) {
  std::string why = outcome.ok() ? "done" : outcome.message();
  if (!outcome.ok()) {
    const auto left_out = admit_failure(actor.name);
    if (!left_out) return;
    if (*left_out > 0) why = fmt::format("({} more were left out) {}", *left_out, why);
  }
  using std::chrono::system_clock;
  const auto since = system_clock::now().time_since_epoch();
  const AuditRecord record{
      .unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count(),
      .principal = bounded(actor.name),
      .action = bounded(action),
      .object = bounded(object),
      .outcome = bounded(why),
      .by_admin = actor.is_admin};
  spdlog::info("event=audit principal={} action={} object={} outcome={}",
               log_value(record.principal), log_value(record.action), log_value(record.object),
               log_value(record.outcome));
  const Status stored = store_.add_audit(record);
  if (!stored.ok()) spdlog::error("event=audit_not_stored reason={}", log_value(stored.message()));
}

std::optional<std::uint64_t> AuditLog::admit_failure(std::string_view principal) {
  const TimePoint now = clock_();
  const std::lock_guard lock(mutex_);
  Budget& budget = budget_of(principal, now);
  budget.last = now;
  if (budget.failures.wait(now) > std::chrono::steady_clock::duration::zero()) {
    ++budget.left_out;
    return std::nullopt;
  }
  budget.failures.take(now);
  return std::exchange(budget.left_out, 0);
}

// REQUIRES: the mutex is held. A principal whose budget is full again is as one that never came.
AuditLog::Budget& AuditLog::budget_of(std::string_view principal, TimePoint now) {
  const std::string key(principal.substr(0, kBytesMax));
  if (const auto found = budgets_.find(key); found != budgets_.end()) return found->second;
  if (budgets_.size() >= kPrincipalsMax) {
    std::erase_if(budgets_, [&](const auto& entry) {
      return now - entry.second.last >= kFailuresAtOnce * kFailureInterval;
    });
  }
  const bool has_room = budgets_.size() < kPrincipalsMax;
  constexpr double kPerSecond = 1.0 / std::chrono::duration<double>(kFailureInterval).count();
  const Budget full{.failures = TokenBucket(kPerSecond, kFailuresAtOnce, now), .last = now};
  return budgets_.try_emplace(has_room ? key : std::string(), full).first->second;
}

}  // namespace phub::server
