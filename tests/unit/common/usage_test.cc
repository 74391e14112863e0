// What is said of a command line that is not understood.
#include "common/text/usage.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "common/text/help_format.h"
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

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_CASE("help is at most 80 columns wide, and says the same") {
  CLI::App app(
      "tool: does what it does, and more of that than fits into one line of a terminal "
      "that is narrow",
      "tool");
  app.formatter(help_format());
  CLI::App* const job = app.add_subcommand("job", "Looks at a job");
  std::string word;
  job->add_option("--a-rather-long-name-of-an-option", word,
                  "Whose description is longer than what is left of the line, and goes on below")
      ->type_name("WORD");
  job->add_option("--short", word, "Short");
  job->footer(
      "Examples:\n"
      "  tool job --a-rather-long-name-of-an-option one --short two --short three --short "
      "four\n"
      "\n"
      "A paragraph whose lines were written for a terminal of a hundred columns, as it "
      "seems to be,\n"
      "goes on here.\n\n"
      "Exit status: 0.");
  const std::string help = job->help();
  CHECK(longest_line(help) <= 80);
  CHECK_THAT(help, Contains("below") && Contains(" \\\n      ") && Contains("\nExit status: 0."));
  CHECK(longest_line(app.help()) <= 80);
}

TEST_CASE("a value that an option cannot take is named with its option") {
  CLI::App app("", "tool");
  double rate = 0.0;
  app.add_option("--rate", rate);
  try {
    app.parse("--rate abc");
    FAIL("it was taken");
  } catch (const CLI::ParseError& error) {
    CHECK(usage_error(app, error) == "--rate: \"abc\" is not what the option takes");
  }
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

TEST_CASE("a paragraph of help ends before what follows it, and long choices go into the text") {
  CLI::App app(std::string(30, 'd') + "\n" + std::string(60, 'e') + " end", "tool");
  app.formatter(help_format());
  CLI::App* const run = app.add_subcommand("run", "words");
  std::string shape;
  run->add_option("--shape", shape, std::string(45, 't') + " and what it does")
      ->check(CLI::IsMember({std::string(40, 'a'), std::string(30, 'b'), std::string("c")}));
  CHECK_THAT(app.help(),
             Contains(std::string(30, 'd') + "\n" + std::string(60, 'e') + " end\nUsage: "));
  const std::string pad = "\n" + std::string(30, ' ');
  CHECK_THAT(run->help(), Contains("--shape TEXT" + std::string(16, ' ') + std::string(40, 'a') +
                                   "," + pad + std::string(30, 'b') + " or c:" + pad +
                                   std::string(45, 't') + " and" + pad + "what it does\n"));
}

TEST_CASE("help fits a terminal, and goes on below where a description begins") {
  CLI::App app("", "tool");
  app.formatter(help_format());
  CLI::App& sub = *app.add_subcommand("sub", std::string(40, 'a') + " " + std::string(50, 'b'));
  std::string word;
  CLI::Option* const other = sub.add_option("--other", word, "Of something else");
  sub.add_option("--long", word, std::string(45, 'c') + " " + std::string(20, 'd'))->needs(other);
  sub.footer("Prose of " + std::string(60, 'e') + " one two three\nfour five six\n\nseven\n\n" +
             "  phub-tool sub --long " + std::string(50, 'f') + " --other g\n");
  for (const std::string& text : {app.help(), sub.help()}) {
    INFO(text);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
    CHECK_THAT(text, Contains(std::string(40, 'a') + "\n"));
  }
  CHECK_THAT(sub.help(),
             Contains(std::string(45, 'c') + "\n" + std::string(30, ' ') + std::string(20, 'd')) &&
                 Contains("one two\nthree four five six\n\nseven\n") &&
                 Contains("f \\\n      --other g\n"));
}

}  // namespace
}  // namespace phub
