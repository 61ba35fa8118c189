// Builds an inverted index of documents in worker threads, each with a heap of its own.
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const { parseArgs } = require("node:util");

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "2" },
    documents: { type: "string", default: "60000" },
    "max-old-generation-size-mb": { type: "string", default: "96" },
    "flush-every": { type: "string", default: "0" },
  },
});

if (isMainThread) {
  const count = Number(values.workers);
  console.log(`indexing ${values.documents} documents in ${count} workers`, values);
  let running = count;
  for (let n = 0; n < count; n++) {
    const worker = new Worker(__filename, {
      workerData: { n, count, documents: Number(values.documents), flush: Number(values["flush-every"]) },
      resourceLimits: { maxOldGenerationSizeMb: Number(values["max-old-generation-size-mb"]) },
    });
    worker.on("message", (text) => console.log(`[worker ${n}] ${text}`));
    worker.on("exit", (code) => {
      console.log(`[worker ${n}] exit ${code}`);
      if (--running === 0) console.log("index complete");
    });
  }
} else {
  const { n, count, documents, flush } = workerData;
  let index = new Map();
  let terms = 0;
  for (let id = n, seen = 0; id < documents; id += count, seen++) {
    for (let w = 0; w < 60; w++) {
      const term = `t${(id * 31 + w * 7919) % 200000}`;
      if (!index.has(term)) index.set(term, []);
      index.get(term).push({ id, position: w });
    }
    if (flush && seen % flush === flush - 1) {
      terms += index.size;
      index = new Map();
    }
    if (seen % 5000 === 0) parentPort.postMessage(`batch ${seen / 5000}: ${index.size} terms`);
  }
  parentPort.postMessage(`done, ${terms + index.size} terms`);
}
