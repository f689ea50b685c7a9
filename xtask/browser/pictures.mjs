// Draws terminals and pages as PNG files. The argument is a JSON file, a list of
// { text, columns, theme, command, out } for terminals and { page, width, height, out } for pages.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pathToFileURL } from "node:url";

import { withPalette } from "./palette.mjs";

const { chromium } = (await import(pathToFileURL(process.env.PLAYWRIGHT))).default;

const themes = {
  dark: { back: "#1e2127", text: "#dcdfe4", dim: "#848b98", colours: ["#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4", "#6b717d", "#e88388", "#a8cc8c", "#dbab79", "#71bef2", "#d290e4", "#66c2cd", "#ffffff"] },
  light: { back: "#fafafa", text: "#383a42", dim: "#8b8d94", colours: ["#383a42", "#ca1243", "#3d8b37", "#a66f00", "#2f6fdb", "#a626a4", "#0a7d8c", "#a0a1a7", "#696c77", "#e45649", "#50a14f", "#c18401", "#4078f2", "#b153c9", "#0997b3", "#000000"] },
};

const escapeHtml = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

/** Returns the colour with a number of the palette of 256. */
function indexed(n, theme) {
  if (n < 16) return theme.colours[n];
  if (n >= 232) return `rgb(${Array(3).fill(8 + 10 * (n - 232)).join()})`;
  const level = (i) => [0, 95, 135, 175, 215, 255][i];
  return `rgb(${[Math.floor((n - 16) / 36), Math.floor((n - 16) / 6) % 6, (n - 16) % 6].map(level).join()})`;
}

/** Applies the numbers of one escape sequence to a style. */
function apply(codes, style, theme) {
  while (codes.length) {
    const code = codes.shift();
    const extended = () => (codes.shift() === 5 ? indexed(codes.shift(), theme) : `rgb(${codes.splice(0, 3).join()})`);
    if (code === 0) for (const key of Object.keys(style)) delete style[key];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.reverse = true;
    else if (code === 9) style.strike = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.reverse = false;
    else if (code === 29) style.strike = false;
    else if (code >= 30 && code < 38) style.fore = theme.colours[code - 30];
    else if (code === 38) style.fore = extended();
    else if (code === 39) delete style.fore;
    else if (code >= 40 && code < 48) style.back = theme.colours[code - 40];
    else if (code === 48) style.back = extended();
    else if (code === 49) delete style.back;
    else if (code >= 90 && code < 98) style.fore = theme.colours[code - 82];
    else if (code >= 100 && code < 108) style.back = theme.colours[code - 92];
  }
}

function css(style, theme) {
  let [fore, back] = [style.fore ?? (style.dim ? theme.dim : undefined), style.back];
  if (style.reverse) [fore, back] = [back ?? theme.back, fore ?? theme.text];
  return [
    fore && `color:${fore}`, back && `background:${back}`, style.bold && "font-weight:bold",
    style.dim && style.fore && "opacity:.7", style.italic && "font-style:italic",
    style.underline && "text-decoration:underline", style.strike && "text-decoration:line-through",
  ].filter(Boolean).join(";");
}

/** Returns the HTML of a terminal's text with escape sequences. */
function terminal({ text, columns, theme: name, command }) {
  const theme = themes[name];
  const style = {};
  let html = "";
  // Hyperlinks and other sequences are dropped.
  const clean = text.replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)/g, "").replace(/\x1b\([A-B0]/g, "").replace(/[\x0e\x0f]/g, "");
  for (const part of clean.split(/(\x1b\[[0-9;:]*m)/)) {
    if (part.startsWith("\x1b[")) apply(part.slice(2, -1).split(/[;:]/).map(Number), style, theme);
    else html += `<span style="${css(style, theme)}">${escapeHtml(part)}</span>`;
  }
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; background: ${theme.back}; display: inline-block; }
    header { padding: 8px 14px 0; font: 13px "DejaVu Sans Mono", monospace; color: ${theme.dim}; }
    pre { margin: 0; padding: 8px 14px 14px; width: ${columns}ch; color: ${theme.text}; background: ${theme.back};
      font: 14px/1.25 "DejaVu Sans Mono", monospace; }
  </style><body><header>${escapeHtml(command)}</header><pre>${html}</pre></body>`;
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
for (const picture of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  mkdirSync(dirname(picture.out), { recursive: true });
  const scale = picture.page ? 1 : 1.5;
  const viewport = { width: picture.width ?? 400, height: picture.height ?? 300 };
  const page = await browser.newPage({ viewport, deviceScaleFactor: scale });
  if (picture.page) {
    await page.goto(pathToFileURL(picture.page).href);
    writeFileSync(picture.out, withPalette(await page.screenshot()));
  } else {
    await page.setContent(terminal(picture));
    writeFileSync(picture.out, withPalette(await (await page.$("body")).screenshot()));
  }
  await page.close();
}
await browser.close();
