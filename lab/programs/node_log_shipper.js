// Ships the segments of a log to a collector over TCP.
const net = require("net");
const crypto = require("crypto");
const { Worker, isMainThread, parentPort } = require("worker_threads");

const option = (name, otherwise) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const segments = option("--segments", 96);
const segmentMb = option("--segment-mb", 16);
const maxBuffered = option("--max-buffered-mb", 0) << 20; // 0: without bound

if (!isMainThread) {
  // The collector: takes what its disk takes
  const server = net.createServer((socket) => {
    socket.on("data", () => {
      socket.pause();
      setTimeout(() => socket.resume(), 1);
    });
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
} else {
  const collector = new Worker(__filename);
  collector.once("message", (port) => {
    const socket = net.connect(port, "127.0.0.1", () => ship(socket, port).then(() => process.exit(0)));
  });
}

async function ship(socket, port) {
  console.log(`[shipper] connected to 127.0.0.1:${port}, ${segments} segments of ${segmentMb} MiB`);
  for (let number = 0; number < segments; number++) {
    const segment = crypto.randomBytes(segmentMb << 20);
    if (maxBuffered && socket.writableLength > maxBuffered) {
      await new Promise((resolve) => socket.once("drain", resolve));
    }
    socket.write(segment);
    await new Promise(setImmediate);
    if (number % 4 === 0) {
      const { rss, heapUsed } = process.memoryUsage();
      const memory = `rss=${(rss / 1e6).toFixed(0)}MB heapUsed=${(heapUsed / 1e6).toFixed(0)}MB`;
      console.log(`[shipper] batch ${number / 4} shipped=${number} ${memory}`);
    }
  }
  await new Promise((resolve) => socket.end(resolve));
  console.log(`[shipper] end of log after ${segments} segments`);
}
