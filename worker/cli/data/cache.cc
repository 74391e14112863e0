#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/log_value.h"
#include "common/text/table.h"
#include "worker/cli/commands.h"
#include "worker/data/cache/folder.h"

namespace phub {
namespace {

namespace cache = data::cache;

struct CacheArguments {
  std::string path;  // empty: shared memory
  bool json = false;

  std::filesystem::path folder() const {
    return path.empty() ? cache::memory_folder() : std::filesystem::path(path);
  }
};

constexpr const char* kCacheExamples = R"(
Examples:
  Which sets have copies on this host's disk, and how much they take:
    phub-worker cache list /ssd/phub-cache
  Decoded images in shared memory, whose workers may have been killed:
    phub-worker cache list
    phub-worker cache clear
  Whether a disk returns what was written:
    phub-worker cache verify /ssd/phub-cache

PATH is data.cache.path of a training. Without it the commands are about the decoded images of this
user in shared memory.

Exit status: 0, 1 something is damaged or used, or PATH is not there, 2 wrong usage.)";

// A mistyped folder has no copies, but nobody meant that.
Status check_folder(const CacheArguments& arguments) {
  std::error_code error;
  if (arguments.path.empty() || std::filesystem::is_directory(arguments.path, error)) return {};
  return {Code::kNotFound, "PATH: there is no folder " + one_line(arguments.path) +
                               "; give data.cache.path of a training"};
}

constexpr std::chrono::milliseconds kLookPatience{1000};

std::string label_of(const cache::StoreInfo& store) { return store.path.filename().native(); }

nlohmann::ordered_json json_of(const cache::StoreInfo& store) {
  nlohmann::ordered_json object = {{"store", label_of(store)}, {"set", store.about},
                                   {"samples", store.samples}, {"kept", store.kept},
                                   {"bytes", store.bytes},     {"opened", store.used_s},
                                   {"in_use", store.is_used}};
  if (!store.status.ok()) object["error"] = store.status.message();
  return object;
}

void print_json(const nlohmann::ordered_json& object) {
  // Names may be any bytes.
  fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string time_of(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

Status list(const CacheArguments& arguments) {
  Table table("STORE|>IMAGES|>OF|>MIB|OPENED|IN USE|SET");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::uint64_t bytes = 0;
  for (const auto& path : cache::stores_in(arguments.folder())) {
    // A process that starts is not to find a store locked by who looks at it.
    const auto lock = cache::FolderLock::take(arguments.folder(), kLookPatience);
    const cache::StoreInfo store = cache::look_at(path);
    bytes += store.bytes;
    all.push_back(json_of(store));
    table.add({one_line(label_of(store)), std::to_string(store.kept), std::to_string(store.samples),
               std::to_string(store.bytes >> 20U), time_of(store.used_s),
               store.is_used ? "yes" : "no",
               store.status.ok() ? store.about : store.status.message()});
  }
  if (arguments.json) {
    print_json({{"folder", arguments.folder().native()}, {"bytes", bytes}, {"stores", all}});
    return {};
  }
  if (table.empty()) {
    fmt::print("{} has no images.\n", one_line(arguments.folder().native()));
    return {};
  }
  fmt::print("{}{} MiB in {}\n", table.to_string(), bytes >> 20U,
             one_line(arguments.folder().native()));
  return {};
}

Status verify(const CacheArguments& arguments) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::uint64_t damaged = 0;
  for (const auto& path : cache::stores_in(arguments.folder())) {
    const auto report = cache::verify(path);
    const std::string name = one_line(path.filename().native());
    damaged += report ? report->damaged.size() : 1;
    if (!report) {
      all.push_back({{"store", name}, {"error", report.error().message()}});
      if (!arguments.json) fmt::print("{}: {}\n", name, report.error().message());
      continue;
    }
    all.push_back({{"store", name},
                   {"samples", report->samples},
                   {"bytes", report->bytes},
                   {"damaged", report->damaged}});
    if (arguments.json) continue;
    fmt::print("{}: {} images, {:.1f} MB, {} damaged\n", name, report->samples,
               static_cast<double>(report->bytes) / 1e6, report->damaged.size());
    for (const std::uint64_t sample : report->damaged) fmt::print("  image {}\n", sample);
  }
  if (arguments.json) print_json({{"stores", all}});
  if (damaged == 0) return {};
  return {Code::kDataLoss,
          fmt::format("{} images or stores are damaged: training reads these images from the set; "
                      "`phub-worker cache clear` removes all copies, and a disk that does this "
                      "should be replaced",
                      damaged)};
}

Status clear(const CacheArguments& arguments) {
  const std::filesystem::path folder = arguments.folder();
  const auto stores = cache::stores_in(folder);
  nlohmann::ordered_json removed = nlohmann::ordered_json::array();
  Status first;
  std::uint64_t bytes = 0;
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) {
    cache::Removal removal;
    PHUB_ASSIGN_OR_RETURN(const cache::FolderLock lock, cache::FolderLock::take(folder));
    removal.add_remnants(folder);
    for (const auto& path : stores) {
      const std::uint64_t size = cache::look_at(path).bytes;
      const Status status = removal.add(path);
      if (first.ok()) first = status;
      if (!status.ok()) continue;
      removed.push_back(path.filename().native());
      bytes += size;
    }
  }
  if (arguments.json) {
    print_json({{"removed", removed}, {"bytes", bytes}});
  } else {
    fmt::print("Removed {} of {} stores, {} MiB, from {}\n", removed.size(), stores.size(),
               bytes >> 20U, one_line(folder.native()));
  }
  return first;
}

Command add(CLI::App& group, const char* name, const char* what,
            Status (*run)(const CacheArguments&)) {
  const auto kept = std::make_shared<CacheArguments>();
  CLI::App* app = group.add_subcommand(name, what);
  app->add_option("PATH", kept->path, "The folder of the copies; left out: shared memory")
      ->type_name("");
  app->add_flag("--json", kept->json, "One JSON object instead of text");
  return {app, [kept, run] {
            Status status = check_folder(*kept);
            if (status.ok()) status = run(*kept);
            return status.ok() ? Ending() : fail(status);
          }};
}

}  // namespace

Command add_cache_command(CLI::App& app) {
  CLI::App* group = app.add_subcommand("cache", "Look at, verify and remove copies of images");
  group->require_subcommand(1);
  group->footer(kCacheExamples);
  const auto commands = std::make_shared<std::vector<Command>>(std::vector<Command>{
      add(*group, "list", "Which sets have copies, how many and how large", list),
      add(*group, "verify", "Read all copies, and compare their checksums", verify),
      add(*group, "clear", "Remove the copies that no process uses", clear)});
  return {group, [commands] {
            return std::find_if(commands->begin(), commands->end(),
                                [](const Command& each) { return each.app->parsed(); })
                ->run();
          }};
}

}  // namespace phub
