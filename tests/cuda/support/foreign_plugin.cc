// A plug-in that was built for another phub-worker.
#include "worker/nn/plugin.h"

extern "C" const phub::nn::Plugin* phub_plugin() {
  static const phub::nn::Plugin plugin{"phub 0.0.1, interface 0", nullptr};
  return &plugin;
}
