// What is said of a command line that is not understood.
#include "common/text/usage.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "common/text/fitting_help.h"
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

TEST_CASE("help fits 80 columns, and nothing of it is lost") {
  CLI::App app(std::string(30, 'd') + "\n" + std::string(60, 'e') + " end", "tool");
  CLI::App* const run = app.add_subcommand("run", "words " + std::string(60, 'w') + " last");
  std::string shape;
  run->add_option("--shape", shape, std::string(45, 't') + " and what it does")
      ->check(CLI::IsMember({std::string(40, 'a'), std::string(30, 'b'), std::string("c")}));
  run->footer("one two\nthree:\n  tool run --shape " + std::string(40, 'a') + " " +
              std::string(40, 'b'));
  fit_help(app);
  CHECK_THAT(app.help(), Contains(std::string(30, 'd') + "\n" + std::string(60, 'e') + " end\n") &&
                             Contains("words\n" + std::string(30, ' ') + std::string(60, 'w') +
                                      "\n" + std::string(30, ' ') + "last\n"));
  const std::string pad = "\n" + std::string(30, ' ');
  CHECK_THAT(run->help(),
             Contains("--shape TEXT" + std::string(16, ' ') + std::string(40, 'a') + "," + pad +
                      std::string(30, 'b') + " or c:" + pad + std::string(45, 't') + " and" + pad +
                      "what it does\n") &&
                 Contains("\none two three:\n  tool run --shape " + std::string(40, 'a') +
                          " \\\n      " + std::string(40, 'b') + "\n"));
}

TEST_CASE("a mistyped command is named, with what was probably meant and what there is") {
  CHECK(refused("tpo") ==
        "\"tpo\" is no command of tool; did you mean \"top\"? there are: job, top");
  CHECK_THAT(refused("job lst"), Contains("\"lst\" is no command of job") && Contains("\"list\"?"));
  CHECK(refused("something") == "\"something\" is no command of tool; there are: job, top");
}

TEST_CASE("words that are not expected are named in their order") {
  CHECK(refused("top --sever x") == "not expected here: --sever x");
  CHECK(refused("top --once").empty());
}

TEST_CASE("without a command one is asked for") {
  CHECK(refused("") == "tool wants a command; there are: job, top");
  CHECK(refused("job") == "job wants a command; there are: list, inspect");
}

TEST_CASE("a count below 0 is refused in every command, a number that may be below 0 is not") {
  CLI::App app("", "tool");
  std::uint64_t count = 1;
  std::optional<std::uint64_t> bound;
  double rate = 0.0;
  CLI::App* const run = app.add_subcommand("run");
  run->add_option("--count", count);
  run->add_option("--bound", bound)->type_name("MIB");
  run->add_option("--rate", rate);
  refuse_negative_counts(app);
  for (const std::string option : {"--count", "--bound"}) {
    try {
      app.parse("run " + option + " -3");
      FAIL("it was taken");
    } catch (const CLI::ParseError& error) {
      CHECK(usage_error(app, error) == option + ": -3 is below 0");
    }
  }
  app.parse("run --count 3 --bound 4 --rate -3");
  CHECK(count == 3);
  CHECK(bound == 4);
  CHECK(rate == -3.0);
}

TEST_CASE("the nearest word is at most so many edits away") {
  CHECK(edit_distance("coers", "cores") == 2);
  CHECK(nearest_word("coers", {"data", "cores", "cpus"}) == "cores");
  CHECK_FALSE(nearest_word("quite else", {"data", "cores"}));
  CHECK_FALSE(nearest_word("x", {}));
}

}  // namespace
}  // namespace phub
