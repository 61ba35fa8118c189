"""Writes sources whose templates take the compiler some 200 MB each, and a Makefile."""

from pathlib import Path

HEAVY = """
#include <map>
#include <string>
#include <tuple>
#include <vector>
template <int N> struct Node { std::map<int, std::vector<Node<N - 1>>> left; std::string name;
  int sum() const { int s = N; for (auto& [k, v] : left) for (auto& it : v) s += it.sum() + k; return s; } };
template <> struct Node<0> { int sum() const { return 0; } };
template <int N> int all() { Node<N> node; return node.sum() + all<N - 1>(); }
template <> int all<0>() { return 0; }
"""
for number in range(4):
    Path(f"kernel_{number}.cpp").write_text(f"{HEAVY}int kernel_{number}() {{ return all<22>(); }}\n")
names = " ".join(f"kernel_{number}.o" for number in range(4))
Path("Makefile").write_text(f"all: {names}\n\t@echo linked\n%.o: %.cpp\n\tg++ -std=c++17 -O1 -g -c $< -o $@\n")
