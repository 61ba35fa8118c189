"""Training and measuring: what `oomdoctor train` and `oomdoctor bench` do. A diagnosis imports nothing of it."""
