// What others say stays within its field of the log.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log_value.h"
#include "common/base/unique_fd.h"
#include "server/process/log.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

// A line's fields as any reader of key=value pairs has them; nothing: it is not made of such.
std::optional<Fields> fields_of(std::string_view line) {
  Fields fields;
  while (!line.empty()) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    const std::string key(line.substr(0, equals));
    if (key.find_first_of(" \"\\") != std::string::npos) return std::nullopt;
    line.remove_prefix(equals + 1);
    std::string value;
    if (line.starts_with('"')) {
      std::size_t i = 1;
      for (; i < line.size() && line[i] != '"'; ++i) {
        if (line[i] == '\\') value += line[i++];
        if (i < line.size()) value += line[i];
      }
      if (i >= line.size()) return std::nullopt;
      line.remove_prefix(i + 1);
    } else {
      value = line.substr(0, line.find(' '));
      line.remove_prefix(value.size());
    }
    fields.emplace_back(key, value);
    if (line.empty()) break;
    if (line[0] != ' ') return std::nullopt;
    line.remove_prefix(1);
  }
  return fields;
}

// All lines that `act` logs, as they leave the process.
template <typename Act>
std::vector<std::string> logged(Act act) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  {
    const UniqueFd writer(ends[1]);
    const server::Log log("debug", writer.get());
    act();
  }
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 1; count > 0;) {
    count = ::read(reader.get(), part.data(), part.size());
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  }
  std::vector<std::string> lines;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  CHECK(text.empty());
  return lines;
}

constexpr char kHostile[] = "x\" event=forged outcome=\"done\\\" b\nlevel=info \x1b[31m\u202e\xff";

}  // namespace

TEST_CASE("a quoted value has no end but its last quote") {
  CHECK(log_value("Gr\u00f6\u00dfe 1") == "\"Gr\u00f6\u00dfe 1\"");
  CHECK(log_value("a\"b\\c") == R"("a\"b\\c")");
  CHECK(log_value("a\nb\tc\rd\x7f") == R"("a\nb\tc\x0dd\x7f")");
  CHECK(log_value("\u202e\u009b\xff") == R"("\xe2\x80\xae\xc2\x9b\xff")");
  CHECK(log_value("") == "\"\"");
}

TEST_CASE("hosts, words and reasons of others forge neither fields nor lines") {
  const auto lines = logged([] {
    JobTableFixture f;
    spdlog::set_level(spdlog::level::debug);
    const JobSpec spec = spec_of(1);
    const auto member = f.table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                                              .worker_index = 0,
                                              .host = kHostile,
                                              .process_id = 77});
    REQUIRE(member);
    REQUIRE(f.table.members.note_transport(*member, kHostile).ok());
    REQUIRE(f.ready(*member, spec).ok());
    f.connect(*member);
    f.table.fail_all(kHostile);
    f.table.reap();
  });
  REQUIRE(lines.size() >= 6);
  for (const std::string& line : lines) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields);
    std::size_t events = 0;
    for (const auto& [key, value] : *fields) {
      events += key == "event" ? 1U : 0U;
      CHECK(value != "forged");
      CHECK(key != "outcome");
    }
    CHECK(events == 1);
    CHECK(line.find_first_of("\x1b\xff") == std::string::npos);
    CHECK(line.find("\u202e") == std::string::npos);
  }
}

TEST_CASE("a message is one line, whoever made it") {
  const auto lines =
      logged([] { spdlog::info("event=library a\nlevel=error event=forged \x1b[2J"); });
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].ends_with(R"(level=info event=library a\nlevel=error event=forged \x1b[2J)"));
}

}  // namespace phub::testing
