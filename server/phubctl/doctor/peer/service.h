// The listening doctor's service (proto/doctor.proto): one meeting at a time, for who has its
// token.
//
// Calls come on gRPC's threads; those of the meeting one after another. A peer that says nothing
// between its calls holds no thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "proto/doctor.grpc.pb.h"
#include "server/phubctl/doctor/peer/visit.h"

namespace phub::phubctl::doctor {

// The first byte of a token, which is neither HTTP/2's nor TLS's: the port is for calls too.
constexpr char kTokenMark = '\0';
constexpr char kTokenMetadata[] = "phub-meeting-bin";

class DoctorService final : public doctor_wire::Doctor::Service {
  using Block = doctor_wire::Block;
  using Context = grpc::ServerContext;
  using Found = doctor_wire::Found;
  using Link = doctor_wire::Link;
  using Nothing = doctor_wire::Nothing;
  using Visitor = doctor_wire::Visitor;
  using Welcome = doctor_wire::Welcome;

 public:
  // `say` is called with a line when a meeting begins and ends, one after another. `port` has the
  // peers' connections.
  DoctorService(const ListenOptions& options, server::ControlListener& port,
                std::function<void(const std::string&)> say)
      : options_(options), port_(port), say_(std::move(say)) {}

  // A connection whose first bytes have come. It is closed if they are not the meeting's token.
  void offer(UniqueFd socket);
  // Ends a meeting whose peer has been silent for too long, or that has taken all its time.
  void look();
  // Ends a meeting at once. After the last call.
  void stop();
  // How the first meeting ended; none yet.
  std::optional<Status> first() const;

  grpc::Status Meet(Context* context, const Visitor* visitor, Welcome* welcome) override;
  grpc::Status Open(Context* context, const Link* link, Nothing*) override;
  grpc::Status Connect(Context* context, const Nothing*, Nothing*) override;
  grpc::Status Play(Context* context, const Block* block, Nothing*) override;
  grpc::Status Close(Context* context, const Nothing*, Found* found) override;
  grpc::Status Leave(Context* context, const Nothing*, Nothing*) override;

 private:
  // A call of the meeting's: `act` has the visit for itself.
  grpc::Status step(const Context& context, const std::function<Status()>& act,
                    bool is_last = false);
  // The connection that the peer brings.
  Result<UniqueFd> take(const Context& context);
  void end(const Status& status);  // REQUIRES: a meeting, and the mutex

  const ListenOptions& options_;
  server::ControlListener& port_;
  const std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;
  std::condition_variable has_come_;  // a connection
  std::optional<Visit> visit_;        // the meeting; used by one step, or under the mutex
  std::string token_;                 // its
  bool is_in_step_ = false;
  Clock::time_point heard_;  // when its last call ended
  UniqueFd socket_;          // to be measured
  std::optional<Status> first_;
};

}  // namespace phub::phubctl::doctor
