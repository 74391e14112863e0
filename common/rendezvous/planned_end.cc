#include "common/rendezvous/planned_end.h"

#include <utility>

namespace phub::client {

void PlannedEnd::want(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (said_.wanted.empty()) said_.wanted = reason;
}

void PlannedEnd::propose(std::uint64_t last_step) {
  const std::lock_guard lock(mutex_);
  if (said_.last_step == 0) said_.last_step = last_step;
}

void PlannedEnd::know(std::uint64_t last_step) {
  const std::lock_guard lock(mutex_);
  said_.known = last_step;
}

PlannedEnd::Said PlannedEnd::said() const {
  const std::lock_guard lock(mutex_);
  return said_;
}

void PlannedEnd::hear(const Heard& heard, bool from_first, std::string_view address) {
  bool is_news = false;
  bool knows_more = false;
  Heard now;
  {
    const std::lock_guard lock(mutex_);
    if (heard_.reason.empty() && !heard.reason.empty()) {
      is_news = true;
      heard_.reason = heard.reason;
      if (!from_first && said_.wanted.empty()) {
        said_.wanted = heard.reason + " at " + std::string(address);
      }
    }
    if (from_first) {
      knows_more = heard_.last_step == 0 && heard.last_step != 0;
      if (knows_more) heard_.last_step = heard.last_step;
      if (knows_more && !on_news_) said_.known = heard.last_step;
      heard_.all_know = heard.all_know;
    }
    now = heard_;
  }
  if (on_news_ && (is_news || knows_more)) on_news_(now);
}

std::string PlannedEnd::reason() const {
  const std::lock_guard lock(mutex_);
  return heard_.reason.empty() ? said_.wanted : heard_.reason;
}

std::uint64_t PlannedEnd::last_step() const {
  const std::lock_guard lock(mutex_);
  return heard_.last_step;
}

bool PlannedEnd::all_know() const {
  const std::lock_guard lock(mutex_);
  return heard_.all_know;
}

}  // namespace phub::client
