"""The knobs of training: its batches, its states, and what it keeps."""
