// The functions of oneDNN's C interface that dnnl.hpp calls: each is defined
// here as a call through a table, which is filled after dlopen.

#include "runtime/device/cpu/OneDnn.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <string>
#include <tuple>

// Each with its number of arguments. A function that is missing here is a link
// error. Versions 2 and 3 differ in how primitives are described.
#if DNNL_VERSION_MAJOR < 3
#define POLYRANK_ONEDNN_OF_VERSION(F)                                          \
  F(dnnl_matmul_desc_init, 5)                                                  \
  F(dnnl_memory_desc_init_by_strides, 5)                                       \
  F(dnnl_memory_set_data_handle_v2, 3)                                         \
  F(dnnl_post_ops_append_sum, 2)                                               \
  F(dnnl_post_ops_append_sum_v2, 3) /* called by g++'s code alone */           \
  F(dnnl_primitive_attr_set_output_scales, 4)                                  \
  F(dnnl_primitive_desc_iterator_create, 5)                                    \
  F(dnnl_primitive_desc_iterator_destroy, 1)                                   \
  F(dnnl_primitive_desc_iterator_fetch, 1)
#else
#define POLYRANK_ONEDNN_OF_VERSION(F)                                          \
  F(dnnl_matmul_primitive_desc_create, 7)                                      \
  F(dnnl_memory_desc_clone, 2)                                                 \
  F(dnnl_memory_desc_create_with_strides, 5)                                   \
  F(dnnl_memory_desc_create_with_tag, 5)                                       \
  F(dnnl_memory_desc_destroy, 1)                                               \
  F(dnnl_memory_set_data_handle, 2)                                            \
  F(dnnl_post_ops_append_eltwise, 4)                                           \
  F(dnnl_post_ops_append_sum, 4)
// Later versions of 3 call these, and earlier ones need not have them.
extern "C" {
dnnl_status_t dnnl_memory_create_v2(dnnl_memory_t *, const_dnnl_memory_desc_t,
                                    dnnl_engine_t, int, void **);
size_t dnnl_memory_desc_get_size_v2(const_dnnl_memory_desc_t, int);
dnnl_status_t dnnl_memory_set_data_handle_v2(dnnl_memory_t, void *, int);
}
#define POLYRANK_ONEDNN_LATER(F)                                               \
  F(dnnl_memory_create_v2, 5)                                                  \
  F(dnnl_memory_desc_get_size_v2, 2)                                           \
  F(dnnl_memory_set_data_handle_v2, 3)
#endif
#define POLYRANK_ONEDNN(F)                                                     \
  POLYRANK_ONEDNN_OF_VERSION(F)                                                \
  F(dnnl_engine_create, 3)                                                     \
  F(dnnl_engine_destroy, 1)                                                    \
  F(dnnl_memory_create, 4)                                                     \
  F(dnnl_memory_desc_get_size, 1)                                              \
  F(dnnl_memory_destroy, 1)                                                    \
  F(dnnl_post_ops_create, 1)                                                   \
  F(dnnl_post_ops_destroy, 1)                                                  \
  F(dnnl_primitive_attr_create, 1)                                             \
  F(dnnl_primitive_attr_destroy, 1)                                            \
  F(dnnl_primitive_attr_set_post_ops, 2)                                       \
  F(dnnl_primitive_attr_set_scratchpad_mode, 2)                                \
  F(dnnl_primitive_create, 2)                                                  \
  F(dnnl_primitive_desc_destroy, 1)                                            \
  F(dnnl_primitive_desc_query_md, 3)                                           \
  F(dnnl_primitive_destroy, 1)                                                 \
  F(dnnl_primitive_execute, 4)                                                 \
  F(dnnl_set_primitive_cache_capacity, 1)                                      \
  F(dnnl_sgemm, 13)                                                            \
  F(dnnl_stream_create, 3)                                                     \
  F(dnnl_stream_destroy, 1)

namespace {

using polyrank::runtime::oneDnnLibrary;
using polyrank::runtime::oneDnnVersion;

template <typename Function>
struct Signature;
template <typename R, typename... A>
struct Signature<R(A...)> {
  using Result = R;
  static constexpr size_t count = sizeof...(A);
  template <size_t I>
  using Argument = std::tuple_element_t<I, std::tuple<A...>>;
};

struct Table {
#define POLYRANK_SLOT(name, count) decltype(&::name) name = nullptr;
  POLYRANK_ONEDNN(POLYRANK_SLOT)
#if DNNL_VERSION_MAJOR >= 3
  POLYRANK_ONEDNN_LATER(POLYRANK_SLOT)
#endif
#undef POLYRANK_SLOT
} table;

std::string load() {
  // The programs of a bundle find the library in their own folder.
  void *library = dlopen(oneDnnLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return std::string("matrix products need oneDNN " POLYRANK_TEXT(
               DNNL_VERSION_MAJOR) ", and it cannot be loaded (") +
           dlerror() +
           "): install it (libdnnl" POLYRANK_TEXT(
               DNNL_VERSION_MAJOR) " on Debian), or take along a bundle that "
                                   "was made for this plan";
#define POLYRANK_LOAD(function, count)                                         \
  table.function =                                                             \
      reinterpret_cast<decltype(&::function)>(dlsym(library, #function));      \
  if (!table.function)                                                         \
    return std::string(oneDnnLibrary) +                                        \
           " has no function " #function ": it is another version than the " + \
           oneDnnVersion + " that this program is for";
  POLYRANK_ONEDNN(POLYRANK_LOAD)
#undef POLYRANK_LOAD
#if DNNL_VERSION_MAJOR >= 3
  auto version = reinterpret_cast<decltype(&::dnnl_version)>(
      dlsym(library, "dnnl_version"));
  if (!version || version()->minor < DNNL_VERSION_MINOR)
    return std::string(oneDnnLibrary) + " is older than the version " +
           oneDnnVersion + " that this program is for";
#define POLYRANK_LOAD(function, count)                                         \
  table.function =                                                             \
      reinterpret_cast<decltype(&::function)>(dlsym(library, #function));
  POLYRANK_ONEDNN_LATER(POLYRANK_LOAD)
#undef POLYRANK_LOAD
#endif
  return "";
}

} // namespace

polyrank::Result<void> polyrank::runtime::loadOneDnn() {
  static const std::string failure = load();
  return failure.empty() ? Result<void>()
                         : Result<void>(Error{failure, Error::Fault::Rank});
}

#define POLYRANK_TYPE(name, i) Signature<decltype(::name)>::Argument<i>
#define POLYRANK_P1(name) POLYRANK_TYPE(name, 0) a0
#define POLYRANK_P2(name) POLYRANK_P1(name), POLYRANK_TYPE(name, 1) a1
#define POLYRANK_P3(name) POLYRANK_P2(name), POLYRANK_TYPE(name, 2) a2
#define POLYRANK_P4(name) POLYRANK_P3(name), POLYRANK_TYPE(name, 3) a3
#define POLYRANK_P5(name) POLYRANK_P4(name), POLYRANK_TYPE(name, 4) a4
#define POLYRANK_P7(name)                                                      \
  POLYRANK_P5(name), POLYRANK_TYPE(name, 5) a5, POLYRANK_TYPE(name, 6) a6
#define POLYRANK_P13(name)                                                     \
  POLYRANK_P7(name), POLYRANK_TYPE(name, 7) a7, POLYRANK_TYPE(name, 8) a8,     \
      POLYRANK_TYPE(name, 9) a9, POLYRANK_TYPE(name, 10) a10,                  \
      POLYRANK_TYPE(name, 11) a11, POLYRANK_TYPE(name, 12) a12
#define POLYRANK_A1 a0
#define POLYRANK_A2 POLYRANK_A1, a1
#define POLYRANK_A3 POLYRANK_A2, a2
#define POLYRANK_A4 POLYRANK_A3, a3
#define POLYRANK_A5 POLYRANK_A4, a4
#define POLYRANK_A7 POLYRANK_A5, a5, a6
#define POLYRANK_A13 POLYRANK_A7, a7, a8, a9, a10, a11, a12
#define POLYRANK_FORWARD(name, count_)                                         \
  static_assert(Signature<decltype(::name)>::count == count_);                 \
  extern "C" Signature<decltype(::name)>::Result name(                         \
      POLYRANK_P##count_(name)) {                                              \
    return table.name(POLYRANK_A##count_);                                     \
  }
POLYRANK_ONEDNN(POLYRANK_FORWARD)
#if DNNL_VERSION_MAJOR >= 3
POLYRANK_ONEDNN_LATER(POLYRANK_FORWARD)
#endif
