"""Where Spark meets the arithmetic: Arrow in, Arrow out. Functions here run in Spark's Python workers."""
