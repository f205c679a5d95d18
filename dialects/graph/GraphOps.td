// All ops of the graph dialect, by family.

include "dialects/graph/GraphAttrs.td"
include "dialects/graph/Elementwise.td"
include "dialects/graph/Shape.td"
include "dialects/graph/Contraction.td"
include "dialects/graph/Grouped.td"
include "dialects/graph/Composite.td"
include "dialects/graph/Attention.td"
include "dialects/graph/Step.td"
include "dialects/graph/Scan.td"
include "dialects/graph/Parameter.td"
