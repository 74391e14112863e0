#include "bench/rack/testbed/testbed.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/rack/testbed/owner.h"

namespace phub::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSpaces = "/run/netns";
constexpr std::string_view kScratch = "phub-bench-";  // what Places calls its folders

// Names in the folder, sorted; none if it is not there.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Nothing but what we started runs in a namespace of ours.
Status remove_space(const RackTools& tools, const std::string& space) {
  PHUB_ASSIGN_OR_RETURN(const std::string pids, tools.ip({"netns", "pids", space}));
  std::istringstream words(pids);
  for (pid_t pid = 0; words >> pid;) ::kill(pid, SIGKILL);
  return tools.ip({"netns", "del", space}).has_value()
             ? Status()
             : Status(Code::kUnavailable,
                      fmt::format("{}/{} could not be removed", kSpaces, space));
}

bool is_left(std::string_view name) {
  const auto owner = RackOwner::of(name);
  return owner && !owner->is_alive();
}

bool is_left_scratch(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(), is_left);
}

}  // namespace

Result<std::unique_ptr<Testbed>> Testbed::build(const Fabric& fabric, const RackLinks& links,
                                                const RackTools& tools, Places& places) {
  PHUB_RETURN_IF_ERROR(mark_scratch(places));
  std::unique_ptr<Testbed> testbed(new Testbed(RackOwner::self().prefix(), tools, places));
  for (const Batch& batch : setup_batches(fabric, links, testbed->owner_)) {
    PHUB_RETURN_IF_ERROR(tools.run(batch));
  }
  return testbed;
}

Testbed::~Testbed() {
  for (const std::string& name : names_in(kSpaces)) {
    if (!name.starts_with(owner_ + "-")) continue;
    if (const Status removed = remove_space(tools_, name); !removed.ok()) {
      fmt::print(stderr, "phub-bench: {}; phub-bench rack clean\n", removed.message());
    }
  }
}

Result<std::vector<std::string>> Testbed::command(const RackHost& host,
                                                  const HostProgram& program) const {
  std::vector<std::string> words = tools_.within(space(host.name));
  PHUB_ASSIGN_OR_RETURN(std::string path, places_.program(program.program));
  if (program.late_s > 0) {  // inside, so that it goes with the namespace
    const std::string pause = fmt::format("sleep {}; exec \"$@\"", program.late_s);
    words.insert(words.end(), {"sh", "-c", pause, "sh"});
  }
  words.push_back(std::move(path));
  words.insert(words.end(), program.words.begin(), program.words.end());
  if (program.config.empty()) return words;
  words.push_back(places_.fresh_path(host.name + ".textproto"));
  std::ofstream file(words.back());
  file << program.config;
  if (!file.flush()) return errno_status(words.back());
  return words;
}

Status Testbed::set_congestion(const RackHost& host, const std::string& name) const {
  return tools_.run(
      {.program = "ip", .space = space(host.name), .lines = {congestion_line(host, name)}});
}

Status Testbed::set_down(const std::string& port) const {
  return tools_.run({.program = "ip",
                     .space = space(kSwitches),
                     .lines = {fmt::format("link set dev {} down", port)}});
}

Status mark_scratch(const Places& places) {
  const fs::path mark = places.scratch() / RackOwner::self().prefix();
  std::ofstream file(mark);
  return file ? Status() : errno_status(mark.string());
}

Result<std::vector<std::string>> remove_leftovers(const RackTools& tools) {
  std::vector<std::string> removed;
  for (const std::string& name : names_in(kSpaces)) {
    if (!is_left(name)) continue;
    PHUB_RETURN_IF_ERROR(remove_space(tools, name));
    removed.push_back(fmt::format("{}/{}", kSpaces, name));
  }
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  for (const std::string& name : names_in(temporary)) {
    if (!name.starts_with(kScratch) || !is_left_scratch(temporary / name)) continue;
    fs::remove_all(temporary / name, error);
    if (error) return Status(Code::kUnavailable, fmt::format("{}: {}", name, error.message()));
    removed.push_back((temporary / name).string());
  }
  return removed;
}

}  // namespace phub::bench
