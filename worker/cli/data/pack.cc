#include "worker/data/formats/packed/pack.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/text/url.h"
#include "worker/cli/data/data.h"
#include "worker/cli/data/set_choice.h"
#include "worker/data/formats/detect/detect.h"

namespace phub {
namespace {

struct PackArguments {
  SetChoice set;
  std::string out;
  bool anew = false, json = false;
};

constexpr const char* kPackExamples = R"(
Examples:
  Both splits of a folder of JPEGs:
    phub-worker data pack pictures packed
  The training images of tar archives alone:
    phub-worker data pack shards packed --split train
  The same of a web server:
    phub-worker data pack 'https://host/train-{0..9}.tar' packed --split train
  Then, in a training's configuration:
    data { format: "packed" path: "packed" }
  Or, where a web server has the folder:
    data { format: "packed" path: "https://host/packed" }

Images are copied as they are, with a checksum for each. OUT/train.phub and OUT/test.phub are
complete or are not there: they are written beside and renamed. A run that was stopped goes on where
it was when it is started again. A sample that cannot be read ends it, so check the set first. After
images were added or removed, --anew starts over.

Exit status: 0, 1 failed, stopped or not there, 2 wrong usage, or a set that breaks its format's rules.)";

Status pack(const PackArguments& arguments) {
  if (is_url(arguments.out)) {
    return {Code::kInvalidArgument,
            "OUT: is a URL; give a folder on this machine, and bring its files to the server"};
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  if (error) {
    return {Code::kInvalidArgument, "OUT: cannot make folder " + arguments.out + " (" +
                                        error.message() + "): choose another"};
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const data::Split split : splits_of(arguments.set)) {
    const std::string name(name_of(split));
    PHUB_ASSIGN_OR_RETURN(const auto set,
                          data::open_sample_set(arguments.set.path, split,
                                                {.on_progress = progress_bar("open " + name)}));
    const std::filesystem::path path = std::filesystem::path(arguments.out) / (name + ".phub");
    PHUB_ASSIGN_OR_RETURN(
        const data::PackReport report,
        data::pack(*set, path, {.resume = !arguments.anew}, progress_bar("pack " + name)));
    const std::uint64_t bytes = std::filesystem::file_size(path, error);
    all.push_back({{"file", path.string()},
                   {"samples", report.samples},
                   {"kept", report.kept},
                   {"classes", set->classes().size()},
                   {"bytes", bytes}});
    if (arguments.json) continue;
    fmt::print("{}: {} images of {} classes, {:.1f} MB", path.string(), report.samples,
               set->classes().size(), static_cast<double>(bytes) / 1e6);
    fmt::print("{}\n", report.kept > 0
                           ? fmt::format(" ({} of an earlier run that was stopped)", report.kept)
                           : "");
  }
  if (!arguments.json) return {};
  // Names may be any bytes.
  fmt::print("{}\n", nlohmann::ordered_json{{"files", all}}.dump(
                         -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return {};
}

}  // namespace

Command add_data_pack_command(CLI::App& data) {
  const auto kept = std::make_shared<PackArguments>();
  PackArguments& arguments = *kept;
  CLI::App* pack_app = data.add_subcommand("pack", "Write a set as one file for each split");
  pack_app->footer(kPackExamples);
  add_set_options(*pack_app, arguments.set);
  pack_app->add_option("OUT", arguments.out, "The folder of the packed files")
      ->required()
      ->type_name("");
  pack_app->add_flag("--anew", arguments.anew, "Do not go on with what a stopped run has written");
  pack_app->add_flag("--json", arguments.json, "One JSON object instead of lines");
  return {pack_app, [kept] {
            const Status status = pack(*kept);
            return status.ok() ? Ending() : fail(status);
          }};
}

}  // namespace phub
