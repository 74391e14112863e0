// Every implementation that oneDNN and this project have for convolutions and products, under one
// cap of the instruction set, against the reference in fp64.
//
// Usage: ONEDNN_MAX_CPU_ISA=CAP nn_dispatch_test CAP. Exit status 77 where the processor has less.
#include <nlohmann/json.hpp>

#include "tests/support/main/catch.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/nn/nn_run.h"
#include "worker/nn/onednn/backend.h"
#include "worker/nn/onednn/choice/processor.h"

namespace phub::nn {
namespace {

std::string cap;  // "avx512_core"

constexpr Tolerance kFp32{.output = 2e-6, .gradient = 4e-6};
constexpr Tolerance kBf16{.output = 0.003, .gradient = 0.005};

Tolerance tolerance_of(DataType type) { return type == DataType::kFloat32 ? kFp32 : kBf16; }

std::vector<DataType> types() {
  if (!make_onednn_backend({.compute_type = DataType::kBfloat16})) return {DataType::kFloat32};
  return {DataType::kFloat32, DataType::kBfloat16};
}

// Convolutions and products.
std::vector<GraphCase> layers() {
  std::vector<GraphCase> all;
  for (const GraphCase& each : window_cases()) {
    if (std::holds_alternative<Convolution>(each.graph.layers()[0].kind)) all.push_back(each);
  }
  const auto add = [&](const char* name, const Shape& image, const Convolution& layer) {
    all.push_back(one_layer_case(name, image, layer));
    all.back().batch = 3;
  };
  add("16 channels, no bias", {16, 9, 8}, {.channels = 16, .window = {3, 1, 1}, .bias = false});
  add("64 channels, no bias", {64, 6, 7}, {.channels = 64, .window = {3, 1, 1}, .bias = false});
  add("1x1, no bias", {32, 5, 6}, {.channels = 64, .bias = false});
  all.push_back(one_layer_case("product", {6, 4, 5}, InnerProduct{.outputs = 7}));
  all.push_back(one_layer_case("wide product", {.channels = 96}, InnerProduct{.outputs = 64}));
  all.push_back(one_layer_case("product, no bias", {.channels = 33},
                               InnerProduct{.outputs = 7, .bias = false}));
  return all;
}

struct Chosen {
  std::unique_ptr<Backend> backend;
  std::shared_ptr<std::vector<KernelChoice>> choices =
      std::make_shared<std::vector<KernelChoice>>();
};

Chosen chosen_by(DataType type, KernelRule rule, const std::filesystem::path& cache = {}) {
  Chosen made;
  auto backend = make_onednn_backend(
      {.compute_type = type,
       .threads = 2,
       .kernels = {.rule = rule, .cache = cache, .chosen = [all = made.choices](const auto& one) {
                     all->push_back(one);
                   }}});
  REQUIRE(backend);
  made.backend = std::move(*backend);
  return made;
}

// Makes the cache say each operation's kernel of this position, counted round.
void force(const std::filesystem::path& cache, std::size_t position) {
  std::ifstream in(cache);
  std::string line, text;
  REQUIRE(std::getline(in, line));
  text = line + "\n";
  while (std::getline(in, line)) {
    auto object = nlohmann::ordered_json::parse(line);
    auto time = object.at("microseconds").begin();
    const std::size_t kernels = object.at("microseconds").size();
    for (std::size_t i = 0; i < position % kernels; ++i) ++time;
    object["kernel"] = time.key();
    text += object.dump() + "\n";
  }
  in.close();
  std::ofstream(cache) << text;
}

TEST_CASE("Each implementation of a layer is the reference's but for rounding") {
  for (const DataType type : types()) {
    for (const GraphCase& each : layers()) {
      const TemporaryDirectory folder;
      const auto cache = folder.path / "kernels.jsonl";
      Chosen first = chosen_by(type, KernelRule::kMeasured, cache);
      const auto choices = first.choices;
      compare_with_fp64(each, std::move(first.backend), tolerance_of(type), type);
      REQUIRE(choices->size() == 3);  // the passes
      std::size_t kernels = 0;
      for (const KernelChoice& choice : *choices) {
        kernels = std::max(kernels, choice.times.size());
        CHECK_FALSE(choice.is_known);
      }
      REQUIRE(kernels >= 1);
      for (std::size_t position = 0; position < kernels; ++position) {
        force(cache, position);
        Chosen forced = chosen_by(type, KernelRule::kMeasured, cache);
        const auto used = forced.choices;
        compare_with_fp64(each, std::move(forced.backend), tolerance_of(type), type);
        REQUIRE(used->size() == choices->size());
        for (const KernelChoice& choice : *used) {
          INFO(choice.operation << ": " << choice.kernel);
          CHECK(choice.is_known);
          CHECK(choice.kernel == choice.times[position % choice.times.size()].kernel);
        }
      }
    }
  }
}

TEST_CASE("Each rule's choice is the reference's but for rounding") {
  for (const DataType type : types()) {
    for (const KernelRule rule : {KernelRule::kOwn, KernelRule::kLibrary, KernelRule::kBlocked}) {
      for (const GraphCase& each : layers()) {
        INFO("rule " << static_cast<int>(rule));
        compare_with_fp64(each, chosen_by(type, rule).backend, tolerance_of(type), type);
      }
    }
  }
}

// Instruction sets, each with all before it.
constexpr std::array<std::string_view, 4> kSets = {"avx2", "avx512_core", "avx512_core_bf16",
                                                   "avx512_core_amx"};

TEST_CASE("No kernel uses more than the cap allows") {
  const auto of_cap = std::find(kSets.begin(), kSets.end(), cap);
  REQUIRE(of_cap != kSets.end());
  const bool has_bf16 = cap.find("bf16") != std::string::npos || cap == "avx512_core_amx";
  std::size_t own = 0;
  for (const DataType type : types()) {
    const TemporaryDirectory folder;
    Chosen run = chosen_by(type, KernelRule::kMeasured, folder.path / "kernels.jsonl");
    const GraphCase each = one_layer_case(
        "", {32, 8, 8}, Convolution{.channels = 32, .window = {3, 1, 1}, .bias = false});
    REQUIRE(Network::create(each.graph, *run.backend, {.batch = 2, .input_gradient = true}));
    for (const KernelChoice& choice : *run.choices) {
      const auto in_place =
          std::count_if(choice.times.begin(), choice.times.end(),
                        [](const KernelTime& time) { return time.kernel.starts_with("nhwc "); });
      INFO(choice.operation);
      CHECK((type != DataType::kFloat32 || in_place >= 2));  // all of oneDNN's, not its first alone
      for (const KernelTime& time : choice.times) {
        INFO(choice.operation << ": " << time.kernel);
        if (time.kernel == "own") ++own;
        CHECK((cap != "avx2" || time.kernel.find("avx512") == std::string::npos));
        CHECK((cap == "avx512_core_amx" || time.kernel.find("amx") == std::string::npos));
      }
    }
  }
  CHECK(own == (has_bf16 ? 1U : 0U));
}

TEST_CASE("Without AVX-512 bf16 is refused") { CHECK((types().size() == 1) == (cap == "avx2")); }

}  // namespace
}  // namespace phub::nn

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (argc != 2) {
    std::fprintf(stderr, "Usage: ONEDNN_MAX_CPU_ISA=CAP nn_dispatch_test CAP\n");
    return 2;
  }
  phub::nn::cap = argv[1];
  std::string has = phub::nn::onednn::instruction_set();
  std::transform(phub::nn::cap.begin(), phub::nn::cap.end(), phub::nn::cap.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (has != phub::nn::cap) {
    std::printf("skipped: under the cap %s oneDNN uses %s on this processor\n",
                phub::nn::cap.c_str(), has.c_str());
    return kSkipped;
  }
  const char* arguments[] = {argv[0]};
  return phub::testing::run_tests(1, arguments);
}
