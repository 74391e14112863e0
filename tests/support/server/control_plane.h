// The control plane of a daemon on a fake data plane, over real gRPC.
#pragma once

#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "server/rpc/service.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/job_replies.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {

// With tokens, which only the members of `tenancy` make.
struct SecuredControlPlane {
  TemporaryDirectory folder;
  FakeDataPlane data_plane{2};
  std::unique_ptr<server::Tenancy> tenancy;
  std::unique_ptr<server::JobTable> table;
  std::unique_ptr<server::ControlService> service;

  explicit SecuredControlPlane(std::chrono::milliseconds join_patience = std::chrono::minutes(10)) {
    spdlog::set_level(spdlog::level::off);
    tenancy =
        std::move(*server::Tenancy::open({.state_folder = folder.path, .tokens_required = true}));
    table =
        std::make_unique<server::JobTable>(server::JobTableOptions{.tenants = &tenancy->directory});
    table->attach(data_plane);
    auto created = server::ControlService::create(
        {.address = "127.0.0.1:0", .join_patience = join_patience, .tenancy = tenancy.get()},
        *table, data_plane);
    INFO((created ? "" : created.error().message()));
    REQUIRE(created);
    service = std::move(*created);
  }

  // The metadata of a tenant that is made for it.
  std::string token_of(const std::string& tenant) {
    const auto owner = tenancy->directory.create(tenant, {});
    REQUIRE(owner);
    return tenancy->tokens.create(server::Role::kTenant, *owner, "", 0)->text;
  }
  std::shared_ptr<grpc::Channel> channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(service->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
};

}  // namespace phub::testing
