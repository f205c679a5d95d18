"""The cases of test_aten.py by family: what each operator of the table computes, as PyTorch's own functions."""

from aten_complex import COMPLEX, FOURIER
from aten_elementwise import ACTIVATIONS, ARITHMETIC, COMPARISONS, CONVERSIONS, CREATION, FUNCTIONS
from aten_indexing import INDEXING, SCATTERS
from aten_layers import ATTENTION, CONVOLUTIONS, LOSSES, NORMS, POOLING, PRODUCTS, REDUCTIONS, RESIZES, STORED
from aten_sampling import CUMULATIVE, DISTANCES, GRIDS, SOLVES, STATISTICS, WINDOWS
from aten_views import IN_PLACE, JOINS, NUMBERS, VIEWS
from aten_vmap import VMAP, VMAP_NESTED

FAMILIES = {
    "in-place": IN_PLACE,
    "arithmetic": ARITHMETIC,
    "functions": FUNCTIONS,
    "activations": ACTIVATIONS,
    "comparisons": COMPARISONS,
    "creation": CREATION,
    "conversions": CONVERSIONS,
    "views": VIEWS,
    "joins": JOINS,
    "products": PRODUCTS,
    "convolutions": CONVOLUTIONS,
    "pooling": POOLING,
    "resizes": RESIZES,
    "norms": NORMS,
    "stored": STORED,
    "attention": ATTENTION,
    "reductions": REDUCTIONS,
    "indexing": INDEXING,
    "scatters": SCATTERS,
    "losses": LOSSES,
    "numbers": NUMBERS,
    "cumulative": CUMULATIVE,
    "statistics": STATISTICS,
    "distances": DISTANCES,
    "windows": WINDOWS,
    "grids": GRIDS,
    "solves": SOLVES,
    "complex": COMPLEX,
    "fourier": FOURIER,
    "vmap": VMAP,
    "vmap-nested": VMAP_NESTED,
}
