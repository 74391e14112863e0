// How keys are divided among GPUs, and where a backward pass is cut.
#include "worker/cuda/group/shard_layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace phub::nn::cuda {
namespace {

const std::vector<std::size_t> kElements = {135, 5, 1, 64, 700, 3, 4'097};
const std::vector<KeyRange> kLayers = {{0, 2}, {2, 1}, {3, 2}, {5, 2}};

TEST_CASE("Every element of every key is one rank's, at its place in the array") {
  const std::size_t ranks = GENERATE(as<std::size_t>{}, 1, 2, 3, 4, 5, 8);
  const ShardLayout layout(kElements, kLayers, {{3, 0}, {}, {1}, {2}}, ranks);
  std::vector<std::vector<int>> owners;
  for (const std::size_t elements : kElements) owners.emplace_back(elements);
  std::size_t end = 0;
  for (std::size_t region = 0; region < layout.regions().size(); ++region) {
    const ShardRegion& of = layout.regions()[region];
    CHECK(of.first == end);
    CHECK(of.slice % kSliceElements == 0);
    end += ranks * of.slice;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t slice = of.first + rank * of.slice;
      for (const ShardPiece& piece : layout.pieces(region, rank)) {
        CHECK(piece.at == layout.offset(piece.key) + piece.first);
        CHECK(piece.at >= slice);
        CHECK(piece.at + piece.count <= slice + of.slice);
        for (std::size_t i = 0; i < piece.count; ++i) ++owners[piece.key][piece.first + i];
      }
    }
  }
  CHECK(end == layout.elements());
  for (const auto& key : owners) {
    CHECK(std::all_of(key.begin(), key.end(), [](int count) { return count == 1; }));
  }
}

TEST_CASE("A region that is smaller than a slice for each rank leaves some with padding alone") {
  const ShardLayout layout(kElements, kLayers, {{0}, {1}, {2}, {3}}, 4);
  CHECK(layout.regions()[1].slice == kSliceElements);
  CHECK(layout.pieces(1, 0) == std::vector<ShardPiece>{{2, 0, 1, layout.offset(2)}});
  for (const std::size_t rank : {1U, 2U, 3U}) CHECK(layout.pieces(1, rank).empty());
}

TEST_CASE("A backward pass is cut where about as many gradients are whole") {
  PassSchedule schedule;
  schedule.layers = kLayers;
  schedule.marks = {{2, 3}, {5, 2}, {5, 1}, {9, 0}};
  schedule.backward_steps = 11;
  for (const std::size_t parts : {1U, 2U, 3U, 16U}) {
    const auto cut = backward_parts(schedule, kElements, parts);
    std::size_t end = 0;
    std::vector<std::size_t> layers;
    for (const PassSegment& part : cut) {
      CHECK(part.first == end);
      end = part.last;
      layers.insert(layers.end(), part.layers.begin(), part.layers.end());
    }
    CHECK(end == 11);
    CHECK(layers == std::vector<std::size_t>{3, 2, 1, 0});
    CHECK(cut.back().layers.empty());  // steps behind the last gradient
    CHECK(cut.size() <= parts + 2);
  }
  schedule.backward_steps = 9;
  CHECK(backward_parts(schedule, kElements, 1).size() == 1);
  CHECK(backward_parts(schedule, kElements, 10'000).size() == 4);
}

}  // namespace
}  // namespace phub::nn::cuda
