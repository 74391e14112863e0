#include "bench/rack/testbed/owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace phub::bench {
namespace {

constexpr std::string_view kPrefix = "phub-rack-";

// Takes a number from the front of `text`.
template <typename Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<std::uint64_t> start_ticks_of(pid_t pid) {
  constexpr int kFieldsBetween = 18;  // from the state, field 3, to field 22
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // a name may have anything in it
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(line.substr(name_end + 1));
  std::string state;
  std::string skipped;
  words >> state;
  for (int i = 0; i < kFieldsBetween; ++i) words >> skipped;
  std::uint64_t ticks = 0;
  if (!(words >> ticks) || state == "Z") return std::nullopt;
  return ticks;
}

RackOwner RackOwner::self() {
  const pid_t pid = ::getpid();
  return {.pid = pid, .start_ticks = start_ticks_of(pid).value_or(0)};
}

std::optional<RackOwner> RackOwner::of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  RackOwner owner;
  if (!take(name, owner.pid) || !name.starts_with('-')) return std::nullopt;
  name.remove_prefix(1);
  if (!take(name, owner.start_ticks)) return std::nullopt;
  if (!name.empty() && name.front() != '-') return std::nullopt;
  return owner;
}

bool RackOwner::is_alive() const { return start_ticks_of(pid) == start_ticks; }

std::string RackOwner::prefix() const { return fmt::format("{}{}-{}", kPrefix, pid, start_ticks); }

}  // namespace phub::bench
