#include "worker/data/encoded/damage.h"

#include <utility>

namespace phub::data {

DamageLog::DamageLog(std::uint64_t damaged_max, std::function<void(std::string_view)> note)
    : damaged_max_(damaged_max), note_(std::move(note)) {}

Status DamageLog::report(std::uint64_t image, const Status& error) {
  const std::string& text = error.message();
  const std::lock_guard lock(mutex_);
  if (images_.contains(image)) return {};
  if (images_.size() >= damaged_max_) {
    return {Code::kDataLoss,
            text + "; it is damaged, and " + std::to_string(images_.size()) +
                " others were: mend or remove them (`phub-worker data check` names all), or raise "
                "data.damaged_max (" +
                std::to_string(damaged_max_) + ")"};
  }
  images_.insert(image);
  if (note_) note_(text + "; another image takes its place");
  return {};
}

std::uint64_t DamageLog::damaged() const {
  const std::lock_guard lock(mutex_);
  return images_.size();
}

}  // namespace phub::data
