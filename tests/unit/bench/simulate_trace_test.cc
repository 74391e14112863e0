// Layer traces in all their layouts, and what is said of wrong ones.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "bench/simulate/gantt.h"
#include "bench/simulate/rounds.h"
#include "bench/simulate/trace.h"

namespace phub::bench::simulate {
namespace {

using Catch::Matchers::Contains;

std::string error_of(const std::string& text) {
  const auto trace = parse_trace(text, "t.log");
  REQUIRE_FALSE(trace.has_value());
  CHECK(trace.error().code() == Code::kInvalidArgument);
  return trace.error().message();
}

nlohmann::json profile() {
  return {{"profile", 1},
          {"model", "small"},
          {"transport", "local"},
          {"batch", 8},
          {"steps", 10},
          {"loss_seconds", 0.25},
          {"layers",
           {{{"name", "conv"},
             {"forward_seconds", 0.5},
             {"backward_seconds", 1.5},
             {"push_seconds", 0.125},
             {"key_bytes", {400, 40}}},
            {{"name", "relu"},
             {"forward_seconds", 0.25},
             {"backward_seconds", 0.25},
             {"push_seconds", 0.0},
             {"key_bytes", nlohmann::json::array()}}}}};
}

}  // namespace

TEST_CASE("a profile is read, alone and in a Chrome trace") {
  for (const nlohmann::json& file :
       {profile(), nlohmann::json{{"traceEvents", {1, 2}}, {"phub_profile", profile()}}}) {
    const auto trace = parse_trace(file.dump(2), "p.json");
    REQUIRE(trace.has_value());
    CHECK(trace->name == "small");
    CHECK(trace->batch == 8);
    CHECK(trace->loss == 0.25);
    REQUIRE(trace->layers.size() == 2);
    CHECK(trace->layers[0].bytes == 440);
    CHECK(trace->layers[0].update == 0.125);
    CHECK(trace->forward() == 0.75);
    CHECK(trace->backward() == 1.75);
  }
  // With servers a push is not an update.
  nlohmann::json served = profile();
  served["transport"] = "tcp";
  CHECK(parse_trace(served.dump(), "p.json")->update() == 0.0);
}

TEST_CASE("a wrong profile is refused by the field, or by line and column") {
  nlohmann::json wrong = profile();
  wrong["layers"][1]["backward_seconds"] = -1;
  CHECK_THAT(error_of(wrong.dump()), Contains("layers[1].backward_seconds"));
  wrong = profile();
  wrong["layers"][0]["key_bytes"] = "many";
  CHECK_THAT(error_of(wrong.dump()), Contains("layers[0].key_bytes"));
  wrong = profile();
  wrong["layers"] = 3;
  CHECK_THAT(error_of(wrong.dump()), Contains("layers: an array"));
  wrong["layers"] = nlohmann::json::array();
  CHECK_THAT(error_of(wrong.dump()), Contains("no layer has gradients"));
  CHECK_THAT(error_of("{\"a\": 1,\n \"b\" 2}"), Contains("t.log:2:6:"));
  CHECK_THAT(error_of(R"({"traceEvents": []})"), Contains("--measured"));
}

TEST_CASE("rows of blobs are read from a log, weight and bias as one layer") {
  const std::string log =
      "I0219 13:29:27.1 66221 net.cpp:70] Iteration 20, loss = 6.9\n"
      "I0219 13:29:27.1 66221 distributed.cpp:112] [0, 9408, 15143.7, 1169, 0]\n"
      "I0219 13:29:27.1 66221 distributed.cpp:112] [1, 64, 15143.7, 31, 0]\r\n"
      "I0219 13:29:27.1 66221 distributed.cpp:112] [2, 4096, 3825.38, 1071, 0]\n"
      "I0219 13:29:33.9 66221 distributed.cpp:112] [0, 9408, 15145.7, 1171, 1231]\n"
      "I0219 13:29:33.9 66221 distributed.cpp:112] [1, 64, 15145.7, 31, 0]\n"
      "I0219 13:29:33.9 66221 distributed.cpp:112] [2, 4096, 3825.38, 1071, 1242]\n"
      "I0219 13:29:40.9 66221 distributed.cpp:112] [0, 9408, 99999.9, 1171, 1231]\n";  // cut
  const auto trace = parse_trace(log, "t.log");
  REQUIRE(trace.has_value());
  CHECK(trace->iterations == 2);
  CHECK_FALSE(trace->has_forward);
  CHECK(trace->has_comm);
  REQUIRE(trace->layers.size() == 2);
  CHECK(trace->layers[0].backward == Approx(15144.7e-6));
  CHECK(trace->layers[0].comm == Approx(1201e-6));
  CHECK(trace->layers[0].bytes == 4 * (9408 + 64));
}

TEST_CASE("rows of blobs may lack the merged times, and a first iteration all times") {
  const std::string log =
      "I0214 23:25:18.9 37167 distributed.cpp:112] [0, 9408, 0, 0]\n"
      "I0214 23:25:18.9 37167 distributed.cpp:112] [1, 64, 0, 0]\n"
      "I0214 23:25:18.9 37167 distributed.cpp:112] [2, 4096, 0, 0]\n"
      "I0214 23:25:29.1 37187 distributed.cpp:112] [0, 9408, 14690.2, 298]\n"
      "I0214 23:25:29.1 37187 distributed.cpp:112] [1, 64, 14690.2, 106]\n"
      "I0214 23:25:29.1 37187 distributed.cpp:112] [2, 4096, 4008.8, 224]\n";
  const auto trace = parse_trace(log, "t.log");
  REQUIRE(trace.has_value());
  CHECK(trace->iterations == 1);
  REQUIRE(trace->layers.size() == 2);
  CHECK(trace->layers[0].backward == Approx(14690.2e-6));
  CHECK(trace->layers[0].comm == Approx(404e-6));
  CHECK(trace->layers[1].backward == Approx(4008.8e-6));
  CHECK(trace->layers[1].bytes == 4 * 4096);
}

TEST_CASE("a table of layers is read with commas, tabs and blanks, with and without its header") {
  for (const char* between : {", ", ",", "\t", "   "}) {
    for (const bool has_header : {true, false}) {
      std::string text = "# AlexNet\n\n";
      const std::vector<std::vector<std::string>> rows = {
          {"0", "data", "1.2e+06", "0", "0", "0"},
          {"1", "conv1", "3000", "5000", "123.5", "139776"},
          {"2", "relu1", "10", "20", "0", "0"},
          {"0", "data", "1.4e+06", "0", "0", "0"},
          {"1", "conv1", "5000", "5000", "123.5", "139776"},
          {"2", "relu1", "10", "20", "0", "0"}};
      const auto add = [&](const std::vector<std::string>& row) {
        for (std::size_t i = 0; i < row.size(); ++i) text += (i > 0 ? between : "") + row[i];
        text += "\n";
      };
      if (has_header) add({"Id", "Name", "Forward(us)", "Backward(us)", "Comm(us)", "Size(bytes)"});
      for (const auto& row : rows) add(row);
      CAPTURE(text);
      const auto trace = parse_trace(text, "t.log");
      REQUIRE(trace.has_value());
      CHECK(trace->input == Approx(1.3));
      REQUIRE(trace->layers.size() == 2);
      CHECK(trace->layers[0].name == "conv1");
      CHECK(trace->layers[0].forward == Approx(4000e-6));
      CHECK(trace->layers[0].bytes == 139776);
      CHECK(trace->layers[1].backward == Approx(20e-6));
    }
  }
  const auto spaced = parse_trace(
      "Id Name Forward (us) Backward (us) Comm. (us) Size (bytes)\n1\tfc\t1\t2\t3\t4\t\r\n", "t");
  REQUIRE(spaced.has_value());
  CHECK(spaced->bytes() == 4);
  // The header says which column is which.
  const auto turned = parse_trace("size name id comm backward forward key\n8 a 1 2 3 4 k\n", "t");
  REQUIRE(turned.has_value());
  CHECK(turned->layers[0].forward == Approx(4e-6));
  CHECK(turned->bytes() == 8);
}

TEST_CASE("wrong text is refused with its line and column") {
  CHECK_THAT(error_of("1 conv1 3 5 x 9\n"), Contains("t.log:1:13: comm is 'x'"));
  CHECK_THAT(error_of("1, conv1, 3, 5, -2, 9\n"), Contains("t.log:1:17: comm is '-2'"));
  CHECK_THAT(error_of("1 conv1 3 5 2 9\n2 conv2 3 5 2\n"), Contains("t.log:2:1: 5 columns"));
  CHECK_THAT(error_of("Id Name Forward Backward Size\n"), Contains("t.log:1:1: no column 'comm'"));
  CHECK_THAT(error_of("Id Name Forward(s) Backward Comm Size\n"),
             Contains("t.log:1:9: 'Forward(s)'"));
  CHECK_THAT(error_of("Id Name Forward (s) Backward Comm Size\n1 a 1 1 1 1\n"),
             Contains("t.log:2:1: 6 columns; 7 are wanted"));
  CHECK_THAT(error_of("log] [0, 9, 1, 1, 0]\nlog] [1, 9, nan, 1, 0]\n"),
             Contains("t.log:2:13: backward_us is 'nan'"));
  CHECK_THAT(error_of("log] [0, 9, 1]\n"), Contains("t.log:1:6: 3 columns"));
  CHECK_THAT(error_of("log] [0, 9, 1, 1, 0, 0]\n"), Contains("t.log:1:6: 6 columns"));
  CHECK_THAT(error_of("log] [0, 9, 1, 1]\nlog] [1, 9, 1, 1, 0]\n"),
             Contains("t.log:2:6: 5 columns"));
  CHECK_THAT(error_of("log] [0, 9, 1, 1, 0\n"), Contains("t.log:1:6: '[' without ']'"));
  CHECK_THAT(error_of("1 a 1 1 1 8\n2 b 1 1 1 8\n1 a 1 1 1 8\n2 b 1 1 1 9\n"),
             Contains("t.log:4:1: id 2 of 9 bytes"));
  CHECK_THAT(error_of("\n \n"), Contains("is empty"));
  CHECK_THAT(error_of("# nothing\n"), Contains("no row"));
  CHECK_THAT(error_of("1 relu 1 1 0 0\n"), Contains("no layer has gradients"));
}

TEST_CASE("numbers that no training has are refused by their place") {
  CHECK_THAT(error_of("[0, 1e308, 10, 20, 20]\n"), Contains("t.log:1:5: elements is '1e308'"));
  CHECK_THAT(error_of("[0, 9, 1e999, 20, 20]\n"), Contains("t.log:1:8: backward_us is '1e999'"));
  CHECK_THAT(error_of("1 a 1 1e16 1 8\n"), Contains("t.log:1:7: backward is '1e16'"));
  CHECK_THAT(error_of("1 a 1 1 1 1.1e15\n"), Contains("t.log:1:11: size is '1.1e15'"));
  std::string many;
  for (int i = 1; i <= 1001; ++i) many += std::to_string(i) + " a 1 1 1 1e15\n";
  CHECK_THAT(error_of(many), Contains("1.001e+18 bytes together"));
  const auto most = parse_trace("1 a 1e15 1e15 1 1e15\n2 b 1 1 1 1e15\n", "t");
  REQUIRE(most.has_value());
  CHECK(predict(*most, exchange_of(Shape::kRing, {}), Policy::kPriority, {}).seconds > 2e9);
}

TEST_CASE("a trace whose layers take no time is refused") {
  CHECK_THAT(error_of("1 a 0 0 9 8\n"), Contains("t.log: the layers' forward and backward take"));
}

TEST_CASE("a number of JSON that no training has is refused by its field") {
  nlohmann::json wrong;
  for (const char* field : {"batch", "steps"}) {
    for (const double value : {-1.0, 1e10, 8.5}) {
      wrong = profile();
      wrong[field] = value;
      CHECK_THAT(error_of(wrong.dump()), Contains(std::string("t.log: ") + field));
    }
  }
  wrong = profile();
  wrong["layers"][0]["backward_seconds"] = 1e10;
  CHECK_THAT(error_of(wrong.dump()), Contains("layers[0].backward_seconds"));
  wrong = profile();
  wrong["layers"][0]["key_bytes"] = {2'000'000'000'000'000};
  CHECK_THAT(error_of(wrong.dump()), Contains("layers[0].key_bytes"));
}

TEST_CASE("a number of JSON that no double has is refused with the file's name") {
  CHECK_THAT(error_of(R"({"layers": 1e999})"), Contains("t.log: ") && Contains("1e999"));
}

TEST_CASE("brackets of times and of shapes are no rows of blobs") {
  const auto log = parse_trace(
      "[12:00:01] starting\n[2026-11-23 12:00:01,345] conv1[64,3,7,7]\n[3] [0, 9408, 10, 1169, 0]\n"
      "[12:00:02] [1, 64, 20, 31, 0]\n",
      "t");
  REQUIRE(log.has_value());
  CHECK(log->layers.size() == 2);
}

TEST_CASE("a table's layers may have indices in brackets") {
  const auto table = parse_trace("0 layers[0].conv 1 2 3 400\n1\tlayers[1].fc\t1\t2\t3\t40\n", "t");
  REQUIRE(table.has_value());
  REQUIRE(table->layers.size() == 2);
  CHECK(table->layers[0].name == "layers[0].conv");
}

TEST_CASE("a missing file and a folder are refused") {
  CHECK_THAT(read_trace("/nonexistent/trace").error().message(), Contains("No such file"));
  CHECK(read_trace("/").error().code() == Code::kInvalidArgument);
}

TEST_CASE("a job's rounds: the median from first push to first push, over all cores") {
  nlohmann::json events = nlohmann::json::array();
  const auto add = [&](int round, double start) {
    events.push_back({{"name", "round " + std::to_string(round)},
                      {"ph", "X"},
                      {"ts", start},
                      {"dur", 1},
                      {"args", {{"round", round}}}});
  };
  add(3, 0);
  add(3, 500);
  add(4, 10'500);
  add(4, 10'000);
  add(5, 22'000);
  add(9, 90'000);
  add(10, 101'000);
  const auto rounds = parse_rounds(nlohmann::json{{"traceEvents", events}}.dump(), "t.json");
  REQUIRE(rounds.has_value());
  CHECK(rounds->seconds == Approx(0.011));
  CHECK(rounds->rounds == 3);  // 3 to 4, 4 to 5, 9 to 10
  add(11, 101'000);            // no time passed, by the clock
  add(12, 112'000);
  CHECK(parse_rounds(nlohmann::json{{"traceEvents", events}}.dump(), "t.json")->rounds == 4);
  events = nlohmann::json::array();
  add(1, 500);
  add(2, 500);
  CHECK_THAT(
      parse_rounds(nlohmann::json{{"traceEvents", events}}.dump(), "t.json").error().message(),
      Contains("t.json: has no two rounds"));
  CHECK_THAT(parse_rounds("{}", "t.json").error().message(), Contains("phubctl trace"));
  CHECK_THAT(parse_rounds("{", "t.json").error().message(), Contains("phubctl trace"));
  CHECK_THAT(parse_rounds(R"({"traceEvents": []})", "t.json").error().message(),
             Contains("no two rounds"));
}

TEST_CASE("a picture has a bar for each piece, and names cannot break it") {
  const auto trace = parse_trace("1 <&>\" 1000 1000 0 4000\n", "t");
  REQUIRE(trace.has_value());
  const Iteration iteration = predict(*trace, exchange_of(Shape::kRing, {}), Policy::kWfbp, {});
  const std::string svg = gantt_svg(iteration, "a < b");
  std::size_t titles = 0;
  for (std::size_t at = svg.find("<title>"); at != std::string::npos;
       at = svg.find("<title>", at + 1)) {
    ++titles;
  }
  CHECK(titles == iteration.bars.size());
  CHECK_THAT(svg, Contains("&lt;&amp;&gt;") && Contains("a &lt; b") && !Contains("a < b"));
}

}  // namespace phub::bench::simulate
