// All attributes of the graph dialect.

include "dialects/graph/Boundary.td"
include "dialects/graph/Phase.td"
