// Counts the k-mers of sequencing reads and writes the histogram of their frequencies.
// g++ -O2 -std=c++17 -o kmer_count kmer_count.cpp
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <unordered_map>

static std::string option(int argc, char** argv, const char* name, const char* otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (!std::strcmp(argv[i], name)) return argv[i + 1];
    return otherwise;
}

static void write_example(const std::string& name, int reads) {
    std::ofstream out(name);
    uint64_t state = 88172645463325252ull;
    for (int read = 0; read < reads; read++) {
        std::string bases(150, 'A'), quality(150, 'F');
        for (auto& base : bases) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            base = "ACGT"[state >> 33 & 3];
        }
        out << "@SRR1770413." << read + 1 << " length=150\n" << bases << "\n+\n" << quality << "\n";
    }
}

static uint64_t mixed(uint64_t x) { return x ^= x >> 31, x *= 0x9E3779B97F4A7C15ull, x ^ x >> 29; }

int main(int argc, char** argv) {
    const std::string name = option(argc, argv, "--reads", "reads.fastq");
    if (int reads = std::atoi(option(argc, argv, "--write-example", "0").c_str())) return write_example(name, reads), 0;
    const int k = std::atoi(option(argc, argv, "--kmer-size", "31").c_str());
    const int partitions = std::atoi(option(argc, argv, "--partitions", "1").c_str());
    const int every = std::atoi(option(argc, argv, "--sample-every", "1").c_str());
    const int step = 20000;
    std::fprintf(stderr, "[kmer_count] reads: %s, k = %d, partitions: %d\n", name.c_str(), k, partitions);
    const auto begin = std::chrono::steady_clock::now();
    std::map<uint32_t, uint64_t> histogram;
    for (int partition = 0; partition < partitions; partition++) {
        std::unordered_map<uint64_t, uint32_t> counts;
        std::ifstream in(name);
        std::string head, bases, plus, quality;
        for (long read = 1; std::getline(in, head) && std::getline(in, bases) && std::getline(in, plus) && std::getline(in, quality); read++) {
            if (read % step == 0)
                std::fprintf(stderr, "[kmer_count] partition %d/%d: %ld reads, %zu distinct k-mers\n", partition + 1, partitions, read, counts.size());
            if (read % every) continue;
            uint64_t word = 0, mask = k < 32 ? (1ull << 2 * k) - 1 : ~0ull;
            for (size_t i = 0; i < bases.size(); i++) {
                word = (word << 2 | (bases[i] >> 1 & 3)) & mask;
                if (i + 1 >= size_t(k) && mixed(word) % partitions == uint64_t(partition)) counts[word]++;
            }
        }
        for (auto& [kmer, count] : counts) histogram[count]++;
    }
    std::ofstream out(option(argc, argv, "--histogram", "histogram.tsv"));
    for (auto& [count, kmers] : histogram) out << count << '\t' << kmers << '\n';
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::fprintf(stderr, "[kmer_count] done in %.1f s\n", seconds);
}
