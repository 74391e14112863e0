// What a file of a run's folder is, what is shown of it, and that nobody's text becomes markup.
#include "bench/report/report.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr const char* kExchange =
    R"({"bench":"exchange","system":"phub","transport":"tcp","workers":4,"elements":8192,)"
    R"("dtype":"fp32","rule":"sum","servers":1,"server_cores":2,"seconds_p50":0.002,)"
    R"("seconds_p50_of_blocks":[0.001,0.002,0.004],"verified":true})";

std::string with_workers(std::string text, int workers) {
  const std::string was = "\"workers\":4";
  return text.replace(text.find(was), was.size(), "\"workers\":" + std::to_string(workers));
}

std::string why(const std::string& text) {
  const RunFile file = recognise("f", text);
  CHECK_FALSE(file.is_shown());
  REQUIRE(file.left_out.size() == 1);
  return file.left_out.front();
}

// The page of one file of this content.
std::string page_with(const std::string& text, const std::string& name = "f.json") {
  const RunFile file = recognise(name, text);
  INFO((file.left_out.empty() ? "" : file.left_out.front()));
  REQUIRE(file.is_shown());
  return html_of("Run", {file});
}

std::size_t times_in(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("a file is what it has in it, whatever its name") {
  const std::vector<std::pair<std::string, std::string>> known = {
      {kExchange, "exchange"},
      {"\n[" + std::string(kExchange) + "]", "exchange"},
      {R"({"bench":"chunks"})", "chunks"},
      {R"({"bench":"roof"})", "roof"},
      {R"({"bench":"aggregate"})", "aggregate"},
      {R"({"bench":"bars"})", "bars"},
      {R"({"bench":"tenants"})", "tenants"},
      {R"({"bench":"transport"})", "transport"},
      {R"({"bench":"rack"})", "rack"},
      {R"({"bench":"replay"})", "replay"},
      {R"({"bench":"simulate"})", "simulate"},
      {R"({"bench":"dollars"})", "dollars"},
      {R"({"bench":"step"})", "step"},
      {R"({"event":"start"})", "training"},
      {R"({"profile":1,"layers":[]})", "profile"},
      {R"({"traceEvents":[],"phub_profile":{"profile":1,"layers":[]}})", "profile"},
      {R"({"profile":"steps","steps":[]})", "device steps"},
      {R"({"traceEvents":[],"otherData":{"job":"j"}})", "rounds"},
      {R"({"lscpu":[]})", "machine"}};
  for (const auto& [text, kind] : known) {
    INFO(text);
    const RunFile file = recognise("picture.svg", text);
    REQUIRE(file.parts.size() == 1);
    CHECK(file.parts.front().first == kind);
    CHECK(file.left_out.empty());
    CHECK_THAT(html_of("Run", {file}), Contains("<section id=\"s0\">"));  // whatever is missing
  }
  for (const char* svg :
       {"<svg/>", "<svg xmlns='x'></svg>", "<?xml version='1'?>\n<!-- <p> -->\n<svg >"}) {
    const RunFile file = recognise("x.json", svg);
    CHECK(file.svg == svg);
  }
}

TEST_CASE("what is not known is told with why") {
  CHECK_THAT(why(""), Contains("empty"));
  CHECK_THAT(why(" \n\n"), Contains("empty"));
  CHECK_THAT(why("system p50\nphub 3\n"), Contains("neither JSON nor SVG"));
  CHECK_THAT(why("<html><svg></svg></html>"), Contains("neither JSON nor SVG"));
  CHECK_THAT(why("{\"bench\": \"exch"), Contains("neither JSON nor SVG"));
  CHECK_THAT(why("[]"), Contains("empty array"));
  CHECK_THAT(why("[1, 2]"), StartsWith("has 2 JSON object(s)"));
  CHECK_THAT(why(R"({"bench":"pigeons"})"), Contains("\"pigeons\"") && Contains("not known"));
  CHECK_THAT(why(R"({"traceEvents":[]})"), Contains("phubctl trace"));
  CHECK_THAT(why(R"({"error":{"code":"X","message":"no disk"}})"), Contains("failed: \"no disk\""));
  CHECK_THAT(why(html_of("Run", {})), Contains("earlier report"));
}

TEST_CASE("lines that are cut or foreign are told beside those that are shown") {
  const RunFile file = recognise(
      "f", std::string(kExchange) + "\nwarning: slow\n" + R"({"bench":"pigeons"})" + "\n{\"be");
  REQUIRE(file.parts.size() == 1);
  CHECK(file.parts.front().second.size() == 1);
  REQUIRE(file.left_out.size() == 2);
  CHECK_THAT(file.left_out[0], StartsWith("has 2 line(s)") && Contains("line 2"));
  CHECK_THAT(file.left_out[1], Contains("pigeons"));
  const std::string page = html_of("Run", {file});
  CHECK_THAT(page, Contains("line 2") && Contains("pigeons"));
}

TEST_CASE("a file with several kinds has a section for each") {
  const RunFile file = recognise("f", std::string(kExchange) + "\n" + R"({"bench":"bars"})" + "\n" +
                                          with_workers(kExchange, 8));
  REQUIRE(file.parts.size() == 2);
  CHECK(file.parts[0].second.size() == 2);
  CHECK(file.parts[1].first == "bars");
}

TEST_CASE("an exchange has its median, range and ratio, and a line over the workers") {
  const std::string one = page_with(kExchange);
  CHECK_THAT(one, Contains(">measured<") && Contains("2.00 ms") && Contains("1.00 ms") &&
                      Contains("4.00 ms") && Contains("class=\"range\""));
  CHECK(times_in(one, "<polyline") == 0);
  const std::string two = page_with(std::string(kExchange) + "\n" + with_workers(kExchange, 8));
  CHECK(times_in(two, "<polyline") == 1);
  CHECK(times_in(two, "<circle") == 2);
}

TEST_CASE("figures keep whether they were measured or predicted") {
  CHECK_THAT(page_with(R"({"bench":"simulate","kind":"predicted","workers":8,"shape":"ring",)"
                       R"("policy":"bsp","seconds":0.5})"),
             Contains("<span class=\"basis\">predicted</span>") && Contains("500 ms"));
  const std::string dollars = page_with(
      R"({"bench":"dollars","what":"deployment","deployment":"a","throughput":"measured","per_1000_dollars":60})"
      "\n"
      R"({"bench":"dollars","what":"deployment","deployment":"b","throughput":"predicted","per_1000_dollars":70})");
  CHECK_THAT(dollars, Contains("a (measured)") && Contains("b (predicted)") &&
                          Contains("measured; predicted"));
  CHECK_THAT(
      page_with(R"({"bench":"rack","seconds_p50":2,"least_seconds":1,"bounding_link":"r0"})"),
      Contains("a round (measured)") && Contains("least that r0 allows (predicted)"));
}

TEST_CASE("measures with a bar have their median, range, limit and verdict") {
  const std::string bars = page_with(
      R"({"bench":"bars","measure":"shm / roof","limit":1.6,"at_most":true,"value":1.2,"min":1.1,"max":1.9,"met":false})");
  CHECK_THAT(bars, Contains(">measured<") && Contains("shm / roof") && Contains("&lt;= 1.6x") &&
                       Contains(">NO<") && Contains("class=\"range\"") &&
                       Contains("class=\"limit\""));
  const std::string tenants = page_with(
      R"({"bench":"tenants","measure":"loss, %","transport":"tcp","bar":"<= 5","median":-2.5,"min":-7,"max":1,"met":true})"
      "\n"
      R"({"bench":"tenants","measure":"busy, %","transport":"tcp","bar":"","median":50,"min":50,"max":50,"met":true})");
  CHECK_THAT(tenants, Contains("tcp: loss, %") && Contains("&lt;= 5") && Contains("-2.5"));
  CHECK(times_in(tenants, "class=\"limit\"") == 1);
  CHECK(times_in(tenants, "<span>yes</span>") == 1);  // what has no bar is not judged
}

TEST_CASE("a connection's bandwidth and latency are pictures of their own") {
  const std::string page = page_with(
      R"({"bench":"transport","system":"phub","transport":"tcp","measure":"bandwidth","gigabytes_per_second":3.5})"
      "\n"
      R"({"bench":"transport","system":"phub","transport":"tcp","measure":"latency","seconds_p50":2e-5})");
  CHECK_THAT(page, Contains("3.5 GB/s") && Contains("20.0 us"));
  CHECK(times_in(page, "<figure>") == 2);
}

TEST_CASE("a profile shows its longest layers and all in a table") {
  const std::string page = page_with(
      R"({"profile":1,"model":"lenet","threads":1,"step_seconds":0.004,"memory_bytes":{"weights":2048},)"
      R"("layers":[{"name":"conv1","forward_seconds":0.001,"backward_seconds":0.002,"push_seconds":0,)"
      R"("wait_seconds":0,"forward_flops":1e9,"backward_flops":2e9,"key_bytes":[1024,1024]}]})");
  CHECK_THAT(page, Contains("lenet") && Contains("1 thread,") && Contains("75.0 %") &&
                       Contains(">1,000<") && Contains("2.0 KiB") && Contains("3.00 ms"));
}

TEST_CASE("a replay stands beside its prediction") {
  const std::string page = page_with(
      R"({"bench":"replay","network":"vgg11","policy":"wfbp","workers":1,"seconds_p50":0.25,)"
      R"("seconds_of_blocks":[0.2,0.3],"predicted_seconds":0.24,"error":-0.04,"verified":true})");
  CHECK_THAT(page, Contains("vgg11, wfbp, 1 worker (measured)") &&
                       Contains("vgg11, wfbp, 1 worker (predicted)") && Contains("-4.0 %") &&
                       Contains("240 ms") && Contains("class=\"range\""));
}

TEST_CASE("a rack's faults, trainings and dropped packets are shown") {
  const std::string faults = page_with(
      R"({"bench":"rack","title":"cut","faults":[{"kind":"LINK_DOWN","target":"r1","at_round":3,"at_s":0}],)"
      R"("ends":[{"worker":"r1w0","end":"failed","seconds":1.5,"error":"rack 1 is gone","right":true}],"all_right":true})");
  CHECK_THAT(faults, Contains("Fault: LINK_DOWN of r1, at round 3") && Contains("rack 1 is gone") &&
                         Contains("1.50 s"));
  const std::string training =
      page_with(R"({"bench":"rack","title":"t","images_per_second_p50":1234,"test_accuracy":0.985,)"
                R"("links":[{"link":"r0","busy_up":0.5,"dropped_up":7,"resent":3}]})");
  CHECK_THAT(training,
             Contains("1,234") && Contains("98.5 %") && Contains(">7<") && Contains("sent again"));
}

TEST_CASE("trainings of racks are curves over the seconds that they took") {
  const std::string page = page_with(
      R"({"bench":"rack","title":"fast one","seconds_of_epochs":[1,2],"loss_of_epochs":[0.5,0.25],"test_accuracy_of_epochs":[0.9,0.95]})"
      "\n"
      R"({"bench":"rack","title":"cut one","seconds_of_epochs":[1,2],"loss_of_epochs":[0.5]})"
      "\n"
      R"({"bench":"rack","title":"slow one","seconds_of_epochs":[4,8],"loss_of_epochs":[0.5,0.25]})");
  CHECK_THAT(page, Contains("Loss of each epoch") && Contains("Accuracy on the test images") &&
                       Contains("seconds of training"));
  const auto curves = page.substr(page.find("Loss of each epoch"));
  CHECK_THAT(curves, Contains("fast one") && Contains("slow one"));
}

TEST_CASE("a curve has a mark where a deployment breaks even") {
  const std::string point =
      R"({"bench":"dollars","what":"curve","axis":"gpu-speed","deployment":"a",)"
      R"("throughput":"predicted","per_1000_dollars":60,"value":)";
  const std::string page = page_with(
      point + "1}\n" + point + "4}\n" +
      R"({"bench":"dollars","what":"break_even","axis":"gpu-speed","value":2,"deployment":"b","is_better_above":true})");
  CHECK_THAT(page, Contains("b breaks even at 2, better above") && Contains("class=\"even\""));
}

TEST_CASE("a training's steps are thinned, its epochs are rows") {
  std::string text =
      R"({"event":"start","model":"lenet","transport":"shm","worker":0,"workers":2})";
  for (int step = 0; step < 1000; ++step) {
    text += "\n{\"event\":\"step\",\"step\":" + std::to_string(step) + ",\"loss\":0.5}";
  }
  text += R"(
{"event":"epoch","epoch":1,"test_accuracy":0.975,"seconds":2,"exchange_seconds":0.5,"images_per_second":4000})";
  const std::string page = page_with(text);
  CHECK_THAT(page, Contains("97.5 %") && Contains("25.0 %") && Contains("the mean of some"));
  const std::size_t line = page.find("points=\"");
  const std::string points = page.substr(line, page.find('"', line + 8) - line);
  CHECK(times_in(points, ",") == 200);
}

TEST_CASE("the processor is what lscpu said") {
  const std::string page = page_with(
      R"({"lscpu":[{"field":"Vendor ID:","data":"V","children":[{"field":"Model name:","data":"Chip 9"},)"
      R"({"field":"CPU family:","data":"26"},{"field":"Model:","data":"2"}]},{"field":"CPU(s):","data":"4"}]})");
  CHECK_THAT(page, Contains("Chip 9, family 26 model 2, 4 CPUs"));
  CHECK_THAT(page_with(kExchange), Contains("lscpu --json &gt; FOLDER/machine.json"));
}

TEST_CASE("rounds of a job have the medians of their parts") {
  std::string events = R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"core 0"}})";
  for (const int round : {1, 2, 3}) {
    const std::string at = std::to_string(1000 * round);
    events += R"(,{"name":"round )" + std::to_string(round) + R"(","ph":"X","pid":1,"ts":)" + at +
              R"(,"dur":900,"args":{"round":)" + std::to_string(round) + "}}";
    events += R"(,{"name":"push","ph":"X","pid":1,"ts":)" + at + R"(,"dur":250})";
  }
  const std::string page = page_with(R"({"otherData":{"job":"j"},"traceEvents":[)" + events + "]}");
  CHECK_THAT(page, Contains("From round to round: 1.00 ms, the median of 2.") &&
                       Contains("core 0") && Contains("250 us"));
}

TEST_CASE("values of wrong types and sizes are dashes") {
  const std::string page =
      page_with(R"({"bench":"exchange","system":7,"transport":null,"workers":"x","elements":1e300,)"
                R"("seconds_p50":[1],"seconds_p50_of_blocks":{"a":1},"verified":3})");
  CHECK_THAT(page, Contains(kAbsent) && !Contains("nan") && !Contains("inf"));
  const std::string tenants =
      page_with(R"({"bench":"tenants","measure":"m","bar":"<= 1e999","median":1,"min":1,"max":2})");
  CHECK_THAT(tenants, !Contains("\"nan") && !Contains("\"-nan") && !Contains("\"inf"));
  CHECK(figure_of(1e300 * 1e300) == kAbsent);
  CHECK(count_of(-3) == "-3");
  CHECK(figure_of(123456.7) == "123,457");
  CHECK(time_of(-1) == kAbsent);
  CHECK(time_of(4.2e-6) == "4.20 us");
  CHECK(time_of(0.0009996) == "1.00 ms");
  CHECK(time_of(0) == "0");
  const Record record = Record::parse(R"({"bytes":-1,"big":1e19})");
  CHECK(bytes_in(record, "bytes") == kAbsent);
  CHECK_FALSE(number_in(record, "big").has_value());
}

TEST_CASE("nobody's text becomes markup") {
  const std::string evil = R"(</title></style><script>alert(1)</script><img src=x onerror='a' \"b)";
  std::string all;
  for (const char* bench : {"exchange", "chunks", "roof", "bars", "tenants", "transport", "rack",
                            "simulate", "dollars", "step", "pigeons"}) {
    all += std::string(R"({"bench":")") + bench + "\"";
    for (const char* field :
         {"system", "transport", "note", "dtype", "rule", "measure", "bar", "title", "shape",
          "bounding_link", "policy", "kind", "bound", "deployment", "throughput", "prices_source",
          "model", "backend", "bounds"}) {
      all += std::string(",\"") + field + "\":\"" + evil + "\"";
    }
    all += R"(,"what":"deployment","seconds_p50":1,"least_seconds":1,"value":1,"median":1,)"
           R"("per_1000_dollars":1,"workers":2,"seconds":1,"step_seconds":{"median":1}})"
           "\n";
  }
  const RunFile file = recognise(evil + ".json", all);
  CHECK(file.parts.size() == 10);
  const RunFile picture =
      recognise("p", "<svg xmlns='x' onload='alert(2)'><script>alert(3)</script>\"></svg>");
  const std::string page = html_of("Run " + evil, {file, picture});
  CHECK_THAT(page, !Contains("<script") && !Contains("<img src=x") && !Contains("onload="));
  CHECK(times_in(page, "<style>") == 1);
  CHECK(times_in(page, "</style>") == 1);
  CHECK(times_in(page, "<img ") == 1);
  CHECK_THAT(page, Contains("default-src 'none'"));
}

TEST_CASE("a table says how many rows it leaves to the file") {
  PageTable table("a|>b");
  for (int i = 0; i < 301; ++i) table.add({"x", std::to_string(i)});
  const std::string html = table.to_html();
  CHECK_THAT(html, Contains("<span>299</span>") && !Contains("<span>300</span>") &&
                       Contains("The first 300 of 301 rows"));
}

TEST_CASE("a folder's entries are all there, each shown or with why not") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "phub_report_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "b_folder");
  std::ofstream(folder / "a.json") << kExchange;
  std::filesystem::create_symlink("nowhere", folder / "c_link");
  std::ofstream(folder / "d_large") << "x";
  std::filesystem::resize_file(folder / "d_large", (64ULL << 20) + 1);
  const auto files = read_folder(folder.string());
  REQUIRE(files.has_value());
  REQUIRE(files->size() == 4);
  CHECK((*files)[0].is_shown());
  CHECK((*files)[0].written > 0);
  CHECK_THAT((*files)[1].left_out.at(0), Contains("is a folder"));
  CHECK_THAT((*files)[2].left_out.at(0), Contains("is not there"));
  CHECK_THAT((*files)[3].left_out.at(0), Contains("at most 64.0 MiB"));
  CHECK(read_folder((folder / "none").string()).error().code() == Code::kNotFound);
  CHECK(read_folder((folder / "a.json").string()).error().code() == Code::kInvalidArgument);
  CHECK_THAT(run_report({(folder / "b_folder").string(), "", false}).message(),
             Contains("is empty"));
  std::filesystem::remove_all(folder);
}

}  // namespace phub::bench::report
