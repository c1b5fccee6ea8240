#include "xla_patch/bindings/pjrt/plugin.h"

#include <doctest/doctest.h>

#include "tests/bindings/pjrt/fake_plugin.h"

namespace xla_shmem::pjrt {
namespace {

using test::FakePlugin;

const char* const kHowToMend = "; install jax, jaxlib and the jax-cuda plugin of release 0.10.2 or newer";

std::string WhyNot(FakePlugin& fake) { return Plugin().Open(&fake.api()); }

TEST_CASE("extensions are found behind others, whatever their order") {
  FakePlugin fake;
  Plugin plugin;
  CHECK(plugin.Open(&fake.api()).empty());
  CHECK(plugin.version() == "0.112");
  fake.other().next = &fake.custom_call().base;
  fake.custom_call().base.next = &fake.transform().base;
  fake.transform().base.next = nullptr;
  CHECK(WhyNot(fake).empty());
}

TEST_CASE("a plugin without one of the extensions is named, with the way out") {
  FakePlugin no_transform;
  no_transform.other().next = &no_transform.custom_call().base;
  CHECK(WhyNot(no_transform) ==
        std::string("the GPU plugin (PJRT API 0.112) has no XlaTransform extension") + kHowToMend);
  FakePlugin no_custom_call;
  no_custom_call.transform().base.next = nullptr;
  CHECK(WhyNot(no_custom_call) ==
        std::string("the GPU plugin (PJRT API 0.112) has no custom-call extension") + kHowToMend);
  FakePlugin none;
  none.api().extension_start = nullptr;
  CHECK(WhyNot(none).find("XlaTransform") != std::string::npos);
}

TEST_CASE("an extension that is too short, or has no function there, counts as missing") {
  FakePlugin shorter;
  shorter.transform().base.struct_size = offsetof(TransformExtension, clear_transform);
  CHECK(WhyNot(shorter).find("no XlaTransform extension") != std::string::npos);
  FakePlugin longer;
  longer.transform().base.struct_size += 16;  // later releases append
  CHECK(WhyNot(longer).empty());
  FakePlugin empty;
  empty.custom_call().register_custom_call = nullptr;
  CHECK(WhyNot(empty).find("no custom-call extension") != std::string::npos);
}

TEST_CASE("nothing is read behind a struct's stated size") {
  FakePlugin old_api;
  old_api.api().struct_size = offsetof(Api, error_message);
  CHECK(WhyNot(old_api) == "the GPU plugin's PJRT API is too small to be one");
  CHECK(Plugin().Open(nullptr) == "the GPU plugin's PJRT API is too small to be one");
  FakePlugin cut_chain;
  cut_chain.other().struct_size = offsetof(Extension, next);
  CHECK(WhyNot(cut_chain).find("no XlaTransform extension") != std::string::npos);
}

TEST_CASE("pass and handlers reach the plugin as they are") {
  FakePlugin fake;
  Plugin plugin;
  REQUIRE(plugin.Open(&fake.api()).empty());
  TransformCallbacks callbacks{kTransformVersion, nullptr, nullptr};
  CHECK(plugin.RegisterTransform("pass", &callbacks).empty());
  CHECK(fake.callbacks == &callbacks);
  CHECK(plugin.ClearTransform("pass").empty());
  int stages[4];
  CHECK(plugin.RegisterHandler("target", {&stages[0], &stages[1], &stages[2], &stages[3]}).empty());
  CHECK(fake.handler.api_version == kTypedFfi);
  CHECK(fake.handler.instantiate == &stages[0]);
  CHECK(fake.handler.prepare == &stages[1]);
  CHECK(fake.handler.initialize == &stages[2]);
  CHECK(fake.handler.execute == &stages[3]);
  CHECK(fake.registered == std::vector<std::string>{"pass", "-pass", "target"});
}

TEST_CASE("what the plugin refuses is said with its own words, and its error given back") {
  FakePlugin fake;
  Plugin plugin;
  REQUIRE(plugin.Open(&fake.api()).empty());
  fake.Refuse("Invalid callback version");
  TransformCallbacks callbacks{2, nullptr, nullptr};
  CHECK(plugin.RegisterTransform("pass", &callbacks) ==
        "compiler pass pass: the GPU plugin says: Invalid callback version");
  CHECK(plugin.RegisterHandler("target", {}) == "FFI handler target: the GPU plugin says: Invalid callback version");
  CHECK(fake.errors_alive == 0);
}

}  // namespace
}  // namespace xla_shmem::pjrt
