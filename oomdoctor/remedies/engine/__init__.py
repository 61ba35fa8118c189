"""The knobs of the inference engine, computed with the arithmetic of its version."""
