"""Arrays by their shapes, for annotations: equal letters in one signature are equal lengths."""

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt64

PerRow = Float[np.ndarray, " n"]
"""A number for each row, NaN where it is undefined."""
RowMask = Bool[np.ndarray, " n"]
"""True for some rows."""
RowInts = Int64[np.ndarray, " n"]
"""A whole number for each row, such as its length or its text."""
Streams = UInt64[np.ndarray, " n"]
"""Key of the random stream of each row."""
Indices = Int64[np.ndarray, " m"]
"""Numbers of rows or positions; they may repeat."""
Values = Float[np.ndarray, " m"]
"""A number for each of some indices, measures or alternatives."""
PerClass = Float[np.ndarray, "n C"]
"""A number for each row and class, such as predictions."""
PerToken = Float[np.ndarray, " T"]
"""A number for each token of one text."""
PerPosition = Float[np.ndarray, " N"]
"""A number for each position of all rows, one row after another."""
