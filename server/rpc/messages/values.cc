#include "server/jobs/culprits.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

void fill(const NotFinite& found, const JobSpec& spec, control::NotFinite& message) {
  message.set_key(key_name(spec, found.key));
  message.set_element(found.element);
  message.set_round(found.round);
  message.set_value(std::string(word_of(found.value)));
}

}  // namespace

void fill_values(const JobView& view, std::uint32_t seat, control::Member& message) {
  if (seat >= view.counters.values.size()) return;
  const WorkerValues& values = view.counters.values[seat];
  if (values.pushes == 0 && values.overflow_votes == 0) return;
  control::WorkerValues& entry = *message.mutable_values();
  entry.set_pushes(values.pushes);
  entry.set_overflow_votes(values.overflow_votes);
  if (values.pushes == 0) return;
  fill(values.first, *view.spec, *entry.mutable_first());
  fill(values.last, *view.spec, *entry.mutable_last());
}

void fill_corruption(const JobView& view, std::uint32_t seat, control::Member& message) {
  if (seat >= view.counters.corruption.size()) return;
  const WorkerCorruption& found = view.counters.corruption[seat];
  if (found.pushes == 0) return;
  control::WorkerCorruption& entry = *message.mutable_corruption();
  entry.set_pushes(found.pushes);
  entry.set_key(key_name(*view.spec, found.key));
  entry.set_round(found.round);
}

}  // namespace phub::server
