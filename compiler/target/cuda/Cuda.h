// The cuda dialect: what runs on NVIDIA's GPUs, and how.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"

#include "compiler/target/cuda/CudaEnums.h.inc"

#include "compiler/target/cuda/CudaDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/target/cuda/CudaAttrs.h.inc"
