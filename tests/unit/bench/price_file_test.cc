// Price files that are refused, and throughput that is taken from files of ours.
#include "bench/dollars/price_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/dollars/measured.h"

namespace phub::bench {
namespace {

const std::string kFile = R"(date: "2026-11-23"
source: "a test"
part { name: "host" dollars: 1000 }
part { name: "nic" dollars: 50 gigabits: 8 }
part { name: "switch" dollars: 1600 gigabits: 8 ports: 16 }
part { name: "cable" dollars: 10 }
workload { name: "w" model_bytes: 4000 compute_ms: 50 samples: 10 source: "a test" }
deployment {
  name: "all"
  workers: 4
  worker { host: "host" nic: "nic" }
  network { rack_switch: "switch" cable: "cable" }
}
)";

std::string replaced(const std::string& what, const std::string& by) {
  std::string text = kFile;
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::string file_error(const std::string& text) {
  const Result<PriceFile> prices = parse_price_file(text, "f.textproto");
  if (prices) return "";
  CHECK(prices.error().code() == Code::kInvalidArgument);
  return prices.error().message();
}

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("phub_dollars_" + std::to_string(::getpid()) + ".jsonl")) {
    std::ofstream(path_) << text;
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string exchange_line(const std::string& workers, const std::string& elements,
                          const std::string& verified) {
  return R"({"bench":"exchange","system":"phub","dtype":"fp32","seconds_p50":0.25,"workers":)" +
         workers + R"(,"elements":)" + elements + R"(,"verified":)" + verified + "}\n";
}

std::string measured_error(const std::string& text) {
  const ScratchFile file(text);
  PriceFile prices = *parse_price_file(kFile, "f");
  const Status status = set_measured("all=" + file.path(), prices);
  CHECK(status.ok() == prices.deployment(0).has_measured());
  return status.message();
}

}  // namespace

TEST_CASE("a price file that is right is read") { CHECK(file_error(kFile) == ""); }

TEST_CASE("words with what a terminal obeys are refused by their field") {
  struct Word {
    const char* what;
    const char* by;
    const char* named;
  };
  for (const Word& word : {
           Word{"source: \"a test\"\npart", "source: \"a\\033[2J\"\npart", "source"},
           Word{"name: \"host\" dollars", "name: \"ho\\nst\" dollars", "part \"ho\nst\": name"},
           Word{"name: \"w\"", "name: \"w\\302\\205\"", "workload.name"},
           Word{"samples: 10 source: \"a test\"", "samples: 10 source: \"\\177\"",
                "workload.source"},
           Word{"name: \"all\"", "name: \"a\\tl\"", "deployment \"a\tl\": name"},
           Word{"  workers: 4", "  measured { samples_per_second: 1 source: \"\\r\" } workers: 4",
                "measured.source"},
       }) {
    CAPTURE(word.by);
    const std::string error = file_error(replaced(word.what, word.by));
    CHECK_THAT(error, Catch::Matchers::Contains(word.named));
    CHECK_THAT(error, Catch::Matchers::Contains("control character"));
  }
  CHECK(file_error(replaced("name: \"all\"", "name: \"\\377\"")) != "");
  CHECK(file_error(replaced("name: \"all\"", "name: \"K\u00f6ln \\\"2\\\"\"")) == "");
}

TEST_CASE("a price file that is wrong names its line, the field and the cure") {
  struct Wrong {
    std::string what;
    std::string by;
    std::string place;
    std::string words;
  };
  const std::vector<Wrong> all = {
      {"2026-11-23", "23.11.2026", "f.textproto:1:1: ", "date: "},
      {"2026-11-23", "2026-02-30", "f.textproto:1:1: ", "date: "},
      {"2026-11-23", "2026-11-23x", "f.textproto:1:1: ", "date: "},
      {"source: \"a test\"\npart", "part", "f.textproto: ", "whose prices"},
      {"dollars: 1000", "dollar: 1000", "f.textproto:3:", "did you mean \"dollars\""},
      {"dollars: 1000", "", "f.textproto:3:1: ", "\"host\" has no dollars"},
      {"dollars: 1000", "dollars: -1", "f.textproto:3:", "dollars: -1 is outside"},
      {"dollars: 1000", "dollars: nan", "f.textproto:3:", "dollars: nan is outside"},
      {"name: \"cable\"", "name: \"nic\"", "f.textproto:6:1: ", "\"nic\" is there twice"},
      {"name: \"cable\"", "name: \"power\"", "f.textproto:6:1: ", "what power costs"},
      {"50 gigabits: 8", "50", "f.textproto:11:", "\"nic\" has no gigabits"},
      {"50 gigabits: 8", "50 gigabits: 9", "f.textproto:12:", "faster switch"},
      {"model_bytes: 4000", "", "f.textproto: ", "workload.model_bytes: is missing"},
      {"model_bytes: 4000", "model_bytes: 99999999999999999", "f.textproto:7:", "64 TiB"},
      {"source: \"a test\" }", "}", "f.textproto: ", "workload.source: is missing"},
      {"  workers: 4\n", "", "f.textproto:8:1: ", "\"all\" has no workers"},
      {"workers: 4", "workers: 0", "f.textproto:10:3: ", "workers: 0 is outside"},
      {"host: \"host\"", "host: \"hots\"", "f.textproto:11:", "did you mean \"host\"?"},
      {"host: \"host\"", "host: \"host\" gpus: 2", "f.textproto:11:", "without a gpu"},
      {"workers: 4", "workers: 4 racks: 2", "f.textproto: ", "core_switch: is missing"},
      {"workers: 4", "workers: 4 servers: 2", "f.textproto:10:", "PRICED_EXCHANGE_PBOX"},
      {"workers: 4", "workers: 4 exchange: PRICED_EXCHANGE_PBOX",
       "f.textproto:8:1: ", "\"all\" has no server"},
      {"cable: \"cable\"", "cable: \"cable\" oversubscription: 2",
       "f.textproto:12:", "without a core_switch"},
      {"workers: 4", "workers: 4 measured { source: \"x\" }",
       "f.textproto: ", "samples_per_second, exchange_ms"},
      {"workers: 4", "workers: 4 measured { samples_per_second: 1 }",
       "f.textproto: ", "measured.source: is missing"},
      {"workers: 4", "workers: 4 published { per_1000_dollars: 1 source: \"x\" }",
       "f.textproto:10:3: ", "beside a published figure"},
  };
  for (const Wrong& wrong : all) {
    INFO(wrong.what << " -> " << wrong.by);
    const std::string error = file_error(replaced(wrong.what, wrong.by));
    CAPTURE(error);
    CHECK(error.starts_with(wrong.place));
    CHECK(error.find(wrong.words) != std::string::npos);
  }
}

TEST_CASE("a deployment needs a figure, or a workload to predict from") {
  const std::size_t begin = kFile.find("workload");
  const std::size_t end = kFile.find("deployment");
  const std::string without = kFile.substr(0, begin) + kFile.substr(end);
  CHECK(file_error(without).find("\"all\" has no throughput") != std::string::npos);
  const std::string measured = without.substr(0, without.rfind('}')) +
                               "  measured { samples_per_second: 7 source: \"a test\" }\n}\n";
  CHECK(file_error(measured) == "");
}

TEST_CASE("a measured number replaces what the file says") {
  PriceFile prices = *parse_price_file(kFile, "f");
  REQUIRE(set_measured("all=12.5", prices).ok());
  CHECK(prices.deployment(0).measured().samples_per_second() == 12.5);
  for (const char* words : {"all", "all=0", "all=-1", "all=nan", "none=1", "all=/nowhere.json"}) {
    const Status status = set_measured(words, prices);
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().starts_with("--measured: "));
  }
  CHECK(set_measured("none=1", prices).message() ==
        "--measured: \"none\" is no deployment of the file; it has \"all\"");
  CHECK(prices.deployment(0).measured().samples_per_second() == 12.5);
}

TEST_CASE("a line of the exchange bench is the deployment's exchange if it is the same exchange") {
  const ScratchFile file(exchange_line("4", "1000", "true"));
  PriceFile prices = *parse_price_file(kFile, "f");
  REQUIRE(set_measured("all=" + file.path(), prices).ok());
  CHECK(prices.deployment(0).measured().exchange_ms() == 250);
  CHECK(prices.deployment(0).measured().source() == file.path());
}

TEST_CASE("what was measured elsewise is refused") {
  CHECK(measured_error(exchange_line("8", "1000", "true")).find("workers is 8") !=
        std::string::npos);
  CHECK(measured_error(exchange_line("4", "999", "true")).find("3996 bytes") != std::string::npos);
  CHECK(measured_error(exchange_line("4", "1000", "false")).find("verified") != std::string::npos);
  std::string other = exchange_line("4", "1000", "true");
  other.replace(other.find("phub"), 4, "gloo-ring");
  CHECK(measured_error(other).find("system is \"gloo-ring\"") != std::string::npos);
  other = exchange_line("4", "1000", "true");
  other.replace(other.find("exchange"), 8, "aggregate");
  CHECK(measured_error(other).find("bench is \"aggregate\"") != std::string::npos);
  const std::string two = exchange_line("4", "1000", "true") + exchange_line("4", "1000", "true");
  CHECK(measured_error(two).find("2 lines with seconds_p50") != std::string::npos);
  CHECK(measured_error("{}\n").find("0 lines with seconds_p50") != std::string::npos);
  CHECK(measured_error("{}\nnot json\n").find(":2: is no JSON object") != std::string::npos);
}

TEST_CASE("a training's metrics give the median of its epochs") {
  std::string text = "{\"event\":\"step\",\"images_per_second\":9999}\n";
  for (const char* rate : {"90", "110", "100"}) {
    text += std::string("{\"event\":\"epoch\",\"images_per_second\":") + rate + "}\n";
  }
  const ScratchFile file(text);
  PriceFile prices = *parse_price_file(kFile, "f");
  REQUIRE(set_measured("all=" + file.path(), prices).ok());
  CHECK(prices.deployment(0).measured().samples_per_second() == 100);
}

}  // namespace phub::bench
