// The peer's calls to a listening doctor, in one meeting.
//
// One thread. A call that was started runs while this end does its part, and has to be finished.
#pragma once

#include <memory>
#include <string>

#include "proto/doctor.grpc.pb.h"
#include "server/doctor/peer/peer.h"

namespace phub::doctor {

class DoctorClient {
 public:
  template <typename Reply>
  struct Call {
    grpc::ClientContext context;
    Reply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  };
  template <typename Request, typename Reply>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (
      doctor_wire::Doctor::Stub::*)(grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  // Meets. Errors: connect_to's; kInvalidArgument for wrong credentials; those of calls.
  static Result<std::unique_ptr<DoctorClient>> create(const MeetOptions& options);
  ~DoctorClient();  // leaves
  DoctorClient(const DoctorClient&) = delete;
  DoctorClient& operator=(const DoctorClient&) = delete;

  const doctor_wire::Welcome& welcome() const { return welcome_; }

  template <typename Request, typename Reply>
  std::unique_ptr<Call<Reply>> start(Method<Request, Reply> method, const Request& request) {
    auto call = std::make_unique<Call<Reply>>();
    prepare(call->context);
    call->reader = (stub_.get()->*method)(&call->context, request, &queue_);
    call->reader->Finish(&call->reply, &call->status, call.get());
    return call;
  }
  // Errors: the listener's; check_stop's; kDeadlineExceeded: it is silent; kUnavailable: it is
  // gone; kInvalidArgument: it is no doctor; kFailedPrecondition: of another version;
  // kResourceExhausted: it measures with another.
  template <typename Reply>
  Result<Reply> finish(Call<Reply>& call) {
    PHUB_RETURN_IF_ERROR(wait(call.context));
    PHUB_RETURN_IF_ERROR(meaning(call.status));
    return std::move(call.reply);
  }
  template <typename Request, typename Reply>
  Result<Reply> call(Method<Request, Reply> method, const Request& request) {
    return finish(*start(method, request));
  }

 private:
  DoctorClient(const MeetOptions& options, const std::shared_ptr<grpc::Channel>& channel);
  void prepare(grpc::ClientContext& context) const;
  // Until the call has ended. Error: why this end has ended it.
  Status wait(grpc::ClientContext& context);
  Status meaning(const grpc::Status& status) const;

  const Limits limits_;
  const std::string who_;
  const std::unique_ptr<doctor_wire::Doctor::Stub> stub_;
  grpc::CompletionQueue queue_;
  doctor_wire::Welcome welcome_;  // without a token there is no meeting
};

}  // namespace phub::doctor
