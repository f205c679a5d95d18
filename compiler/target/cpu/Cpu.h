// The cpu dialect: what runs on the cores of a CPU, and how.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"

#include "compiler/target/cpu/CpuEnums.h.inc"

#include "compiler/target/cpu/CpuDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/target/cpu/CpuAttrs.h.inc"
