// Any bytes as what a caller asks for: a job that can be, which comes back from its own text, or an
// error; and whatever a caller is called can be shown.
#include <cstdlib>
#include <string>

#include "common/job/check.h"
#include "common/job/message.h"
#include "common/job/text.h"
#include "common/steps/step_waits.h"
#include "server/rpc/messages/messages.h"

namespace {

// What is accepted has shares, and is a report again.
void look_at(const phub::control::StepWaits& message) {
  const auto times = phub::step_waits_from(message);
  if (!times) return;
  for (const double share :
       {times->input_share(), times->exchange_share(), times->compute_share()}) {
    if (!(share >= 0.0 && share <= 1.0)) std::abort();
  }
  if (!(times->step_seconds() > 0.0)) std::abort();
  phub::control::StepWaits again;
  fill(*times, again);
  if (phub::step_waits_from(again).value() != *times) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phub;  // NOLINT(google-build-using-namespace)
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const char shown : server::printable(bytes, 100)) {
    if (shown < ' ' || shown > '~') std::abort();
  }
  control::HeartbeatRequest beat;
  if (beat.ParseFromString(bytes)) {
    static_cast<void>(server::identity_from(beat));
    look_at(beat.step_waits());
  }
  control::StepWaits times;
  if (times.ParseFromString(bytes)) look_at(times);
  control::JobSpec message;
  if (!message.ParseFromString(bytes)) return 0;
  const auto spec = spec_from(message);
  if (!spec || !validate(*spec).ok() || spec->keys.empty()) return 0;
  const std::string text = text_of(*spec);
  const auto again = spec_from_text(text);
  if (!again || text_of(*again) != text) std::abort();
  return 0;
}
