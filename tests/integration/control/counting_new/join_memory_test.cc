// What a join costs the server before it knows who joins, and after.
#include <grpcpp/generic/generic_stub.h>
#include <malloc.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "proto/control.grpc.pb.h"
#include "tests/support/server/control_plane.h"

namespace {

// Of the whole process; messages and their parts are made by operator new.
std::atomic<std::int64_t> allocated{0};
std::atomic<std::int64_t> peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t total = allocated.fetch_add(bytes) + bytes;
  std::int64_t seen = peak.load();
  while (total > seen && !peak.compare_exchange_weak(seen, total)) {
  }
  return memory;
}

void discount(void* memory) {
  allocated.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* memory) noexcept { discount(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { discount(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { discount(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  discount(memory);
}

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::int64_t kMebibyte = 1024 * 1024;
constexpr std::size_t kMessageBytes = 30 * kMebibyte;
constexpr std::chrono::seconds kGuard{120};

// JoinRequest and CreateJobRequest { spec { keys {} keys {} ... } }, two bytes for each key.
grpc::ByteBuffer message_of_empty_keys() {
  std::string keys;
  while (keys.size() < kMessageBytes) keys += std::string("\x52\x00", 2);
  std::string message("\x0A", 1);
  for (std::size_t length = keys.size(); length > 0; length >>= 7) {
    message += static_cast<char>((length & 0x7F) | (length >= 0x80 ? 0x80 : 0));
  }
  const grpc::Slice slice(message + keys);
  return {&slice, 1};
}

struct Outcome {
  grpc::Status status;
  std::int64_t peak_bytes = 0;  // above what there was
};

Outcome send_empty_keys(const SecuredControlPlane& plane, const std::string& method) {
  grpc::GenericStub stub(plane.channel());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kGuard);
  const grpc::ByteBuffer message = message_of_empty_keys();
  grpc::ByteBuffer reply;
  Outcome outcome;
  const std::int64_t before = allocated.load();
  peak = before;
  const auto call = stub.PrepareUnaryCall(&context, method, message, &queue);
  call->StartCall();
  call->Finish(&reply, &outcome.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  REQUIRE(queue.Next(&tag, &ok));
  outcome.peak_bytes = peak - before;
  return outcome;
}

// By gRPC, or by the listener, which looks now and then who has sent more than a stranger may.
bool is_refused(const Outcome& outcome, grpc::StatusCode by_grpc) {
  const grpc::StatusCode code = outcome.status.error_code();
  return code == by_grpc || code == grpc::StatusCode::UNAVAILABLE;
}

TEST_CASE("30 MiB of a stranger's empty keys are refused before they are read") {
  const SecuredControlPlane plane;
  const Outcome join = send_empty_keys(plane, "/phub.control.Rendezvous/Join");
  CHECK(is_refused(join, grpc::StatusCode::UNAUTHENTICATED));
  CHECK(join.peak_bytes < 4 * kMebibyte);
}

TEST_CASE("30 MiB are more than a request may have") {
  const SecuredControlPlane plane;
  const Outcome create = send_empty_keys(plane, "/phub.control.Admin/CreateJob");
  CHECK(is_refused(create, grpc::StatusCode::RESOURCE_EXHAUSTED));
  CHECK(create.peak_bytes < 4 * kMebibyte);
}

TEST_CASE("a tenant's endless keys end with the figures") {
  SecuredControlPlane plane;
  const std::string token = plane.token_of("red");
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kGuard);
  context.AddMetadata("authorization", "Bearer " + token);
  control::JoinRequest part;
  part.set_host("here");
  part.set_more(true);
  for (int i = 0; i < 30'000; ++i) part.mutable_spec()->add_keys();
  control::JoinReply reply;
  const std::int64_t before = allocated.load();
  peak = before;
  const auto parts = stub->Join(&context, &reply);
  int written = 0;
  while (parts->Write(part)) ++written;
  const grpc::Status refused = parts->Finish();
  CHECK(written >= 20);
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(refused.error_message(), Contains("keys: more than 1000000"));
  CHECK(peak - before < 256 * kMebibyte);
}

}  // namespace
}  // namespace phub::testing
