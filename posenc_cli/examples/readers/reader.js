// Compare your rotate with test vectors: node reader.js pack
const fs = require("fs");
const rotate = require("./rotate.js"); // yours: (x: Float32Array, position) rotates one vector

const pack = process.argv[2] || ".";

function values(name, type) {
  let bytes;
  try {
    bytes = fs.readFileSync(`${pack}/${name}.npy`);
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
  const start = 10 + bytes.readUInt16LE(8); // an .npy: 10 bytes, its header, the values
  return new type(Uint8Array.from(bytes.subarray(start)).buffer);
}

const positions = values("positions", BigInt64Array);
const [x, y, tolerance] = ["x", "y", "tolerance"].map((name) => values(name, Float32Array));
const columns = x.length / positions.length;
positions.forEach((position, row) =>
  rotate(x.subarray(row * columns, (row + 1) * columns), Number(position)),
);
let [wrong, worst] = [0, 0];
for (let i = 0; i < x.length; i++) {
  const error = Math.abs(x[i] - y[i]) / tolerance[i];
  if (error > worst) worst = error;
  if (error <= 1 || wrong++) continue; // what is no number is wrong, too
  console.log(`row ${Math.floor(i / columns)} column ${i % columns}: ${x[i]}, not ${y[i]}`);
}
console.log(
  `largest error ${worst.toPrecision(3)} times the tolerance, ${wrong} of ${x.length} values wrong`,
);
process.exitCode = wrong > 0 ? 1 : 0;
