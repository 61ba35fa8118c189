"""Writes the sources of an extension whose templates take the compiler much memory, and its build.ninja."""

from pathlib import Path

HEADER = """\
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>
template <int Dtype, std::size_t N> struct Kernel {
    std::map<int, std::vector<std::array<double, N + 1>>> cache;
    std::function<double(const std::string&)> name;
    double run(double x) {
        cache[int(x)].push_back({x});
        name = [x](const std::string& s) { return x + double(s.size()) + N; };
        return name(std::to_string(x)) + double(cache.size());
    }
};
template <int Dtype, std::size_t... Ns> double dispatch(double x, std::index_sequence<Ns...>) {
    return (Kernel<Dtype, Ns>{}.run(x) + ...);
}
"""
NAMES = ("softmax", "layer_norm", "rope", "gemm", "gather", "top_k")
Path("csrc").mkdir(exist_ok=True)
Path("csrc/kernel.h").write_text(HEADER)
rules = [
    "rule compile",
    "  command = c++ -std=c++17 -O1 -fPIC -MMD -MF $out.d -c $in -o $out",
    "  depfile = $out.d",
    "rule link",
    "  command = c++ -shared $in -o $out",
]
for number, name in enumerate(NAMES):
    body = f"double {name}(double x) {{ return dispatch<{number}>(x, std::make_index_sequence<90>{{}}); }}\n"
    Path(f"csrc/{name}_kernel.cpp").write_text(f'#include "kernel.h"\n{body}')
    rules.append(f"build build/temp/{name}_kernel.o: compile csrc/{name}_kernel.cpp")
objects = " ".join(f"build/temp/{name}_kernel.o" for name in NAMES)
rules.append(f"build build/lib/_kernels.so: link {objects}")
Path("build.ninja").write_text("\n".join(rules) + "\n")
