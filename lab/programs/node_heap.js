// Counts words by customer: of a list of all rows, or row by row.
const stream = process.argv.includes("--stream");
const rows = [];
const counts = new Map();
const count = (row) => counts.set(row.customer, (counts.get(row.customer) ?? 0) + row.words.length);

for (let id = 0; id < 400000; id++) {
  const row = { customer: `customer-${id % 5000}`, words: Array.from({ length: 12 }, (_, n) => `word-${id}-${n}`) };
  if (stream) count(row);
  else rows.push(row);
  if (id % 40000 === 0) console.log(`batch ${id / 40000} read`);
}
rows.forEach(count);
console.log(`${counts.size} customers`);
