#!/usr/bin/perl
# Counts the n-grams of a corpus and writes those that are frequent.
use strict;
use warnings;
use Getopt::Long;

my ($order, $min_count, $prune_every, $passes, $external) = (5, 2, 0, 1, 0);
GetOptions(
    "order=i"       => \$order,
    "min-count=i"   => \$min_count,
    "prune-every=i" => \$prune_every,    # lines after which rare n-grams are forgotten; 0: never
    "passes=i"      => \$passes,         # over the corpus, each for its share of the n-grams
    "external"      => \$external,       # sort on disk
) or exit 2;
my $corpus = shift;
$| = 1;
printf "perl %vd, counting %d-grams of %s (%.1f MB)\n", $^V, $order, $corpus, (-s $corpus) / 1e6;
open(my $out, ">", "ngrams.tsv") or die $!;
my $kept = 0;
for my $pass (0 .. $passes - 1) {
    my (%count, $sort);
    open(my $in, "<", $corpus) or die "$corpus: $!";
    if ($external) { open($sort, "|-", "LC_ALL=C sort -S 32M -T . | uniq -c > ngrams.all") or die $! }
    while (my $line = <$in>) {
        chomp $line;
        my @words = split / /, $line;
        for my $at (0 .. $#words - $order + 1) {
            next if $passes > 1 && unpack("%32C*", $words[$at]) % $passes != $pass;
            my $ngram = join(" ", @words[$at .. $at + $order - 1]);
            if   ($external) { print $sort "$ngram\n" }
            else             { $count{$ngram}++ }
        }
        if ($prune_every && $. % $prune_every == 0) {
            delete @count{ grep { $count{$_} < $min_count } keys %count };
        }
        print "batch ", $. / 5000, ": $. lines, ", scalar(keys %count), " distinct\n" if $. % 5000 == 0;
    }
    if ($external) { close $sort or die "sort: $!" }
    for my $ngram (keys %count) {
        next if $count{$ngram} < $min_count;
        print $out "$ngram\t$count{$ngram}\n";
        $kept++;
    }
}
print "wrote ngrams.tsv, $kept kept\n";
