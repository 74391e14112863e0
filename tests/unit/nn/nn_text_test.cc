// Networks as text: descriptions and what is wrong with them, tables, segments.
#include <catch2/catch.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "common/config/model_names.h"
#include "common/plan/plan.h"
#include "tests/unit/nn/nn_cases.h"
#include "worker/nn/graph/description.h"
#include "worker/nn/graph/table.h"
#include "worker/nn/models/models.h"

namespace phub::nn {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

TEST_CASE("Configurations allow the models there are") {
  const auto models = model_list();
  REQUIRE(models.size() == std::size(kModelNames));
  for (std::size_t i = 0; i < models.size(); ++i) REQUIRE(models[i].name == kModelNames[i]);
}

TEST_CASE("Every model, written as a description and read back, is the same graph") {
  for (const ModelInfo& info : model_list()) {
    INFO(info.name);
    const bool is_residual = info.name.find("res") == 0;
    const auto graph = make_model(info.name, {.classes = 12, .zero_gamma = is_residual});
    REQUIRE(graph);
    const auto read = parse_network(to_textproto(*graph, info.name), "net.textproto");
    INFO((read ? std::string() : read.error().message()));
    REQUIRE(read);
    REQUIRE(read->name == info.name);
    REQUIRE(read->graph == *graph);
  }
}

TEST_CASE("Names that no file of ours can hold, and sizes that wrap around, are refused") {
  const auto refusal = [](const std::string& layers) {
    const auto read =
        parse_network("image { channels: 3 height: 65536 width: 1 }" + layers, "net.textproto");
    return read ? std::string("accepted") : read.error().message();
  };
  CHECK_THAT(refusal("layer { name: \"a\\377\" relu {} }"), Catch::Contains("name: has other"));
  CHECK_THAT(refusal("layer { name: \"" + std::string(300, 'a') + "\" relu {} }"),
             Catch::Contains("name: has other"));
  CHECK_THAT(refusal("layer { name: \"p\" pool { kernel: [4294967295, 1] "
                     "padding: [4294967294, 0] } }"),
             Catch::Contains("padding: "));
  const auto all = parse_network(
      "image { channels: 3 height: 2 } layer { name: \"s\" subsample { "
      "channels: 3 stride: 4294967295 } }",
      "net.textproto");
  REQUIRE(all);
  CHECK(all->graph.output_shape() == Shape{3, 1, 1});
  CHECK_THAT(parse_network("image { channels: 3 height: 2 }", "net.textproto").error().message(),
             Catch::Contains("net.textproto: layer: has 0"));
}

TEST_CASE("Every kind with every field, written and read back, is the same graph") {
  for (const auto& cases : {window_cases(), other_cases()}) {
    for (const GraphCase& each : cases) {
      const auto read = parse_network(to_textproto(each.graph, each.name), "net.textproto");
      INFO(each.name);
      REQUIRE(read);
      REQUIRE(read->graph == each.graph);
    }
  }
}

TEST_CASE("A description without a name is called after its file, and images may be square") {
  const auto read = parse_network(
      "image { height: 8 } layer { name: 'fc' inner_product { outputs: 2 } }", "a/small.textproto");
  REQUIRE(read);
  REQUIRE(read->name == "small");
  REQUIRE(read->graph.input_shape() == Shape{3, 8, 8});
}

std::string error_of(const std::string& text) {
  const auto read = parse_network(text, "net.textproto");
  if (read) return "no error";
  CHECK(read.error().code() == Code::kInvalidArgument);
  return read.error().message();
}

TEST_CASE("A description that makes no sense names the place, the layer, the field and the cure") {
  const std::string image = "image { height: 8 }\n";
  struct Case {
    const char* layers;
    const char* start;
    const char* part;
  };
  const Case cases[] = {
      {"layer { name: \"a\" convolution { channels: 4\n kernel: 9 } }",
       "net.textproto:3:2: layer \"a\": kernel: 9 rows", "smaller kernel"},
      {"layer { name: \"a\" convolution { kernel: 3 } }",
       "net.textproto:2:19: layer \"a\": channels: is missing", "give"},
      {"layer { name: \"a\" convolution { channels: 4 kernel: [1, 2, 3] } }",
       "net.textproto:2:45: layer \"a\": kernel: has 3 numbers", "down and across"},
      {"layer { name: \"a\" pool { kind: \"mean\" } }",
       "net.textproto:2:26: layer \"a\": kind: \"mean\"", "max, average"},
      {"layer { name: \"a\" }", "net.textproto:2:1: layer \"a\": kind: is missing",
       "convolution {"},
      {"layer { relu {} }", "net.textproto:2:1: layer \"\": name: is missing", ""},
      {"layer { name: \"input\" relu {} }", "net.textproto:2:9: layer \"input\": name:", "another"},
      {"layer { name: \"a\" relu {} }\nlayer { name: \"a\" relu {} }",
       "net.textproto:3:9: layer \"a\": name: another layer has it", "choose"},
      {"layer { name: \"conv\" relu {} }\nlayer { name: \"b\" inputs: \"cnv\" relu {} }",
       "net.textproto:3:19: layer \"b\": inputs: there is no layer \"cnv\"",
       "did you mean \"conv\"?"},
      {"layer { name: \"b\" inputs: \"b\" relu {} }",
       "net.textproto:2:19: layer \"b\": inputs:", "come after what they read"},
      {"layer { name: \"a\" relu {} }\nlayer { name: \"b\" inputs: \"input\" relu {} }",
       "net.textproto:2:19: layer \"a\": nobody reads its output", "remove it"},
      {"layer { name: \"a\" dropout { ratio: 1 } }",
       "net.textproto:2:29: layer \"a\": ratio:", "0.5"},
      {"layer { name: \"a\" add {} }", "net.textproto:2:1: layer \"a\": inputs: are 1", "takes 2"},
      {"layer { name: \"a\" inner_product { outputs: 4294967295 } }",
       "net.textproto:2:19: layer \"a\": its output", "2^31"},
      {"layer { name: \"a\" convolutoin {} }", "net.textproto:2:19: unknown field",
       "did you mean \"convolution\"?"},
      {"", "net.textproto: layer: has 0", "give from 1"},
  };
  for (const Case& each : cases) {
    CHECK_THAT(error_of(image + each.layers), StartsWith(each.start) && Contains(each.part));
  }
  CHECK_THAT(error_of("layer { name: \"a\" relu {} }"),
             StartsWith("net.textproto: image: is missing"));
  CHECK_THAT(error_of("image { height: 100000 }"), StartsWith("net.textproto: image: channels"));
  // Its operations would not fit 64 bits.
  CHECK_THAT(error_of("image { channels: 1 height: 30000 width: 30000 }\n"
                      "layer { name: \"vast\" convolution { channels: 1 kernel: 30001 padding: "
                      "15000 bias: false } }"),
             StartsWith("net.textproto: layer vast:") && Contains("2^60 operations"));
  REQUIRE(load_network("no/such.textproto").error().code() == Code::kNotFound);
}

TEST_CASE("A table has a line for each layer, and its totals") {
  const std::string table = network_table(*make_model("lenet"), "lenet", 2);
  CHECK_THAT(table,
             Contains("conv2  convolution 5x5          50 x 8 x 8        25,050   3.20  0.03") &&
                 Contains("parameters          431,080 in 8 tensors") &&
                 Contains("4.59 MFLOP an image, 9.17 MFLOP a batch") &&
                 Contains("outputs, batch of 2"));
}

TEST_CASE("The JSON of a network has what the table has") {
  const json all = json::parse(network_json(*make_model("resnet50"), "resnet50", 1));
  REQUIRE(all["totals"]["parameter_elements"] == 25'557'032);
  REQUIRE(all["layers"].size() == make_model("resnet50")->layers().size());
  const json& first = all["layers"][0];
  REQUIRE(first["name"] == "conv1");
  REQUIRE(first["inputs"] == json({"input"}));
  REQUIRE(first["output"] == json({64, 112, 112}));
  REQUIRE(first["parameters"][0]["shape"] == json({64, 3, 7, 7}));
  REQUIRE(first["parameters"][0]["lars"] == true);
  REQUIRE(first["backward_flops"] == first["forward_flops"]);
}

TEST_CASE("Segments lie where the plan of any servers puts the keys") {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    const auto graph = make_model("resnet20");
    const auto table = SegmentTable::of(*graph, {.type = type, .chunk_bytes = 8192});
    REQUIRE(table);
    PlanInput input{
        .key_elements = {}, .wire_type = type, .chunk_bytes = 8192, .cores_per_server = {2, 3}};
    for (const KeySegment& segment : table->segments()) {
      input.key_elements.push_back(segment.elements);
    }
    const auto plan = make_plan(input);
    REQUIRE(plan);
    REQUIRE(table->elements() == plan->arena_elements);
    REQUIRE(table->chunks() == plan->chunks.size());
    for (std::size_t key = 0; key < table->segments().size(); ++key) {
      const KeySegment& segment = table->segments()[key];
      REQUIRE(segment.offset == plan->key_offset[key]);
      REQUIRE(segment.first_chunk == plan->first_chunk[key]);
      REQUIRE(segment.chunks == plan->chunk_count[key]);
      REQUIRE(segment.lars == (segment.shape.size() > 1));
      REQUIRE(segment.decay == segment.lars);
      REQUIRE(segment.type == type);
    }
  }
  Graph nothing({3, 8, 8});
  nothing.add("relu", Relu{}, {0});
  REQUIRE_FALSE(SegmentTable::of(nothing, {}));
}

TEST_CASE("A table of segments says which keys decay and LARS are for") {
  const auto table = SegmentTable::of(*make_model("lenet"), {});
  REQUIRE(table);
  CHECK_THAT(segment_table_text(*table),
             Contains("conv1.weight  20 x 1 x 5 x 5   decay lars  fp32") &&
                 Contains("conv1.bias    20               -"));
  const json all = json::parse(segment_table_json(*table));
  REQUIRE(all["segments"].size() == 8);
  REQUIRE(all["segments"][1]["decay"] == false);
}

}  // namespace
}  // namespace phub::nn
