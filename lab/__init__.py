"""Small programs that really die of memory, and what becomes of them when oomdoctor's remedies are done to them."""
