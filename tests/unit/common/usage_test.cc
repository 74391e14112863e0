// What is said of a command line that is not understood.
#include "common/text/usage.h"

#include <catch2/catch.hpp>

#include "common/text/nearest.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;

std::string refused(const std::string& line) {
  CLI::App app("", "tool");
  app.require_subcommand(1);
  CLI::App* const job = app.add_subcommand("job");
  job->require_subcommand(1);
  job->add_subcommand("list");
  job->add_subcommand("inspect");
  app.add_subcommand("top")->add_flag("--once");
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    const std::string said = usage_error(app, error);
    CHECK(usage_failure(&app, error) == said + "\nRun with --help for more information.\n");
    return said;
  }
  return "";
}

TEST_CASE("a mistyped command is named, with what was probably meant and what there is") {
  CHECK(refused("tpo") ==
        "\"tpo\" is no command of tool; did you mean \"top\"?; there are: job, top");
  CHECK_THAT(refused("job lst"), Contains("\"lst\" is no command of job") && Contains("\"list\"?"));
  CHECK(refused("something") == "\"something\" is no command of tool; there are: job, top");
}

TEST_CASE("words that are not expected are named in their order") {
  CHECK(refused("top --sever x") == "not expected here: --sever x");
  CHECK(refused("top --once").empty());
}

TEST_CASE("without a command one is asked for") {
  CHECK_THAT(refused(""), Contains("subcommand is required"));
  CHECK_THAT(refused("job"), Contains("subcommand is required"));
}

TEST_CASE("the nearest word is at most so many edits away") {
  CHECK(edit_distance("coers", "cores") == 2);
  CHECK(nearest_word("coers", {"data", "cores", "cpus"}) == "cores");
  CHECK_FALSE(nearest_word("quite else", {"data", "cores"}));
  CHECK_FALSE(nearest_word("x", {}));
}

}  // namespace
}  // namespace phub
