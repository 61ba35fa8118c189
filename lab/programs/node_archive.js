// Compresses uploaded files into a backup folder.
const fs = require("fs");
const path = require("path");
const zlib = require("zlib");
const { promisify } = require("util");
const { pipeline } = require("stream/promises");

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const concurrency = option("--concurrency", 40);
const stream = process.argv.includes("--stream");
const gzip = promisify(zlib.gzip);

async function whole(name) {
  const content = await fs.promises.readFile(path.join("uploads", name));
  await fs.promises.writeFile(path.join("backup", `${name}.gz`), await gzip(content, { level: 1 }));
}

async function piecewise(name) {
  const target = fs.createWriteStream(path.join("backup", `${name}.gz`));
  await pipeline(fs.createReadStream(path.join("uploads", name)), zlib.createGzip({ level: 1 }), target);
}

async function main() {
  fs.mkdirSync("backup", { recursive: true });
  const names = fs.readdirSync("uploads").sort();
  const heap = require("v8").getHeapStatistics().heap_size_limit >> 20;
  console.log(`${names.length} files, ${concurrency} at once, heap limit ${heap} MB`);
  for (let at = 0; at < names.length; at += concurrency) {
    const some = names.slice(at, at + concurrency);
    console.log(`batch ${at / concurrency}: ${some[0]} ... ${some[some.length - 1]}`);
    await Promise.all(some.map(stream ? piecewise : whole));
    const { rss, external } = process.memoryUsage();
    console.log(`done, rss ${rss >> 20} MB, external ${external >> 20} MB`);
  }
}

main();
