#include "xla_patch/bindings/pjrt/plugin.h"

#include <doctest/doctest.h>

#include "tests/bindings/pjrt/fake_plugin.h"

namespace xla_shmem::pjrt {
namespace {

using test::FakePlugin;

const char* const kWayOut = "; install jax, jaxlib and the jax-cuda plugin of release 0.10.2 or newer";

std::string ErrorOf(FakePlugin& fake) { return Plugin().Open(&fake.api()).message(); }

TEST_CASE("Extensions are found in any order and among others") {
  FakePlugin fake;
  Plugin plugin;
  CHECK(plugin.Open(&fake.api()).ok());
  CHECK(plugin.version() == "0.112");
  fake.other().next = &fake.custom_call().base;
  fake.custom_call().base.next = &fake.transform().base;
  fake.transform().base.next = nullptr;
  CHECK(ErrorOf(fake).empty());
}

TEST_CASE("Plugins up to API 0.112 drop the aliasing of a returned module") {
  FakePlugin fake;
  Plugin plugin;
  REQUIRE(plugin.Open(&fake.api()).ok());
  CHECK(plugin.drops_aliases());
  fake.api().version.minor = 113;
  CHECK_FALSE(plugin.drops_aliases());
}

TEST_CASE("A missing extension is an error with the version of the plugin and the release to install") {
  FakePlugin no_transform;
  no_transform.other().next = &no_transform.custom_call().base;
  CHECK(ErrorOf(no_transform) ==
        std::string("the GPU plugin (PJRT API 0.112) has no XlaTransform extension") + kWayOut);
  FakePlugin no_custom_call;
  no_custom_call.transform().base.next = nullptr;
  CHECK(ErrorOf(no_custom_call) ==
        std::string("the GPU plugin (PJRT API 0.112) has no custom-call extension") + kWayOut);
  FakePlugin none;
  none.api().extension_start = nullptr;
  CHECK(ErrorOf(none).find("XlaTransform") != std::string::npos);
}

TEST_CASE("An extension that is too short or has a null function counts as missing") {
  FakePlugin shorter;
  shorter.transform().base.struct_size = offsetof(TransformExtension, clear_transform);
  CHECK(ErrorOf(shorter).find("no XlaTransform extension") != std::string::npos);
  FakePlugin longer;
  longer.transform().base.struct_size += 16;  // later releases append
  CHECK(ErrorOf(longer).empty());
  FakePlugin empty;
  empty.custom_call().register_custom_call = nullptr;
  CHECK(ErrorOf(empty).find("no custom-call extension") != std::string::npos);
}

TEST_CASE("No field past the stated size of a struct is read") {
  FakePlugin old_api;
  old_api.api().struct_size = offsetof(Api, error_message);
  CHECK(ErrorOf(old_api) == "the GPU plugin's PJRT API is too small to be one");
  CHECK(Plugin().Open(nullptr).message() == "the GPU plugin's PJRT API is too small to be one");
  FakePlugin cut_chain;
  cut_chain.other().struct_size = offsetof(Extension, next);
  CHECK(ErrorOf(cut_chain).find("no XlaTransform extension") != std::string::npos);
}

TEST_CASE("The plugin gets the callbacks and the handlers unchanged") {
  FakePlugin fake;
  Plugin plugin;
  REQUIRE(plugin.Open(&fake.api()).ok());
  TransformCallbacks callbacks{kTransformVersion, nullptr, nullptr};
  CHECK(plugin.RegisterTransform("pass", &callbacks).ok());
  CHECK(fake.callbacks == &callbacks);
  CHECK(plugin.ClearTransform("pass").ok());
  int stages[4];
  CHECK(plugin.RegisterHandler("target", {&stages[0], &stages[1], &stages[2], &stages[3]}).ok());
  CHECK(fake.handler.api_version == kTypedFfi);
  CHECK(fake.handler.instantiate == &stages[0]);
  CHECK(fake.handler.prepare == &stages[1]);
  CHECK(fake.handler.initialize == &stages[2]);
  CHECK(fake.handler.execute == &stages[3]);
  CHECK(fake.registered == std::vector<std::string>{"pass", "-pass", "target"});
}

TEST_CASE("An error of the plugin is quoted, then destroyed") {
  FakePlugin fake;
  Plugin plugin;
  REQUIRE(plugin.Open(&fake.api()).ok());
  fake.Refuse("Invalid callback version");
  TransformCallbacks callbacks{2, nullptr, nullptr};
  CHECK(plugin.RegisterTransform("pass", &callbacks).message() ==
        "compiler pass pass: the GPU plugin says: Invalid callback version");
  CHECK(plugin.RegisterHandler("target", {}).message() ==
        "FFI handler target: the GPU plugin says: Invalid callback version");
  CHECK(fake.errors_alive == 0);
}

}  // namespace
}  // namespace xla_shmem::pjrt
