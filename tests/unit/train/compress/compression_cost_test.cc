// Which encoding is predicted to be worth it: models, links and CPUs, with what is exact.
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "common/cost/compression.h"

namespace phub::cost {
namespace {

constexpr double kMegabyte = 1e6;

// Full duplex: what is pushed costs nothing beside a reply of as many bytes.
ExchangeFigures full_duplex(double mbit, double latency = 0.0) {
  const double byte = 8.0 / (mbit * 1e6);
  return {.latency = latency, .dense_byte = byte, .reply_byte = byte};
}
// Both ways share what there is.
ExchangeFigures shared(double mbit) {
  ExchangeFigures figures = full_duplex(mbit);
  figures.dense_byte *= 2;
  return figures;
}
// Workers push through less than what they receive through.
ExchangeFigures slow_uplink(double mbit, double down_mbit) {
  return {.latency = 0.0, .dense_byte = 8.0 / (mbit * 1e6), .reply_byte = 8.0 / (down_mbit * 1e6)};
}

// Of so many megabytes in bf16: int8 has a bit over half of them, int4 over a quarter, and sparse a
// fiftieth, of which `workers` are in a reply.
struct Trained {
  double megabytes;
  double encode_seconds;  // int8; the others take as long
  bool has_sparse_replies = false;
  double workers = 2.0;
};

std::array<EncodedGradients, 4> candidates_of(const Trained& model) {
  const double bytes = model.megabytes * kMegabyte;
  const double sparse = 0.03 * bytes;
  return {EncodedGradients{Encoding::kDense, bytes, bytes, 0.0, 0.0},
          EncodedGradients{Encoding::kSparse, sparse,
                           model.has_sparse_replies ? model.workers * sparse : bytes,
                           model.encode_seconds, 0.0},
          EncodedGradients{Encoding::kInt8, 0.53 * bytes, bytes, model.encode_seconds, 0.0},
          EncodedGradients{Encoding::kInt4, 0.28 * bytes, bytes, model.encode_seconds, 0.0}};
}

struct Case {
  const char* what;
  ExchangeFigures figures;
  Trained model;
  double compute_seconds;
  Encoding chosen;
  double dense_step;   // seconds
  double chosen_step;  // seconds
};

TEST_CASE("an encoding is chosen only where it is predicted to be faster") {
  const Case cases[] = {
      // 100 MB take 8 s at 100 Mbit/s, each way, both ways at once.
      {"full duplex, whole replies", full_duplex(100), {100, 0.1}, 0.5, Encoding::kDense, 8.0, 8.0},
      {"full duplex, sparse replies of 2 workers",
       full_duplex(100),
       {100, 0.1, true},
       0.1,
       Encoding::kSparse,
       8.0,
       0.48},
      {"the same, bound by compute in the end",
       full_duplex(100),
       {100, 0.1, true},
       1.0,
       Encoding::kSparse,
       8.0,
       1.1},
      {"of 30 workers: most of a reply",
       full_duplex(100),
       {100, 0.1, true, 30},
       0.5,
       Encoding::kSparse,
       8.0,
       7.2},
      {"of 32 workers: what is gained is too little",
       full_duplex(100),
       {100, 0.1, true, 32},
       0.5,
       Encoding::kDense,
       8.0,
       8.0},
      {"of 40 workers: more than all",
       full_duplex(100),
       {100, 0.1, true, 40},
       0.5,
       Encoding::kDense,
       8.0,
       8.0},
      {"1 Gbit/s", full_duplex(1000), {100, 0.1, true}, 0.1, Encoding::kSparse, 0.8, 0.2},
      {"10 Gbit/s: the encoder takes longer",
       full_duplex(10'000),
       {100, 0.1, true},
       0.01,
       Encoding::kDense,
       0.08,
       0.08},
      {"10 Gbit/s: a faster encoder, but compute hides the exchange",
       full_duplex(10'000),
       {100, 0.005, true},
       0.1,
       Encoding::kDense,
       0.1,
       0.1},
      {"10 Gbit/s: and where it does not",
       full_duplex(10'000),
       {100, 0.005, true},
       0.01,
       Encoding::kSparse,
       0.08,
       0.015},
      // Pushes and replies in turn: 16 s, of which pushes are half.
      {"half duplex, whole replies", shared(100), {100, 0.1}, 0.5, Encoding::kSparse, 16.0, 8.24},
      {"a slow uplink", slow_uplink(100, 1000), {100, 0.1}, 0.5, Encoding::kSparse, 8.0, 1.016},
      {"hardly faster", shared(100), {100, 7.9}, 7.0, Encoding::kDense, 16.0, 16.0},
      {"only latency", full_duplex(1e9, 0.2), {100, 0.0, true}, 0.0, Encoding::kDense, 0.2, 0.2},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    const auto candidates = candidates_of(c.model);
    const TrainingStep training = {.exchange = c.figures, .compute_seconds = c.compute_seconds};
    const EncodingChoice choice = choose_encoding(training, candidates);
    CHECK(name_of(candidates[choice.chosen].encoding) == name_of(c.chosen));
    CHECK(choice.predicted.front().step == Approx(c.dense_step));
    CHECK(choice.predicted[choice.chosen].step == Approx(c.chosen_step).epsilon(1e-3));
  }
}

TEST_CASE("what a server adds up for longer counts for each worker, and what it saves does not") {
  auto candidates = candidates_of({100, 0.0});
  TrainingStep training = {
      .exchange = slow_uplink(100, 1000), .compute_seconds = 0.0, .workers = 8};
  candidates[0].add_seconds = 0.5;
  candidates[1].add_seconds = 0.1;
  CHECK(predict(training, candidates[0], candidates[1]).exchange == Approx(1.016));
  candidates[1].add_seconds = 1.5;
  CHECK(predict(training, candidates[0], candidates[1]).exchange == Approx(9.016));
  CHECK(choose_encoding(training, candidates).chosen == 3);
}

TEST_CASE("replies that were measured slower than exchanges are taken to be as slow") {
  const auto candidates = candidates_of({100, 0.0});
  const TrainingStep training = {
      .exchange = {.latency = 0.0, .dense_byte = 1e-8, .reply_byte = 2e-8}};
  CHECK(predict(training, candidates[0], candidates[0]).exchange == Approx(1.0));
  CHECK(predict(training, candidates[0], candidates[1]).exchange == Approx(1.0));
}

TEST_CASE("dense alone is chosen") {
  const auto candidates = candidates_of({100, 0.0});
  const std::span<const EncodedGradients> dense(candidates.data(), 1);
  CHECK(choose_encoding({.exchange = full_duplex(1)}, dense).chosen == 0);
}

}  // namespace
}  // namespace phub::cost
